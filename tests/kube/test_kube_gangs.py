"""Half-bound gangs (spec K8) and budgets that the server says are used up, without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.api.scheduling import PodDisruptionBudget
from fairway.clock import SECOND, Micros, to_datetime
from fairway.drive.change import Bind, Change, Evict
from fairway.drive.planned_changes import pod_key
from fairway.drive.scheduler_loop import Cycle, SchedulerLoop
from fairway.kube.guards.gangs import GangGuard
from fairway.kube.guards.refusals import hold_budgets, withdrawals
from fairway.scheduler.plan import Binding, Eviction, Plan
from support.engine import policy
from support.objects import BEGIN, made, node, pod

TIMEOUT = 60 * SECOND


class Clock:
    """Time that only tests move, and what is planned."""

    def __init__(self) -> None:
        self.time: Micros = BEGIN
        self.planned: list[tuple[Micros, Callable[[], None]]] = []

    def now(self) -> Micros:
        return self.time

    def call_at(self, when: Micros, call: Callable[[], None]) -> Clock:
        self.planned.append((when, call))
        return self

    def cancel(self) -> None: ...

    def advance(self, seconds: int) -> None:
        self.time = BEGIN + seconds * SECOND
        due = [entry for entry in self.planned if entry[0] <= self.time]
        self.planned = [entry for entry in self.planned if entry[0] > self.time]
        for _, call in due:
            call()


class Nowhere:
    def carry_out(self, changes: Sequence[Change]) -> None: ...


class Guarded:
    """A loop whose gangs are guarded; it decides nothing."""

    def __init__(self, *things: ApiObject) -> None:
        self.clock = Clock()
        self.loop = SchedulerLoop(Nowhere(), Clock(), policy())
        self.evicted: list[str] = []
        self.said: list[str] = []
        self.guard = GangGuard(
            self.loop.state,
            self.loop.store,
            self.clock,
            TIMEOUT,
            lambda changes: self.evicted.extend(change.key[2] for change in changes),
            lambda job, why: self.said.append(why),
            catch_up=self.loop.catch_up,
        )
        self.loop.listeners.append(self.guard)
        self.tell(*things)

    def tell(self, *things: ApiObject) -> None:
        for thing in things:
            self.loop.seen(thing)
        self.loop.catch_up()


def group(minimum: int, phase: str = "") -> ApiObject:
    return made("PodGroup", "g", "default", spec={"minMember": minimum}, status={"phase": phase})


def bound(name: str, at: int = 0) -> ApiObject:
    """Bound so many seconds after the beginning."""
    thing = pod(name, group="g", node="n", created=-10, cpu=1)
    assert isinstance(thing, Pod)
    placed = Condition("PodScheduled", "True", last_transition_time=to_datetime(BEGIN + at * SECOND))
    return replace(thing, status=replace(thing.status, conditions=(placed,)))


def waiting(name: str, created: int = -10) -> ApiObject:
    return pod(name, group="g", created=created, cpu=1)


NODE = node("n", cpu=10)


def test_K8_a_gang_that_was_left_half_bound_is_evicted_after_its_time() -> None:
    guarded = Guarded(NODE, group(3), bound("a"), bound("b", 5), waiting("c"))
    guarded.guard.lead(True)
    guarded.clock.advance(59)
    assert guarded.evicted == []
    guarded.clock.advance(60)
    assert guarded.evicted == ["a", "b"]
    assert guarded.said == ["2 of 3 pods of the gang default/g could be bound within 60 s"]
    pods = [guarded.loop.store.get(pod_key(f"default/{name}")) for name in "abc"]
    assert [bool(thing and thing.metadata.deletion_timestamp) for thing in pods] == [True, True, False]


def test_K8_it_is_left_alone_once_it_is_complete() -> None:
    guarded = Guarded(NODE, group(3), bound("a"), bound("b"), waiting("c"))
    guarded.guard.lead(True)
    guarded.clock.advance(30)
    guarded.tell(bound("c", 30))
    guarded.clock.advance(600)
    assert guarded.evicted == []


@pytest.mark.parametrize("created", [1, 3000])
def test_K8_a_gang_that_lost_a_pod_and_has_a_new_one_goes_on(created: int) -> None:
    guarded = Guarded(NODE, group(3), bound("a"), bound("b"), waiting("c", created=created))
    guarded.guard.lead(True)
    guarded.clock.advance(3600)
    assert guarded.evicted == []


def test_K8_a_gang_that_ran_goes_on_whatever_became_of_its_pods() -> None:
    guarded = Guarded(NODE, group(3, "Running"), bound("a"), waiting("c"))
    guarded.guard.lead(True)
    guarded.clock.advance(3600)
    assert guarded.evicted == []


def refuse_bind(guarded: Guarded, at: int) -> None:
    """The bind of the pod `b`, decided so many seconds after the beginning."""
    bind = Bind(pod_key("default/b"), "", Binding("default/b", "n", job="default/g"), BEGIN + at * SECOND)
    guarded.loop.store.sent([bind])
    guarded.loop.refused(bind, "conflict")
    guarded.loop.catch_up()


@pytest.mark.parametrize("created", [-10, 150])
def test_K8_a_refused_bind_starts_the_time_of_its_gang(created: int) -> None:
    guarded = Guarded(NODE, group(2), bound("a", 100), waiting("b"))
    guarded.guard.leads = True
    refuse_bind(guarded, at=100)
    guarded.loop.gone(waiting("b"))
    guarded.tell(waiting("b", created=created))
    guarded.clock.advance(159)
    assert guarded.evicted == []
    guarded.clock.advance(160)
    assert guarded.evicted == ["a"]


@pytest.mark.parametrize("ahead", [-300, -30, 30])
def test_K8_its_time_is_that_of_this_machine_though_the_server_has_another(ahead: int) -> None:
    """The clock of the scheduler is so many seconds ahead of the one that wrote when the pod got its node."""
    guarded = Guarded(NODE, group(2), bound("a", 400 - ahead), waiting("b", created=390 - ahead))
    guarded.guard.leads = True
    guarded.clock.advance(400)
    refuse_bind(guarded, at=400)
    guarded.clock.advance(459)
    assert guarded.evicted == []
    guarded.clock.advance(460)
    assert guarded.evicted == ["a"]


def test_K8_a_refused_bind_of_a_pod_that_replaces_another_starts_nothing() -> None:
    guarded = Guarded(NODE, group(2), bound("a", 100), waiting("b", created=4000))
    guarded.guard.leads = True
    refuse_bind(guarded, at=4001)
    guarded.clock.advance(9000)
    assert guarded.evicted == []


def test_K8_a_gang_that_lost_a_pod_and_has_no_new_one_yet_goes_on() -> None:
    guarded = Guarded(NODE, group(2), bound("a", 100))
    guarded.guard.lead(True)
    guarded.clock.advance(9000)
    assert guarded.evicted == []


def test_K8_only_the_leader_evicts() -> None:
    guarded = Guarded(NODE, group(3), bound("a"), waiting("c"))
    guarded.guard.lead(True)
    guarded.guard.lead(False)
    guarded.clock.advance(600)
    assert guarded.evicted == []
    guarded.guard.lead(True)
    guarded.clock.advance(601)
    assert guarded.evicted == ["a"]


def sent_bind(guarded: Guarded, name: str, at: int) -> Bind:
    """A bind that was decided so many seconds after the beginning, and is under way."""
    binding = Binding(f"default/{name}", "n", job="default/g")
    bind = Bind(pod_key(f"default/{name}"), "", binding, BEGIN + at * SECOND)
    guarded.loop.store.sent([bind])
    return bind


def decide(guarded: Guarded, at: int, *names: str) -> list[Bind]:
    """A cycle that binds these pods of the gang."""
    binds = [sent_bind(guarded, name, at) for name in names]
    plan: Plan = SimpleNamespace()  # type: ignore[assignment]
    guarded.guard.decided(Cycle(0, BEGIN + at * SECOND, plan, binds, 0))
    return binds


def found_late() -> Guarded:
    """A leader that finds a gang half-bound whose time was over long ago, and binds the pod that is missing."""
    guarded = Guarded(NODE, group(2), bound("a"), waiting("b"))
    guarded.clock.advance(300)
    guarded.guard.lead(True)
    sent_bind(guarded, "b", at=300)
    guarded.clock.advance(305)
    assert guarded.evicted == []
    return guarded


def test_K8_a_gang_whose_time_was_over_before_there_was_a_leader_is_completed() -> None:
    guarded = found_late()
    guarded.tell(bound("b", 301))
    guarded.clock.advance(900)
    assert (guarded.evicted, guarded.clock.planned) == ([], [])


def test_K8_it_is_evicted_at_once_where_that_is_refused() -> None:
    guarded = found_late()
    [bind] = guarded.loop.store.sent_to(pod_key("default/b"))
    guarded.loop.refused(bind, "conflict")
    guarded.clock.advance(307)
    assert guarded.evicted == ["a"]


def test_K8_it_is_evicted_after_its_time_where_that_finds_no_end() -> None:
    guarded = found_late()
    guarded.clock.advance(359)
    assert guarded.evicted == []
    guarded.clock.advance(361)
    assert guarded.evicted == ["a"]


def test_K8_it_is_evicted_where_no_cycle_can_complete_it() -> None:
    guarded = Guarded(NODE, group(2), bound("a"), waiting("b"))
    guarded.clock.advance(300)
    guarded.guard.lead(True)
    guarded.clock.advance(301)
    assert guarded.evicted == ["a"]


def test_K8_a_gang_of_which_one_bind_finds_no_end_is_evicted_and_that_bind_is_left_alone() -> None:
    guarded = Guarded(NODE, group(3), *map(waiting, "abc"))
    guarded.guard.lead(True)
    decide(guarded, 0, *"abc")
    guarded.tell(bound("a", 1), bound("b", 1))
    guarded.clock.advance(60)
    assert guarded.evicted == []
    guarded.clock.advance(62)
    assert guarded.evicted == ["a", "b"]
    assert guarded.said == ["2 of 3 pods of the gang default/g could be bound within 60 s"]
    guarded.loop.gone(bound("a"))
    guarded.loop.gone(bound("b"))
    guarded.tell(waiting("d", created=63), waiting("e", created=63))
    decide(guarded, 64, "d", "e")
    guarded.tell(bound("d", 65), bound("e", 65))
    guarded.clock.advance(124)
    assert guarded.evicted == ["a", "b"]
    guarded.clock.advance(127)
    assert guarded.evicted == ["a", "b", "d", "e"], "it never stays half-bound for longer"
    guarded.tell(bound("c", 128))
    guarded.loop.gone(bound("d"))
    guarded.loop.gone(bound("e"))
    guarded.tell(waiting("f", created=129))
    guarded.clock.advance(130)
    guarded.clock.advance(189)
    assert guarded.evicted[4:] == ["c"], "what came too late waits again as well"


def test_K8_a_large_gang_on_a_slow_server_is_left_alone_while_its_pods_are_bound() -> None:
    names = [f"p{number}" for number in range(5)]
    guarded = Guarded(NODE, group(5), *map(waiting, names))
    guarded.guard.lead(True)
    decide(guarded, 0, *names)
    for number, name in enumerate(names):
        guarded.tell(bound(name, 50 * number))
        for second in range(50 * number, 50 * (number + 1)):
            guarded.clock.advance(second)
    guarded.clock.advance(900)
    assert (guarded.evicted, guarded.clock.planned) == ([], [])


def test_K8_a_gang_whose_binds_were_all_seen_is_looked_at_no_more() -> None:
    guarded = Guarded(NODE, group(2), waiting("a"), waiting("b"))
    guarded.guard.lead(True)
    decide(guarded, 0, "a", "b")
    guarded.tell(bound("a", 1), bound("b", 1))
    guarded.clock.advance(61)
    assert (guarded.evicted, guarded.clock.planned) == ([], [])


def test_K8_a_new_pod_of_a_gang_that_ran_may_take_its_time() -> None:
    guarded = Guarded(NODE, group(2), bound("a"), bound("b"))
    guarded.guard.lead(True)
    guarded.loop.gone(bound("b"))
    guarded.tell(waiting("c", created=1000))
    guarded.clock.advance(1000)
    decide(guarded, 1000, "c")
    guarded.clock.advance(1100)
    guarded.clock.advance(5000)
    assert guarded.evicted == []


def test_pods_without_a_gang_are_never_guarded() -> None:
    guarded = Guarded(NODE, pod("lone", node="n", cpu=1), pod("other", cpu=1))
    guarded.guard.lead(True)
    assert guarded.clock.planned == []


def budget(version: int, allowed: int, name: str = "b", **labels: str) -> ApiObject:
    thing = made(
        "PodDisruptionBudget",
        name,
        "default",
        spec={"selector": {"matchLabels": labels}},
        status={"disruptionsAllowed": allowed},
    )
    meta = replace(thing.metadata, resource_version=str(version), uid=name)
    return replace(thing, metadata=meta)


def allowed_by(guarded: Guarded, name: str = "b") -> int | None:
    found = guarded.loop.store.get(("PodDisruptionBudget", "default", name))
    assert isinstance(found, PodDisruptionBudget)
    return found.status.disruptions_allowed


@pytest.mark.parametrize("allowed", [1, 2])
def test_a_budget_that_refused_counts_as_used_up_until_it_changes(allowed: int) -> None:
    """Though what changes may be nothing that is read here."""
    victim = pod("v", node="n", labels={"app": "x"})
    guarded = Guarded(NODE, victim, budget(1, 2, app="x"), budget(1, 5, "other", app="y"))
    evict = Evict(pod_key("default/v"), "", Eviction("default/v", "n", "j", "preempt", "r"), BEGIN)
    assert hold_budgets(guarded.loop.store, evict) == 1
    guarded.loop.catch_up()
    assert guarded.loop.state.budgets["default/b"].status.disruptions_allowed == 0
    assert (allowed_by(guarded), allowed_by(guarded, "other")) == (0, 5)
    assert hold_budgets(guarded.loop.store, evict) == 0, "it is held already"
    guarded.tell(budget(2, allowed, app="x"))
    assert allowed_by(guarded) == allowed
    assert guarded.loop.state.budgets["default/b"].status.disruptions_allowed == allowed


@pytest.mark.parametrize(("victim", "withdrawn"), [({"node": "n"}, ["high"]), ({"node": "n", "leaving": True}, [])])
def test_a_nomination_is_taken_back_if_the_victim_stays(victim: dict[str, object], withdrawn: list[str]) -> None:
    others = [pod("high", nominated="n"), pod("elsewhere", nominated="m"), pod("waits")]
    guarded = Guarded(NODE, pod("v", **victim), *others)
    evict = Evict(pod_key("default/v"), "", Eviction("default/v", "n", "default/high", "preempt", "r"), BEGIN)
    found = withdrawals(guarded.loop.state, guarded.loop.store, evict, BEGIN)
    assert [change.key[2] for change in found] == withdrawn
