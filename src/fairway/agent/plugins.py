"""One device plugin that registered: its devices as it lists them, and what it answers to Allocate.

    registered --> dialling --(first list)--> following --(stream ends)--> lost --> dialling ...
                      ^                                                      |
                      +---(the socket is there, after a pause)---------------+--(grace period is over)--> gone

While a plugin is lost its devices stay known, as unhealthy ones: it may be restarting. A plugin that registers again
replaces the one before. What is listed is limited: one plugin cannot use up the agent's memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import grpc
import grpc.aio

from fairway.agent.limits import ALLOCATE, DIAL, MAX_DEVICES, MAX_ID, MAX_NUMA, PRE_START
from fairway.agent.offers import ListedDevice
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.agent.protocol.rpc import DEVICE_PLUGIN, stream_call, unary_call
from fairway.agent.sockets import dial, is_socket
from fairway.errors import PrepareError
from fairway.kube.http import Backoff

HEALTHY = "Healthy"


class PluginSession:
    """`run` returns once the plugin is gone for good; whoever created it cancels it when it is replaced."""

    def __init__(
        self,
        resource: str,
        path: Path,
        options: messages.DevicePluginOptions | None,
        changed: Callable[[], None],
        said: Callable[[str, str], None],
        *,
        grace: float,
        random: Random,
    ) -> None:
        self.resource = resource
        self.path = path
        self.devices: dict[str, ListedDevice] = {}
        self.connected = False
        self._options = options
        self._changed = changed
        self._said = said
        self._grace = grace
        self._backoff = Backoff(random, longest=5.0)
        self._channel: grpc.aio.Channel | None = None
        self._left_out = 0

    @property
    def offered(self) -> Sequence[ListedDevice]:
        """The devices as they are now; none is healthy while the plugin is lost."""
        known = [self.devices[one] for one in sorted(self.devices)]
        return known if self.connected else [ListedDevice(one.id, False, one.numa) for one in known]

    async def run(self) -> None:
        since = time.monotonic()
        while True:
            why = await self._follow()
            if self.connected:
                self.connected = False
                since = time.monotonic()
                self._said("plugin lost", why)
                self._changed()
            if time.monotonic() - since >= self._grace:
                return
            await asyncio.sleep(min(self._backoff.next(), self._grace))

    async def _follow(self) -> str:
        """Follow the plugin until it cannot be followed any more; says why."""
        if not is_socket(self.path):
            return "its socket is gone"
        channel = self._channel = dial(self.path)
        try:
            if self._options is None:
                self._options = await _options_of(channel)
            stream = stream_call(channel, DEVICE_PLUGIN, "ListAndWatch")(messages.Empty())
            async with asyncio.timeout(DIAL):
                first = await stream.read()
            while first is not grpc.aio.EOF:
                self._take(first)
                first = await stream.read()
            return "it ended its list of devices"
        except grpc.aio.AioRpcError as error:
            return _words(error)
        except TimeoutError:
            return f"it sent no list of devices within {DIAL:.0f} s"
        finally:
            self._channel = None
            await channel.close()

    def _take(self, response: messages.ListAndWatchResponse) -> None:
        """What a plugin lists is all that it has. An entry that cannot be used is left out, the others count."""
        found: dict[str, ListedDevice] = {}
        for device in response.devices[:MAX_DEVICES]:
            if device.ID and len(device.ID) <= MAX_ID:
                numa = tuple(sorted({node.ID for node in device.topology.nodes}))[:MAX_NUMA]
                found[device.ID] = ListedDevice(device.ID, device.health == HEALTHY, numa)
        left_out = len(response.devices) - len(found)
        if left_out and left_out != self._left_out:
            expected = f"at most {MAX_DEVICES} devices, each with an id of its own of 1 to {MAX_ID} characters"
            self._said("devices left out", f"{left_out} of {len(response.devices)} cannot be used, expected {expected}")
        self._left_out = left_out
        self._backoff.reset()
        if not self.connected or found != self.devices:
            newly = not self.connected
            self.connected, self.devices = True, found
            if newly:
                self._said("plugin connected", "")
            self._changed()

    # -- calls -----------------------------------------------------------------------------------------------

    async def allocate(self, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        """What a container needs to use these devices; PrepareError where the plugin does not say."""
        request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=ids)])
        answer: messages.AllocateResponse = await self._call("Allocate", request, ALLOCATE)
        if len(answer.container_responses) != 1:
            count = len(answer.container_responses)
            raise PrepareError(f"plugin {self.resource}: Allocate was answered for {count} containers, expected 1")
        if self._options is not None and self._options.pre_start_required:
            await self._call("PreStartContainer", messages.PreStartContainerRequest(devices_ids=ids), PRE_START)
        found: messages.ContainerAllocateResponse = answer.container_responses[0]
        return found

    async def _call(self, method: str, request: object, limit: float) -> messages.AllocateResponse:
        if self._channel is None or not self.connected:
            raise PrepareError(f"plugin {self.resource} is not connected")
        try:
            answer: messages.AllocateResponse = await unary_call(self._channel, DEVICE_PLUGIN, method)(
                request, timeout=limit
            )
        except grpc.aio.AioRpcError as error:
            raise PrepareError(f"plugin {self.resource}: {method}: {_words(error)}") from None
        except asyncio.CancelledError:
            if self._channel is None:  # the plugin was lost while it was asked; the caller was not cancelled
                raise PrepareError(f"plugin {self.resource}: {method}: the connection was closed") from None
            raise
        return answer


async def _options_of(channel: grpc.aio.Channel) -> messages.DevicePluginOptions:
    """What a plugin says of itself; one without this method has no wishes."""
    try:
        found: messages.DevicePluginOptions = await unary_call(channel, DEVICE_PLUGIN, "GetDevicePluginOptions")(
            messages.Empty(), timeout=DIAL
        )
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return messages.DevicePluginOptions()
        raise
    return found


def _words(error: grpc.aio.AioRpcError) -> str:
    details = " ".join((error.details() or "").split())[:300]
    return f"{error.code().name}: {details}" if details else error.code().name
