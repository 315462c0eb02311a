"""A server made of dicts on which two allocators write claims: the scheduler itself, and one that looks at nothing.

Each step is one thing that happens somewhere: a write of ours arrives, one of the other's does, a watch shows the next
version, time passes. Any order of steps may come true on a server, as long as writes to one object and what a watch
shows of one kind keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.devices import ResourceClaim, ResourceClaimStatus
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.drive.change import AllocateClaim, Bind, Change, ReleaseClaim
from fairway.drive.planned_changes import pod_key
from fairway.kube.guards.devices import ClaimGuard, DeviceCheck
from kube.stage import LoopStage
from support.claims import claim, claiming, device_class, exactly, gpu
from support.devices import DRIVER, resource_slice
from support.objects import node

DeviceName = tuple[str, str]
"""Pool, which is the node, and device."""


class TwoAllocators(LoopStage):
    def __init__(self, nodes: int, devices: int, pods: int) -> None:
        super().__init__(makes_claims=False)
        guard = ClaimGuard(self.loop.state, self.loop.store, self.world.carry_out)
        self.loop.listeners.append(guard)
        self.check = DeviceCheck(self.loop.state, self.loop.store, guard, self.loop.catch_up)
        self.objects: dict[ObjectKey, ApiObject] = {}
        self.version = 0
        self.watch: deque[ApiObject] = deque()
        self.lanes: dict[ObjectKey, deque[Change]] = {}
        self.allocated_at: dict[ObjectKey, int] = {}
        """The version by which each claim got the devices that it has."""
        self.waits: dict[ObjectKey, tuple[Bind, set[ObjectKey], dict[ObjectKey, str]]] = {}
        """Bindings whose claims are being written."""
        self.broken: list[str] = []
        names = [f"n{number}" for number in range(nodes)]
        self.devices = [(name, f"d{number}") for name in names for number in range(devices)]
        slices = [resource_slice(name, name, *(gpu(f"d{number}") for number in range(devices))) for name in names]
        for number in range(len(self.devices)):
            self.write(claim(f"theirs-{number}", exactly()))
        for number in range(pods):
            self.write(claim(f"ours-{number}", exactly()))
        self.see(device_class(), [node(name, cpu=64) for name in names], slices)
        self.show(len(self.watch))
        for number in range(pods):
            self.write(claiming(f"p-{number}", f"ours-{number}"))

    # -- the server --------------------------------------------------------------------------------------------

    def write(self, thing: ApiObject) -> str:
        self.version += 1
        key = kinds.key(thing)
        meta = replace(thing.metadata, uid=f"uid-{key[2]}", resource_version=str(self.version))
        self.objects[key] = thing = replace(thing, metadata=meta)
        self.watch.append(thing)
        return str(self.version)

    def claim(self, name: str) -> ResourceClaim:
        found = self.objects["ResourceClaim", "default", name]
        assert isinstance(found, ResourceClaim)
        return found

    def holders(self, device: DeviceName) -> list[ObjectKey]:
        found = []
        for key, thing in self.objects.items():
            if isinstance(thing, ResourceClaim) and thing.status.allocation is not None:
                results = thing.status.allocation.devices.results
                found += [key for result in results if (result.pool, result.device) == device]
        return found

    def bound(self) -> list[str]:
        return sorted(key[2] for key, thing in self.objects.items() if isinstance(thing, Pod) and thing.spec.node_name)

    # -- steps ---------------------------------------------------------------------------------------------------

    def other(self, number: int, device: DeviceName | None) -> None:
        """The other allocator writes a claim of its own, whatever anything else has; None gives it back."""
        there = self.claim(f"theirs-{number % len(self.devices)}")
        if (there.status.allocation is None) == (device is None):
            return
        status: Any = ResourceClaimStatus()
        if device is not None:
            result = {"request": "r", "driver": DRIVER, "pool": device[0], "device": device[1]}
            status = claim("x", status={"allocation": {"devices": {"results": [result]}}}).status
            self.allocated_at[kinds.key(there)] = self.version + 1
        self.write(replace(there, status=status))

    def show(self, count: int = 1) -> None:
        """The watch shows the next versions."""
        for _ in range(min(count, len(self.watch))):
            self.loop.seen(self.watch.popleft())
        self.check.look()

    def think(self) -> None:
        """Time passes: the loop decides if it has to, and its writes leave."""
        self.clock.move(0.1)
        for change in self.world.taken():
            if isinstance(change, Bind):
                claims = {key for key, lane in self.lanes.items() for one in lane if _is_for(one, change.key)}
                self.waits[change.key] = (change, claims, {})
                self._check_if_written(change.key)
            else:
                self.lanes.setdefault(change.key, deque()).append(change)

    def arrive(self, number: int) -> None:
        """One of our writes reaches the server, the next of some object."""
        keys = sorted(self.lanes)
        if not keys:
            return
        key = keys[number % len(keys)]
        change = self.lanes[key].popleft()
        if not self.lanes[key]:
            del self.lanes[key]
        if isinstance(change, Bind):
            self._bind(change)
        elif isinstance(change, AllocateClaim):
            self._allocate(change)
        elif isinstance(change, ReleaseClaim):
            self._release(change)

    def _allocate(self, change: AllocateClaim) -> None:
        there = self.claim(change.key[2])
        now, wanted = there.status.allocation, change.claim.status.allocation
        assert wanted is not None
        pod = pod_key(change.pod)
        if now is not None and now.devices.results != wanted.devices.results:
            self.loop.refused(change, "other devices were allocated to the claim")
            bind = self.waits.pop(pod)[0]
            self.loop.refused(bind, "a claim was not allocated")
            return
        if now is None:
            self.allocated_at[change.key] = self.version + 1
        version = self.write(replace(there, status=change.claim.status))
        _, open_, versions = self.waits[pod]
        open_.discard(change.key)
        versions[change.key] = version
        self._check_if_written(pod)

    def _release(self, change: ReleaseClaim) -> None:
        there = self.claim(change.key[2])
        if there.metadata.resource_version != change.claim.metadata.resource_version:
            self.loop.refused(change, "409")
        else:
            self.write(replace(there, status=ResourceClaimStatus()))

    def _check_if_written(self, pod: ObjectKey) -> None:
        bind, open_, versions = self.waits[pod]
        if open_:
            return
        del self.waits[pod]
        self.check.ask(bind, versions, self._answer(bind))

    def _answer(self, bind: Bind) -> Callable[[str], None]:
        def answered(why: str) -> None:
            if why:
                self.loop.refused(bind, why)
            else:
                self.lanes.setdefault(bind.key, deque()).append(bind)
                self._judge(bind)

        return answered

    def _judge(self, bind: Bind) -> None:
        """Nothing of the scheduler is used here: the server's own history says which claim had a device first."""
        own = f"ours-{bind.key[2].removeprefix('p-')}"
        allocation = self.claim(own).status.allocation
        if allocation is None:
            self.broken.append(f"{bind.key[2]} is bound without its devices")
            return
        mine = self.allocated_at["ResourceClaim", "default", own]
        for result in allocation.devices.results:
            for other in self.holders((result.pool, result.device)):
                if other[2] != own and self.allocated_at[other] < mine:
                    self.broken.append(f"{bind.key[2]} is bound to {result.device}, which {other[2]} had first")

    def _bind(self, change: Bind) -> None:
        there = self.objects[change.key]
        assert isinstance(there, Pod)
        self.write(replace(there, spec=replace(there.spec, node_name=change.binding.node)))

    def settle(self) -> None:
        """The other allocator rests, and all that is under way arrives."""
        for _ in range(400):
            if not (self.watch or self.lanes or self.world.changes or self.loop.store.is_dirty):
                self.clock.move(2)
                self.think()
                if not (self.watch or self.lanes):
                    return
            self.show(len(self.watch))
            self.think()
            self.arrive(0)
        raise AssertionError("the scheduler does not come to rest")


def _is_for(change: Change, pod: ObjectKey) -> bool:
    return isinstance(change, AllocateClaim) and pod_key(change.pod) == pod
