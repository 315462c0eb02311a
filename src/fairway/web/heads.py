"""`read_head`: the head of a request, checked strictly before any parser sees it.

Two programs that disagree where a request ends (a proxy and this page) let one user's bytes become the beginning of
another user's request. So only one reading is accepted: lines end in CRLF, no line is folded, and the body is as long
as the single Content-Length says. Whatever else could be read in two ways is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_HEAD_BYTES = 32 << 10
"""Bytes of the request line and all headers."""
MAX_HEADERS = 100
END = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[!-~]*|\*) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(rb"[0-9]{1,12}")
_ONCE = frozenset(
    (b"authorization", b"content-length", b"content-type", b"host", b"origin", b"sec-fetch-site", b"transfer-encoding")
)
"""Headers that must not be there twice: which of two counts would depend on who reads them."""


class HeadRefusal(NamedTuple):
    status: int
    text: str


def read_head(head: bytes) -> int | HeadRefusal:
    """The length of the body that follows a head (with the empty line at its end), or why the request is refused."""
    first, *lines = head.removesuffix(END).split(b"\r\n")
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        return HeadRefusal(400, "the first line is not a request of HTTP/1.1")
    if len(lines) > MAX_HEADERS:
        return HeadRefusal(431, f"the request has {len(lines)} headers, expected at most {MAX_HEADERS}")
    found: dict[bytes, bytes] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            return HeadRefusal(400, "a header is malformed: folded, without a name, or with control characters")
        name = header[1].lower()
        if name in _ONCE and name in found:
            return HeadRefusal(400, f"the header {name.decode()} is there twice")
        found[name] = header[2].rstrip(b" \t")
    if request[3] == b"1" and b"host" not in found:
        return HeadRefusal(400, "the request has no Host header")
    return _body_length(found)


def _body_length(headers: dict[bytes, bytes]) -> int | HeadRefusal:
    length = headers.get(b"content-length")
    if b"transfer-encoding" in headers:
        if length is not None:
            return HeadRefusal(400, "the request has both Content-Length and Transfer-Encoding")
        return HeadRefusal(411, "Transfer-Encoding is not supported, expected Content-Length")
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        return HeadRefusal(400, "Content-Length is not a number of at most 12 digits")
    return int(length)
