"""How a server is reached, and with which identity: what a kubeconfig or a pod's own files come down to.

Connection
├── server, namespace, proxy
├── Trust            which certificate the server must show
└── Credentials      the identity; may change while the process runs (tokens and plugins expire)
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Protocol

from fairway.errors import InputError, NoAnswerError


@dataclass(frozen=True, slots=True)
class Trust:
    """Which server is believed. Without `authorities` those of the system are."""

    authorities: bytes | None = None
    """Certificates in PEM."""
    insecure: bool = False
    """Believe any server: for experiments only."""
    server_name: str | None = None
    """The name that the server's certificate must carry, where it is not the one in the address."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity for one request. Its text never shows a secret."""

    authorization: str = field(default="", repr=False)
    """The value of the header; "" sends none."""
    certificate: Certificate | None = None


ANONYMOUS = Identity()


class Credentials(Protocol):
    """Where an identity comes from."""

    async def identity(self) -> Identity:
        """The one to use now; called for every request, so it must be quick when nothing expired."""

    def refused(self, identity: Identity | None = None) -> None:
        """The server answered this one with 401: do not give it again if there is a way to get another. One that was
        replaced meanwhile says nothing of the new one. None: whatever is given now.
        """


class FixedCredentials:
    """An identity that never changes."""

    def __init__(self, identity: Identity = ANONYMOUS) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        return self._identity

    def refused(self, identity: Identity | None = None) -> None:
        """There is no other."""


@dataclass(frozen=True, slots=True)
class Connection:
    """See the module."""

    server: str
    """Scheme, host and port, and a path where the server has one; no slash at the end."""
    credentials: Credentials = field(default_factory=FixedCredentials, repr=False)
    trust: Trust = field(default_factory=Trust)
    proxy: str | None = None
    namespace: str = "default"


def ssl_context(trust: Trust, certificate: Certificate | None) -> ssl.SSLContext:
    """InputError where a certificate cannot be used."""
    try:
        context = ssl.create_default_context(cadata=_text(trust.authorities))
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"certificate-authority: not a certificate in PEM: {error}") from None
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        with tempfile.NamedTemporaryFile(prefix="fairway-") as file:  # the ssl module reads files only
            file.write(certificate.certificate + b"\n" + certificate.key)
            file.flush()
            try:
                context.load_cert_chain(file.name)
            except (ssl.SSLError, ValueError) as error:
                raise InputError(f"client-certificate: not a certificate with its key in PEM: {error}") from None
    return context


class TlsContexts:
    """How connections are encrypted, for the certificate that was used last: making one costs some reading."""

    def __init__(self, connection: Connection) -> None:
        self._trust = connection.trust
        self._encrypts = connection.server.startswith("https")
        self._made: dict[Certificate | None, ssl.SSLContext] = {}

    def of(self, certificate: Certificate | None) -> ssl.SSLContext | None:
        """None where the server is reached in the clear; NoAnswerError where the certificate cannot be used."""
        if not self._encrypts:
            return None
        context = self._made.get(certificate)
        if context is None:
            self._made.clear()  # a new certificate replaces the old one
            try:
                context = self._made[certificate] = ssl_context(self._trust, certificate)
            except InputError as error:
                raise NoAnswerError(str(error)) from None
        return context


def _text(pem: bytes | None) -> str | None:
    return None if pem is None else pem.decode("ascii", "replace")
