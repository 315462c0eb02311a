"""`--paranoid`: every total recomputed, every kept column compared, and every cycle decided twice.

`check` compares what the state keeps with a recomputation: its own sums, each derived value, and the columns of the
policy. A kept column is updated by looking at what has changed since; should a change not be logged, or a plugin's
answer for a node depend on more than that node, the shape and what it names as its `basis`, the column goes wrong and
stays wrong.

`check_plan` covers the rest: conclusions of earlier cycles (reservations that stand, templates that fit nowhere) and
the shortcuts. It decides the same cycle again with nothing kept, which is the definition of the plan, and compares.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairway.api.hooks import COLUMN_HOOKS
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.devices.select.cel_selectors import SelectorAnswers
from fairway.devices.track.ledger import check_ledger
from fairway.errors import InvariantError
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.framework.external_plugins import PluginDroppedError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import INFEASIBLE, Kernel
from fairway.scheduler.placement.node_view import Columns
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.report.explain import KeptReasons
from fairway.state import invariants
from fairway.state.cluster import ClusterState
from fairway.state.shapes import Shape

_BOUGHT = (SelectorAnswers.declared.name, KeptReasons.declared.name)
"""What namespaces have paid for from their scheduling budgets: kept, or the same cycle would cost them more."""


def check_plan(
    plan: Plan, state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None
) -> None:
    """Raise InvariantError if the cycle that led to a plan leads to another one when nothing is kept. The state must
    not have changed since.
    """
    again = decide_and_explain if isinstance(plan, ExplainedPlan) else decide
    limited = state.namespace_budgets.limit is not None
    with state.derived.aside(but=_BOUGHT if limited else ()):
        defined = again(state, policy, now, registry=registry)
    if plan != defined:
        part = next(name for name in plan.__struct_fields__ if getattr(plan, name) != getattr(defined, name))
        kept, built = _clip(getattr(plan, part)), _clip(getattr(defined, part))
        raise InvariantError(f"{part} of the plan: {kept} with derived values, {built} without")


def _clip(part: object) -> str:
    text = repr(part)
    return text if len(text) <= 2000 else f"{text[:2000]}..."


def check(state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None) -> None:
    """Raise InvariantError at the first kept value that differs from its recomputation."""
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
