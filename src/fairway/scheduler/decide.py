"""`decide(state, policy, now) -> Plan`: the one pure function.

No I/O, no clock, no randomness: the same three inputs give the same bytes. The state is not changed; what it keeps for
speed (its snapshot and columns) never changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.scheduler.actions import ACTIONS
from fairway.scheduler.eviction.sparing import spare_needless
from fairway.scheduler.framework.guard import PluginDroppedError
from fairway.scheduler.framework.meter import NO_METER, Meter
from fairway.scheduler.framework.registry import Registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.quiet import quiet_plan
from fairway.scheduler.report.order import ConsideredJob, considered
from fairway.scheduler.report.plan_maker import make_plan
from fairway.state.cluster import ClusterState

T = TypeVar("T")


def decide(
    state: ClusterState,
    policy: Policy,
    now: Micros,
    *,
    registry: Registry | None = None,
    reasons: bool = True,
    meter: Meter = NO_METER,
) -> Plan:
    """One cycle. Without `reasons` the plan only says what to do, not which jobs wait and why: for drivers that carry
    plans out, many thousand times. `meter` learns when phases end; benchmarks use it.
    """
    state.freeze_plan()
    state.compaction.run_if_due()
    if not reasons:
        plan = quiet_plan(state, policy, now)
        if plan is not None:
            return plan
    return _with_plugins_that_work(
        lambda dropped: _decide(state, policy, now, registry or default_registry(), dropped, meter, reasons=reasons)
    )


def consider(
    state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None
) -> list[ConsideredJob]:
    """The jobs that wait after one cycle, in order of consideration, each with the keys that put it there."""
    state.freeze_plan()

    def ask(dropped: dict[tuple[str, str], str]) -> list[ConsideredJob]:
        session = _cycle(state, policy, now, registry or default_registry(), dropped, NO_METER)
        make_plan(session, reasons=True)
        return considered(session)

    return _with_plugins_that_work(ask)


def _with_plugins_that_work(ask: Callable[[dict[tuple[str, str], str]], T]) -> T:
    """An answer without the hooks of plugins that fail on the way; (plugin, hook) and what is said of each."""
    dropped: dict[tuple[str, str], str] = {}
    while True:
        try:
            return ask(dropped)
        except PluginDroppedError as failure:
            dropped[failure.plugin, failure.hook] = f"{failure}: left out of this cycle"


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
    session = _cycle(state, policy, now, registry, dropped, meter)
    plan = make_plan(session, reasons=reasons)
    if reasons and session.plugins.has_external:
        len(plan.pending)  # asks them for keys, which may fail: better here than in the hands of a reader
    if reasons:
        state.before_change(plan.freeze)
    meter.mark("explain")
    return plan


def _cycle(
    state: ClusterState,
    policy: Policy,
    now: Micros,
    registry: Registry,
    dropped: dict[tuple[str, str], str],
    meter: Meter,
) -> Session:
    """All actions of the policy, carried out in a session."""
    session = Session(state, policy, now, registry, frozenset(dropped))
    session.decisions.warnings.extend(dropped.values())
    meter.mark("open")
    for action in policy.actions:
        ACTIONS[action.name](session, action.arguments)
        meter.mark(action.name)
    spare_needless(session)
    return session
