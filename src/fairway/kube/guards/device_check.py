"""Whether the devices that were just allocated to a pod are its alone, before it is bound.

The API server takes any allocation: another allocator may have written the same device into its own claim a moment
before, and this scheduler had not seen it. A watch shows what was written in order. So once it has shown our own write,
all that was written before is known, and the devices are looked at again. Whoever wrote first finds nothing and goes
on; whoever wrote second gives its devices back and decides again. An allocator that does not look is not stopped by
this: what it does after ours was bound is reported (`device_conflicts`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ObjectKey
from fairway.devices.track.ledger import device_ledger
from fairway.devices.track.occupancy import DeviceConflict, conflicts
from fairway.drive import Bind, ObjectStore
from fairway.kube.guards.claim_guard import ClaimGuard
from fairway.kube.writing.world import Versions
from fairway.state.cluster import ClusterState


class _OpenCheck(NamedTuple):
    bind: Bind
    versions: Versions
    answer: Callable[[str], None]


class DeviceCheck:
    """Used on the loop's thread. `catch_up` tells the state what the store has seen."""

    def __init__(
        self, state: ClusterState, store: ObjectStore, guard: ClaimGuard, catch_up: Callable[[], None]
    ) -> None:
        self._state = state
        self._store = store
        self._guard = guard
        self._catch_up = catch_up
        self._open: list[_OpenCheck] = []

    def ask(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """Answer with "" when it is sure that the pod may be bound, or with why it may not."""
        self._open.append(_OpenCheck(bind, versions, answer))
        self.look()

    def look(self) -> None:
        """Something was seen."""
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
                return f"claim {key[2]} is not allocated any more"
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
        found = (conflict for conflict in conflicts(node) if own & conflict.users and conflict.users - own)
        return next(found, None)
