"""`check(state)`: the ledger of devices must be what a new one would make of the same state."""

from __future__ import annotations

from fairway.devices.track.ledger import DeviceLedger
from fairway.state.cluster import ClusterState


def check(state: ClusterState) -> None:
    """Raise InvariantError at the first thing in which the kept ledger and a new one differ."""
    kept = state.derived.kept(DeviceLedger)
    if kept is not None:
        kept.check()
