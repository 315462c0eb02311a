"""`NodeAgent`: connects plugins, the kubelet and the API server, and runs until it is stopped.

One event loop has everything. At a clean end the sockets go and what is published stays: the next process, or the same
pod after an upgrade, goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairway.agent.annotation import AnnotationPublisher, annotation_text
from fairway.agent.cdi import CdiFolder
from fairway.agent.checkpoint import ClaimFiles, boot_id
from fairway.agent.discovery import discover
from fairway.agent.inventory import DevicePool, build_pools
from fairway.agent.kubelet import KubeletDriver
from fairway.agent.limits import MAX_READS
from fairway.agent.mapping import DeviceMapping, read_mapping
from fairway.agent.metrics import AgentMetrics
from fairway.agent.offers import ListedDevice
from fairway.agent.preparing import ClaimPreparer
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.agent.publishing import INTERVAL, NodeObject, Publisher, PublishLoop, SlicePublisher
from fairway.agent.registry import PluginRegistry
from fairway.agent.settings import ANNOTATION, AUTO, AgentSettings
from fairway.api.devices import ResourceClaim, ResourceSlice
from fairway.api.kinds import KINDS
from fairway.api.meta import OwnerReference
from fairway.app.health import HealthServer
from fairway.app.logs import RunLog, forward_library_logs
from fairway.app.stopping import finished_before_stop, stop_signals
from fairway.errors import ApiError, InputError, PrepareError
from fairway.kube.http import ApiClient, object_path
from fairway.kube.reading import find_served
from fairway.kube.server import Connection

REFRESH = 30.0
"""Seconds between two looks at the host, at the mapping and at the labels of the node."""
FAILED = 70


class NodeAgent:
    """One run. `run` returns the exit code."""

    def __init__(
        self,
        settings: AgentSettings,
        connection: Connection,
        log: RunLog,
        *,
        interval: float = INTERVAL,
        refresh: float = REFRESH,
    ) -> None:
        self._settings = settings
        self._client = ApiClient(connection)
        self._log = log
        self._interval = interval
        self._refresh_every = refresh
        self.metrics = AgentMetrics()
        self._mapping = DeviceMapping() if settings.mapping is None else read_mapping(settings.mapping)
        self._mapping_problem = ""
        self._labels: Mapping[str, str] = {}
        self._found: dict[str, Sequence[ListedDevice]] = {}
        self.pools: dict[str, DevicePool] = {}
        self._failure: BaseException | None = None
        self._loop: PublishLoop | None = None
        self._driver: KubeletDriver | None = None
        self._preparer: ClaimPreparer | None = None
        self._unhealthy: set[tuple[str, str]] = set()
        self.health = HealthServer(self._is_healthy, self._is_ready, self._metrics_text)

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        self._stop = asyncio.Event()
        forward_library_logs(self._log, "asyncio")
        with stop_signals(partial(asyncio.get_running_loop().call_soon_threadsafe, self.stop)):
            return await self._run()

    async def _run(self) -> int:
        settings = self._settings
        self._plugins = PluginRegistry(settings.plugin_folder, self._changed, self._log, grace=settings.plugin_grace)
        tasks: list[asyncio.Task[None]] = []
        try:
            if await finished_before_stop(self._begin(), self._stop):
                tasks = [asyncio.create_task(self._guarded(job)) for job in self._jobs()]
                await self._stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._driver is not None:
                await self._driver.close()
            await self._plugins.close()
            await self.health.close()
            await self._client.close()
        if self._failure is not None:
            self._log.error("this is an error in Fairway, please report it", why=repr(self._failure))
            return FAILED
        self._log.info("stopped")
        return 0

    async def _begin(self) -> None:
        """Learn about the node and the server, and open the sockets."""
        await self._client.check()
        node = await self._node()
        version = await self._api_version()
        self._published_by = self._publisher(node, version)
        if version and not self._settings.dry_run:
            await self._start_driver(version)
        self._look()
        if self._settings.http_address:
            await self.health.start(self._settings.http_address)
        await self._plugins.start()
        settings = self._settings
        self._log.info("agent started", node=settings.node, driver=settings.driver, publish=self._how(version))

    def _jobs(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on until the end."""
        jobs = [self._plugins.keep(), self._refresh(), self._forget_old(self._published_by)]
        if self._driver is not None:
            jobs.append(self._driver.keep())
        if self._loop is not None:
            jobs.append(self._loop.run())
        return jobs

    def stop(self) -> None:
        self._stop.set()

    async def _guarded(self, job: Coroutine[Any, Any, None]) -> None:
        """Whatever ends one part ends the process: the next one begins from the checkpoints."""
        try:
            await job
        except InputError as error:
            self._log.error("cannot go on", why=str(error))
            self._failure = error
            self._stop.set()
        except Exception as error:
            self._failure = error
            self._stop.set()

    # -- parts -----------------------------------------------------------------------------------------------

    async def _node(self) -> OwnerReference:
        """The node's labels are kept, its uid makes it the owner of what is published."""
        path = f"/api/v1/nodes/{self._settings.node}"
        try:
            node = await self._client.read(path, NodeObject)
        except ApiError as error:
            if error.status == 404:
                raise InputError(f"node {self._settings.node} does not exist, expected the name of this node") from None
            raise
        self._labels = node.metadata.labels
        return OwnerReference(kind="Node", name=self._settings.node, uid=node.metadata.uid, api_version="v1")

    async def _api_version(self) -> str:
        """Of ResourceSlices; "" where the server has none, or they are not wanted."""
        if self._settings.publish == ANNOTATION:
            return ""
        kind = next(kind for kind in KINDS if kind.struct is ResourceSlice)
        served = (await find_served(self._client, [kind]))[kind]
        if served is None and self._settings.publish != AUTO:
            raise InputError("the API server has no ResourceSlices, expected Kubernetes 1.34 or publish: annotation")
        return "" if served is None else served.api_version

    def _publisher(self, node: OwnerReference, version: str) -> Publisher | None:
        if self._settings.dry_run:
            return None
        publisher: Publisher
        if version:
            publisher = SlicePublisher(self._client, version, node, self._settings.driver)
        else:
            publisher = AnnotationPublisher(self._client, self._settings.node)
        self._loop = PublishLoop(
            publisher,
            lambda: self.pools,
            self._log,
            wrote=self.metrics.writes.inc,
            failed=self.metrics.failures.inc,
            interval=self._interval,
        )
        return publisher

    async def _start_driver(self, version: str) -> None:
        settings = self._settings
        reads = asyncio.Semaphore(MAX_READS)

        async def find_claim(namespace: str, name: str) -> ResourceClaim:
            path = object_path(version, "resourceclaims", ("ResourceClaim", namespace, name))
            async with reads:
                return await self._client.read(path, ResourceClaim)

        self._preparer = ClaimPreparer(
            settings.driver,
            find_claim,
            lambda: self.pools,
            self._allocate,
            CdiFolder(settings.cdi_folder, settings.driver),
            ClaimFiles(settings.state_folder / "claims"),
            boot_id(),
            self._log,
        )
        self._preparer.restore()
        assert self._loop is not None
        self._driver = KubeletDriver(
            settings.driver,
            settings.kubelet_plugins,
            settings.kubelet_registry,
            self._preparer,
            self._log,
            registered=self._loop.look_again,  # a kubelet that starts deletes the slices of its node
            ended=lambda call, well: self.metrics.calls.labels(call, "done" if well else "failed").inc(),
        )
        await self._driver.start()

    def _how(self, version: str) -> str:
        if self._settings.dry_run:
            return "nothing (dry run)"
        return version or "annotation"

    # -- devices -----------------------------------------------------------------------------------------------

    async def _allocate(self, resource: str, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        found = {one.id: one for one in self._found.get(resource, ())}
        if not found:
            return await self._plugins.allocate(resource, ids)
        for one in ids:
            if one not in found:
                raise PrepareError(f"device {one} of {resource} is not on this host any more")
        files = dict.fromkeys(file for one in ids for file in found[one].files)
        devices = [messages.DeviceSpec(container_path=file, host_path=file, permissions="rw") for file in files]
        return messages.ContainerAllocateResponse(devices=devices)

    def _look(self) -> None:
        self._found = discover(self._settings.discover, self._settings.sysfs)
        self._changed()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_every)
            if self._settings.mapping is not None:
                self._read_mapping(self._settings.mapping)
                with contextlib.suppress(ApiError):
                    await self._node()
            self._look()

    def _read_mapping(self, path: Path) -> None:
        """A file that cannot be used any more leaves what the last good one said."""
        try:
            self._mapping = read_mapping(path)
        except InputError as error:
            if str(error) != self._mapping_problem:
                self._log.error("mapping refused, the last good one stays in use", why=str(error))
            self._mapping_problem = str(error)
        else:
            self._mapping_problem = ""

    async def _forget_old(self, publisher: Publisher | None) -> None:
        """What an earlier process published stays until its plugins had the time to come back."""
        await asyncio.sleep(self._settings.plugin_grace)
        if publisher is not None:
            publisher.keep_unknown = False
        if self._loop is not None:
            self._loop.changed()

    def _changed(self) -> None:
        """Called when any device may have changed."""
        pools = build_pools(
            self._settings.node, {**self._plugins.offered(), **self._found}, self._mapping, self._labels
        )
        if pools == self.pools:
            return
        for name, pool in pools.items():
            if pool.left_out and (name not in self.pools or self.pools[name].left_out != pool.left_out):
                why = "the names of their members need more attributes than a published device may have"
                self._log.warning("groups left out", resource=pool.resource, groups=",".join(pool.left_out), why=why)
        self.pools = pools
        self._warn_of_held()
        if self._loop is not None:
            self._loop.changed()
        elif self._settings.dry_run:
            self._log.info("would publish", devices=annotation_text(pools))

    def _warn_of_held(self) -> None:
        """A device that turns unhealthy under a pod is for an operator to know; the pod keeps it."""
        if self._preparer is None:
            return
        now: set[tuple[str, str]] = set()
        for claim in self._preparer.prepared.values():
            for one in claim.devices:
                device = self.pools[one.pool].devices.get(one.device) if one.pool in self.pools else None
                if device is None or not device.healthy:
                    now.add((claim.uid, one.device))
                    if (claim.uid, one.device) not in self._unhealthy:
                        self._log.warning(
                            "device in use is unhealthy or gone",
                            device=one.device,
                            pool=one.pool,
                            claim=f"{claim.namespace}/{claim.name}",
                        )
        self._unhealthy = now

    # -- health ------------------------------------------------------------------------------------------------

    def _is_healthy(self) -> tuple[bool, str]:
        return self._failure is None, "ok" if self._failure is None else repr(self._failure)

    def _is_ready(self) -> tuple[bool, str]:
        if self._loop is not None and not self._loop.published:
            return False, "nothing was published yet"
        if self._driver is not None and not self._driver.is_registered:
            return False, "not registered with the kubelet yet"
        return True, "ok"

    def _metrics_text(self) -> bytes:
        metrics = self.metrics
        metrics.devices.clear()
        for pool in self.pools.values():
            healthy = sum(device.healthy for device in pool.devices.values())
            metrics.devices.labels(pool.resource, "healthy").set(healthy)
            metrics.devices.labels(pool.resource, "unhealthy").set(len(pool.devices) - healthy)
        metrics.plugins.set(self._plugins.connected)
        metrics.prepared.set(0 if self._preparer is None else len(self._preparer.prepared))
        metrics.lost.set(len(self._unhealthy))
        metrics.registered.set(int(self._driver is not None and self._driver.is_registered))
        return metrics.text()
