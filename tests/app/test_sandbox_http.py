"""The sandbox's door: what it answers, and what it refuses."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from fairway.app.sandbox import api as api_module
from fairway.app.sandbox import server as server_module
from fairway.app.sandbox.api import Api
from fairway.app.sandbox.client import Client
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.server import Server
from fairway.app.view.models.commands import ObjectName
from fairway.errors import InputError
from support.objects import gang, manifest, node, pod, queue
from support.sandboxes import after, made


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made_one = after(made(node("n", cpu=4), queue("q"), gang("g", members=2, cpu=1), pod("w", cpu=9)), 5)
    yield made_one
    made_one.close()


@pytest.fixture
def server(sandbox: Sandbox) -> Iterator[Server]:
    started = Server(Api(sandbox), 0)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)


def ask(
    server: Server, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, given)
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "application/json"
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def test_it_listens_on_the_loopback_address_only(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert server._server.socket.getsockname()[0] == "127.0.0.1"


def test_what_a_client_sees(client: Client) -> None:
    assert [(job.job, job.phase) for job in client.jobs()] == [("default/w", "waiting"), ("default/g", "running")]
    frame = client.frame()
    assert (frame.nodes, frame.fill["cpu"], len(frame.running), len(frame.waiting)) == (1, 0.5, 1, 1)
    assert [(use.name, use.used["cpu"], use.pods) for use in client.nodes()] == [("n", "2", 2)]
    assert [(event.kind, event.job) for event in client.events()] == [("placed", "default/g")]
    (found,) = client.objects("pods", "default", "w")
    assert (found["kind"], found["metadata"]["name"]) == ("Pod", "w")
    assert client.explain("w").reason == "InsufficientResources"


def test_what_a_client_does(client: Client, sandbox: Sandbox) -> None:
    results = client.apply([queue("r"), pod("new", queue="r", cpu=1)])
    assert [(one.object, one.result) for one in results] == [("Queue r", "created"), ("Pod default/new", "created")]
    after(sandbox, 6)
    assert [job.job for job in client.jobs() if job.phase == "running"] == ["default/new", "default/g"]
    gone = client.delete([ObjectName(kind="Job", name="g"), ObjectName(kind="Pod", name="new")])
    assert [one.object for one in gone][-1] == "Pod default/new"
    after(sandbox, 7)
    assert client.nodes()[0].pods == 0


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}], r"objects\[0\]: spec: "),
        ([{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "Bad Name"}, "spec": {"containers": []}}], "name"),
        ([{"kind": "Secret", "apiVersion": "v1"}], "expected one object of a kind that is read"),
        ([{}], "kind"),
    ],
)
def test_what_is_wrong_with_an_object_is_said(server: Server, objects: list[Any], message: str) -> None:
    body = json.dumps({"objects": objects}).encode()
    status, answer = ask(server, "POST", "/v1/apply", body, Content_Type="application/json")
    assert status == 422
    assert re.search(message, answer["error"]), answer


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/", 404, "there is nothing here, expected /v1/"),
        ("GET", "/v1/", 404, "expected one of frame, jobs"),
        ("GET", "/v1/secrets", 404, "expected one of frame, jobs"),
        ("GET", "/v1/apply", 405, "GET is not for /v1/apply, expected POST"),
        ("PUT", "/v1/jobs", 405, "PUT is not for /v1/jobs, expected GET"),
        ("DELETE", "/v1/jobs", 405, "expected GET"),
        ("GET", "/v1/objects/Unknown", 404, "there is no such kind"),
        ("GET", "/v1/objects/Pod/nobody", 404, "there is no Pod nobody"),
        ("GET", "/v1/objects", 404, "expected /v1/objects/KIND"),
        ("GET", "/v1/explain/nobody", 422, "nobody: there is no such job"),
        ("GET", "/v1/explain/..%2f..%2fetc/passwd", 404, "expected /v1/explain/NAMESPACE/NAME"),
    ],
)
def test_what_is_not_there(server: Server, method: str, path: str, status: int, message: str) -> None:
    found, answer = ask(server, method, path)
    assert found == status
    assert message in answer["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"objects": 3}', b'{"objects": [], "more": 1}', b"[" * 100_000])
def test_a_body_that_cannot_be_read(server: Server, body: bytes) -> None:
    status, answer = ask(server, "POST", "/v1/apply", body, Content_Type="application/json")
    assert status == 422
    assert answer["error"].startswith("the request cannot be read")


def test_pages_of_other_origins_are_turned_away(server: Server) -> None:
    assert ask(server, "GET", "/v1/jobs", Host="evil.example")[0] == 403
    assert ask(server, "GET", "/v1/jobs", Origin="http://evil.example")[0] == 403
    assert ask(server, "GET", "/v1/jobs", Origin=server.url)[0] == 200
    assert ask(server, "POST", "/v1/delete", b"{}", Content_Type="text/plain")[0] == 415
    assert ask(server, "POST", "/v1/delete", b"objects=1", Content_Type="application/x-www-form-urlencoded")[0] == 415


def test_what_is_too_large_is_turned_away(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_BYTES", 1000)
    status, answer = ask(server, "POST", "/v1/apply", b" " * 1001, Content_Type="application/json")
    assert (status, answer["error"]) == (413, "a body of 1001 bytes, expected at most 1000")
    assert ask(server, "GET", "/v1/jobs", X="y" * 20_000)[0] == 431
    assert ask(server, "GET", "/v1/" + "x" * 70_000)[0] == 414
    monkeypatch.setattr(api_module, "MOST_OBJECTS", 1)
    body = json.dumps({"objects": [manifest(pod("a")), manifest(pod("b"))]}).encode()
    monkeypatch.setattr(server_module, "MOST_BYTES", 10_000)
    status, answer = ask(server, "POST", "/v1/apply", body, Content_Type="application/json")
    assert (status, answer["error"]) == (422, "2 objects in one request, expected at most 1")


def raw(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer


def test_a_request_that_is_none(server: Server) -> None:
    assert b'{"error"' in raw(server, b"what is this\r\n\r\n")
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    chunked = b"POST /v1/apply HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n\r\n"
    assert b" 411 " in raw(server, chunked)
    negative = b"POST /v1/apply HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\nContent-Length: -5\r\n\r\n"
    assert b" 411 " in raw(server, negative)
    assert ask(server, "GET", "/v1/jobs")[0] == 200


def test_who_is_silent_or_slow_is_hung_up_on(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module._Handler, "timeout", 0.2)
    monkeypatch.setattr(server_module, "READING", 0.4)
    server = Server(Api(sandbox), 0)
    server.start()
    try:
        assert raw(server, b"GET /v1/jobs HTTP/1.1\r\n") == b""
        host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
            slow.sendall(b"GET /v1/jobs HTTP/1.1\r\n" + host)
            for number in range(20):
                try:
                    slow.sendall(f"X-{number}: y\r\n".encode())
                    slow.settimeout(0.1)
                    if slow.recv(100) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                pytest.fail("a request that trickles in is waited for without end")
        assert ask(server, "GET", "/v1/jobs")[0] == 200
    finally:
        server.stop()


def test_too_many_connections_are_turned_away(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_CONNECTIONS", 1)
    server = Server(Api(sandbox), 0)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as held:
            held.sendall(b"GET /v1/jobs HTTP/1.1\r\n")
            while b"too many connections" not in raw(server, b""):
                pass
    finally:
        server.stop()


def test_a_fault_of_ours_is_said_to_be_one(server: Server, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "nodes", lambda: 1 // 0)
    status, answer = ask(server, "GET", "/v1/nodes")
    assert status == 500
    assert "an error in Fairway, please report it: ZeroDivisionError" in answer["error"]


def test_an_answer_that_cannot_be_written_is_an_error_of_ours_too(
    server: Server, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "nodes", lambda: [object()])
    status, answer = ask(server, "GET", "/v1/nodes")
    assert (status, "an error in Fairway, please report it: TypeError" in answer["error"]) == (500, True)


def test_no_sandbox_and_no_such_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(InputError, match=r"no sandbox answers at .*start one with `fairway sandbox`"):
        Client(f"http://127.0.0.1:{port}").jobs()
    for url in ("ftp://x:1", "http://x", "nonsense", "http://x:port"):
        with pytest.raises(InputError, match="expected an address such as"):
            Client(url)


def test_a_port_that_is_taken(server: Server, sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="another sandbox may run, or choose a port with --port"):
        Server(Api(sandbox), server.port)
