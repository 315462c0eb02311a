"""`decide(state, policy, now) -> Plan`: the one pure function.

No I/O, no clock, no randomness: the same three inputs give the same bytes. The state is not changed; what it keeps for
speed (its snapshot and columns) never changes an answer.

    plan = decide(state, policy, now)                  what to do
    plan = decide_and_explain(state, policy, now)      and why everything else waits

A driver that writes what to do before it works out reasons takes the two steps apart. Both read the session of the
cycle, so the second must come before the state changes and before the next cycle; too late, it raises:

    with OpenCycle(state, policy, now) as cycle:
        carry_out(cycle.plan)
        report(cycle.explain())

Most cycles of a busy cluster find all jobs waiting and no capacity for any of them. Where that can be seen at a glance
(`quiet_plan`) the plan is empty, and none of what a session needs is built. It is never seen where it is not so: what
is not sure says no, and the cycle takes its ordinary course. Such a cycle cannot be explained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from fairway.api.arguments import BackfillArguments, ReserveArguments
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.devices.track.ledger import device_ledger
from fairway.errors import StaleCycleError
from fairway.scheduler.actions import ACTIONS
from fairway.scheduler.eviction.sparing import spare_needless
from fairway.scheduler.framework.candidates import may_fit
from fairway.scheduler.framework.external_plugins import PluginDroppedError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.report.explained_plan import explain_plan
from fairway.scheduler.report.order_keys import ConsideredJob, considered
from fairway.scheduler.report.plan_maker import make_plan
from fairway.scheduler.reservations.between_cycles import release_incomplete, unchanged
from fairway.scheduler.reservations.starvation import next_starvation, overdue
from fairway.state.cluster import ClusterState
from fairway.state.derived import shortcut
from fairway.state.snapshot import snapshot_of

MANY = 64
"""Of so many templates of jobs that wait each is looked at."""

QUIET_PLAN = shortcut(
    "quiet-plan",
    holds="nothing: a cycle that obviously cannot do anything opens no session",
    inputs=("snapshot", "pending jobs", "unchanged-reservations", "policy", "time"),
    saves="the session of such a cycle",
)

_UNDERSTOOD = frozenset({"enqueue", "reserve", "allocate", "reclaim", "backfill"})
"""Actions of which is known when they have nothing to do."""


def quiet_plan(state: ClusterState, policy: Policy, now: Micros) -> Plan | None:
    """The plan of a cycle that can do nothing; None if it may do something."""
    reserve = None
    for action in policy.actions:
        if action.name not in _UNDERSTOOD:
            return None
        if isinstance(action.arguments, BackfillArguments) and action.arguments.mode != "besteffort":
            return None
        if isinstance(action.arguments, ReserveArguments):
            reserve = action.arguments
    state.refresh()
    if state.broken_gangs:
        return None
    waiting = state.waiting
    if waiting.started:
        return None if reserve is None else _standing_plan(state, policy, reserve, now)
    device_ledger(state)
    snapshot = snapshot_of(state)
    if not _all_too_large(state, snapshot.max_idle()):
        return None
    if policy.action("reclaim") is not None and not _one_queue(state):
        return None
    if reserve is None:
        return _nothing(None)
    return None if overdue(state, reserve, now) else _nothing(next_starvation(waiting, reserve, now))


def _standing_plan(state: ClusterState, policy: Policy, reserve: ReserveArguments, now: Micros) -> Plan | None:
    """The plan of a cycle in which reservations stand as they did, and nothing can start."""
    known = unchanged(state)
    ends = known.still_stand(state, policy, reserve, now)
    if ends is None or (policy.action("reclaim") is not None and not _one_queue(state)):
        return None
    starvation = next_starvation(state.waiting, reserve, now)
    moments = ends if starvation is None else [*ends, starvation]
    return Plan(
        reservations=known.entries,
        recheck_at=min((moment for moment in moments if moment > now), default=None),
    )


def _all_too_large(state: ClusterState, max_idle: list[int]) -> bool:
    """Whether all that waits asks for more than any node has free. Of many templates the cycle itself knows it sooner,
    for it does not look at those again that it has found to fit nowhere.
    """
    if state.waiting.template_count > MANY:
        return False
    return not any(may_fit(run.shape, max_idle) for template in state.waiting.templates() for run in template.runs)


def _one_queue(state: ClusterState) -> bool:
    """Whether all that waits and all that is allocated is of one queue: then there is nothing to reclaim."""
    queues = {key.queue for template in state.waiting.templates() for key in template.classes}
    queues.update(job.queue for job in state.waiting.started)
    queues.update(queue.name for queue in state.queues if any(queue.allocated))
    return len(queues) <= 1


def _nothing(recheck_at: Micros | None) -> Plan:
    return Plan(recheck_at=recheck_at)


class Meter(Protocol):
    def mark(self, phase: str) -> None:
        """A phase has just ended."""


class _NoMeter:
    def mark(self, phase: str) -> None:
        pass


NO_METER: Meter = _NoMeter()


T = TypeVar("T")


def decide(
    state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None, meter: Meter = NO_METER
) -> Plan:
    """What to do. `meter` learns when phases end; benchmarks use it."""
    state.compaction.run_if_due()
    state.begin_cycle()
    if QUIET_PLAN not in state.derived.off:
        plan = quiet_plan(state, policy, now)
        if plan is not None:
            return plan

    def run(dropped: dict[tuple[str, str], str]) -> Plan:
        session = _cycle(state, policy, now, registry or default_registry(), dropped, meter, explains=False)
        plan = make_plan(session)
        unchanged(state).note(session, plan)
        session.close()
        return plan

    plan = _with_plugins_that_work(run)
    meter.mark("plan")
    return plan


def decide_and_explain(
    state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None, meter: Meter = NO_METER
) -> ExplainedPlan:
    """What to do, and why everything else waits."""
    with OpenCycle(state, policy, now, registry=registry, meter=meter) as cycle:
        return cycle.explain()


class OpenCycle:
    """A cycle that is decided and can still be explained: `plan` is there at once, `explain` works out the rest.

    The session stays open in between, and it reads the state. Once that has changed, or another cycle has begun on it
    (cycles share what the state keeps between them), there is no telling any more why jobs wait: `explain` raises
    StaleCycleError then, unless it was asked before. What both return is plain data and stays as it is.
    """

    def __init__(
        self,
        state: ClusterState,
        policy: Policy,
        now: Micros,
        *,
        registry: Registry | None = None,
        meter: Meter = NO_METER,
    ) -> None:
        state.compaction.run_if_due()
        state.begin_cycle()
        self._state = state
        self._meter = meter
        self._explained: ExplainedPlan | None = None

        def run(dropped: dict[tuple[str, str], str]) -> tuple[Session, Plan]:
            session = _cycle(state, policy, now, registry or default_registry(), dropped, meter, explains=True)
            plan = make_plan(session)
            unchanged(state).note(session, plan)
            if session.plugins.has_external:
                # Reasons need their keys, and a plugin that fails on one is left out of the cycle from its beginning.
                self._explained = explain_plan(session, plan)
            return session, plan

        self._session, self.plan = _with_plugins_that_work(run)
        self._seen = state.generation, state.cycles
        meter.mark("plan")

    def explain(self) -> ExplainedPlan:
        """The plan with its reasons, worked out once."""
        if self._explained is None:
            if self._session.closed:
                raise StaleCycleError("this cycle was closed before it was explained")
            if (self._state.generation, self._state.cycles) != self._seen:
                raise StaleCycleError("the state has changed since this cycle was decided: explain it before")
            self._explained = explain_plan(self._session, self.plan)
            self._meter.mark("explain")
        self._session.close()
        return self._explained

    def close(self) -> None:
        """Nobody is going to ask for reasons: the next cycle may use what this one had."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def consider(
    state: ClusterState, policy: Policy, now: Micros, *, registry: Registry | None = None
) -> list[ConsideredJob]:
    """The jobs that wait after one cycle, in order of consideration, each with the keys that put it there."""
    state.begin_cycle()

    def run(dropped: dict[tuple[str, str], str]) -> list[ConsideredJob]:
        session = _cycle(state, policy, now, registry or default_registry(), dropped, NO_METER, explains=True)
        make_plan(session)
        found = considered(session)
        session.close()
        return found

    return _with_plugins_that_work(run)


def _with_plugins_that_work(run: Callable[[dict[tuple[str, str], str]], T]) -> T:
    """A cycle without the hooks of plugins that fail on the way; (plugin, hook) and what is said of each."""
    dropped: dict[tuple[str, str], str] = {}
    while True:
        try:
            return run(dropped)
        except PluginDroppedError as failure:
            dropped[failure.plugin, failure.hook] = f"{failure}: left out of this cycle"


def _cycle(
    state: ClusterState,
    policy: Policy,
    now: Micros,
    registry: Registry,
    dropped: dict[tuple[str, str], str],
    meter: Meter,
    *,
    explains: bool,
) -> Session:
    """All actions of the policy, carried out in a session."""
    session = Session(state, policy, now, registry, frozenset(dropped), explains=explains)
    session.decisions.warnings.extend(dropped.values())
    meter.mark("open")
    for action in policy.actions:
        ACTIONS[action.name](session, action.arguments)
        meter.mark(action.name)
    if session.decisions.settled:
        spare_needless(session)
    release_incomplete(session)
    return session
