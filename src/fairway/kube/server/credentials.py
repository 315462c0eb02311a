"""Identities that change while we run: tokens in files, and what plugins give out for a while.

A token file is read again every minute, as the kubelet writes a new token long before the old one expires. A plugin (a
program that a kubeconfig names under `exec`) is run again when what it gave has expired, or when the server refused it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fairway.api.meta import ApiStruct, Time
from fairway.clock import Clock, Micros, from_datetime, wall_clock
from fairway.errors import NoAnswerError
from fairway.kube.server.connection import Certificate, Identity

REREAD = 60.0
"""Seconds after which a token file is looked at again."""
PLUGIN_TIME_LIMIT = 60.0
MAX_OUTPUT = 1 << 20
"""Bytes of what a plugin prints."""
EXEC_INFO = "KUBERNETES_EXEC_INFO"


def basic(user: str, password: str) -> str:
    """The header of a user with a password."""
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
        """A file that cannot be read now leaves the token as it was: it is being replaced, or will be."""
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
    """What the plugin is told about the cluster, where the kubeconfig says so."""


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
    """What a plugin gave, until it expires. However many requests wait for it, the plugin runs once."""

    def __init__(self, plugin: Plugin, clock: Clock = wall_clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._identity: Identity | None = None
        self._expires: Micros | None = None
        self._running: asyncio.Task[None] | None = None

    async def identity(self) -> Identity:
        known = self._identity
        if known is not None and (self._expires is None or self._clock() < self._expires):
            return known
        while True:
            if self._running is None:
                self._running = asyncio.create_task(self._run())
                self._running.add_done_callback(self._ended)
            await asyncio.shield(self._running)
            if self._identity is not None:  # else another request was refused with it in the same moment
                return self._identity

    def refused(self, identity: Identity | None = None) -> None:
        if identity in (None, self._identity):
            self._identity = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # whoever waited was told

    async def _run(self) -> None:
        found = await self._credential()
        status, certificate = found.status, None
        if status.client_certificate_data and status.client_key_data:
            certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if not status.token and certificate is None:
            raise self._failed("its answer has neither a token nor a client certificate with its key")
        self._identity = Identity(f"Bearer {status.token}" if status.token else "", certificate)
        expires = status.expiration_timestamp
        self._expires = None if expires is None else from_datetime(expires)

    async def _credential(self) -> _ExecCredential:
        output = await self._output()
        try:
            found = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise self._failed(f"its answer is not an ExecCredential: {error}") from None
        if (found.kind, found.api_version) != ("ExecCredential", self._plugin.api_version):
            said = f"{found.kind} of {found.api_version}"
            raise self._failed(f"its answer is {said}, expected ExecCredential of {self._plugin.api_version}")
        return found

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
