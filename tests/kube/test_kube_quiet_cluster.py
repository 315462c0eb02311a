"""Delayed statuses and events are written when their time comes, though no cycle follows (spec K9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.app.live.status_timer import StatusTimer
from fairway.clock import SECOND, Micros
from fairway.kube.requests.statuses import EventMaker, EventWrite, StatusWrite
from fairway.kube.status import event_writer
from fairway.kube.status.event_writer import EventWriter
from fairway.kube.status.groups import group_facts
from fairway.kube.status.status_writer import StatusWriter
from fairway.kube.throttle import DeferredWrites, Repeats, StatusFacts
from kube.stage import LoopStage
from support.effort import examples
from support.engine import policy
from support.objects import gang, group, node, pod

KEY = ("PodGroup", "default", "g")


class QuietStage(LoopStage):
    """The writers and their timer, as the live scheduler has them. Nothing that is written comes back."""

    def __init__(self, *things: Any) -> None:
        super().__init__()
        self.statuses: dict[Any, list[dict[str, Any]]] = {}
        self.said: list[dict[str, Any]] = []
        state, store = self.loop.state, self.loop.store
        tokens = iter(range(100_000))
        self.writer = StatusWriter(state, store, {}, self._take_statuses)
        maker = EventMaker("test", lambda: str(next(tokens)))
        self.notes = EventWriter(state, store, {}, maker, self._take_events)
        self.loop.listeners += [self.writer, self.notes, StatusTimer(self.clock, self.writer, self.notes)]
        self.see(*things)

    def _take_statuses(self, writes: Sequence[StatusWrite]) -> None:
        for write in writes:
            self.statuses.setdefault(write.key, []).append(msgspec.json.decode(write.request.body or b"")["status"])

    def _take_events(self, writes: Sequence[EventWrite]) -> int:
        self.said += [{"method": one.request.method, **msgspec.json.decode(one.request.body or b"")} for one in writes]
        return len(writes)

    def last(self, key: Any = KEY) -> dict[str, Any]:
        return self.statuses[key][-1]

    def events(self) -> list[dict[str, Any]]:
        found, self.said = self.said, []
        return found


def members(number: int, phase: str, first: int = 0, **more: Any) -> list[Any]:
    return [pod(f"g-{i}", group="g", cpu=1, node="n1", phase=phase, **more) for i in range(first, first + number)]


# -- statuses ----------------------------------------------------------------------------------------------------


def test_pods_that_start_are_counted_though_no_cycle_follows() -> None:
    stage = QuietStage(node("n1", cpu=16), gang("g", members=16, cpu=1))
    cycles = stage.loop.cycles
    stage.see(*members(16, "Running"))  # as the last plan expected: nothing to decide
    stage.clock.move(11)
    assert stage.loop.cycles == cycles
    assert (stage.last()["phase"], stage.last()["running"]) == ("Running", 16)


def test_a_count_that_came_too_soon_is_written_later() -> None:
    stage = QuietStage(node("n1", cpu=16), gang("g", members=16, cpu=1))
    for number in range(16):
        stage.see(members(1, "Running", number))
        stage.clock.move(0.3)
    assert stage.last()["running"] < 16
    stage.clock.move(10)
    assert stage.last()["running"] == 16
    writes = len(stage.statuses[KEY])
    stage.clock.move(3600)
    assert len(stage.statuses[KEY]) == writes


def test_the_group_of_a_failed_job_is_not_running() -> None:
    stage = QuietStage(node("n1", cpu=4), gang("g", members=3, cpu=1))
    stage.see(*members(3, "Running"))
    stage.clock.move(20)
    assert stage.last()["phase"] == "Running"
    stage.see(*members(1, "Failed"))
    stage.clock.move(1)
    assert stage.last()["phase"] == "Unknown"  # two still run
    stage.see(*members(3, "Failed"))
    stage.clock.move(1)
    assert (stage.last()["phase"], stage.last()["failed"]) == ("Completed", 3)


def test_a_group_that_is_created_again_while_a_pod_runs_gets_its_status_at_once() -> None:
    """As Volcano's controller does when it restarts a job: it makes the missing pods only after a status."""
    stage = QuietStage(node("n1", cpu=4), gang("g", members=3, cpu=1))
    stage.see(*members(3, "Running"))
    stage.clock.move(20)
    old: Any = group("g", minimum=3)
    stage.loop.gone(old)
    for name in ("g-1", "g-2"):
        stage.loop.gone(pod(name, group="g", cpu=1, node="n1", phase="Running"))
    stage.clock.move(0.2)
    stage.statuses.clear()
    stage.see(replace(old, metadata=replace(old.metadata, uid="another")))
    stage.clock.move(1)
    assert (stage.last()["phase"], stage.last()["running"]) == ("Unknown", 1)
    (waits,) = stage.last()["conditions"]
    assert (waits["type"], waits["status"], waits["reason"]) == ("Unschedulable", "True", "GangTooFewPods")


def test_what_a_plan_said_of_a_job_is_not_written_after_it_was_bound() -> None:
    """The reason had to stand for ten seconds; the job did not wait so long."""
    stage = QuietStage(node("n1", cpu=2), gang("g", members=3, cpu=1))
    assert stage.last()["phase"] == "Inqueue"
    stage.see(node("n1", cpu=2, unschedulable=True))  # another reason, deferred
    stage.clock.move(5)
    stage.see(node("n2", cpu=4))
    stage.clock.move(60)
    assert stage.last()["phase"] == "Running"
    assert {one["type"]: one["status"] for one in stage.last()["conditions"]}["Scheduled"] == "True"


def test_a_group_whose_pods_are_gone_says_that_none_runs() -> None:
    stage = QuietStage(node("n1", cpu=4), gang("g", members=2, cpu=1))
    stage.see(*members(2, "Running"))
    stage.clock.move(20)
    assert stage.last()["running"] == 2
    shown: Any = group("g", minimum=2)
    stage.see(replace(shown, status=replace(shown.status, phase="Running", running=2)))
    for one in members(2, "Running"):
        stage.loop.gone(one)
    stage.clock.move(20)
    assert (stage.last()["phase"], stage.last()["running"]) == ("Running", 0)


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "gone"])


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 3), PHASES, st.floats(0, 6)), max_size=25), st.integers(1, 4))
def test_a_group_says_at_last_how_its_pods_stand(story: list[tuple[int, str, float]], minimum: int) -> None:
    """For any interleaving: once nothing happens for an interval, the last status is that of the newest facts."""
    stage = QuietStage(node("n1", cpu=8), group("g", minimum=minimum), members(4, "Pending"))
    for number, phase, seconds in story:
        if phase == "gone":
            stage.loop.gone(members(1, "Running", number)[0])
        else:
            stage.see(*members(1, phase, number))
        stage.clock.move(seconds)
    stage.clock.move(12)
    job = stage.loop.state.job_of("PodGroup", "default/g")
    assert job is not None
    shown: Any = group("g", minimum=minimum).status
    last = stage.last()
    facts = group_facts(job, stage.writer._planned.get("default/g"), replace(shown, phase=last["phase"]))
    if facts is not None and job.tasks:
        assert (last["phase"], last["running"], last["succeeded"], last["failed"]) == facts[:4]


# -- the mechanism -----------------------------------------------------------------------------------------------

TEXTS = ["1 node is full", "2 nodes are full", "queue is closed", ""]
STEPS = st.tuples(
    st.integers(0, 6), st.sampled_from("xy"), st.sampled_from(TEXTS), st.sampled_from("AB"), st.integers(0, 2)
)


@settings(max_examples=examples(300))
@given(st.lists(STEPS, max_size=40), st.booleans())
def test_what_was_written_is_at_last_what_was_offered_last(story: list[Any], repeated: bool) -> None:
    """Whatever the order and the times; and nothing is left over, nor written twice unless it is to be repeated."""
    repeats = Repeats(30 * SECOND, 300 * SECOND) if repeated else None
    writes: DeferredWrites[str, tuple[StatusFacts, int]] = DeferredWrites(10 * SECOND, repeats)
    now: Micros = 0
    offered: dict[str, tuple[StatusFacts, int]] = {}
    written: dict[str, list[tuple[Micros, StatusFacts]]] = {}

    def run_until(end: Micros) -> None:
        while (when := writes.next_due()) is not None and when <= end:
            due = writes.due(when)
            assert due  # a timer is never woken for nothing
            for key, (facts, _) in due:
                written.setdefault(key, []).append((when, facts))

    for place, (seconds, key, text, state, number) in enumerate(story):
        now += seconds * SECOND
        run_until(now)
        facts = StatusFacts((state,), text, (number,))
        offered[key] = (facts, place)
        if writes.offer(key, facts, (facts, place), now):
            written.setdefault(key, []).append((now, facts))
    run_until(now + 10 * SECOND)
    for key, (facts, _) in offered.items():
        assert written[key][-1][1] == facts
    if not repeated:
        assert writes.next_due() is None
        for entries in written.values():
            assert all(one[1] != other[1] for one, other in pairwise(entries))
    else:
        before = {key: len(entries) for key, entries in written.items()}
        run_until(now + 3610 * SECOND)
        for key, entries in written.items():
            assert 10 <= len(entries) - before[key] <= 18  # 30, 60, 120, 240, then every 300 s
            assert {facts for _, facts in entries[before[key] :]} == {offered[key][0]}


def test_keys_that_are_offered_for_ever_take_no_more_memory() -> None:
    writes: DeferredWrites[str, int] = DeferredWrites()
    for second in range(5000):
        facts = StatusFacts((str(second % 2),), "", (second,))
        writes.offer("x", facts, second, second * SECOND // 10)
        writes.due(second * SECOND // 10)
    assert len(writes._heap) < 100


# -- events ------------------------------------------------------------------------------------------------------


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in events if one.get("involvedObject", {}).get("kind") == kind]


def test_a_changed_reason_becomes_an_event_though_nothing_happens_any_more() -> None:
    stage = QuietStage(node("n1", cpu=4), group("g", minimum=16))
    assert "has 0 of its minimum of 16 pods" in of_kind(stage.events(), "PodGroup")[0]["message"]
    stage.clock.move(1)
    stage.see([pod(f"g-{i}", group="g", cpu=1) for i in range(16)])
    stage.clock.move(15)
    (event,) = of_kind(stage.events(), "PodGroup")
    assert (event["reason"], event["type"]) == ("Unschedulable", "Warning")
    assert event["message"].startswith("NeverFits")


def test_a_job_that_goes_on_waiting_says_so_ever_less_often() -> None:
    stage = QuietStage(node("n1", cpu=1), gang("g", members=2, cpu=1))
    first = of_kind(stage.events(), "PodGroup")[0]
    assert first["firstTimestamp"] == first["lastTimestamp"] == "2026-01-01T00:00:00Z"
    stage.clock.move(2 * 3600)
    again = [one for one in stage.events() if "count" in one and one["method"] == "PATCH"]
    assert [one["count"] for one in again] == list(range(2, 2 + len(again)))
    assert 7 <= len(again) <= 10
    assert again[0]["lastTimestamp"] == "2026-01-01T00:00:30Z"
    assert again[0]["series"]["count"] == 2
    stage.see(node("n2", cpu=1))
    assert [one["reason"] for one in stage.events()] == ["Scheduled"]
    stage.clock.move(2 * 3600)
    assert stage.events() == []


def test_each_pod_of_a_waiting_gang_has_one_event() -> None:
    stage = QuietStage(node("n1", cpu=1), gang("g", members=3, cpu=1))
    assert of_kind(stage.events(), "Pod") == []  # in its first moments a gang waits for its other pods
    stage.clock.move(3)
    told = of_kind(stage.events(), "Pod")
    assert [one["involvedObject"]["name"] for one in told] == ["g-0", "g-1", "g-2"]
    assert {one["reason"] for one in told} == {"FailedScheduling"}
    assert all(one["message"].startswith("NeverFits: ") for one in told)
    stage.see(pod("g-3", group="g", cpu=1))
    stage.clock.move(600)
    assert [one["involvedObject"]["name"] for one in of_kind(stage.events(), "Pod")] == ["g-3"]


def test_the_pods_of_a_large_gang_do_not_all_get_one_and_not_at_once() -> None:
    gangs = [gang(f"g{number}", members=150, cpu=1) for number in range(4)]
    stage = QuietStage(node("n1", cpu=1), *gangs)
    stage.clock.move(3)
    told = len(of_kind(stage.events(), "Pod"))
    assert event_writer.BURST <= told <= event_writer.BURST + 2 * event_writer.RATE
    stage.clock.move(5)
    more = len(of_kind(stage.events(), "Pod"))
    assert 5 * event_writer.RATE - 1 <= more <= 5 * event_writer.RATE + 1
    stage.clock.move(600)
    assert told + more + len(of_kind(stage.events(), "Pod")) == 4 * event_writer.MAX_PER_JOB


def test_pods_that_are_bound_in_time_get_none() -> None:
    stage = QuietStage(gang("g", members=2, cpu=1))
    stage.clock.move(1)
    stage.see(node("n1", cpu=2))
    stage.clock.move(600)
    assert of_kind(stage.events(), "Pod") == []


def test_a_pod_that_names_an_absent_group_says_so() -> None:
    stage = QuietStage(node("n1", cpu=4), pod("p", group="missing", cpu=1))
    stage.clock.move(3)
    (condition,) = stage.last(("Pod", "default", "p"))["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert "missing" in condition["message"]
    (event,) = of_kind(stage.events(), "Pod")
    assert event["reason"] == "FailedScheduling"
    assert "missing" in event["message"]


def test_a_group_without_pods_is_let_in_when_its_time_has_come_though_nothing_happens() -> None:
    stage = QuietStage()
    stage.loop.use(
        policy(
            actions=[{"name": "enqueue", "arguments": {"admitAfter": 30}}, {"name": "allocate"}],
        )
    )
    stage.see(node("n1", cpu=2), group("g", minimum=8, resources={"cpu": 8}, created=0))
    stage.clock.move(20)
    assert stage.last()["phase"] == "Pending"
    stage.clock.move(20)
    assert stage.last()["phase"] == "Inqueue"
