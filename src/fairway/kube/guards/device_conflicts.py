"""Pods that run with devices which another claim has too: said on the pod, by an event and a condition.

An allocator that does not look before it binds can give a device that a pod of ours has already. Nothing here can undo
that: one of the pods has to go, and which one is for people to decide. The pod says so for as long as it is so:

    fairway.dev/DeviceConflict   True    device gpu-0 of pool n1 is allocated to another claim too
                                 False   when it is over

The other claim is named only where it is of the same namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fairway.api import kinds
from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition, ConditionStatus
from fairway.api.pods import Pod
from fairway.clock import SECOND, Micros, to_datetime
from fairway.devices.model.pools import PoolKey
from fairway.devices.track.ledger import device_ledger
from fairway.devices.track.node import SlotAllocation
from fairway.devices.track.occupancy import DeviceConflict, conflicts, user_of
from fairway.drive import Change, Cycle, ObjectStore, pod_key
from fairway.kube.requests.events import Regarding
from fairway.kube.requests.statuses import StatusWrite, pod_condition
from fairway.state.cluster import ClusterState, Event

CONDITION = "fairway.dev/DeviceConflict"
REASON = "DeviceConflict"

Say = Callable[[Regarding, str, str, str, Micros], None]
"""An event: about what, reason, action, text, when."""


class DeviceConflictWriter:
    """A listener of the loop, on its thread. It looks at nodes of whose devices claims changed, and no others."""

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        submit: Callable[[Sequence[StatusWrite]], None],
        say: Say,
    ) -> None:
        self._state = state
        self._store = store
        self._submit = submit
        self._say = say
        self._pools: set[PoolKey] = set()
        """Pools of whose devices claims changed since the last look."""
        self._claimed_pools: dict[ObjectKey, tuple[PoolKey, ...]] = {}
        self._said: dict[ObjectKey, tuple[str, int]] = {}
        """What pods say, and the row of their node."""

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            thing = event.object
            if isinstance(thing, ResourceClaim):
                self._note(kinds.key(thing))
            elif isinstance(thing, Pod) and any(one.type == CONDITION for one in thing.status.conditions):
                self._note_pod(kinds.key(thing))

    def decided(self, cycle: Cycle) -> None:
        if not self._pools:
            return
        pools, self._pools = self._pools, set()
        ledger = device_ledger(self._state)
        rows = ledger.rows_with(pools)
        found: dict[ObjectKey, tuple[str, int]] = {}
        for row in sorted(rows):
            node = ledger.nodes.get(row)
            for conflict in conflicts(node) if node is not None else ():
                for key, own in self._users(conflict):
                    found.setdefault(key, (_message(conflict, key[1], own), row))
        before = {key: said for key, said in self._said.items() if said[1] in rows}
        writes = [*self._begun(found, cycle.now), *self._ended(before.keys() - found.keys(), cycle.now)]
        if writes:
            self._submit(writes)

    def refused(self, change: Change, why: str) -> None: ...

    # -- what to look at ---------------------------------------------------------------------------------------

    def _note(self, key: ObjectKey) -> None:
        claim = self._store.get(key)
        self._pools.update(self._claimed_pools.pop(key, ()))
        allocation = claim.status.allocation if isinstance(claim, ResourceClaim) else None
        if allocation is not None:
            pools = tuple(dict.fromkeys((one.driver, one.pool) for one in allocation.devices.results))
            self._claimed_pools[key] = pools
            self._pools.update(pools)

    def _note_pod(self, key: ObjectKey) -> None:
        """What an earlier process wrote on it is known again."""
        pod = self._store.get(key)
        said = _said_by(pod) if isinstance(pod, Pod) else None
        row = self._state.nodes.rows.get(pod.spec.node_name) if isinstance(pod, Pod) else None
        if said is None or row is None:
            self._said.pop(key, None)
        else:
            self._said[key] = said.message, row

    # -- what is said --------------------------------------------------------------------------------------------

    def _users(self, conflict: DeviceConflict) -> Iterator[tuple[ObjectKey, set[str]]]:
        """Pods of ours that are bound and use what is in conflict, and by which claims."""
        found: dict[ObjectKey, set[str]] = {}
        for allocation in conflict.allocations:
            for key in self._pods_of(allocation):
                found.setdefault(key, set()).add(user_of(allocation))
        for key, own in found.items():
            pod = self._store.get(key)
            if isinstance(pod, Pod) and pod.spec.node_name and self._is_ours(pod) and conflict.users - own:
                yield key, own

    def _pods_of(self, allocation: SlotAllocation) -> list[ObjectKey]:
        if not allocation.claim:
            return [pod_key(allocation.holder)]
        namespace, _, name = allocation.claim.partition("/")
        claim = self._store.get(("ResourceClaim", namespace, name))
        users = claim.status.reserved_for if isinstance(claim, ResourceClaim) else ()
        return [("Pod", namespace, user.name) for user in users if user.resource == "pods" and not user.api_group]

    def _is_ours(self, pod: Pod) -> bool:
        names = self._state.scheduler_names
        return names is None or pod.spec.scheduler_name in names

    def _begun(self, found: dict[ObjectKey, tuple[str, int]], now: Micros) -> Iterator[StatusWrite]:
        for key, (message, row) in found.items():
            pod, known = self._store.get(key), self._said.get(key)
            self._said[key] = message, row
            if not isinstance(pod, Pod) or (known is not None and known[0] == message):
                continue
            about = Regarding("v1", "Pod", key[1], key[2], pod.metadata.uid)
            self._say(about, REASON, "Allocating", message, now)
            yield pod_condition(key, pod.metadata.uid, _condition("True", message, now))

    def _ended(self, keys: Iterable[ObjectKey], now: Micros) -> Iterator[StatusWrite]:
        for key in sorted(keys):
            del self._said[key]
            pod = self._store.get(key)
            if isinstance(pod, Pod):
                message = "no other claim has its devices any more"
                yield pod_condition(key, pod.metadata.uid, _condition("False", message, now))


def _message(conflict: DeviceConflict, namespace: str, own: set[str]) -> str:
    """For one of the pods: what it shares against its will, and with what, as far as its owner may know that."""
    others = sorted(
        {
            f"{'claim' if allocation.claim else 'pod'} {user_of(allocation)}"
            for allocation in conflict.allocations
            if user_of(allocation).startswith(f"{namespace}/") and user_of(allocation) not in own
        }
    )
    return f"device {conflict.names} is allocated to {', '.join(others) or 'a claim of another namespace'} too"


def _said_by(pod: Pod) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == CONDITION and one.status == "True"), None)


def _condition(status: ConditionStatus, message: str, now: Micros) -> Condition:
    return Condition(CONDITION, status, REASON, message, to_datetime(now // SECOND * SECOND))
