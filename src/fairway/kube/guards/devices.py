"""Devices of pods that are bound, about to be bound, and never bound (spec K14).

**`ClaimGuard` releases claims of pods that were never bound.** A claim is allocated before its pod is bound. If the
bind is refused, or the process ends between the two, the claim holds devices for a pod that may never run where they
are. After each cycle the guard checks the claims whose pods are all pending and not bound by that cycle either: they
are released, and the pods may be placed anywhere. It reads everything from the claims and pods themselves, so it holds
across a crash.

**`DeviceCheck` asks before a bind whether the devices are the pod's alone.** The API server accepts any allocation:
another allocator may have written the same device into its own claim a moment before, and this scheduler had not seen
it. A watch shows writes in order. So once it has shown our own write, everything that was written before was seen, and
the devices are checked again. Whoever wrote first finds nothing and continues; whoever wrote second gives its devices
back and decides again. An allocator that does not check is not stopped by this; the conflict is reported:

**`DeviceConflictWriter` reports pods that run with devices of another claim**, by an event and a condition. Nothing
here can undo that: one of the pods has to go, and people decide which one. The pod has the condition for as long as the
conflict lasts. The other claim is named only if it is in the same namespace.

    fairway.dev/DeviceConflict   True    device gpu-0 of pool n1 is allocated to another claim too
                                 False   when it is over
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

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
from fairway.drive import Bind, Change, Cycle, ObjectStore, ReleaseClaim, pod_key
from fairway.kube.requests.statuses import Regarding, StatusWrite, pod_condition
from fairway.kube.writing.world import Versions
from fairway.state.cluster import ClusterState, Event


class ClaimGuard:
    """A listener of the loop, on its thread. Only claims that changed, or whose pods did, are checked."""

    def __init__(self, state: ClusterState, store: ObjectStore, carry_out: Callable[[Sequence[Change]], None]) -> None:
        self._state = state
        self._store = store
        self._carry_out = carry_out
        self._of_pod: dict[ObjectKey, set[ObjectKey]] = {}
        """The claims that are reserved for each pod."""
        self._users: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._touched: dict[ObjectKey, None] = {}
        self._contested: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        """Claims with devices that other claims have too, by the pod that is not bound for that reason."""

    def contested(self, pod: ObjectKey, claims: Iterable[ObjectKey]) -> bool:
        """A pod is about to be bound with devices that another claim has too. Returns whether its claims can be
        released: then it must not be bound, and they are released once the refusal is reported.
        """
        own = tuple(key for key in claims if self._release(key, but=pod) is not None)
        if own:
            self._contested[pod] = own
        return bool(own)

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            thing = event.object
            if isinstance(thing, ResourceClaim):
                self._note(kinds.key(thing))
            elif isinstance(thing, Pod) and self._of_pod:
                self._touched.update(dict.fromkeys(self._of_pod.get(kinds.key(thing), ())))

    def decided(self, cycle: Cycle) -> None:
        """Called when the changes of the cycle are in effect: pods that it binds count as bound."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        released = [change for key in touched if (change := self._release(key)) is not None]
        if released:
            self._carry_out(released)  # not through the overlay: the released claim starts a cycle when it is seen

    def refused(self, change: Change, why: str) -> None:
        """A pod is not bound after all, or a claim is not released. Devices that did not become ready, or that another
        claim has too, are released before the next decision, which would choose them again.
        """
        returned = (*change.awaits, *self._contested.pop(change.key, ())) if isinstance(change, Bind) else ()
        if returned:
            released = [release for key in dict.fromkeys(returned) if (release := self._release(key)) is not None]
            self._store.sent(released)
            if released:
                self._carry_out(released)
        if change.key in self._users:
            self._touched[change.key] = None
        self._touched.update(dict.fromkeys(self._of_pod.get(change.key, ())))

    def _note(self, key: ObjectKey) -> None:
        claim = self._store.get(key)
        for pod in self._users.pop(key, ()):
            claims = self._of_pod[pod]
            claims.discard(key)
            if not claims:
                del self._of_pod[pod]
        if not isinstance(claim, ResourceClaim) or claim.status.allocation is None:
            return
        self._users[key] = users = tuple(
            ("Pod", claim.metadata.namespace, user.name)
            for user in claim.status.reserved_for
            if user.resource == "pods"
        )
        for pod in users:
            self._of_pod.setdefault(pod, set()).add(key)
        self._touched[key] = None

    def _release(self, key: ObjectKey, but: ObjectKey | None = None) -> ReleaseClaim | None:
        """None if a user of the claim is bound, or unknown: it may run. `but` counts as pending."""
        claim = self._store.get(key)
        if not isinstance(claim, ResourceClaim) or claim.status.allocation is None or not claim.status.reserved_for:
            return None
        for user in claim.status.reserved_for:
            if user.resource != "pods" or user.api_group:
                return None
            if ("Pod", key[1], user.name) != but and not self._is_pending(key[1], user.name, user.uid):
                return None
        return ReleaseClaim(key, claim.metadata.uid, claim)

    def _is_pending(self, namespace: str, name: str, uid: str) -> bool:
        """Whether this is a pod of ours without a node. An unknown pod may be another scheduler's."""
        pod = self._store.get(("Pod", namespace, name))
        if not isinstance(pod, Pod) or pod.metadata.uid != uid or not pod.is_waiting:
            return False
        return f"{namespace}/{name}" in self._state.tasks


# -- before a bind -----------------------------------------------------------------------------------------------------


class _OpenCheck(NamedTuple):
    bind: Bind
    versions: Versions
    answer: Callable[[str], None]


class DeviceCheck:
    """Used on the loop's thread. `catch_up` applies what the store has seen to the state."""

    def __init__(
        self, state: ClusterState, store: ObjectStore, guard: ClaimGuard, catch_up: Callable[[], None]
    ) -> None:
        self._state = state
        self._store = store
        self._guard = guard
        self._catch_up = catch_up
        self._open: list[_OpenCheck] = []

    def ask(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """Calls `answer` with "" once it is certain that the pod may be bound, or with the reason why not."""
        self._open.append(_OpenCheck(bind, versions, answer))
        self.look()

    def look(self) -> None:
        """Called when something was seen."""
        ready = [check for check in self._open if self._is_shown(check)]
        if not ready:
            return
        self._open = [check for check in self._open if not self._is_shown(check)]
        self._catch_up()
        for check in ready:
            check.answer(self._verdict(check))

    def _is_shown(self, check: _OpenCheck) -> bool:
        return all(self._store.has_shown(key, version) for key, version in check.versions.items())

    def _verdict(self, check: _OpenCheck) -> str:
        bind = check.bind
        for key in check.versions:
            claim = self._store.get(key)
            if not isinstance(claim, ResourceClaim):
                return f"claim {key[2]} is gone"
            if claim.status.allocation is None:
                return f"claim {key[2]} is no longer allocated"
        claims = {*check.versions, *bind.awaits}
        conflict = self._conflict(bind, claims)
        if conflict is None or not self._guard.contested(bind.key, sorted(claims)):
            return ""
        return f"another claim was allocated device {conflict.names} on {bind.binding.node} first"

    def _conflict(self, bind: Bind, claims: set[ObjectKey]) -> DeviceConflict | None:
        ledger = device_ledger(self._state)
        row = self._state.nodes.rows.get(bind.binding.node)
        node = None if row is None else ledger.nodes.get(row)
        if node is None:
            return None
        own = {bind.binding.pod, *(f"{namespace}/{name}" for _, namespace, name in claims)}
        contested = (conflict for conflict in conflicts(node) if own & conflict.users and conflict.users - own)
        return next(contested, None)


# -- after it ----------------------------------------------------------------------------------------------------------


CONDITION = "fairway.dev/DeviceConflict"
REASON = "DeviceConflict"

Warn = Callable[[Regarding, str, str, str, Micros], None]
"""Writes a warning event: object, reason, action, text, time."""


class DeviceConflictWriter:
    """A listener of the loop, on its thread. It checks only nodes with devices whose claims changed."""

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        submit: Callable[[Sequence[StatusWrite]], None],
        warn: Warn,
    ) -> None:
        self._state = state
        self._store = store
        self._submit = submit
        self._warn = warn
        self._pools: set[PoolKey] = set()
        """Pools with devices whose claims changed since the last check."""
        self._claimed_pools: dict[ObjectKey, tuple[PoolKey, ...]] = {}
        self._shown: dict[ObjectKey, tuple[str, int]] = {}
        """The message on each pod, and the row of its node."""

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
        messages: dict[ObjectKey, tuple[str, int]] = {}
        for row in sorted(rows):
            node = ledger.nodes.get(row)
            for conflict in conflicts(node) if node is not None else ():
                for key, own in self._users(conflict):
                    messages.setdefault(key, (_message(conflict, key[1], own), row))
        before = {key: shown for key, shown in self._shown.items() if shown[1] in rows}
        writes = [*self._begun(messages, cycle.now), *self._ended(before.keys() - messages.keys(), cycle.now)]
        if writes:
            self._submit(writes)

    def refused(self, change: Change, why: str) -> None: ...

    # -- what to check ------------------------------------------------------------------------------------------

    def _note(self, key: ObjectKey) -> None:
        claim = self._store.get(key)
        self._pools.update(self._claimed_pools.pop(key, ()))
        allocation = claim.status.allocation if isinstance(claim, ResourceClaim) else None
        if allocation is not None:
            pools = tuple(dict.fromkeys((one.driver, one.pool) for one in allocation.devices.results))
            self._claimed_pools[key] = pools
            self._pools.update(pools)

    def _note_pod(self, key: ObjectKey) -> None:
        """Takes over what an earlier process wrote on the pod."""
        pod = self._store.get(key)
        shown = _shown_by(pod) if isinstance(pod, Pod) else None
        row = self._state.nodes.rows.get(pod.spec.node_name) if isinstance(pod, Pod) else None
        if shown is None or row is None:
            self._shown.pop(key, None)
        else:
            self._shown[key] = shown.message, row

    # -- what is written -----------------------------------------------------------------------------------------

    def _users(self, conflict: DeviceConflict) -> Iterator[tuple[ObjectKey, set[str]]]:
        """Bound pods of ours that use the contested devices, and by which claims."""
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

    def _begun(self, messages: dict[ObjectKey, tuple[str, int]], now: Micros) -> Iterator[StatusWrite]:
        for key, (message, row) in messages.items():
            pod, last = self._store.get(key), self._shown.get(key)
            self._shown[key] = message, row
            if not isinstance(pod, Pod) or (last is not None and last[0] == message):
                continue
            about = Regarding("v1", "Pod", key[1], key[2], pod.metadata.uid)
            self._warn(about, REASON, "Allocating", message, now)
            yield pod_condition(key, pod.metadata.uid, _condition("True", message, now))

    def _ended(self, keys: Iterable[ObjectKey], now: Micros) -> Iterator[StatusWrite]:
        for key in sorted(keys):
            del self._shown[key]
            pod = self._store.get(key)
            if isinstance(pod, Pod):
                message = "no other claim has its devices"
                yield pod_condition(key, pod.metadata.uid, _condition("False", message, now))


def _message(conflict: DeviceConflict, namespace: str, own: set[str]) -> str:
    """For one of the pods: the contested device and its other users, as far as the owner of the pod may see them."""
    others = sorted(
        {
            f"{'claim' if allocation.claim else 'pod'} {user_of(allocation)}"
            for allocation in conflict.allocations
            if user_of(allocation).startswith(f"{namespace}/") and user_of(allocation) not in own
        }
    )
    return f"device {conflict.names} is allocated to {', '.join(others) or 'a claim of another namespace'} too"


def _shown_by(pod: Pod) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == CONDITION and one.status == "True"), None)


def _condition(status: ConditionStatus, message: str, now: Micros) -> Condition:
    return Condition(CONDITION, status, REASON, message, to_datetime(now // SECOND * SECOND))
