"""Where a request ends: only one reading is accepted, so that no proxy in front can read another one."""

import json
import socket

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.web.connections import END, MAX_HEAD_BYTES, MAX_HEADERS, HeadRefusal, read_head
from support.objects import node, queue
from support.sandboxes import after, made
from support.web_pages import TOKEN, served

HIDDEN = b"GET /api/v1/overview HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
"""A request that a smuggler hides in the body of another one."""


@pytest.fixture(scope="module")
def port():
    sandbox = after(made(node("n", cpu=4), queue("q")), 5)
    with served(sandbox) as page:
        yield page.server.port
    sandbox.close()


def sent(port: int, text: bytes, answers: int = 0) -> list[tuple[int, str]]:
    """The status and body of each answer, until the connection ends, or there are so many."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(text.replace(b"{host}", f"127.0.0.1:{port}".encode()))
        if not answers:
            client.shutdown(socket.SHUT_WR)
        received = b""
        while not answers or len(split(received)) < answers:
            part = client.recv(65536)
            if not part:
                break
            received += part
    return split(received)


def split(received: bytes) -> list[tuple[int, str]]:
    found = []
    while received:
        head, _, received = received.partition(END)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found.append((int(head.split()[1]), received[:length].decode()))
        received = received[length:]
    return found


POST = b"POST /api/v1/apply HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
GET = b"GET /api/v1/overview HTTP/1.1\r\nHost: {host}\r\n"


@pytest.mark.parametrize(
    ("head", "status", "said"),
    [
        (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked", 400, "both Content-Length and Transfer-Encoding"),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4", 400, "both Content-Length and Transfer-Encoding"),
        (GET + b"Content-Length: 4\r\nTransfer-Encoding: identity", 400, "both Content-Length and Transfer-Encoding"),
        (POST + b"Transfer-Encoding: chunked", 411, "expected Content-Length"),
        (POST + b"Transfer-Encoding: xchunked", 411, "expected Content-Length"),
        (POST + b"transfer-encoding:\tchunked", 411, "expected Content-Length"),
        (POST + b"Content-Length: 4\r\nContent-Length: 4", 400, "content-length is repeated"),
        (POST + b"Content-Length: 4\r\nContent-Length: 400", 400, "content-length is repeated"),
        (POST + b"Content-Length: 4, 4", 400, "not a number"),
        (POST + b"Content-Length: +4", 400, "not a number"),
        (POST + b"Content-Length: -4", 400, "not a number"),
        (POST + b"Content-Length: 0x4", 400, "not a number"),
        (POST + b"Content-Length: 4 4", 400, "not a number"),
        (POST + b"Content-Length: ", 400, "not a number"),
        (POST + b"Content-Length: 9999999999999", 400, "not a number"),
        (POST + b"Content-Length : 4", 400, "malformed"),
        (POST + b"X: a\r\n Content-Length: 4", 400, "malformed"),
        (POST + b"X: a\r\n\tfolded", 400, "malformed"),
        (POST + b"X: a\nContent-Length: 4", 400, "malformed"),
        (POST + b"X: a\rContent-Length: 4", 400, "malformed"),
        (POST + b"X: a\x00b", 400, "malformed"),
        (POST + b": nameless", 400, "malformed"),
        (POST + b"no colon", 400, "malformed"),
        (GET + b"Host: evil.example", 400, "host is repeated"),
        (GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b", 400, "authorization is repeated"),
        (GET + b"Origin: http://a\r\nOrigin: http://b", 400, "origin is repeated"),
        (b"GET /api/v1/overview HTTP/1.1\r\nX: y", 400, "no Host"),
        (b"GET  /api/v1/overview HTTP/1.1\r\nHost: {host}", 400, "first line"),
        (b"GET /api/v1/over view HTTP/1.1\r\nHost: {host}", 400, "first line"),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: {host}", 400, "first line"),
        (b"GET /api/v1/overview HTTP/2.0\r\nHost: {host}", 400, "first line"),
        (b"GET /api/v1/overview\r\nHost: {host}", 400, "first line"),
        (b" GET /api/v1/overview HTTP/1.1\r\nHost: {host}", 400, "first line"),
        (b"PRI * HTTP/2.0", 400, "first line"),
        (GET + b"\r\n".join(b"X: y" for _ in range(MAX_HEADERS)), 431, "headers"),
        (GET + b"X: " + b"y" * MAX_HEAD_BYTES, 431, "bytes"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_answered(port, head, status, said):
    answers = sent(port, head + END + HIDDEN)
    assert [code for code, _ in answers] == [status]
    assert said in json.loads(answers[0][1])["error"]


def test_a_hidden_request_in_a_body_is_a_body(port):
    head = POST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: "
    hidden = HIDDEN.replace(b"{host}", f"127.0.0.1:{port}".encode())
    answers = sent(port, head + str(len(hidden)).encode() + END + hidden + hidden, 2)
    assert [code for code, _ in answers] == [422, 200]  # the body is no JSON; the second one is a request of its own


def test_a_refused_body_is_not_taken_for_a_request(port):
    hidden = HIDDEN.replace(b"{host}", f"127.0.0.1:{port}".encode())
    head = POST + b"Content-Length: " + str(len(hidden)).encode() + END
    assert [code for code, _ in sent(port, head + hidden)] == [401]
    assert [code for code, _ in sent(port, GET + b"Content-Length: " + str(len(hidden)).encode() + END + hidden)] == [
        401
    ]


def test_requests_after_one_another_are_all_answered(port):
    assert [code for code, _ in sent(port, HIDDEN * 5, 5)] == [200] * 5
    body = POST + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: 15" + END + b'{"objects": []}'
    assert [code for code, _ in sent(port, (body + HIDDEN) * 3, 6)] == [200] * 6


def test_a_head_that_comes_byte_by_byte_is_read(port):
    text = HIDDEN.replace(b"{host}", f"127.0.0.1:{port}".encode())
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(text)):
            client.sendall(text[place : place + 1])
        assert b"200 OK" in client.recv(65536)


PARTS = st.sampled_from(
    [b"Content-Length", b"Transfer-Encoding", b"Host", b"X", b":", b": ", b" :", b" ", b"\t", b"\r\n", b"\n", b"\r",
     b"4", b"4, 4", b"+4", b"04", b"chunked", b"identity", b"a", b"\x00", b"\x0b", b"\xff", b",", b"\r\n "]
)  # fmt: skip


@given(st.lists(PARTS, max_size=14).map(b"".join))
def test_what_is_accepted_is_read_the_same_way_by_another_parser(rest):
    head = b"POST / HTTP/1.1\r\nHost: h\r\n" + rest + END
    head = head[: head.index(END) + len(END)]
    found = read_head(head)
    if isinstance(found, HeadRefusal):
        return
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    request = parser.next_event()
    assert isinstance(request, h11.Request)
    names = dict(request.headers)
    assert int(names.get(b"content-length", b"0")) == found
    assert b"transfer-encoding" not in names
    parser.receive_data(b"z" * found)
    if found:
        assert bytes(parser.next_event().data) == b"z" * found
    assert isinstance(parser.next_event(), h11.EndOfMessage)
