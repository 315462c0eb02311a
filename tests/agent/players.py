"""A device plugin and a kubelet in Python, and an agent in a thread of its own: for tests that need no Go."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.agent.protocol import dra_pb2 as dra
from fairway.agent.protocol import plugin_registration_pb2 as registration
from fairway.agent.protocol.rpc import (
    DEVICE_PLUGIN,
    DRA_PLUGIN,
    DRIVER_REGISTRATION,
    PLUGIN_REGISTRATION,
    Method,
    serve,
    unary_call,
)
from fairway.agent.service import NodeAgent
from fairway.agent.settings import AgentSettings
from fairway.agent.sockets import dial
from fairway.app.logs import RunLog
from fairway.kube.server.connection import Connection

PATIENCE = 120.0


def eventually(holds: Callable[[], Any], what: str = "") -> Any:
    end = time.monotonic() + PATIENCE
    value = holds()
    while not value:
        assert time.monotonic() < end, f"{what or holds} did not come true; at the end: {value!r}"
        time.sleep(0.01)
        value = holds()
    return value


class Looped:
    """An event loop in a thread, for players that a test talks to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class PlayedPlugin:
    """A plugin with devices that a test changes."""

    def __init__(self, looped: Looped, folder: Path, resource: str, ids: list[str], *, pre_start: bool = False) -> None:
        self._looped = looped
        self.folder = folder
        self.resource = resource
        self.endpoint = resource.replace("/", "-") + ".sock"
        self.health = dict.fromkeys(ids, "Healthy")
        self.numa: dict[str, list[int]] = {}
        self.pre_start = pre_start
        self.calls: list[str] = []
        self.failing = ""
        self.annotations: dict[str, str] = {}
        self.edit: Callable[[messages.ContainerAllocateResponse], None] = lambda answer: None
        self._changed: list[asyncio.Event] = []
        self._server: grpc.aio.Server | None = None

    def start(self, *, register: bool = True) -> PlayedPlugin:
        self._looped.call(self._start())
        if register:
            self.register()
        return self

    def stop(self) -> None:
        self._looped.call(self._stop())

    def register(self, **more: Any) -> None:
        self._looped.call(self._register(more))

    def change(self, **health: str) -> None:
        """New health by id; "" removes a device."""
        self.changes(health)

    def changes(self, health: dict[str, str]) -> None:
        async def apply() -> None:
            for one, state in health.items():
                if state:
                    self.health[one] = state
                else:
                    del self.health[one]
            for changed in self._changed:
                changed.set()

        self._looped.call(apply())

    # -- inside ----------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        path = self.folder / self.endpoint
        path.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        handlers: dict[str, Method] = {
            "GetDevicePluginOptions": self._options,
            "Allocate": self._allocate,
            "PreStartContainer": self._pre_start,
        }
        watch = grpc.unary_stream_rpc_method_handler(
            self._watch, messages.Empty.FromString, messages.ListAndWatchResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers(
            (
                serve(DEVICE_PLUGIN, handlers),
                grpc.method_handlers_generic_handler(DEVICE_PLUGIN.full_name, {"ListAndWatch": watch}),
            )
        )
        self._server.add_insecure_port(f"unix:{path}")
        await self._server.start()

    async def _stop(self) -> None:
        assert self._server is not None
        await self._server.stop(0)

    async def _register(self, more: dict[str, Any]) -> None:
        async with dial(self.folder / "kubelet.sock") as channel:
            fields = {"version": "v1beta1", "endpoint": self.endpoint, "resource_name": self.resource, **more}
            await unary_call(channel, PLUGIN_REGISTRATION, "Register")(messages.RegisterRequest(**fields), timeout=20)

    async def _options(self, request: Any, context: Any) -> messages.DevicePluginOptions:
        return messages.DevicePluginOptions(pre_start_required=self.pre_start)

    async def _watch(self, request: Any, context: Any) -> Any:
        changed = asyncio.Event()
        self._changed.append(changed)
        while True:
            changed.clear()
            yield messages.ListAndWatchResponse(
                devices=[
                    messages.Device(ID=one, health=health, topology=self._topology(one))
                    for one, health in self.health.items()
                ]
            )
            await changed.wait()

    def _topology(self, one: str) -> messages.TopologyInfo:
        return messages.TopologyInfo(nodes=[messages.NUMANode(ID=node) for node in self.numa.get(one, ())])

    async def _allocate(self, request: messages.AllocateRequest, context: Any) -> messages.AllocateResponse:
        ids = list(request.container_requests[0].devices_ids)
        self.calls.append(f"allocate {','.join(ids)}")
        if self.failing:
            await context.abort(grpc.StatusCode.INTERNAL, self.failing)
        answer = messages.ContainerAllocateResponse(
            envs={"VISIBLE": ",".join(ids)},
            devices=[messages.DeviceSpec(container_path=f"/dev/{one}", host_path=f"/dev/{one}") for one in ids],
            annotations=self.annotations,
        )
        self.edit(answer)
        return messages.AllocateResponse(container_responses=[answer])

    async def _pre_start(
        self, request: messages.PreStartContainerRequest, context: Any
    ) -> messages.PreStartContainerResponse:
        self.calls.append(f"prestart {','.join(request.devices_ids)}")
        return messages.PreStartContainerResponse()


class PlayedKubelet:
    """Registers the driver that it finds, and makes the calls of a kubelet."""

    def __init__(self, looped: Looped, registry: Path) -> None:
        self._looped = looped
        self._registry = registry
        self.info: registration.PluginInfo

    def register(self) -> PlayedKubelet:
        path = eventually(lambda: next(iter(sorted(self._registry.glob("*-reg.sock"))), None), "a registration socket")
        self._looped.call(self._register(path))
        return self

    async def _register(self, path: Path) -> None:
        async with dial(path) as channel:
            ask = unary_call(channel, DRIVER_REGISTRATION, "GetInfo")
            self.info = await ask(registration.InfoRequest(), timeout=20, wait_for_ready=True)
            status = registration.RegistrationStatus(plugin_registered=True)
            await unary_call(channel, DRIVER_REGISTRATION, "NotifyRegistrationStatus")(status, timeout=20)

    def prepare(self, *claims: str) -> dict[str, Any]:
        """Each claim is `namespace name uid`. By uid: the devices, or the error as a text."""
        answer = self._call("NodePrepareResources", dra.NodePrepareResourcesRequest, claims)
        return {uid: one.error or [_device(device) for device in one.devices] for uid, one in answer.claims.items()}

    def unprepare(self, *claims: str) -> dict[str, str]:
        answer = self._call("NodeUnprepareResources", dra.NodeUnprepareResourcesRequest, claims)
        return {uid: one.error for uid, one in answer.claims.items()}

    def _call(self, method: str, form: Any, claims: tuple[str, ...]) -> Any:
        words = [claim.split(" ") for claim in claims]
        request = form(claims=[dra.Claim(namespace=space, name=name, uid=uid) for space, name, uid in words])

        async def call() -> Any:
            async with dial(Path(self.info.endpoint)) as channel:
                return await unary_call(channel, DRA_PLUGIN, method)(request, timeout=50)

        return self._looped.call(call())


def _device(device: dra.Device) -> tuple[str, str, tuple[str, ...]]:
    return ",".join(device.request_names), f"{device.pool_name}/{device.device_name}", tuple(device.cdi_device_ids)


class PlayedAgent:
    """An agent with all its folders below one, run in a thread."""

    def __init__(self, folder: Path, url: str, **settings: Any) -> None:
        self.folder = folder
        self.settings = AgentSettings(
            **{
                "node": "n1",
                "plugin_folder": folder / "dp",
                "kubelet_plugins": folder / "kp",
                "kubelet_registry": folder / "kr",
                "cdi_folder": folder / "cdi",
                "state_folder": folder / "state",
                "http_address": "",
                **settings,
            }
        )
        self.connection = Connection(url)
        self.lines: list[dict[str, Any]] = []
        self.status: int | None = None

    def __enter__(self) -> PlayedAgent:
        log = RunLog("json", "debug", write=lambda line: self.lines.append(json.loads(line)))
        self.agent = NodeAgent(self.settings, self.connection, log, interval=0.01, refresh=0.2)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        eventually(lambda: self.logged("agent started") or self.status is not None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.agent.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        async def run() -> int:
            self._loop = asyncio.get_running_loop()
            return await self.agent.run()

        self.status = asyncio.run(run())

    def logged(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == message]

    def specs(self) -> dict[str, dict[str, Any]]:
        """The CDI specs by file name."""
        return {path.name: json.loads(path.read_text()) for path in sorted((self.folder / "cdi").glob("*.json"))}


@contextlib.contextmanager
def looped() -> Iterator[Looped]:
    one = Looped()
    yield one
    one.close()
