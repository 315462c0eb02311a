"""`check(state)`: the ledger of devices must be what a new one would make of the same state."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairway.devices.track.ledger import DeviceLedger
from fairway.errors import InvariantError
from fairway.state.cluster import ClusterState


def check(state: ClusterState) -> None:
    """Raise InvariantError at the first thing in which the kept ledger and a new one differ."""
    kept = state.derived.kept(DeviceLedger)
    if kept is None:
        return
    kept.sync()
    nodes, size = state.nodes, len(state.axis)
    before = [table.data[:size].copy() for table in (nodes.allocatable, nodes.drawn)]
    fresh = DeviceLedger(state)
    fresh.sync()
    _same("rows with devices", sorted(kept.nodes), sorted(fresh.nodes))
    for row, node in kept.nodes.items():
        name, other = nodes.names[row], fresh.nodes[row]
        _same(f"users of devices on {name}", sorted(node.allocations), sorted(other.allocations))
        _same(f"classes of devices on {name}", node.selectable_by, other.selectable_by)
        _same(f"what is taken of devices on {name}", node.free.key(), other.free.key())
    _same("classes' sums", dict(kept.columns.copy_of_sums()), dict(fresh.columns.copy_of_sums()))
    _same("devices by owner", kept.columns.accounts, fresh.columns.accounts)
    _same("resources given as devices", kept.columns.contested, fresh.columns.contested)
    for what, one, table in zip(("has", "gives by class"), before, (nodes.allocatable, nodes.drawn), strict=True):
        if not np.array_equal(one, table.data[:size]):
            raise InvariantError(f"what a node {what} of devices: kept amounts differ from recomputed ones")


def _same(what: str, kept: Any, recomputed: Any) -> None:
    if kept != recomputed:
        raise InvariantError(f"{what}: kept {kept!r}, recomputed {recomputed!r}")
