"""`AnswerParser`: one answer of an HTTP/1.1 server, from its bytes as they come. Nothing here touches a socket.

Only what API servers and proxies before them send is understood; anything else is an `HttpError`, and the connection
that it came on is of no further use.
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.kube.http.exchange import ApiAnswer

MOST_HEAD = 64 << 10
"""Bytes of the status line and all headers."""

_FIRST_ERROR = 300
_WITHOUT_BODY = (204, 304)
_MORE = -1
_TO_THE_END = -2


class HttpError(Exception):
    """What came is no answer that can be understood."""


class AnswerParser:
    """`feed` it until it gives the answer. `keeps` says then whether the connection can be used again."""

    __slots__ = (
        "_chunked",
        "_have",
        "_left",
        "_most",
        "_most_error",
        "_parts",
        "_retry_after",
        "_sink",
        "_status",
        "keeps",
    )

    def __init__(self, most: int, most_error: int, sink: Callable[[bytes], None] | None = None) -> None:
        """An answer of more than `most` bytes is an error; of one that is an error `most_error` bytes are kept. With a
        `sink` the body of a success goes there as it comes, beginning with nothing when its head was read.
        """
        self._sink = sink
        self._most = most
        self._most_error = most_error
        self._parts: list[bytes] = []
        self._have = 0
        self._status = 0
        self._left = _MORE
        self._chunked: _ChunkReader | None = None
        self._retry_after: float | None = None
        self.keeps = True

    def feed(self, data: bytes) -> ApiAnswer | None:
        """The answer, once it is whole."""
        while not self._status:
            if self._parts:
                data = self._parts.pop() + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MOST_HEAD:
                    raise HttpError(f"the head of the answer has more than {MOST_HEAD} bytes")
                self._parts.append(data)
                return None
            self._read_head(data[: end + 2])
            data = data[end + 4 :]
        return self._take(data)

    def end(self) -> ApiAnswer | None:
        """The connection was closed: the answer, if that is how it ends."""
        self.keeps = False
        return self._whole() if self._status and self._left == _TO_THE_END else None

    # -- the head --------------------------------------------------------------------------------------------

    def _read_head(self, head: bytes) -> None:
        if head[:7] != b"HTTP/1." or head[8:9] != b" " or not head[9:12].isdigit() or head[12:13] not in b" \r":
            raise HttpError(f"not the answer of an HTTP server: {head[:40]!r}")
        status = int(head[9:12])
        if 100 <= status < 200 and status != 101:
            return  # the answer itself is still to come
        low = head.lower()
        closes = _value(low, b"\r\nconnection:")
        self.keeps = b"close" not in closes if head[7:8] != b"0" else b"keep-alive" in closes
        if status in _WITHOUT_BODY:
            self._left = 0
        else:
            self._left = self._length(low)
        self._retry_after = _seconds(_value(low, b"\r\nretry-after:"))
        self._status = status
        if self._sink is not None and status < _FIRST_ERROR:
            self._sink(b"")

    def _length(self, low: bytes) -> int:
        """How many bytes the body has, where the head says so."""
        coding, length = _value(low, b"\r\ntransfer-encoding:"), _value(low, b"\r\ncontent-length:")
        if _value(low, b"\r\ncontent-encoding:") not in (b"", b"identity"):
            raise HttpError("the answer is compressed, which was not asked for")
        if coding:
            if coding != b"chunked" or length:
                raise HttpError("it is not clear where the answer ends")
            self._chunked = _ChunkReader()
            return _MORE
        if length:
            if not length.isdigit() or len(length) > 18:
                raise HttpError(f"Content-Length: {length[:40]!r}")
            return int(length)
        self.keeps = False
        return _TO_THE_END

    # -- the body --------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> ApiAnswer | None:
        if self._chunked is not None:
            data = self._chunked.feed(data)
            if self._chunked.done:
                self._left = 0
                self.keeps = self.keeps and not self._chunked.rest
        elif self._left >= 0:
            if len(data) > self._left:
                data, self.keeps = data[: self._left], False
            self._left -= len(data)
        if self._sink is not None and self._status < _FIRST_ERROR:
            self._sink(data)
            return None if self._left else ApiAnswer(self._status)
        if not self._have and not self._left and len(data) <= self._most_error:
            return ApiAnswer(self._status, data, self._retry_after)
        self._parts.append(data)
        self._have += len(data)
        is_error = self._status >= _FIRST_ERROR
        if self._have > (self._most_error if is_error else self._most):
            self.keeps = False
            if not is_error:
                raise HttpError(f"the answer has more than {self._most} bytes")
            return self._whole()  # of an error the beginning is enough
        return self._whole() if not self._left else None

    def _whole(self) -> ApiAnswer:
        body = b"".join(self._parts)
        return ApiAnswer(
            self._status, body[: self._most_error] if self._status >= _FIRST_ERROR else body, self._retry_after
        )


class _ChunkReader:
    """The data out of chunks: `<size in hex>\\r\\n<data>\\r\\n`, again and again, then one of size 0 and trailers."""

    __slots__ = ("_ends", "_in_trailers", "_left", "done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        """What cannot be understood without more."""
        self._left = 0
        """Bytes of the chunk that are still to come."""
        self._ends = False
        """Whether the line end behind a chunk is next."""
        self._in_trailers = False
        self.done = False

    def feed(self, data: bytes) -> bytes:
        found: list[bytes] = []
        data, place = self.rest + data, 0
        while not self.done:
            if self._left:
                part = data[place : place + self._left]
                found.append(part)
                place += len(part)
                self._left -= len(part)
                if self._left:
                    break
                self._ends = True
            end = data.find(b"\r\n", place)
            if end < 0:
                if len(data) - place > MOST_HEAD:
                    raise HttpError("a chunk of the answer has no end")
                break
            self._take_line(data[place:end])
            place = end + 2
        self.rest = data[place:]
        return b"".join(found)

    def _take_line(self, line: bytes) -> None:
        if self._ends:
            if line:
                raise HttpError("a chunk of the answer is longer than it says")
            self._ends = False
        elif self._in_trailers:
            self.done = not line
        else:
            self._begin(line)

    def _begin(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip()
        try:
            number = int(size, 16) if size.isalnum() and len(size) <= 15 else -1
        except ValueError:
            number = -1
        if number < 0:
            raise HttpError(f"not the size of a chunk: {line[:40]!r}")
        self._left = number
        self._in_trailers = not number


def _value(low: bytes, header: bytes) -> bytes:
    """Of a header, given as `\\r\\nname:`, in lower case; HttpError where it is there twice."""
    begin = low.find(header)
    if begin < 0:
        return b""
    begin += len(header)
    if low.find(header, begin) >= 0:
        raise HttpError(f"two headers {header.strip().decode()} in the answer")
    return low[begin : low.find(b"\r\n", begin)].strip()


def _seconds(text: bytes) -> float | None:
    """Whole seconds; a date, which HTTP allows too, is not used by Kubernetes and not read."""
    return float(text) if text.isdigit() and len(text) <= 6 else None
