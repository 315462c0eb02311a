"""Publishing through the API server: ResourceSlices where there is DRA, else an annotation and capacities of the node.

A publisher notes that something changed and writes when it may: changes that follow each other closely become one
write, a failure is tried again after a pause, and from time to time the server is looked at, because a kubelet deletes
the slices of its node when it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

import msgspec

from fairway.agent.inventory import DevicePool
from fairway.agent.slices import write_plan
from fairway.api.devices import ResourceSlice
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.app.logs import RunLog
from fairway.errors import ApiError
from fairway.kube.http import ApiClient, Backoff
from fairway.kube.reading import version_path

INTERVAL = 1.0
"""Seconds between two writes."""
_INVALID = 422
LOOK_AGAIN = 120.0
"""Seconds after which the server's objects are read again."""

Pools = Mapping[str, DevicePool]


class Publisher(Protocol):
    """Where devices are published."""

    async def publish(self, pools: Pools) -> int:
        """Make the server have these; the number of requests that wrote. ApiError where it does not."""

    def forget(self) -> None:
        """The server may have other objects than it was given."""

    keep_unknown: bool
    """Whether what an earlier process published stays: its plugins may still be on their way."""


class RefusedPoolError(ApiError):
    """The server does not take what a pool says; all other pools are published."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.status, error.reason, error.message, request=error.request)


class _Slices(msgspec.Struct, frozen=True):
    items: tuple[ResourceSlice, ...] = ()


class SlicePublisher:
    """Publishes the slices of this node and driver; those of others are neither changed nor read."""

    def __init__(self, client: ApiClient, api_version: str, node: OwnerReference, driver: str) -> None:
        self._client = client
        self._api_version = api_version
        self._path = f"{version_path(api_version)}/resourceslices"
        self._node = node
        self._driver = driver
        self._written: dict[str, ResourceSlice] = {}
        """What we gave the server, under the version that it has since: it may keep less than it was given."""
        self._known: dict[str, ResourceSlice] | None = None
        self._forgotten = 0
        self.keep_unknown = True

    def forget(self) -> None:
        self._known = None
        self._forgotten += 1

    async def publish(self, pools: Pools) -> int:
        known = self._known if self._known is not None else await self._read()
        self._known, forgotten = None, self._forgotten  # until all is written nothing is sure
        by_pool: dict[str, list[ResourceSlice]] = {name: [] for name in pools}
        for one in known.values():
            by_pool.setdefault(one.spec.pool.name, []).append(one)
        count, refusal = 0, None
        for name, slices in sorted(by_pool.items()):
            if name not in pools and self.keep_unknown:
                continue
            plan = write_plan(self._node, self._driver, pools.get(name), slices)
            try:
                for one in plan.written:
                    known[one.metadata.name] = await self._write(one)
                    count += 1
                for one in plan.deleted:
                    await self._delete(one)
                    del known[one.metadata.name]
                    count += 1
            except ApiError as error:
                if error.status != _INVALID:
                    raise
                refusal = error
        if refusal is not None:
            raise RefusedPoolError(refusal)
        if forgotten == self._forgotten:
            self._known = known
        return count

    async def _read(self) -> dict[str, ResourceSlice]:
        selector = f"spec.nodeName={self._node.name},spec.driver={self._driver}"
        found = await self._client.read(self._path, _Slices, {"fieldSelector": selector})
        known = {one.metadata.name: self._as_written(one) for one in found.items}
        self._written = {name: one for name, one in self._written.items() if name in known}
        return known

    def _as_written(self, found: ResourceSlice) -> ResourceSlice:
        mine = self._written.get(found.metadata.name)
        if mine is not None and mine.metadata.resource_version == found.metadata.resource_version:
            return mine
        return found

    async def _write(self, one: ResourceSlice) -> ResourceSlice:
        meta = one.metadata
        if meta.resource_version:
            raw = await self._client.request("PUT", f"{self._path}/{meta.name}", self._body(one))
        else:
            raw = await self._client.request("POST", self._path, self._body(one))
        now = msgspec.json.decode(raw, type=ResourceSlice)
        written = self._written[meta.name] = msgspec.structs.replace(one, metadata=now.metadata)
        return written

    async def _delete(self, one: ResourceSlice) -> None:
        body = {"preconditions": {"uid": one.metadata.uid}}
        try:
            await self._client.request("DELETE", f"{self._path}/{one.metadata.name}", body)
        except ApiError as error:
            if error.status != 404:
                raise
        self._written.pop(one.metadata.name, None)

    def _body(self, one: ResourceSlice) -> dict[str, Any]:
        """Fields with their default are left out by the encoder; the server wants the number of slices."""
        body: dict[str, Any] = msgspec.to_builtins(one, str_keys=True)
        pool = one.spec.pool
        body["spec"]["pool"] = {
            "name": pool.name,
            "generation": pool.generation,
            "resourceSliceCount": pool.resource_slice_count,
        }
        return {"apiVersion": self._api_version, "kind": "ResourceSlice", **body}


class NodeObject(msgspec.Struct, frozen=True):
    """What is read of the node."""

    metadata: ObjectMeta


class PublishLoop:
    """Publishes what `pools` gives, whenever `changed` was called. `run` goes on until it is cancelled."""

    def __init__(
        self,
        publisher: Publisher,
        pools: Callable[[], Pools],
        log: RunLog,
        *,
        wrote: Callable[[int], None],
        failed: Callable[[], None],
        interval: float = INTERVAL,
        random: Random | None = None,
    ) -> None:
        self._publisher = publisher
        self._pools = pools
        self._log = log
        self._wrote = wrote
        self._failed = failed
        self._interval = interval
        self._random = random or Random()
        self._wake = asyncio.Event()
        self.published = False
        """Whether the server has had what there was, once."""

    def changed(self) -> None:
        self._wake.set()

    def look_again(self) -> None:
        self._publisher.forget()
        self._wake.set()

    async def run(self) -> None:
        backoff = Backoff(self._random)
        while True:
            self._wake.clear()
            try:
                count = await self._publisher.publish(self._pools())
            except ApiError as error:
                self._publisher.forget()
                self._failed()
                wait = backoff.next(error.retry_after)
                self._log.warning("publishing failed, it is tried again", why=str(error), seconds=round(wait, 1))
                if isinstance(error, RefusedPoolError):
                    await self._rest(wait)  # what the other pools do is published in the meantime
                else:
                    await asyncio.sleep(wait)
                continue
            backoff.reset()
            self.published = True
            self._wrote(count)
            if count:
                self._log.info("published", writes=count)
            if not await self._rest(LOOK_AGAIN * (0.75 + self._random.random() / 2)):
                self._publisher.forget()

    async def _rest(self, seconds: float) -> bool:
        """Until something changes, but never less than the interval; whether something did."""
        await asyncio.sleep(self._interval)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        return self._wake.is_set()
