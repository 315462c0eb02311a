"""`AnswerParser`: parses one HTTP/1.1 answer from its bytes as they arrive. Nothing here touches a socket.

It accepts what API servers and the proxies in front of them send. Everything else is an `HttpError`, and the
connection it came on is closed: a client that guesses where an answer ends can be made to take part of one answer
for the next. That is why both framings at once, a repeated header, a compressed body and bytes behind the answer
are all rejected or end the connection.

httptools was measured as a replacement (docs/design/0005): it saves about 1 us per watch event, and nothing elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fairway.kube.http.exchange import ApiAnswer

MAX_HEAD = 64 << 10
"""Bytes of the status line and all headers."""

FIRST_ERROR = 300
_WITHOUT_BODY = (204, 304)
_UNKNOWN = -1
_UNTIL_CLOSE = -2

_HEADERS = re.compile(
    rb"\r\n(connection|content-length|content-encoding|transfer-encoding|retry-after):(.*?)(?=\r\n)", re.DOTALL
)
"""The headers that are read, in a head in lower case: one pass costs less than a search for each of them. A value ends
at a full line end only, so that nothing inside a value is taken for a header.
"""


class HttpError(Exception):
    """The bytes are not an answer that can be understood."""


class AnswerParser:
    """Call `feed` until it returns the answer. `keeps` then tells whether the connection can be used again."""

    __slots__ = (
        "_chunks",
        "_max_error",
        "_max_size",
        "_parts",
        "_remaining",
        "_retry_after",
        "_sink",
        "_size",
        "_status",
        "keeps",
    )

    def __init__(self, max_size: int, max_error: int, sink: Callable[[bytes], None] | None = None) -> None:
        """An answer with a body of more than `max_size` bytes is an error. Of an error's body only `max_error` bytes
        are kept. With a `sink`, the body of a success is passed there as it arrives, beginning with an empty piece
        once the head is read.
        """
        self._sink = sink
        self._max_size = max_size
        self._max_error = max_error
        self._parts: list[bytes] = []
        self._size = 0
        self._status = 0
        self._remaining = _UNKNOWN
        self._chunks: _ChunkReader | None = None
        self._retry_after: float | None = None
        self.keeps = True

    def feed(self, data: bytes) -> ApiAnswer | None:
        """The answer, once it is complete."""
        while not self._status:
            if self._parts:
                data = self._parts.pop() + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEAD:
                    raise HttpError(f"the head of the answer has more than {MAX_HEAD} bytes")
                self._parts.append(data)
                return None
            self._read_head(data[: end + 2])
            data = data[end + 4 :]
        return self._take(data)

    def end(self) -> ApiAnswer | None:
        """The connection was closed: the answer, if that is what ends it."""
        self.keeps = False
        return self._complete() if self._status and self._remaining == _UNTIL_CLOSE else None

    # -- the head --------------------------------------------------------------------------------------------

    def _read_head(self, head: bytes) -> None:
        if head[:7] != b"HTTP/1." or head[8:9] != b" " or not head[9:12].isdigit() or head[12:13] not in b" \r":
            raise HttpError(f"not the answer of an HTTP server: {head[:40]!r}")
        status = int(head[9:12])
        if 100 <= status < 200 and status != 101:
            return  # an interim answer: the final one follows
        found = _HEADERS.findall(head.lower())
        headers = dict(found)
        if len(headers) != len(found):
            raise HttpError("the answer has a header twice that may stand there once")
        connection = headers.get(b"connection", b"")
        self.keeps = b"close" not in connection if head[7:8] != b"0" else b"keep-alive" in connection
        self._remaining = 0 if status in _WITHOUT_BODY else self._length(headers)
        self._retry_after = _seconds(headers.get(b"retry-after", b"").strip())
        self._status = status
        if self._sink is not None and status < FIRST_ERROR:
            self._sink(b"")

    def _length(self, headers: dict[bytes, bytes]) -> int:
        """The number of bytes in the body, where the head gives it."""
        if headers.get(b"content-encoding", b"").strip() not in (b"", b"identity"):
            raise HttpError("the answer is compressed, which was not asked for")
        length = headers.get(b"content-length", b"").strip()
        coding = headers.get(b"transfer-encoding", b"").strip()
        if coding:
            if coding != b"chunked" or length:
                raise HttpError("it is not clear where the answer ends")
            self._chunks = _ChunkReader()
            return _UNKNOWN
        if length:
            if not length.isdigit() or len(length) > 18:
                raise HttpError(f"Content-Length: {length[:40]!r}")
            return int(length)
        self.keeps = False
        return _UNTIL_CLOSE

    # -- the body --------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> ApiAnswer | None:
        if self._chunks is not None:
            data = self._chunks.feed(data)
            if self._chunks.done:
                self._remaining = 0
                self.keeps = self.keeps and not self._chunks.rest
        elif self._remaining >= 0:
            if len(data) > self._remaining:
                data, self.keeps = data[: self._remaining], False
            self._remaining -= len(data)
        if self._sink is not None and self._status < FIRST_ERROR:
            self._sink(data)
            return None if self._remaining else ApiAnswer(self._status)
        if not self._size and not self._remaining and len(data) <= self._max_error:
            return ApiAnswer(self._status, data, self._retry_after)  # nearly every answer comes in one piece
        self._parts.append(data)
        self._size += len(data)
        is_error = self._status >= FIRST_ERROR
        if self._size > (self._max_error if is_error else self._max_size):
            self.keeps = False
            if not is_error:
                raise HttpError(f"the answer has more than {self._max_size} bytes")
            return self._complete()  # the beginning of an error's body is enough
        return self._complete() if not self._remaining else None

    def _complete(self) -> ApiAnswer:
        body = b"".join(self._parts)
        if self._status >= FIRST_ERROR:
            body = body[: self._max_error]
        return ApiAnswer(self._status, body, self._retry_after)


class _ChunkReader:
    """Extracts the data of chunks: `<size in hex>\\r\\n<data>\\r\\n` repeated, then one of size 0 and trailers."""

    __slots__ = ("_at_chunk_end", "_in_trailers", "_remaining", "done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        """Bytes that cannot be read without the ones that follow; behind the last chunk, bytes that do not belong."""
        self._remaining = 0
        """Bytes of the current chunk that have not arrived."""
        self._at_chunk_end = False
        """Whether the line end behind a chunk comes next."""
        self._in_trailers = False
        self.done = False

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        if self.rest:
            data = self.rest + data
        place = 0
        while not self.done:
            if self._remaining:
                part = data[place : place + self._remaining]
                parts.append(part)
                place += len(part)
                self._remaining -= len(part)
                if self._remaining:
                    break
                # An event of a watch is one chunk that arrived whole: its line end is taken here, not in a next round.
                if data[place : place + 2] == b"\r\n":
                    place += 2
                else:
                    self._at_chunk_end = True
            end = data.find(b"\r\n", place)
            if end < 0:
                if len(data) - place > MAX_HEAD:
                    raise HttpError("a chunk of the answer has no end")
                break
            self._take_line(data[place:end])
            place = end + 2
        self.rest = data[place:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take_line(self, line: bytes) -> None:
        if self._at_chunk_end:
            if line:
                raise HttpError("a chunk of the answer is longer than it says")
            self._at_chunk_end = False
        elif self._in_trailers:
            self.done = not line
        else:
            self._begin(line)

    def _begin(self, line: bytes) -> None:
        """`int` alone would accept signs, underscores and spaces."""
        size = line if line.isalnum() else line.partition(b";")[0].strip()
        try:
            number = int(size, 16) if size.isalnum() and len(size) <= 15 else -1
        except ValueError:
            number = -1
        if number < 0:
            raise HttpError(f"not the size of a chunk: {line[:40]!r}")
        self._remaining = number
        self._in_trailers = not number


def _seconds(text: bytes) -> float | None:
    """Whole seconds. A date, which HTTP allows too, is never sent by Kubernetes and not read."""
    return float(text) if text.isdigit() and len(text) <= 6 else None
