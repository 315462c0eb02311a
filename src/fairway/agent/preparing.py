"""`ClaimPreparer`: makes the devices of a claim ready on this node, and takes that back.

    prepare:   read the claim -> find its devices in the pools -> Allocate -> CDI spec -> checkpoint -> answer
    unprepare: remove the CDI spec -> remove the checkpoint -> answer

Both may be called again at any time, at any point of a life that was cut short. The devices are those of the claim's
allocation, never others. A device that another claim has is refused, unless it may be shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from fairway.agent.cdi import CdiFolder, CdiSpec, device_edits, is_uid
from fairway.agent.checkpoint import ClaimFiles, PreparedClaim, PreparedDevice
from fairway.agent.inventory import DevicePool, PoolDevice
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.api.devices import DeviceResult, ResourceClaim
from fairway.app.logs import RunLog
from fairway.errors import ApiError, PrepareError

_NOT_FOUND = 404

Unit = tuple[str, str]
"""A resource and the id of a device of it."""
FindClaim = Callable[[str, str], Awaitable[ResourceClaim]]
"""By namespace and name; ApiError where it cannot be read."""
Allocate = Callable[[str, Sequence[str]], Awaitable[messages.ContainerAllocateResponse]]
"""What a plugin says of devices of its resource."""


class ClaimName(NamedTuple):
    """As the kubelet names a claim."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Wanted(NamedTuple):
    """One result of an allocation, with what it stands for here."""

    result: DeviceResult
    pool: DevicePool
    device: PoolDevice

    @property
    def request(self) -> str:
        """Without the alternative that was chosen: kubelets know requests by their own name."""
        return self.result.request.partition("/")[0]

    @property
    def is_shared(self) -> bool:
        return self.result.admin_access or self.result.share_id is not None or self.device.shareable


class ClaimPreparer:
    """Prepares and unprepares claims for the kubelet, all on one event loop."""

    def __init__(
        self,
        driver: str,
        find_claim: FindClaim,
        pools: Callable[[], Mapping[str, DevicePool]],
        allocate: Allocate,
        cdi: CdiFolder,
        files: ClaimFiles,
        boot: str,
        log: RunLog,
    ) -> None:
        self._driver = driver
        self._find_claim = find_claim
        self._pools = pools
        self._allocate = allocate
        self._cdi = cdi
        self._files = files
        self._boot = boot
        self._log = log
        self._prepared: dict[str, PreparedClaim] = {}
        self._taking: dict[ClaimName, tuple[Unit, ...]] = {}
        """Units of claims that are being prepared."""
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @property
    def prepared(self) -> Mapping[str, PreparedClaim]:
        return self._prepared

    def restore(self) -> None:
        """Go on from the checkpoints: missing CDI specs are written, those of no claim are removed. Nothing that was
        prepared before the host was started is in use any more.
        """
        known, bad = self._files.load()
        for path in bad:
            self._log.error("checkpoint cannot be read, put aside", path=path)
        self._cdi.tidy()
        for claim in known.values():
            if claim.boot == self._boot:
                self._prepared[claim.uid] = claim
                self._cdi.keep(claim.uid, claim.spec)
            else:
                self._files.remove(claim.uid)
        for uid in self._cdi.uids():
            if uid not in self._prepared:
                self._cdi.remove(uid)

    # -- calls -----------------------------------------------------------------------------------------------

    async def prepare(self, name: ClaimName) -> tuple[PreparedDevice, ...]:
        """PrepareError says why not. A claim that is prepared is answered from what is known."""
        _check(name)
        async with self._alone(name.uid):
            known = self._prepared.get(name.uid)
            try:
                claim = await self._find_claim(name.namespace, name.name)
            except ApiError as error:
                if known is None or error.status == _NOT_FOUND:
                    raise PrepareError(f"claim {name} cannot be read: {error.message}") from None
                return self._again(known)
            results = self._results(name, claim)
            if known is not None and _same(known.devices, results):
                return self._again(known)
            return await self._prepare(name, [self._wanted(name, result) for result in results])

    async def unprepare(self, name: ClaimName) -> None:
        """What is not prepared needs nothing. There is no call to plugins for it."""
        _check(name)
        async with self._alone(name.uid):
            self._cdi.remove(name.uid)
            self._files.remove(name.uid)
            if self._prepared.pop(name.uid, None) is not None:
                self._log.info("claim unprepared", claim=str(name))

    # -- inside ----------------------------------------------------------------------------------------------

    def _again(self, known: PreparedClaim) -> tuple[PreparedDevice, ...]:
        self._cdi.keep(known.uid, known.spec)
        return known.devices

    def _results(self, name: ClaimName, claim: ResourceClaim) -> list[DeviceResult]:
        if claim.metadata.uid != name.uid:
            raise PrepareError(f"claim {name} has the uid {claim.metadata.uid}, expected {name.uid}")
        allocation = claim.status.allocation
        if allocation is None:
            raise PrepareError(f"claim {name} is not allocated")
        results = [result for result in allocation.devices.results if result.driver == self._driver]
        if not results:
            raise PrepareError(f"claim {name} has no device of driver {self._driver}")
        return results

    def _wanted(self, name: ClaimName, result: DeviceResult) -> _Wanted:
        pool = self._pools().get(result.pool)
        if pool is None:
            raise PrepareError(
                f"claim {name}: pool {result.pool} is not on this node, or its plugin has not registered"
            )
        device = pool.devices.get(result.device)
        if device is None:
            raise PrepareError(f"claim {name}: device {result.device} of pool {result.pool} does not exist")
        if not device.healthy and not result.admin_access:
            raise PrepareError(f"claim {name}: device {result.device} of pool {result.pool} is unhealthy")
        return _Wanted(result, pool, device)

    async def _prepare(self, name: ClaimName, wanted: Sequence[_Wanted]) -> tuple[PreparedDevice, ...]:
        units = _units(name, [one for one in wanted if not one.is_shared])
        self._check_free(name, units)
        self._taking[name] = units
        try:
            devices, edits = await self._ask(name, wanted)
            spec = self._cdi.spec(name.uid, edits)
            claim = PreparedClaim(name.uid, name.namespace, name.name, self._boot, tuple(devices), units, spec)
            if edits:
                self._cdi.write(name.uid, spec)
            self._files.write(claim)
            self._prepared[name.uid] = claim
        finally:
            del self._taking[name]
        self._log.info("claim prepared", claim=str(name), devices=",".join(one.device for one in devices))
        return claim.devices

    def _check_free(self, name: ClaimName, units: Sequence[Unit]) -> None:
        known = self._prepared.values()
        others = {ClaimName(claim.namespace, claim.name, claim.uid): claim.units for claim in known} | self._taking
        for other, taken in others.items():
            both = set(units) & set(taken) if other.uid != name.uid else None
            if both:
                resource, one = min(both)
                raise PrepareError(f"claim {name}: device {one} of {resource} is in use by claim {other}")

    async def _ask(self, name: ClaimName, wanted: Sequence[_Wanted]) -> tuple[list[PreparedDevice], list[CdiSpec]]:
        """One call for each request and plugin: an answer holds for all devices of a container together."""
        groups: dict[tuple[str, str], list[_Wanted]] = {}
        for one in wanted:
            groups.setdefault((one.request, one.pool.resource), []).append(one)
        devices: list[PreparedDevice] = []
        edits: list[CdiSpec] = []
        for (_, resource), group in groups.items():
            ids = list(dict.fromkeys(one for entry in group for one in entry.device.ids))
            found = device_edits(resource, await self._allocate(resource, ids))
            for key in found.lost:
                self._log.warning("annotation of a container is lost: CDI has none", claim=str(name), annotation=key)
            cdi = (self._cdi.device_name(name.uid, len(edits)), *found.others)
            edits.append(found.edits)
            for entry in group:
                devices.append(_prepared(entry, cdi))
                cdi = ()  # one container edit for all devices of the request: a second one would only repeat it
        self._warn_of_overlap(name, edits)
        return devices, edits

    def _warn_of_overlap(self, name: ClaimName, edits: Sequence[CdiSpec]) -> None:
        seen: dict[str, str] = {}
        for one in edits:
            for text in one.get("env", ()):
                variable, _, value = text.partition("=")
                if seen.setdefault(variable, value) != value:
                    self._log.warning(
                        "two requests of a claim set a variable: a container that uses both sees one value",
                        claim=str(name),
                        variable=variable,
                    )

    @asynccontextmanager
    async def _alone(self, uid: str) -> AsyncIterator[None]:
        """Calls for one claim follow each other; those for others go on."""
        lock, users = self._locks.get(uid, (asyncio.Lock(), 0))
        self._locks[uid] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(uid)
            if users > 1:
                self._locks[uid] = lock, users - 1


def _prepared(one: _Wanted, cdi: tuple[str, ...]) -> PreparedDevice:
    result = one.result
    return PreparedDevice(one.request, result.pool, result.device, cdi, result.share_id, result.admin_access)


def _units(name: ClaimName, wanted: Sequence[_Wanted]) -> tuple[Unit, ...]:
    """PrepareError where the claim has one twice: as two devices, or as a group and one of its members."""
    units = [(one.pool.resource, device) for one in wanted for device in one.device.ids]
    for unit in units:
        if units.count(unit) > 1:
            raise PrepareError(f"claim {name}: device {unit[1]} of {unit[0]} is allocated to it twice")
    return tuple(units)


def _same(devices: Sequence[PreparedDevice], results: Sequence[DeviceResult]) -> bool:
    """Whether what is prepared is what the claim has now."""
    now = sorted((one.request.partition("/")[0], one.pool, one.device, one.share_id or "") for one in results)
    return now == sorted((one.request, one.pool, one.device, one.share_id or "") for one in devices)


def _check(name: ClaimName) -> None:
    if not is_uid(name.uid):
        raise PrepareError(f"{name.uid[:80]!r} is not a uid")
    for text in (name.namespace, name.name):
        if not text or len(text) > 253 or not text.isascii() or not text.replace("-", "").replace(".", "").isalnum():
            raise PrepareError(f"{text[:80]!r} is not the name of a namespace or claim")
