"""`SchedulerLoop`: when to decide, and what to do with the plan. It never reads a clock and never waits.

A cycle starts when something changed that the last plan did not expect, at most every `min_interval`; at the time at
which a plan asks for another one (`recheckAt`); and when the policy changed. Without a change there is no cycle.

Reasons cost more than decisions (for 1,000 pods that cannot start 27 ms against 1), and people read them, not machines:
they are computed at most every `reasons_interval`. A cycle that left them out is followed by one that has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros
from fairway.drive.change import Change
from fairway.drive.loop import DriverLoop, Timer, World
from fairway.drive.planned_changes import changes_of
from fairway.scheduler.decide import OpenCycle, decide
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.paranoid import check, check_plan
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.scheduler.reservations.objects import ReservationWriter
from fairway.state.cluster import ClusterState, Event
from fairway.state.waiting import ADMITTED_PHASES

Stopwatch = Callable[[], int]
"""Nanoseconds from an arbitrary start, for measuring how long deciding took. No decision depends on it."""

MAX_REST: Micros = 10 * SECOND
"""Reasons are computed again after this time, however long they take."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One decision, as listeners receive it."""

    number: int
    now: Micros
    plan: Plan
    changes: Sequence[Change]
    nanoseconds: int
    """How long deciding took, without reasons."""
    opened: OpenCycle | None = None
    """Set where reasons are due; open until all listeners have received the cycle."""

    @property
    def has_reasons(self) -> bool:
        return self.opened is not None

    def explain(self) -> ExplainedPlan | None:
        """The plan with its reasons, for a listener that is being called; None where they are not due. Computed when
        the first listener asks for them: where none does they cost nothing.
        """
        return None if self.opened is None else self.opened.explain()


class Listener(Protocol):
    """Is called for everything the loop does: recordings, views, metrics. A listener changes nothing."""

    def applied(self, events: Sequence[Event]) -> None:
        """These events were applied to the state."""

    def decided(self, cycle: Cycle) -> None:
        """A plan was made. The state is still the one that it was decided on."""

    def refused(self, change: Change, why: str) -> None:
        """The world did not make a change."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often the loop decides, and how often it explains."""

    min_interval: Micros = 50_000
    """Minimum time between two cycles that events started."""
    every: Micros | None = None
    """Decide at fixed times only (multiples of this after the start), as schedulers with a period do."""
    and_every: bool = False
    """With `every`: after events too."""
    reasons_interval: Micros = SECOND
    """Minimum time between two cycles with reasons. 0: every cycle has them; a negative number: none has."""
    reasons_rest: int = 0
    """Factor: the next cycle with reasons comes after so many times as long as the last one took. A user with very
    many kinds of pending pods makes reasons expensive, and the bindings of others wait meanwhile. 0 where time is
    virtual.
    """

    def after_event(self, now: Micros, start: Micros, last: Micros | None) -> Micros:
        """When to answer an event of now."""
        if self.every is not None and not self.and_every:
            return self.fixed(now, start)
        return now if last is None else max(now, last + self.min_interval)

    def fixed(self, at: Micros, start: Micros) -> Micros:
        """The first fixed time that is not before `at`."""
        assert self.every is not None
        return start + -(-(at - start) // self.every) * self.every


LIVE = Rhythm()


class _LastCycle(NamedTuple):
    """What the next cycle depends on."""

    now: Micros
    recheck_at: Micros | None
    has_reasons: bool


class SchedulerLoop(DriverLoop):
    """The loop of one cluster's scheduler."""

    def __init__(
        self,
        world: World,
        timer: Timer,
        policy: Policy,
        *,
        state: ClusterState | None = None,
        rhythm: Rhythm = LIVE,
        registry: Registry | None = None,
        listeners: Iterable[Listener] = (),
        stopwatch: Stopwatch = time.perf_counter_ns,
        makes_claims: bool = True,
        writes_first: bool = False,
        class_claims: bool = False,
    ) -> None:
        """With `writes_first` a plan is carried out before listeners receive it, so that they delay no binding: only
        for a world that answers later. `makes_claims` and `class_claims` are those of `changes_of`.
        """
        super().__init__(timer, leads=True)
        self.state = ClusterState() if state is None else state
        self.policy = policy
        self.listeners = list(listeners)
        self.cycles = 0
        self.paranoid = False
        """Whether all derived values are checked after each cycle; an `InvariantError` ends the run."""
        self._world = world
        self._rhythm = rhythm
        self._registry = registry
        self._stopwatch = stopwatch
        self._makes_claims = makes_claims
        self._writes_first = writes_first
        self.class_claims = class_claims
        self._start = timer.now()
        self._must_decide = True
        self._last: _LastCycle | None = None
        self._answered: Micros | None = None
        """When the last cycle was that an event had started. One that only computed reasons delays no other."""
        self._explained: Micros | None = None
        """When a plan last had reasons."""
        self._took: Micros = 0
        """How long the last cycle with reasons took, with what listeners made of them."""
        self._reservations = ReservationWriter()

    # -- the sink --------------------------------------------------------------------------------------------

    def settled(self, change: Change, version: str = "") -> None:
        """Accepted, but not seen yet: it stays in the overlay until its object shows it, or is past it."""
        self.store.settled(change, version)
        self._wake_if_dirty()

    def refused(self, change: Change, why: str) -> None:
        self.store.refused(change)
        for listener in self.listeners:
            listener.refused(change, why)
        self._must_decide = True
        self._wake()

    # -- leading, and the policy ----------------------------------------------------------------------------

    def lead(self, leads: bool) -> None:
        """A loop that does not lead keeps its state up to date and decides nothing."""
        self._leads = leads
        if leads:
            self._must_decide = True
            self._wake()

    def use(self, policy: Policy) -> None:
        """Decide by another policy from now on."""
        self.policy = policy
        self._must_decide = True
        self._wake()

    def explain(self) -> None:
        """Compute reasons once more, though nothing changed: what was written of the last ones did not arrive."""
        if self._last is not None and self._explained is not None:
            self._last = self._last._replace(has_reasons=False)
            self._plan(self._next_reasons(self._timer.now()))

    def resume(self, at: Micros | None) -> None:
        """The state was decided on before a restart: decide again at a time, or when something happens."""
        self.catch_up()
        self._plan_nothing()
        if at is not None:
            self._plan(at)

    # -- cycles ----------------------------------------------------------------------------------------------

    def _earliest(self, now: Micros) -> Micros:
        return self._rhythm.after_event(now, self._start, self._answered)

    def _apply(self, events: Sequence[Event], matters: bool) -> None:
        for event in events:
            self.state.apply(event)
        for listener in self.listeners:
            listener.applied(events)
        self._must_decide |= matters

    def _decide(self, now: Micros) -> None:
        if not self._must_decide and not self._is_due(now):
            return
        if self._must_decide:
            self._answered = now
        self._must_decide = False
        if self._reasons_due(now):
            begin = self._stopwatch()
            with OpenCycle(self.state, self.policy, now, registry=self._registry) as opened:
                self._carry_out(now, opened.plan, self._stopwatch() - begin, opened)
            self._took = (self._stopwatch() - begin) // 1000
        elif self._has_work():
            begin = self._stopwatch()
            plan = decide(self.state, self.policy, now, registry=self._registry)
            self._carry_out(now, plan, self._stopwatch() - begin)
        elif self._last is not None:
            # The plan would be empty, but what queues and classes have has changed: the next reasons report it.
            self._last = self._last._replace(has_reasons=False)

    def _has_work(self) -> bool:
        """Whether a plan could change anything: there are pending pods, reservations that may end, or groups without
        pods that are not admitted yet. On a quiet cluster this is what most events cost.
        """
        self.state.refresh()
        waiting = self.state.waiting
        if len(waiting) > 0 or len(self.state.reservations) > 0:
            return True
        return any(job.phase not in ADMITTED_PHASES for job in (*waiting.empty, *waiting.short))

    def _is_due(self, now: Micros) -> bool:
        """Whether the last plan asked for another one by now, or left the reasons out."""
        if self._last is None:
            return True
        recheck = self._last.recheck_at
        return (recheck is not None and recheck <= now) or self._owes_reasons(now)

    def _carry_out(self, now: Micros, plan: Plan, spent: int, opened: OpenCycle | None = None) -> None:
        if self.paranoid:
            # These checks are cycles of their own, after which this one cannot be explained.
            decided = plan if opened is None else opened.explain()
            check_plan(decided, self.state, self.policy, now, registry=self._registry)
            check(self.state, self.policy, now, registry=self._registry)
        changes = changes_of(
            plan,
            self.store,
            now,
            self._reservations,
            makes_claims=self._makes_claims,
            class_claims=self.class_claims,
            writes_reservations=not self.policy.no_reservations,
        )
        cycle = Cycle(self.cycles, now, plan, changes, spent, opened)
        self.cycles += 1
        self._last = _LastCycle(now, plan.recheck_at, cycle.has_reasons)
        if cycle.has_reasons:
            self._explained = now
        self.store.sent(changes)
        if changes and self._writes_first:
            self._world.carry_out(changes)
        for listener in self.listeners:
            listener.decided(cycle)
        if changes and not self._writes_first:
            self._world.carry_out(changes)

    def _plan_next(self, now: Micros) -> None:
        if self.store.is_dirty:
            self._plan(self._rhythm.after_event(now, self._start, now))
            return
        if self._last is None or not self._leads:
            return
        recheck = self._last.recheck_at
        if recheck is not None and recheck > now and self._has_work():
            self._plan(recheck if self._rhythm.every is None else self._rhythm.fixed(recheck, self._start))
        if self._rhythm.reasons_interval > 0 and not self._last.has_reasons:
            self._plan(self._next_reasons(now))

    # -- reasons ---------------------------------------------------------------------------------------------

    def _reasons_due(self, now: Micros) -> bool:
        interval = self._rhythm.reasons_interval
        if interval <= 0:
            return interval == 0
        return self._explained is None or now >= self._explained + self._reasons_interval

    def _next_reasons(self, now: Micros) -> Micros:
        assert self._explained is not None
        return max(now, self._explained + self._reasons_interval)

    @property
    def _reasons_interval(self) -> Micros:
        rest = min(MAX_REST, self._rhythm.reasons_rest * self._took)
        return max(self._rhythm.reasons_interval, rest)

    def _owes_reasons(self, now: Micros) -> bool:
        return self._last is not None and not self._last.has_reasons and self._reasons_due(now)
