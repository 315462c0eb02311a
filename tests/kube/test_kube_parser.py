"""Answers from bytes: whatever pieces they come in, as Python's own HTTP client reads them."""

from __future__ import annotations

import http.client
import io
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.http.exchange import ApiAnswer
from fairway.kube.http.parser import AnswerParser, HttpError
from support.effort import examples

MAX_ANSWER, MAX_ERROR = 4096, 512


class _Played:
    """As much of a socket as `http.client` reads an answer from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def read_slowly(data: bytes) -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection ends, as the standard library has them."""
    played: Any = _Played(data)
    answer = http.client.HTTPResponse(played, method="POST")
    answer.begin()
    closes = answer.will_close
    return answer.status, answer.read(), closes


def feed(data: bytes, cuts: list[int]) -> tuple[ApiAnswer | None, bool]:
    parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for begin, end in itertools.pairwise(places):
        answer = parser.feed(data[begin:end]) if end > begin else None
        if answer is not None:
            assert end == len(data), "it ends before its bytes do"
            return answer, parser.keeps
    return parser.end(), parser.keeps


def chunked(body: bytes, sizes: list[int], trailer: bytes) -> bytes:
    found = b""
    while body:
        size = max(1, sizes.pop() if sizes else len(body))
        part, body = body[:size], body[size:]
        found += b"%x;a=b\r\n%b\r\n" % (len(part), part) if size % 2 else b"%X\r\n%b\r\n" % (len(part), part)
    return found + b"0\r\n" + trailer + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([200, 201, 204, 301, 404, 409, 429, 500]))
    body = b"" if status == 204 else draw(st.binary(max_size=MAX_ERROR))
    framing = draw(st.sampled_from(["length", "chunks", "end"])) if status != 204 else "none"
    headers = [draw(st.sampled_from([b"Date: now", b"X-Content-Length: 7", b"Retry-After:  12 "]))]
    if framing == "length":
        headers.append(
            draw(st.sampled_from([b"Content-Length: %d", b"content-length:%d", b"CONTENT-LENGTH: %d "])) % len(body)
        )
    elif framing == "chunks":
        headers.append(draw(st.sampled_from([b"Transfer-Encoding: chunked", b"transfer-encoding:Chunked"])))
        sizes = draw(st.lists(st.integers(1, 300), max_size=5))
        body = chunked(body, sizes, draw(st.sampled_from([b"", b"X-Sum: 1\r\n"])))
    if draw(st.booleans()):
        headers.append(b"Connection: close")
    headers = draw(st.permutations(headers))
    before = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    return before + b"HTTP/1.1 %d Some Words\r\n%b\r\n\r\n%b" % (status, b"\r\n".join(headers), body)


@settings(max_examples=examples(150), deadline=None)
@given(answers(), st.lists(st.integers(0, 5000), max_size=6))
def test_an_answer_is_read_as_the_standard_library_reads_it(data: bytes, cuts: list[int]) -> None:
    answer, keeps = feed(data, cuts)
    status, body, closes = read_slowly(data)
    assert answer is not None
    assert (answer.status, answer.body, keeps) == (status, body, not closes)
    assert answer.retry_after == (12.0 if b"Retry-After" in data else None)


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(0, 400), max_size=4))
def test_nonsense_is_an_error_or_no_answer(head: bytes, body: bytes, cuts: list[int]) -> None:
    data = head + b"\r\n\r\n" + body
    try:
        answer, _ = feed(data, cuts)
    except (HttpError, AssertionError):
        return
    assert answer is None or head.startswith(b"HTTP/1.")


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000,
    ],
)
def test_what_cannot_be_understood_is_an_error(text: bytes) -> None:
    with pytest.raises(HttpError):
        AnswerParser(MAX_ANSWER, MAX_ERROR).feed(text)


def test_of_a_long_error_the_beginning_is_enough_and_its_connection_is_not_used_again() -> None:
    parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
    answer = parser.feed(b"HTTP/1.1 500 Oh\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000)
    assert answer == ApiAnswer(500, b"x" * MAX_ERROR)
    assert not parser.keeps


@pytest.mark.parametrize(
    ("version", "said", "keeps"),
    [(b"1.0", b"", False), (b"1.0", b"Keep-Alive", True), (b"1.1", b"Close", False), (b"1.1", b"", True)],
)
def test_a_connection_is_kept_as_the_server_says(version: bytes, said: bytes, keeps: bool) -> None:
    parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
    connection = b"Connection: " + said + b"\r\n" if said else b""
    assert parser.feed(b"HTTP/" + version + b" 200 OK\r\n" + connection + b"Content-Length: 0\r\n\r\n") is not None
    assert parser.keeps is keeps


def test_bytes_behind_an_answer_end_its_connection() -> None:
    parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
    answer = parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK")
    assert answer == ApiAnswer(200, b"{}")
    assert not parser.keeps


@settings(max_examples=examples(100), deadline=None)
@given(
    st.binary(max_size=300),
    st.lists(st.integers(1, 99), max_size=4),
    st.sampled_from([b"", b"X-Sum: 1\r\n"]),
    st.binary(min_size=1, max_size=60),
)
def test_bytes_behind_an_answer_are_no_answer_to_the_next_request(
    body: bytes, sizes: list[int], trailer: bytes, surplus: bytes
) -> None:
    """They came before anything else was asked: whoever reads them as an answer believes what was not said to it."""
    heads = {
        b"Transfer-Encoding: chunked": chunked(body, list(sizes), trailer),
        b"Content-Length: %d" % len(body): body,
    }
    for header, sent in heads.items():
        whole = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (header, sent)
        parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
        clean = parser.feed(whole)
        assert clean is not None
        assert parser.keeps
        parser = AnswerParser(MAX_ANSWER, MAX_ERROR)
        answer = parser.feed(whole + surplus)
        assert answer == clean
        assert not parser.keeps
