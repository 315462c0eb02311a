"""What the server decides before a request is parsed: which connections are kept, which heads are read, and the TLS
certificate.

Connections without a valid token have a table of their own, so that strangers cannot crowd users out. Heads are checked
strictly before any parser sees them: what two programs could read in two ways is refused. The certificate is loaded
again when its files change, and a pair that cannot be used leaves the old one in place.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Hashable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from fairway.app.logs import RunLog
from fairway.errors import InputError

MAX_ANONYMOUS = 100
MAX_KNOWN = 500
MAX_OF_USER = 100


class Ticket:
    """One connection; `close` ends it immediately."""

    __slots__ = ("address", "close", "number", "user")

    def __init__(self, address: Hashable, number: int, close: Callable[[], None]) -> None:
        self.address = address
        self.number = number
        self.close = close
        self.user: str | None = None
        """None until a valid token is seen."""


class ConnectionTable:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._anonymous: dict[Hashable, dict[int, Ticket]] = {}
        """Anonymous connections by address, the oldest first."""
        self._known: dict[str, int] = {}
        self._numbers = count()

    @property
    def anonymous(self) -> int:
        return sum(map(len, self._anonymous.values()))

    @property
    def known(self) -> int:
        return sum(self._known.values())

    def admit(self, address: Hashable, close: Callable[[], None]) -> Ticket:
        """Adds a connection; if there are too many anonymous ones, closes another one."""
        ticket = Ticket(address, next(self._numbers), close)
        self._anonymous.setdefault(address, {})[ticket.number] = ticket
        if self.anonymous > MAX_ANONYMOUS:
            largest = max(self._anonymous.values(), key=len)
            victim = next(iter(largest.values()))
            self.leave(victim)
            victim.close()
        return ticket

    def identify(self, ticket: Ticket, user: str, limit: int = MAX_OF_USER) -> tuple[int, str] | None:
        """Assigns a connection to the user of its request; returns status and text of a refusal if the user has too
        many. A proxy may send requests of several users over one connection: it counts for the last one.
        """
        if ticket.user == user:
            return None
        if self._known.get(user, 0) >= limit:
            return 429, f"{limit} connections of yours are open already; close some"
        if ticket.user is None and self.known >= MAX_KNOWN:
            return 503, "too many connections are open; try again later"
        self.leave(ticket)
        ticket.user = user
        self._known[user] = self._known.get(user, 0) + 1
        return None

    def leave(self, ticket: Ticket) -> None:
        """Removes a closed connection; may be called twice."""
        if ticket.user is not None:
            left = self._known.pop(ticket.user) - 1
            if left:
                self._known[ticket.user] = left
            ticket.user = None
            return
        tickets = self._anonymous.get(ticket.address, {})
        if tickets.pop(ticket.number, None) is not None and not tickets:
            del self._anonymous[ticket.address]


MAX_HEAD_BYTES = 32 << 10
"""Maximum bytes of the request line and all headers."""
MAX_HEADERS = 100
END = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[!-~]*|\*) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(rb"[0-9]{1,12}")
_ONCE = frozenset(
    (b"authorization", b"content-length", b"content-type", b"host", b"origin", b"sec-fetch-site", b"transfer-encoding")
)
"""Headers that must not be repeated: two readers could take a different one."""


class HeadRefusal(NamedTuple):
    status: int
    text: str


def read_head(head: bytes) -> int | HeadRefusal:
    """The length of the body after a head (which ends with an empty line), or the reason for a refusal."""
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
            return HeadRefusal(400, f"the header {name.decode()} is repeated")
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


RELOAD_INTERVAL = 5.0
"""Seconds between two checks of the files."""

_Fingerprint = tuple[tuple[int, int, int], ...]


class ReloadedCertificate:
    """The certificate of the server; each handshake uses the newest pair."""

    def __init__(self, certificate: str, key: str, log: RunLog) -> None:
        """Raises InputError if the first pair is invalid."""
        self._paths = Path(certificate), Path(key)
        self._log = log
        try:
            self._seen = self._fingerprint()
            self._current = self._load()
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"the page's certificate {certificate} with the key {key}: {_why(error)}") from None
        self.context = self._current
        # Called for every handshake, whether or not the client names a server.
        self.context.sni_callback = self._use_newest

    def check(self) -> None:
        """Reloads the files if they changed."""
        try:
            found = self._fingerprint()
            if found == self._seen:
                return
            self._seen = found
            self._current = self._load()
        except OSError as error:
            self._log.warning("the page's new certificate is invalid; the old one stays in use", why=_why(error))
        else:
            self._log.info("the page's certificate was reloaded")

    def _use_newest(self, handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        handshake.context = self._current

    def _fingerprint(self) -> _Fingerprint:
        stats = [path.stat() for path in self._paths]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._paths
        # Without a callback OpenSSL would ask for the passphrase of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
        return context


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a certificate with its key ({error.reason or error})"
    return str(error.strerror or error)
