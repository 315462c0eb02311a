"""Claims that were allocated for pods which were never bound: released, so that the devices are free again (spec K14).

A claim is allocated before its pod is bound. If the binding is refused, or the process ends between the two, the claim
holds devices for a pod that may never run where they are. After each cycle the claims are looked at whose pods all wait
and are not bound by that cycle either: they are released, and the pods may be placed anywhere. All is read from the
claims and pods themselves, so it holds across a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fairway.api import kinds
from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ObjectKey
from fairway.api.pods import Pod
from fairway.drive import Bind, Change, Cycle, ObjectStore, ReleaseClaim
from fairway.state.cluster import ClusterState, Event


class ClaimGuard:
    """A listener of the loop, on its thread. It costs what changed: only claims that were touched are looked at."""

    def __init__(self, state: ClusterState, store: ObjectStore, carry_out: Callable[[Sequence[Change]], None]) -> None:
        self._state = state
        self._store = store
        self._carry_out = carry_out
        self._of_pod: dict[ObjectKey, set[ObjectKey]] = {}
        """The claims that are reserved for a pod."""
        self._users: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._touched: dict[ObjectKey, None] = {}
        self._contested: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        """Claims with devices that other claims have too, by the pod that is not bound because of that."""

    def contested(self, pod: ObjectKey, claims: Iterable[ObjectKey]) -> bool:
        """A pod is about to be bound with devices that are not its own alone. Whether its claims can be given back:
        then it must not be bound, and they are released when that is reported.
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
        """Called when what the cycle decided counts already: pods that it binds are bound."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        released = [change for key in touched if (change := self._release(key)) is not None]
        if released:
            self._carry_out(released)  # not counted as sent: that a claim is free again starts a cycle when it is seen

    def refused(self, change: Change, why: str) -> None:
        """A pod that is not bound after all, or a claim that is not released. Devices that did not become ready, or
        that another claim has too, are given back before the next decision, which would take them again.
        """
        given_back = (*change.awaits, *self._contested.pop(change.key, ())) if isinstance(change, Bind) else ()
        if given_back:
            released = [found for key in dict.fromkeys(given_back) if (found := self._release(key)) is not None]
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
        """None where a pod has it that runs, or may run: one that is bound or another's. `but` counts as waiting."""
        claim = self._store.get(key)
        if not isinstance(claim, ResourceClaim) or claim.status.allocation is None or not claim.status.reserved_for:
            return None
        for user in claim.status.reserved_for:
            if user.resource != "pods" or user.api_group:
                return None
            if ("Pod", key[1], user.name) != but and not self._waits(key[1], user.name, user.uid):
                return None
        return ReleaseClaim(key, claim.metadata.uid, claim)

    def _waits(self, namespace: str, name: str, uid: str) -> bool:
        """Whether this is a pod of ours without a node. One that is not known may be another scheduler's."""
        pod = self._store.get(("Pod", namespace, name))
        if not isinstance(pod, Pod) or pod.metadata.uid != uid or not pod.is_waiting:
            return False
        return f"{namespace}/{name}" in self._state.tasks
