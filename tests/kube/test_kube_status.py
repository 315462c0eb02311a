"""What is written to stand, and how often: a loop with a world that only listens, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.clock import SECOND, to_datetime
from fairway.kube.http.exchange import ApiAnswer
from fairway.kube.requests import statuses as event_requests
from fairway.kube.requests.statuses import EventMaker, EventNote, EventWrite, Regarding, StatusWrite
from fairway.kube.status.event_writer import EventWriter
from fairway.kube.status.status_writer import StatusWriter
from fairway.kube.throttle import StatusFacts, StatusThrottle, substance
from kube.stage import LoopStage
from support.effort import examples
from support.objects import BEGIN, gang, group, made, node, pod, queue


class Stage(LoopStage):
    def __init__(self, *things: Any, groups: dict[Any, str] | None = None) -> None:
        super().__init__()
        self.writes: list[StatusWrite] = []
        self.events: list[EventWrite] = []
        versions = groups or {}
        self.statuses = StatusWriter(self.loop.state, self.loop.store, versions, self.writes.extend)
        tokens = iter(range(10_000))
        self.notes = EventWriter(
            self.loop.state, self.loop.store, versions, EventMaker("test", lambda: str(next(tokens))), self._take
        )
        self.loop.listeners += [self.statuses, self.notes]
        self.see(*things)

    def _take(self, writes: Sequence[EventWrite]) -> int:
        self.events += writes
        return len(writes)

    def taken(self) -> dict[str, Any]:
        """What was written since the last call, by kind and name."""
        found = {f"{write.key[0]} {write.key[2]}": body(write.request) for write in self.writes}
        self.writes.clear()
        return found

    def said(self) -> list[Any]:
        found = [body(write.request) for write in self.events]
        self.events.clear()
        return found


def body(request: Any) -> Any:
    return msgspec.json.decode(request.body)


# -- pods --------------------------------------------------------------------------------------------------------


def test_a_pod_that_waits_says_why_as_the_autoscaler_reads_it() -> None:
    stage = Stage(node("n1", cpu=1), pod("big", cpu=2))
    written = stage.taken()
    (condition,) = written["Pod big"]["status"]["conditions"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "a pod needs 2 cpu; the largest node has 1; now 0/1 nodes fit: 1 insufficient cpu",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert written["Pod big"]["metadata"] == {"uid": "uid-of-Pod-default-big"}
    assert stage.statuses.look_again(BEGIN + 100 * SECOND) is None
    assert stage.taken() == {}


def test_a_pod_that_says_so_already_is_left_alone() -> None:
    said = "a pod needs 2 cpu; the largest node has 1; now 0/1 nodes fit: 1 insufficient cpu"
    waits = Condition("PodScheduled", "False", "Unschedulable", said, to_datetime(BEGIN))
    big: Any = pod("big", cpu=2)
    stage = Stage(node("n1", cpu=1), replace(big, status=replace(big.status, conditions=(waits,))))
    assert "Pod big" not in stage.taken()


def test_numbers_that_move_are_written_every_ten_seconds_at_most() -> None:
    stage = Stage(node("n1", cpu=1), pod("big", cpu=2))
    assert "Pod big" in stage.taken()
    for number in range(2, 11):  # a node comes every second
        stage.see(node(f"n{number}", cpu=1))
        stage.clock.move(0.9)
        assert "Pod big" not in stage.taken()
    stage.clock.move(10)
    stage.statuses.look_again(stage.clock.time)
    (condition,) = stage.taken()["Pod big"]["status"]["conditions"]
    assert condition["message"].endswith("0/10 nodes fit: 10 insufficient cpu")


def test_another_pod_of_a_job_that_waits_is_told_at_once() -> None:
    stage = Stage(node("n1", cpu=1), gang("g", members=2, cpu=2))
    assert {"Pod g-0", "Pod g-1"} <= set(stage.taken())
    stage.see(pod("g-2", group="g", cpu=2))
    assert [name for name in stage.taken() if name.startswith("Pod ")] == ["Pod g-2"]


def test_gated_pods_are_left_to_the_server() -> None:
    stage = Stage(node("n1", cpu=1), pod("gated", cpu=1, gates=["wait"]))
    assert "Pod gated" not in stage.taken()


def test_a_new_reason_is_written_when_it_has_stood() -> None:
    stage = Stage(node("n1", cpu=1), pod("big", cpu=2))
    stage.taken()
    stage.see(node("n1", cpu=8, unschedulable=True))
    assert "Pod big" not in stage.taken()
    stage.clock.move(10)
    assert stage.statuses.look_again(stage.clock.time) is None
    (condition,) = stage.taken()["Pod big"]["status"]["conditions"]
    assert "unschedulable" in condition["message"]


# -- groups ------------------------------------------------------------------------------------------------------


def test_a_group_without_pods_becomes_inqueue() -> None:
    stage = Stage(node("n1", cpu=4), group("g", minimum=2, resources={"cpu": 2}))
    assert stage.taken()["PodGroup g"]["status"]["phase"] == "Inqueue"


def test_a_group_that_waits_and_then_runs_and_completes() -> None:
    stage = Stage(node("n1", cpu=1), gang("g", members=2, cpu=1))
    first = stage.taken()["PodGroup g"]["status"]
    assert first["phase"] == "Inqueue"
    (waits,) = first["conditions"]
    assert (waits["type"], waits["status"], waits["reason"]) == ("Unschedulable", "True", "NeverFits")
    stage.see(node("n2", cpu=1))
    status = stage.taken()["PodGroup g"]["status"]
    assert status["phase"] == "Running"
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Scheduled", "True")]
    stage.see(*(pod(f"g-{i}", group="g", cpu=1, node=f"n{i + 1}", phase="Running") for i in range(2)))
    stage.clock.move(10)
    stage.see(node("n3", cpu=1))
    assert stage.taken()["PodGroup g"]["status"]["running"] == 2
    stage.see(*(pod(f"g-{i}", group="g", cpu=1, node=f"n{i + 1}", phase="Succeeded") for i in range(2)))
    stage.see(node("n4", cpu=1))
    status = stage.taken()["PodGroup g"]["status"]
    assert (status["phase"], status["succeeded"], status["running"]) == ("Completed", 2, 0)


def test_a_group_whose_status_is_no_resource_of_its_own_is_patched_itself() -> None:
    """As Volcano's own definition has it."""
    stage = Stage(node("n1", cpu=4), group("g", minimum=2))
    (write,) = [write for write in stage.writes if write.key[0] == "PodGroup"]
    script = write.script()
    first = next(script)
    second = script.send(ApiAnswer(404))
    assert first.path == f"{second.path}/status"
    assert first.body == second.body
    with pytest.raises(StopIteration) as end:
        script.send(ApiAnswer(200))
    assert end.value.value.result == "done"


def test_conditions_of_others_stay_and_a_group_that_is_not_ready_any_more_says_since_when() -> None:
    ready = Condition("Scheduled", "True", "GangReady", "", to_datetime(BEGIN - 60 * SECOND))
    other = Condition("Checked", "True", "ByAnother", "", None)
    things: list[Any] = gang("g", members=2, cpu=8)
    things[0] = replace(things[0], status=replace(things[0].status, phase="Running", conditions=(other, ready)))
    stage = Stage(node("n1", cpu=1), things)
    status = stage.taken()["PodGroup g"]["status"]
    found = {one["type"]: one for one in status["conditions"]}
    assert found["Checked"]["status"] == "True"
    assert found["Scheduled"]["status"] == "False"
    assert found["Scheduled"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert found["Unschedulable"]["status"] == "True"


@pytest.mark.parametrize(
    ("version", "condition"),
    [
        ("scheduling.k8s.io/v1alpha2", "PodGroupScheduled"),
        ("scheduling.k8s.io/v1beta1", "PodGroupInitiallyScheduled"),
    ],
)
def test_kubernetes_own_groups_have_one_condition(version: str, condition: str) -> None:
    key = ("PodGroup", "default", "g")
    stage = Stage(node("n1", cpu=1), gang("g", members=2, cpu=1), groups={key: version})
    (write,) = [write for write in stage.writes if write.key == key]
    assert write.request.path == f"/apis/{version}/namespaces/default/podgroups/g/status"
    (found,) = body(write.request)["status"]["conditions"]
    assert (found["type"], found["status"], found["reason"]) == (condition, "False", "Unschedulable")
    stage.taken()
    stage.see(node("n2", cpu=1))
    (found,) = stage.taken()["PodGroup g"]["status"]["conditions"]
    assert (found["type"], found["status"], found["reason"]) == (condition, "True", "Scheduled")


def test_the_first_schedule_of_a_kubernetes_group_is_never_taken_back() -> None:
    key = ("PodGroup", "default", "g")
    things: list[Any] = gang("g", members=2, cpu=8)
    placed = Condition("Scheduled", "True", "Scheduled", "", to_datetime(BEGIN))
    things[0] = replace(things[0], status=replace(things[0].status, conditions=(placed,)))
    for version, writes in (("scheduling.k8s.io/v1beta1", 0), ("scheduling.k8s.io/v1alpha2", 1)):
        stage = Stage(node("n1", cpu=1), things, groups={key: version})
        assert len([write for write in stage.writes if write.key == key]) == writes


def test_groups_of_scheduler_plugins_are_written_by_their_controller() -> None:
    key = ("PodGroup", "default", "g")
    stage = Stage(node("n1", cpu=1), gang("g", members=2, cpu=1), groups={key: "scheduling.x-k8s.io/v1alpha1"})
    assert "PodGroup g" not in stage.taken()


# -- queues and classes ------------------------------------------------------------------------------------------


def test_a_queue_says_what_is_allocated_and_how_many_jobs_it_has() -> None:
    stage = Stage(
        node("n1", cpu=2), queue("q"), gang("a", members=2, cpu=1, queue="q"), gang("b", members=2, cpu=1, queue="q")
    )
    status = stage.taken()["Queue q"]["status"]
    assert status["state"] == "Open"
    assert status["allocated"]["cpu"] == "2"
    assert (status["running"], status["inqueue"], status["pending"]) == (1, 1, 0)
    stage.see(node("n2", cpu=2))
    assert "Queue q" not in stage.taken()  # only numbers: not yet
    stage.clock.move(10)
    stage.see(node("n3", cpu=2))
    assert stage.taken()["Queue q"]["status"]["allocated"]["cpu"] == "4"


def test_a_queue_counts_a_job_that_came_last_though_nothing_happens_any_more() -> None:
    stage = Stage(node("n1", cpu=2), queue("q"))
    stage.taken()
    stage.clock.move(1)
    stage.see(group("g", queue="q"))  # counted a second ago: not yet
    assert "Queue q" not in stage.taken()
    again = stage.statuses.look_again(stage.clock.now())
    assert again is not None
    while again is not None:  # as the timer of a driver does
        stage.clock.move((again - stage.clock.now()) / SECOND)
        again = stage.statuses.look_again(stage.clock.now())
    assert stage.taken()["Queue q"]["status"]["inqueue"] == 1


def test_a_closed_queue_says_so_at_once() -> None:
    stage = Stage(node("n1", cpu=2), queue("q"))
    stage.taken()
    stage.see(queue("q", state="Closed"))
    assert stage.taken()["Queue q"]["status"]["state"] == "Closed"


def test_a_class_says_what_it_can_select() -> None:
    devices = '[{"name": "gpu0", "kind": "gpu", "quantity": 2, "attributes": {"memory": "16Gi"}}]'
    host = node("n1", cpu=2)
    host = replace(host, metadata=replace(host.metadata, annotations={"fairway.dev/devices": devices}))
    expression = {"key": "memory", "operator": "Exists"}
    named = made("ResourceClass", "gpu", spec={"resourceSelector": [{"matchExpressions": [expression]}]})
    stage = Stage(host, named)
    assert stage.taken()["ResourceClass gpu"]["status"] == {"allocatable": 2, "requested": 0, "selector": "memory"}


def test_what_did_not_arrive_is_written_again() -> None:
    stage = Stage(node("n1", cpu=2), queue("q"))
    stage.taken()
    stage.statuses.failed(("Queue", "", "q"), stage.clock.now())
    stage.see(node("n2", cpu=1))
    assert "Queue q" in stage.taken()


def test_what_was_refused_is_written_again_though_nothing_happens_any_more() -> None:
    stage, key = Stage(node("n1", cpu=2), queue("q")), ("Queue", "", "q")
    waits = []
    for _ in range(12):  # as a driver does
        assert "Queue q" in stage.taken()
        again = stage.statuses.failed(key, stage.clock.now())
        assert again is not None
        waits.append((again - stage.clock.now()) // SECOND)
        stage.clock.move(waits[-1])
        stage.loop.explain()
        stage.clock.move(0.1)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    stage.clock.move(3600)
    again = stage.statuses.failed(key, stage.clock.now())
    assert again == stage.clock.now() + SECOND  # it was well for long
    assert stage.statuses.failed(("Pod", "default", "p"), stage.clock.now()) is None


# -- events ------------------------------------------------------------------------------------------------------


def test_one_event_per_job_and_change_of_reason() -> None:
    stage = Stage(node("n1", cpu=3), pod("f", node="n1", cpu=2), gang("g", members=3, cpu=1))
    (event,) = stage.said()
    assert event["reason"] == "Unschedulable"  # Volcano's; ours is in the text
    assert event["message"].startswith("GangNotReady: ")
    assert event["type"] == "Warning"
    assert event["involvedObject"]["kind"] == "PodGroup"
    assert event["involvedObject"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert event["involvedObject"]["uid"] == "uid-of-PodGroup-default-g"
    for number in range(20):  # the numbers move for more than ten seconds, the reason does not
        stage.see(node(f"m{number}", cpu="500m"))
        stage.clock.move(0.9)
    assert stage.said() == []
    stage.see(node("n2", cpu=2))
    (event,) = stage.said()
    assert (event["reason"], event["message"]) == (
        "Scheduled",
        "Successfully assigned 3 pods of default/g to 2 nodes",
    )


def test_a_lone_pod_has_its_own_event_and_a_job_its_controllers() -> None:
    stage = Stage(
        node("n1", cpu=4), pod("p", cpu=1), pod("j-1", cpu=1, owner="Job/j"), pod("j-2", cpu=1, owner="Job/j")
    )
    found = {event["involvedObject"]["kind"]: event for event in stage.said()}
    assert found["Pod"]["message"] == "Successfully assigned default/p to n1"
    assert found["Job"]["involvedObject"]["apiVersion"] == "batch/v1"
    assert found["Job"]["message"] == "Successfully assigned 2 pods of default/job/j to 1 node"


POD = Regarding("v1", "Pod", "a", "p", "u1")


def note(text: str, seconds: int, reason: str = "FailedScheduling") -> EventNote:
    return EventNote(POD, reason, "Scheduling", text, BEGIN + seconds * SECOND)


def test_what_comes_again_is_a_series() -> None:
    tokens = iter("abc")
    maker = EventMaker("me", lambda: next(tokens))
    first = maker.write(note("3 nodes", 0))
    second = maker.write(note("4 nodes", 60))
    assert (first.request.method, second.request.method) == ("POST", "PATCH")
    assert second.request.path == "/api/v1/namespaces/a/events/p.a"
    written = body(first.request)
    assert (written["firstTimestamp"], written["count"]) == ("2026-01-01T00:00:00Z", 1)
    assert body(second.request) == {
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"},
        "lastTimestamp": "2026-01-01T00:01:00Z",
        "count": 2,
        "message": "4 nodes",
    }
    assert maker.write(note("other", 61)).request.method == "POST"
    assert maker.write(note("3 nodes", 4000)).request.method == "POST"


def test_a_series_whose_event_is_gone_begins_again() -> None:
    tokens = iter("ab")
    maker = EventMaker("me", lambda: next(tokens))
    first = maker.write(note("3 nodes", 0))
    maker.forget(first.key)
    assert maker.write(note("3 nodes", 1)).request.method == "POST"


def test_very_many_events_that_fail_cost_little_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace with thousands of pods is deleted: each of their events is refused."""
    monkeypatch.setattr(event_requests, "MAX_SERIES", 50)
    numbers = count()
    maker = EventMaker("me", lambda: str(next(numbers)))
    written = [maker.write(note(chr(0x4E00 + number), number)) for number in range(200)]
    written += [maker.write(note(chr(0x4E00 + number), 1000 + number)) for number in range(180, 200)]
    assert len(maker._series) == len(maker._kinds) == 50
    for write in written[:150] + written[190:]:
        maker.forget(write.key)
    assert len(maker._series) == len(maker._kinds) == 30
    assert maker.write(note(chr(0x4E00 + 199), 1300)).request.method == "POST"


def test_a_long_note_is_cut_as_the_api_wants_it() -> None:
    maker = EventMaker("me", lambda: "a")
    assert len(body(maker.write(note("x" * 5000, 0)).request)["message"]) == 1024


def test_events_that_cannot_be_taken_are_counted() -> None:
    stage = Stage()
    stage.notes._submit = lambda write: False
    stage.see(node("n1", cpu=1), pod("p", cpu=1))
    assert (stage.notes.written, stage.notes.dropped) == (0, 1)


# -- how often ---------------------------------------------------------------------------------------------------

TEXTS = ["1 node is full", "2 nodes are full", "queue is closed", ""]


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(TEXTS), st.sampled_from("AB")), max_size=40))
def test_a_status_is_never_written_more_often_than_it_may(story: list[tuple[int, str, str]]) -> None:
    """State at once; a new text once it stood for ten seconds; numbers every ten seconds; nothing twice."""
    throttle: StatusThrottle[str] = StatusThrottle()
    now, writes, wanted = 0, [(0, StatusFacts(), 0)], []
    for seconds, text, state in story:
        now += seconds * SECOND
        facts = StatusFacts((state,), text)
        wanted.append((now, facts))
        if throttle.is_due("x", facts, now):
            throttle.wrote("x", facts, now)
            writes.append((now, facts, len(wanted)))
    for (before, old, _), (after, new, known) in pairwise(writes):
        assert new != old
        if new.state != old.state or not old.text:
            continue
        if substance(new.text) == substance(old.text):
            assert after >= before + 10 * SECOND
        else:
            since = [facts for at, facts in wanted[:known] if after - 10 * SECOND < at]
            assert all(substance(facts.text) == substance(new.text) for facts in since)


def test_reasons_that_take_turns_are_not_written_in_turns() -> None:
    throttle: StatusThrottle[str] = StatusThrottle()
    written = []
    for second in range(300):
        facts = StatusFacts(("waits",), ("cpu is short", "queue is full")[second % 2])
        if throttle.is_due("x", facts, second * SECOND):
            throttle.wrote("x", facts, second * SECOND)
            written.append(facts.text)
    assert written == ["cpu is short"]
