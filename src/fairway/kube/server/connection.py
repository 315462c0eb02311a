"""How a server is reached, and as whom: the values that a kubeconfig or a pod's own files come down to.

Connection
├── server, namespace, proxy
├── Trust            which certificate the server must present
└── Credentials      the identity, which may change while the process runs
    ├── FixedCredentials     never changes
    ├── TokenFile            read again every minute: the kubelet writes a new token long before the old one expires
    └── PluginCredentials    from a program that a kubeconfig names under `exec`; it runs again when what it
                             printed has expired, or when the server refused it
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fairway.api.meta import ApiStruct, Time
from fairway.clock import Clock, Micros, from_datetime, wall_clock
from fairway.errors import InputError, NoAnswerError

REREAD = 60.0
"""Seconds after which a token file is read again."""
PLUGIN_TIME_LIMIT = 60.0
MAX_OUTPUT = 1 << 20
"""Bytes of a plugin's output."""
EXEC_INFO = "KUBERNETES_EXEC_INFO"


@dataclass(frozen=True, slots=True)
class Trust:
    """Which server is trusted. Without `authorities` those of the system are used."""

    authorities: bytes | None = None
    """Certificates in PEM."""
    insecure: bool = False
    """Trust any server: for experiments only."""
    server_name: str | None = None
    """The name that the server's certificate must have, if not the one in the address."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity for one request. Its repr never shows a secret."""

    authorization: str = field(default="", repr=False)
    """The value of the header Authorization; "" sends none."""
    certificate: Certificate | None = None


ANONYMOUS = Identity()


class Credentials(Protocol):
    """Where an identity comes from."""

    async def identity(self) -> Identity:
        """The identity to use now. Called for every request, so it must be fast when nothing has expired."""

    def refused(self, identity: Identity | None = None) -> None:
        """The server answered this identity with 401: get another one if there is a way. A refusal of an identity that
        was replaced meanwhile does not concern the new one. None: the current identity.
        """


class FixedCredentials:
    """An identity that never changes."""

    def __init__(self, identity: Identity = ANONYMOUS) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        return self._identity

    def refused(self, identity: Identity | None = None) -> None:
        """There is no other identity."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Server, identity and trust."""

    server: str
    """Scheme, host and port, and a path where the server has one; no slash at the end."""
    credentials: Credentials = field(default_factory=FixedCredentials, repr=False)
    trust: Trust = field(default_factory=Trust)
    proxy: str | None = field(default=None, repr=False)
    """Address of an HTTP proxy, possibly with a password in it."""
    namespace: str = "default"

    @property
    def is_encrypted(self) -> bool:
        return self.server.startswith("https")


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
    """The TLS context for the client certificate that was used last: making one reads and parses files."""

    def __init__(self, connection: Connection) -> None:
        self._trust = connection.trust
        self._is_encrypted = connection.is_encrypted
        self._cached: dict[Certificate | None, ssl.SSLContext] = {}
        self._proxy: ssl.SSLContext | None = None

    def of(self, certificate: Certificate | None) -> ssl.SSLContext | None:
        """None for a server without TLS; NoAnswerError where the certificate cannot be used."""
        if not self._is_encrypted:
            return None
        context = self._cached.get(certificate)
        if context is None:
            self._cached.clear()  # a new certificate replaces the old one
            try:
                context = self._cached[certificate] = ssl_context(self._trust, certificate)
            except InputError as error:
                raise NoAnswerError(str(error)) from None
        return context

    def of_proxy(self) -> ssl.SSLContext:
        """For a proxy that is itself reached by TLS. It may be certified by the cluster's authorities, as kubectl
        expects, or by the system's, as a proxy of the whole network is. It never sees the client certificate.
        """
        if self._proxy is None:
            try:
                self._proxy = ssl_context(self._trust, None)
            except InputError as error:
                raise NoAnswerError(str(error)) from None
            if not self._trust.insecure:
                self._proxy.load_default_certs()
        return self._proxy


def _text(pem: bytes | None) -> str | None:
    return None if pem is None else pem.decode("ascii", "replace")


# -- identities that change ----------------------------------------------------------------------------------------


def basic(user: str, password: str) -> str:
    """The value of the header Authorization for a user with a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


class TokenFile:
    """A bearer token that another process writes to a file."""

    def __init__(
        self, path: Path, *, certificate: Certificate | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._monotonic = monotonic
        self._read_at = -REREAD
        self._identity: Identity | None = None

    async def identity(self) -> Identity:
        now = self._monotonic()
        if self._identity is None or now - self._read_at >= REREAD:
            self._read_at = now
            self._read()
        assert self._identity is not None
        return self._identity

    def refused(self, identity: Identity | None = None) -> None:
        if identity in (None, self._identity):
            self._read_at = -REREAD

    def _read(self) -> None:
        """A file that cannot be read leaves the token as it was: it is being replaced, or will be."""
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._identity is None:
                raise NoAnswerError(f"{self._path}: the token cannot be read: {error}") from None
            return
        if token or self._identity is None:
            self._identity = Identity(f"Bearer {token}" if token else "", self._certificate)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints credentials, as a kubeconfig names it."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """Description of the cluster for the plugin, where the kubeconfig asks for it."""


class _ExecStatus(ApiStruct, frozen=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Time | None = None


class _ExecCredential(ApiStruct, frozen=True):
    kind: str
    api_version: str
    status: _ExecStatus


class PluginCredentials:
    """Credentials that a plugin printed, until they expire. The plugin runs once, however many requests wait for it."""

    def __init__(self, plugin: Plugin, clock: Clock = wall_clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._identity: Identity | None = None
        self._expires: Micros | None = None
        self._running: asyncio.Task[None] | None = None

    async def identity(self) -> Identity:
        current = self._identity
        if current is not None and (self._expires is None or self._clock() < self._expires):
            return current
        while True:
            if self._running is None:
                self._running = asyncio.create_task(self._run())
                self._running.add_done_callback(self._ended)
            await asyncio.shield(self._running)
            if self._identity is not None:  # otherwise another request was refused with it meanwhile
                return self._identity

    def refused(self, identity: Identity | None = None) -> None:
        if identity in (None, self._identity):
            self._identity = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # the waiting requests have it; asyncio need not log it

    async def _run(self) -> None:
        status, certificate = (await self._credential()).status, None
        if status.client_certificate_data and status.client_key_data:
            certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if not status.token and certificate is None:
            raise self._failed("its output has neither a token nor a client certificate with its key")
        self._identity = Identity(f"Bearer {status.token}" if status.token else "", certificate)
        expires = status.expiration_timestamp
        self._expires = None if expires is None else from_datetime(expires)

    async def _credential(self) -> _ExecCredential:
        output = await self._output()
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._failed(f"its output is not an ExecCredential: {error}") from None
        if (credential.kind, credential.api_version) != ("ExecCredential", self._plugin.api_version):
            printed = f"{credential.kind} of {credential.api_version}"
            raise self._failed(f"it printed {printed}, expected ExecCredential of {self._plugin.api_version}")
        return credential

    async def _output(self) -> bytes:
        plugin = self._plugin
        spec = {"interactive": False, **({} if plugin.cluster is None else {"cluster": plugin.cluster})}
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        environment = {**os.environ, **plugin.environment, EXEC_INFO: msgspec.json.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_OUTPUT,
            )
        except (OSError, ValueError) as error:
            hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
            raise self._failed(f"it cannot be run: {error}{hint}") from None
        try:
            async with asyncio.timeout(PLUGIN_TIME_LIMIT):
                assert process.stdout is not None
                output = await _limited(process.stdout)
                status = await process.wait()
        except TimeoutError:
            raise self._failed(f"it did not end within {PLUGIN_TIME_LIMIT:.0f} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if status != 0:
            raise self._failed(f"it ended with status {status}")
        return output

    def _failed(self, what: str) -> NoAnswerError:
        return NoAnswerError(f"credential plugin {self._plugin.command}: {what}")


async def _limited(stream: asyncio.StreamReader) -> bytes:
    parts, size = [], 0
    while part := await stream.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_OUTPUT:
            break
    return b"".join(parts)
