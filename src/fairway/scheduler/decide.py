"""`decide(state, policy, now) -> Plan`: the one pure function.

No I/O, no clock, no randomness: the same three inputs give the same bytes. The state is not changed; what it keeps for
speed (its snapshot and columns) never changes an answer.
"""

from __future__ import annotations

import gc

from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.scheduler.actions import ACTIONS
from fairway.scheduler.eviction.sparing import spare_needless
from fairway.scheduler.framework.guard import PluginDroppedError
from fairway.scheduler.framework.meter import NO_METER, Meter
from fairway.scheduler.framework.registry import Registry, default_registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.quiet import quiet_plan
from fairway.scheduler.plan import Plan
from fairway.scheduler.report.plan_maker import make_plan
from fairway.state.cluster import ClusterState


def decide(
    state: ClusterState,
    policy: Policy,
    now: Micros,
    *,
    registry: Registry | None = None,
    reasons: bool = True,
    meter: Meter = NO_METER,
) -> Plan:
    """One cycle. Without `reasons` the plan only says what to do, not who waits and why: for those who carry plans
    out, many thousand times. `meter` learns when phases end; benchmarks use it.
    """
    state.freeze_plan()
    state.compaction.run_if_due()
    if not reasons:
        plan = quiet_plan(state, policy, now)
        if plan is not None:
            return plan
    plugins = default_registry() if registry is None else registry
    dropped: dict[tuple[str, str], str] = {}
    collecting = gc.isenabled()
    gc.disable()  # it would walk the whole state several times per cycle and find nothing
    try:
        while True:
            try:
                return _decide(state, policy, now, plugins, dropped, meter, reasons=reasons)
            except PluginDroppedError as failure:
                dropped[failure.plugin, failure.hook] = f"{failure}: left out of this cycle"
    finally:
        if collecting:
            gc.enable()


def _decide(
    state: ClusterState,
    policy: Policy,
    now: Micros,
    registry: Registry,
    dropped: dict[tuple[str, str], str],
    meter: Meter,
    *,
    reasons: bool,
) -> Plan:
    session = Session(state, policy, now, registry, frozenset(dropped))
    session.warnings.extend(dropped.values())
    meter.mark("open")
    for action in policy.actions:
        ACTIONS[action.name](session, action.arguments)
        meter.mark(action.name)
    spare_needless(session)
    plan = make_plan(session, reasons=reasons)
    if reasons and session.plugins.has_external:
        len(plan.pending)  # asks them for keys, which may fail: better here than in the hands of a reader
    if reasons:
        state.before_change(plan.freeze)
    meter.mark("explain")
    return plan
