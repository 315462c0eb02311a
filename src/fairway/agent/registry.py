"""Where device plugins register, in the place of a kubelet: the socket `kubelet.sock` in the agent's own folder.

A plugin's pod mounts that folder where it expects the kubelet's; the plugin itself is as its vendor made it. At the
start all other sockets in the folder are removed, as a kubelet does: plugins that watch the folder register again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import grpc

from fairway.agent.limits import MAX_PLUGINS
from fairway.agent.names import resource_problem
from fairway.agent.offers import ListedDevice
from fairway.agent.plugins import PluginSession
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.agent.protocol.rpc import PLUGIN_REGISTRATION, serve
from fairway.agent.sockets import UnixServer, check_path, is_socket
from fairway.app.logs import RunLog
from fairway.errors import InputError, PrepareError

SOCKET = "kubelet.sock"
VERSION = "v1beta1"


class PluginRegistry:
    """The plugins that are known. All of it runs on one event loop."""

    def __init__(
        self, folder: Path, changed: Callable[[], None], log: RunLog, *, grace: float, random: Random | None = None
    ) -> None:
        self._folder = folder
        self._changed = changed
        self._log = log
        self._grace = grace
        self._random = random or Random()
        self._sessions: dict[str, PluginSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._server = UnixServer(folder / SOCKET, [serve(PLUGIN_REGISTRATION, {"Register": self._register})])
        self.registrations = 0

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                if is_socket(path):
                    path.unlink()
        await self._server.start()

    async def keep(self) -> None:
        await self._server.keep(lambda: self._log.warning("registration socket was removed, serving it again"))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._server.close()

    # -- what there is -----------------------------------------------------------------------------------------

    def offered(self) -> dict[str, Sequence[ListedDevice]]:
        """The devices of each resource. A plugin that has not sent a list yet offers nothing, and is not named."""
        return {
            resource: session.offered
            for resource, session in sorted(self._sessions.items())
            if session.connected or session.devices
        }

    @property
    def connected(self) -> int:
        return sum(session.connected for session in self._sessions.values())

    async def allocate(self, resource: str, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        session = self._sessions.get(resource)
        if session is None:
            raise PrepareError(f"no plugin for {resource} is registered")
        return await session.allocate(ids)

    # -- registration ------------------------------------------------------------------------------------------

    async def _register(self, request: messages.RegisterRequest, context: Any) -> messages.Empty:
        problem = self._problem(request)
        if problem:
            self._log.warning("plugin refused", resource=request.resource_name[:100], why=problem)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        resource, path = request.resource_name, self._folder / request.endpoint
        options = request.options if request.HasField("options") else None
        self.registrations += 1
        self._log.info("plugin registered", resource=resource, endpoint=request.endpoint)
        await self._replace(resource, path, options)
        return messages.Empty()

    def _problem(self, request: messages.RegisterRequest) -> str:
        if request.version != VERSION:
            return f"version {request.version[:40]!r} is not supported, expected {VERSION}"
        problem = resource_problem(request.resource_name)
        if problem:
            return problem
        end = request.endpoint
        if not end or end in (".", "..", SOCKET) or "/" in end or "\0" in end:
            return f"endpoint {end[:100]!r} is not the name of a socket in the folder of the registration socket"
        try:
            check_path(self._folder / end)
        except InputError as error:
            return str(error)
        if request.resource_name not in self._sessions and len(self._sessions) >= MAX_PLUGINS:
            return f"there are {MAX_PLUGINS} plugins already, no more are taken"
        return ""

    async def _replace(self, resource: str, path: Path, options: messages.DevicePluginOptions | None) -> None:
        """The newest registration counts, also where several come at once. What the one before listed stays known
        until the new list.
        """

        def said(message: str, why: str) -> None:
            tell = self._log.info if message == "plugin connected" else self._log.warning
            tell(message, resource=resource, **({"why": why} if why else {}))

        session = PluginSession(resource, path, options, self._changed, said, grace=self._grace, random=self._random)
        before = self._sessions.get(resource)
        if before is not None:
            session.devices = before.devices
        self._sessions[resource] = session
        old = self._tasks.pop(resource, None)
        if old is not None:
            old.cancel()
            await asyncio.gather(old, return_exceptions=True)
        if self._sessions.get(resource) is session:  # or another has registered meanwhile
            self._tasks[resource] = asyncio.create_task(self._run(session))

    async def _run(self, session: PluginSession) -> None:
        try:
            await session.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # one plugin's trouble is not the others'
            self._log.error("following a plugin failed", resource=session.resource, why=repr(error))
        if self._sessions.get(session.resource) is session:
            del self._sessions[session.resource]
            self._tasks.pop(session.resource, None)
            self._log.warning("plugin is gone, its devices are withdrawn", resource=session.resource)
            self._changed()
