"""`--paranoid`: the state's invariants, and that the columns kept between cycles equal fresh ones.

A kept column is brought up to date by looking at what has changed since. Should a change not be logged, or a plugin's
answer for a node depend on more than that node, the shape and what it names as its `basis`, the kept column goes wrong
and stays wrong; the comparison with one computed from nothing shows it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairway.api.hooks import COLUMN_HOOKS
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.devices.track.ledger import check_ledger
from fairway.errors import InvariantError
from fairway.scheduler.framework.external_plugins import PluginDroppedError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import INFEASIBLE, Kernel
from fairway.scheduler.placement.node_view import Columns
from fairway.scheduler.plugins.installed import default_registry
from fairway.state import invariants
from fairway.state.cluster import ClusterState
from fairway.state.shapes import Shape


def check(state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None) -> None:
    """Raise InvariantError at the first thing that contradicts the rest."""
    state.begin_cycle()
    invariants.check(state)
    check_ledger(state)
    plugins = default_registry() if registry is None else registry
    dropped: set[tuple[str, str]] = set()
    while True:
        try:
            return _check_columns(Session(state, policy, now, plugins, frozenset(dropped)))
        except PluginDroppedError as failure:  # as `decide` does
            dropped.add((failure.plugin, failure.hook))


def _check_columns(session: Session) -> None:
    alone = replace(session.nodes.kernel.hooks, shares_static=False)
    fresh = Kernel(session.nodes.snapshot, alone, Columns(session.state.column_bytes), session.nodes.pods)
    fresh.reserved, fresh.reserved_slots = session.nodes.kernel.reserved, session.nodes.kernel.reserved_slots
    names = session.plugins.external_names(*COLUMN_HOOKS)
    doubt = f"; external plugins with a say on nodes: {', '.join(names)}" if names else ""
    for shape in session.nodes.kernel.kept_shapes():
        _compare(session.nodes.kernel, fresh, shape, doubt)


def _compare(kept: Kernel, fresh: Kernel, shape: Shape, doubt: str) -> None:
    column, again = kept.column(shape), fresh.column(shape)
    names = kept.snapshot.names
    if column.around != again.around:
        raise InvariantError(f"whether {shape!r} looks around: kept {column.around}, recomputed {again.around}{doubt}")
    differs = np.minimum(column.keys, INFEASIBLE) != np.minimum(again.keys, INFEASIBLE)
    for row in np.flatnonzero(differs & kept.snapshot.alive):
        one, other = int(column.keys[row]), int(again.keys[row])
        raise InvariantError(f"key of node {names[row]} for {shape!r}: kept {one}, recomputed {other}{doubt}")
