"""The loop: when it decides, when it says why, and what it leaves alone. Time is a list of calls that a test makes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.clock import SECOND, Micros
from fairway.drive.change import Bind, Change
from fairway.drive.scheduler_loop import Cycle, Rhythm, SchedulerLoop
from fairway.errors import StaleCycleError
from fairway.scheduler import decide
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import Event
from support.engine import policy
from support.objects import NOW, group, node, pod


class Clock:
    """A timer whose time passes when a test says so."""

    def __init__(self) -> None:
        self._now = NOW
        self._calls: list[tuple[Micros, int, Callable[[], None]]] = []
        self._cancelled: set[int] = set()
        self._number = 0

    def now(self) -> Micros:
        return self._now

    def call_at(self, when: Micros, call: Callable[[], None]) -> _Handle:
        self._number += 1
        heapq.heappush(self._calls, (max(when, self._now), self._number, call))
        return _Handle(self._cancelled, self._number)

    @property
    def planned(self) -> int:
        """How many calls were planned in all."""
        return self._number

    def advance(self, to: Micros) -> None:
        while self._calls and self._calls[0][0] <= NOW + to:
            when, number, call = heapq.heappop(self._calls)
            if number not in self._cancelled:
                self._now = when
                call()
        self._now = max(self._now, NOW + to)


class _Handle:
    def __init__(self, cancelled: set[int], number: int) -> None:
        self._cancelled = cancelled
        self._number = number

    def cancel(self) -> None:
        self._cancelled.add(self._number)


class Collecting:
    """A world that only remembers what it was told to do, and a listener that remembers every cycle."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.cycles: list[Cycle] = []
        self.explained: list[ExplainedPlan] = []
        self.events: list[Event] = []
        self.refusals: list[str] = []

    def carry_out(self, changes: Sequence[Change]) -> None:
        self.changes += changes

    def applied(self, events: Sequence[Event]) -> None:
        self.events += events

    def decided(self, cycle: Cycle) -> None:
        self.cycles.append(cycle)
        plan = cycle.explain()
        if plan is not None:
            self.explained.append(plan)

    def refused(self, change: Change, why: str) -> None:
        self.refusals.append(why)


class Kept(Collecting):
    """A listener that holds the cycle beyond its call."""

    cycle: Cycle | None = None

    def decided(self, cycle: Cycle) -> None:
        self.cycle = cycle


class Loop:
    def __init__(self, *objects: ApiObject, rhythm: Rhythm | None = None, chosen: Policy | None = None) -> None:
        self.clock, self.world = Clock(), Collecting()
        self.loop = SchedulerLoop(
            self.world,
            self.clock,
            chosen or policy(),
            rhythm=rhythm or Rhythm(min_interval=50_000, reasons_interval=SECOND),
            listeners=[self.world],
        )
        for thing in objects:
            self.loop.seen(thing)

    @property
    def times(self) -> list[Micros]:
        return [cycle.now - NOW for cycle in self.world.cycles]


def test_many_events_of_one_instant_are_one_cycle() -> None:
    given = Loop(node("n1", cpu=4), *[pod(f"p{i}", cpu=1) for i in range(3)])
    given.clock.advance(0)
    assert given.times == [0]
    assert len(given.world.changes) == 3


def test_what_happens_before_a_planned_cycle_plans_no_other() -> None:
    given = Loop(node("n1", cpu=9))
    given.clock.advance(0)
    for step in range(3):
        given.loop.seen(pod(f"p{step}", cpu=1))
        given.clock.advance(10_000 * (step + 1))
    planned = given.clock.planned
    given.loop.seen(pod("p3", cpu=1))
    assert given.clock.planned == planned
    given.clock.advance(SECOND // 2)
    assert given.times[:2] == [0, 50_000]
    assert len(given.world.changes) == 4


def test_what_happens_is_answered_though_a_later_cycle_is_planned() -> None:
    """After a cycle without reasons one is planned a second later: a pod that comes does not wait for it."""
    given = Loop(node("n1", cpu=9), pod("p0", cpu=1))
    given.clock.advance(0)
    given.loop.seen(pod("p1", cpu=1))
    given.clock.advance(100_000)
    assert given.loop.next_cycle == NOW + SECOND
    given.loop.seen(pod("p2", cpu=1))
    given.clock.advance(200_000)
    assert given.times == [0, 50_000, 100_000]


def test_cycles_keep_their_distance() -> None:
    given = Loop(node("n1", cpu=9))
    for step in range(10):
        given.clock.advance(step * 10_000)
        given.loop.seen(pod(f"p{step}", cpu=1))
    given.clock.advance(SECOND // 2)
    assert all(later - earlier >= 50_000 for earlier, later in pairwise(given.times))
    assert len(given.world.changes) == 9


def test_the_echo_of_a_binding_is_no_reason_to_decide_again() -> None:
    given = Loop(node("n1", cpu=1), pod("a", cpu=1), pod("b", cpu=1))
    given.clock.advance(0)
    (bind,) = given.world.changes
    assert isinstance(bind, Bind)
    cycles = len(given.world.cycles)
    bound = bind.onto(pod("a", cpu=1))
    assert bound is not None
    given.loop.seen(bound)
    given.clock.advance(900_000)
    assert len(given.world.cycles) == cycles


def test_heartbeats_and_relists_start_no_cycle() -> None:
    given = Loop(node("n1", cpu=1), pod("a", cpu=2))
    given.clock.advance(2 * SECOND)
    cycles = len(given.world.cycles)
    given.loop.seen(node("n1", cpu=1))
    given.loop.listed("Pod", [pod("a", cpu=2)])
    given.clock.advance(10 * SECOND)
    assert len(given.world.cycles) == cycles


def test_a_refused_change_is_decided_again() -> None:
    given = Loop(node("n1", cpu=1), pod("a", cpu=1))
    given.clock.advance(0)
    (bind,) = given.world.changes
    given.loop.refused(bind, "409 Conflict")
    given.clock.advance(SECOND)
    assert [change.key for change in given.world.changes] == [bind.key, bind.key]
    assert given.world.refusals == ["409 Conflict"]


def test_a_loop_that_does_not_lead_keeps_its_state_and_decides_nothing() -> None:
    given = Loop()
    given.loop.lead(False)
    given.loop.seen(node("n1", cpu=1))
    given.loop.seen(pod("a", cpu=1))
    given.clock.advance(SECOND)
    assert given.world.cycles == []
    assert "default/a" in given.loop.state.tasks
    given.loop.lead(True)
    given.clock.advance(2 * SECOND)
    assert len(given.world.changes) == 1


def test_another_policy_is_used_at_once() -> None:
    given = Loop(node("n1", cpu=1), pod("a", cpu=1), chosen=policy(actions="enqueue"))
    given.clock.advance(SECOND)
    assert given.world.changes == []
    given.loop.use(policy())
    given.clock.advance(2 * SECOND)
    assert len(given.world.changes) == 1


def test_reasons_come_at_their_own_rhythm_and_are_never_owed_for_long() -> None:
    given = Loop(node("n1", cpu=1), pod("big", cpu=4))
    for step in range(1, 40):
        given.clock.advance(step * 100_000)
        given.loop.seen(pod(f"p{step}", cpu=4))
    given.clock.advance(10 * SECOND)
    with_reasons = [cycle.now - NOW for cycle in given.world.cycles if cycle.has_reasons]
    assert len(with_reasons) < len(given.world.cycles) / 3
    assert all(b - a >= SECOND for a, b in pairwise(with_reasons))
    assert given.world.cycles[-1].has_reasons
    assert len(given.world.explained[-1].pending) == 40


@pytest.mark.parametrize(("took", "apart"), [(0.01, 1), (0.5, 2), (2, 8), (60, 10)])
def test_reasons_that_take_long_are_worked_out_less_often(took: float, apart: int) -> None:
    """A user with thousands of kinds of pods that wait: decisions about other pods come as often as before."""
    spent = [0.0]

    class Slow(Collecting):
        def decided(self, cycle: Cycle) -> None:
            super().decided(cycle)
            spent[0] += took if cycle.has_reasons else 0.0

    clock, world = Clock(), Slow()
    loop = SchedulerLoop(
        world,
        clock,
        policy(),
        rhythm=Rhythm(min_interval=50_000, reasons_interval=SECOND, reasons_rest=4),
        listeners=[world],
        stopwatch=lambda: int(spent[0] * 1e9),
    )
    loop.seen(node("n1", cpu=1))
    for step in range(400):
        clock.advance(step * 100_000)
        loop.seen(pod(f"p{step}", cpu=4))
    with_reasons = [cycle.now for cycle in world.cycles if cycle.has_reasons]
    assert {later - sooner for sooner, later in pairwise(with_reasons)} == {apart * SECOND}
    assert len(world.cycles) >= 399


def test_what_queues_have_is_said_although_no_pod_waits() -> None:
    """A pod that ends just after a plan with reasons, with no pod left to decide about: queues must not stay as they
    were until something else happens.
    """
    given = Loop(node("n1", cpu=4), pod("a", cpu=1, node="n1"), pod("b", cpu=2, node="n1"))
    given.clock.advance(0)
    assert given.world.explained[-1].queues[0].allocated["cpu"] == "3"
    given.clock.advance(100_000)
    given.loop.gone(pod("b", cpu=2, node="n1"))
    given.clock.advance(10 * SECOND)
    assert given.world.cycles[-1].has_reasons
    assert given.world.explained[-1].queues[0].allocated["cpu"] == "1"
    assert len(given.world.cycles) == 2


def test_a_group_without_pods_that_comes_shortly_after_a_cycle_is_let_in() -> None:
    """No pod is pending, but a controller creates pods only once the group is admitted; reasons follow later."""
    given = Loop(node("n1", cpu=9))
    given.clock.advance(100_000)
    given.loop.seen(group("g", minimum=2))
    given.clock.advance(3 * SECOND)
    assert given.times == [0, 100_000, SECOND]
    assert [status.phase for status in given.world.explained[-1].status.pod_groups] == ["Inqueue"]


def test_a_cycle_for_reasons_delays_no_event() -> None:
    given = Loop(node("n1", cpu=9), pod("big", cpu=20))
    given.clock.advance(100_000)
    given.loop.seen(pod("another", cpu=20))  # decided without reasons, which follow at one second
    given.clock.advance(SECOND + 10_000)
    given.loop.seen(pod("small", cpu=1))
    given.clock.advance(2 * SECOND)
    assert given.times[:4] == [0, 100_000, SECOND, SECOND + 10_000]


@pytest.mark.parametrize("first", [True, False])
def test_a_world_that_answers_later_gets_the_changes_before_listeners_work(first: bool) -> None:
    told: list[str] = []

    class Telling(Collecting):
        def carry_out(self, changes: Sequence[Change]) -> None:
            told.append("written")

        def decided(self, cycle: Cycle) -> None:
            told.append("told")

    clock, world = Clock(), Telling()
    loop = SchedulerLoop(world, clock, policy(), listeners=[world], writes_first=first)
    loop.seen(node("n1", cpu=1))
    loop.seen(pod("a", cpu=1))
    clock.advance(0)
    assert told == (["written", "told"] if first else ["told", "written"])


def test_reasons_that_no_listener_reads_are_not_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "explain_plan", lambda *_: pytest.fail("nobody asked"))

    class Silent(Collecting):
        def decided(self, cycle: Cycle) -> None:
            self.cycles.append(cycle)

    clock, world = Clock(), Silent()
    loop = SchedulerLoop(world, clock, policy(), rhythm=Rhythm(reasons_interval=0), listeners=[world])
    for thing in (node("n1", cpu=1), pod("big", cpu=4)):
        loop.seen(thing)
    clock.advance(0)
    assert [cycle.has_reasons for cycle in world.cycles] == [True]


def test_a_listener_that_asks_for_reasons_too_late_is_told_so() -> None:
    given = Loop(node("n1", cpu=1), pod("big", cpu=4))
    given.loop.listeners.clear()
    kept = Kept()
    given.loop.listeners.append(kept)
    given.clock.advance(0)
    assert kept.cycle is not None
    with pytest.raises(StaleCycleError):
        kept.cycle.explain()


@pytest.mark.parametrize("paranoid", [True, False])
def test_paranoid_checks_leave_reasons_to_listeners(paranoid: bool) -> None:
    given = Loop(node("n1", cpu=1), pod("big", cpu=4))
    given.loop.paranoid = paranoid
    given.clock.advance(0)
    assert [entry.reason for entry in given.world.explained[-1].pending] == ["NeverFits"]


def test_decisions_do_not_depend_on_the_rhythm_of_reasons() -> None:
    things = [node("n1", cpu=3), *[pod(f"p{i}", cpu=1) for i in range(5)]]
    plans = []
    for interval in (-1, 0, SECOND):
        given = Loop(*things, rhythm=Rhythm(min_interval=0, reasons_interval=interval))
        given.clock.advance(SECOND)
        plans.append([change.key for change in given.world.changes])
    assert plans[0] == plans[1] == plans[2]
    assert len(plans[0]) == 3


def test_fixed_times() -> None:
    given = Loop(node("n1", cpu=9), rhythm=Rhythm(every=SECOND, reasons_interval=-1))
    for step in range(4):
        given.clock.advance(step * 700_000 + 1)
        given.loop.seen(pod(f"p{step}", cpu=1))
    given.clock.advance(10 * SECOND)
    assert given.times
    assert all(time % SECOND == 0 for time in given.times)
    assert len(given.world.changes) == 4


@pytest.mark.parametrize("seconds", [5, 60])
def test_a_plan_that_may_change_by_itself_is_looked_at_again(seconds: int) -> None:
    reserve = f"{{name: reserve, arguments: {{starvingJobTimeThreshold: {seconds}, reservedNodePercent: 100}}}}"
    chosen = parse_policy(f"actions: [enqueue, {reserve}, allocate]", "p", default_registry().catalog)
    given = Loop(node("n1", cpu=2), pod("r", cpu=1, node="n1"), pod("big", cpu=2, created=86_400), chosen=chosen)
    given.clock.advance(seconds * SECOND - 1)
    assert not [change for change in given.world.changes if change.key[0] == "Reservation"]
    given.clock.advance(seconds * SECOND + SECOND)
    assert [change.key[2] for change in given.world.changes if change.key[0] == "Reservation"][:1] == ["pod-big"]
