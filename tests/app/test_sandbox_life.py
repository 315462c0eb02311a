"""A sandbox as its user meets it: jobs come, wait, run and end; objects are made, changed and deleted."""

import pytest

from fairway.app.sandbox import commands
from fairway.clock import SECOND, format_rfc3339
from fairway.errors import InputError
from support.engine import flat, policy
from support.explaining import lasting
from support.objects import NOW, gang, group, node, pod, pods, priority_class, queue
from support.sandboxes import after, made, phases, running_for, story

MINUTE = running_for("1m")


def test_pods_run_for_their_time_and_are_remembered() -> None:
    sandbox = made(node("n", cpu=4), pod("a", cpu=3, annotations=MINUTE), pod("b", cpu=3, annotations=MINUTE))
    after(sandbox, 1)
    assert phases(sandbox) == {"a": "running", "b": "InsufficientResources"}
    after(sandbox, 300)
    assert story(sandbox, "placed", "finished") == [
        (0, "placed", "a"),
        (62, "finished", "a"),  # two seconds to start, a minute to run
        (62, "placed", "b"),
        (124, "finished", "b"),
    ]
    (first, _) = sandbox.outcomes(9)
    assert (first.job, first.pods, first.ended - first.started) == ("default/a", 1, 62 * SECOND)


def test_run_times_come_from_the_run_the_expectation_and_the_deadline() -> None:
    spec = {"activeDeadlineSeconds": 30}
    sandbox = made(
        node("n", cpu=9),
        pod("run", cpu=1, annotations=running_for("10s") | lasting("1h")),
        pod("expected", cpu=1, annotations=lasting("20s")),
        pod("deadline", cpu=1, annotations=running_for("1h"), spec=spec),
        pod("endless", cpu=1),
    )
    after(sandbox, 40_000)
    assert story(sandbox, "finished") == [
        (12, "finished", "run"),
        (22, "finished", "expected"),
        (32, "finished", "deadline"),
    ]
    assert phases(sandbox)["endless"] == "running"


def test_a_drawn_run_time_is_drawn_once() -> None:
    sandbox = made(node("n", cpu=1), pod("a", cpu=1, annotations=running_for("uniform 10s 20s")))
    after(sandbox, 60)
    ((_, _), (when, *_)) = [(0, 0), *story(sandbox, "finished")]
    assert 12 <= when <= 22


def test_jobs_of_files_come_when_they_say() -> None:
    late = pod("late", cpu=1, annotations={"sim.fairway.dev/arrive": "30s", **MINUTE})
    sandbox = made(node("n", cpu=1), late)
    assert phases(after(sandbox, 29)) == {}
    assert sandbox.frame().coming == 1
    assert phases(after(sandbox, 31)) == {"late": "running"}
    assert story(sandbox, "submitted") == [(30, "submitted", "late")]
    assert sandbox.frame().coming == 0


def test_pods_that_run_already_go_on() -> None:
    sandbox = made(node("n", cpu=2), pod("old", node="n", cpu=2, annotations=MINUTE), pod("new", cpu=2))
    assert phases(after(sandbox, 30)) == {"old": "running", "new": "InsufficientResources"}
    assert phases(after(sandbox, 61)) == {"old": "finished", "new": "running"}


def test_what_is_applied_is_scheduled() -> None:
    sandbox = after(made(node("n", cpu=4), queue("q")), 10)
    results = sandbox.apply(flat([gang("g", members=2, queue="q", cpu=2, annotations=MINUTE)]))
    assert [(one.object, one.result) for one in results] == [
        ("PodGroup default/g", "created"),
        ("Pod default/g-0", "created"),
        ("Pod default/g-1", "created"),
    ]
    assert phases(after(sandbox, 11)) == {"g": "running"}
    assert phases(after(sandbox, 100)) == {"g": "finished"}
    created = sandbox.outcomes(1)[0].submitted
    assert format_rfc3339(created) == format_rfc3339(NOW + 10 * SECOND)


def test_applying_the_same_again_changes_nothing() -> None:
    things = flat([gang("g", members=2, cpu=2, annotations=running_for("uniform 1h 2h")), queue("q")])
    sandbox = made(node("n", cpu=4))
    sandbox.apply(things)
    after(sandbox, 5)
    before = sandbox.last_event()
    assert {one.result for one in sandbox.apply(things)} == {"unchanged"}
    assert sandbox.last_event() == before


def test_a_waiting_pod_can_be_changed_and_a_placed_one_cannot() -> None:
    sandbox = made(node("n", cpu=4), pod("here", cpu=2), pod("big", cpu=9, annotations=MINUTE))
    after(sandbox, 1)
    (result,) = sandbox.apply([pod("big", cpu=2, annotations=MINUTE)])
    assert result.result == "configured"
    assert phases(after(sandbox, 2)) == {"here": "running", "big": "running"}
    assert sandbox.nodes()[0].used["cpu"] == "4"
    with pytest.raises(InputError, match="Pod default/here: already bound to node n; delete it first"):
        sandbox.apply([pod("fine", cpu=1), pod("here", cpu=1)])
    assert "fine" not in phases(sandbox)  # all or none


def test_a_gang_whose_pods_come_later_waits_for_them() -> None:
    sandbox = made(node("n", cpu=4), group("g", minimum=2))
    sandbox.apply([pod("g-0", group="g", cpu=1, annotations=MINUTE)])
    assert phases(after(sandbox, 5)) == {"g": "GangTooFewPods"}
    sandbox.apply([pod("g-1", group="g", cpu=1, annotations=MINUTE)])
    assert phases(after(sandbox, 6)) == {"g": "running"}
    assert phases(after(sandbox, 99)) == {"g": "finished"}


def test_a_group_that_comes_after_its_pods_or_changes() -> None:
    sandbox = made(node("n", cpu=2), pods("p", 3, group="g", cpu=1))
    assert phases(after(sandbox, 1)) == {"g": "NotEnqueued"}
    sandbox.apply([group("g", minimum=3)])
    assert phases(after(sandbox, 2)) == {"g": "NeverFits"}
    sandbox.apply([group("g", minimum=2)])
    assert phases(after(sandbox, 3)) == {"g": "running"}


def test_deleting_jobs_pods_and_nodes() -> None:
    sandbox = made(
        node("n", cpu=4), node("m", cpu=4), gang("g", members=2, cpu=4), pods("p", 2, cpu=1), pod("w", cpu=4)
    )
    after(sandbox, 1)
    assert phases(sandbox)["p-0"] == "InsufficientResources"
    assert sandbox.delete([("Job", "default", "g")]) == ["PodGroup default/g", "Pod default/g-0", "Pod default/g-1"]
    assert phases(after(sandbox, 2)) == {"p-0": "running", "p-1": "running", "w": "running"}
    where = {job.job: job.nodes[0] for job in sandbox.frame().running}
    sandbox.delete([("Node", "", where["default/w"])])
    assert phases(after(sandbox, 3))["w"] == "InsufficientResources"
    assert ("lost", "w") in [(kind, job) for _, kind, job in story(sandbox)]
    sandbox.delete([("Pod", "default", "w"), ("Pod", "default", "p-1")])
    assert "w" not in phases(after(sandbox, 4))


def test_a_job_is_done_when_the_rest_of_it_is_deleted() -> None:
    short, long = pod("g-0", group="g", cpu=1, annotations=MINUTE), pod("g-1", group="g", cpu=1)
    sandbox = after(made(node("n", cpu=2), group("g", minimum=2), short, long), 100)
    assert phases(sandbox) == {"g": "running"}
    sandbox.delete([("Pod", "default", "g-1")])
    assert phases(after(sandbox, 101)) == {"g": "finished"}


def test_what_is_not_there_cannot_be_deleted() -> None:
    sandbox = made(node("n", cpu=1), pod("a", cpu=1))
    with pytest.raises(InputError, match="there is no Pod default/b"):
        sandbox.delete([("Pod", "default", "a"), ("Pod", "default", "b")])
    assert phases(after(sandbox, 1)) == {"a": "running"}  # all or none
    with pytest.raises(InputError, match="there is no Job default/b"):
        sandbox.delete([("Job", "default", "b")])


def test_queues_and_priorities_take_effect() -> None:
    sandbox = made(node("n", cpu=2), pod("a", queue="q", cpu=1), pod("b", cpu=2, created=1))
    assert phases(after(sandbox, 1))["a"] == "QueueNotFound"
    sandbox.apply([queue("q"), priority_class("high", 10)])
    sandbox.delete([("Pod", "default", "b")])
    assert phases(after(sandbox, 2))["a"] == "running"
    with pytest.raises(InputError, match="Queue q is in use by Pod default/a; delete these first"):
        sandbox.delete([("Queue", "", "q")])
    sandbox.delete([("Queue", "", "q"), ("Pod", "default", "a")])
    after(sandbox, 3)


def test_an_evicted_pod_leaves_waits_and_runs_again() -> None:
    weights = [queue("q"), queue("r")]
    borrowed = [pod(f"r{i}", queue="r", cpu=1) for i in range(4)]
    sandbox = made(node("n", cpu=4), weights, borrowed, with_policy=policy(actions="enqueue, allocate, reclaim"))
    after(sandbox, 1)
    sandbox.apply([pod("q0", queue="q", cpu=1, annotations=MINUTE)])
    after(sandbox, 2)
    ((when, _, _),) = story(sandbox, "evicted")
    assert when == 1
    after(sandbox, 20)
    assert phases(sandbox)["q0"] == "running"
    assert [reason for reason in phases(sandbox).values() if reason != "running"] == ["InsufficientResources"]
    after(sandbox, 200)
    assert set(phases(sandbox).values()) == {"running", "finished"}


def test_a_sandbox_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = made(node("n", cpu=1))
    monkeypatch.setattr(commands, "MAX_OBJECTS", 3)
    with pytest.raises(InputError, match="more than 3 objects"):
        sandbox.apply(flat(pods("p", 3, cpu=1)))
    assert phases(sandbox) == {}


def test_what_a_sandbox_does_not_take() -> None:
    from fairway.api.fleet import ManagedCluster

    sandbox = made(node("n", cpu=1), gang("g", members=1, cpu=1))
    with pytest.raises(InputError, match="a sandbox is one cluster"):
        sandbox.apply([ManagedCluster()])
    with pytest.raises(InputError, match="Pod default/g: a group has the same name"):
        sandbox.apply([pod("g", cpu=1)])
    with pytest.raises(InputError, match=r"annotation sim\.fairway\.dev/run: 'long' is not a duration"):
        sandbox.apply([pod("p", cpu=1, annotations=running_for("long"))])


@pytest.mark.parametrize("there", [[group("x", minimum=1)], [pod("m", group="x", cpu=1)], []])
def test_a_lone_pod_and_a_group_do_not_share_a_name(there: list[object]) -> None:
    """A sandbox knows jobs by their names: together they would be shown, and deleted, as one job."""
    sandbox = made(node("n", cpu=8), there)
    coming = [pod("x", cpu=1)] if there else [pod("x", cpu=1), group("x", minimum=1)]
    with pytest.raises(InputError, match="Pod default/x: a group has the same name, expected another name"):
        sandbox.apply(coming)
    with pytest.raises(InputError, match="Pod default/x: a group has the same name"):
        made(node("n", cpu=8), there, coming)
    other = made(node("n", cpu=8), pod("x", cpu=1))
    with pytest.raises(InputError, match="Pod default/x: a group has the same name"):
        other.apply([pod("m", group="x", cpu=1)])


def test_explaining_asks_a_copy() -> None:
    sandbox = after(made(node("n", cpu=4), pod("a", cpu=3, annotations=lasting("10m")), pod("b", cpu=3)), 3)
    before = sandbox.last_event()
    said = sandbox.explain("b")
    assert said.forecast is not None
    assert said.forecast.start == format_rfc3339(NOW + 602 * SECOND)
    assert sandbox.last_event() == before
    assert phases(sandbox)["b"] == "InsufficientResources"


def test_run_times_are_learnt_from_what_has_run() -> None:
    runs = [pod(f"train-{i}", cpu=4, created=i, annotations=MINUTE) for i in range(3)]
    sandbox = after(made(node("n", cpu=4), runs, pod("w", cpu=4, created=9)), 130)
    assert phases(sandbox)["train-2"] == "running"
    found = sandbox.explain("w").forecast
    assert found is not None
    assert found.estimate
    assert found.start == format_rfc3339(NOW + (126 + 62) * SECOND)  # the mean of the last two
