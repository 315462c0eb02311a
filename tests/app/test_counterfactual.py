"""What would start a job now: the smallest change of each kind, and what was tried in vain."""

import msgspec
import pytest

from fairway.app.explain import JobStanding, counterfactual, explain  # type: ignore[attr-defined]
from fairway.app.explain.model import Effect
from fairway.errors import InputError
from fairway.state import invariants
from support.engine import decided, policy, state_of
from support.explaining import explained, lasting, since, situation, texts, tried
from support.objects import gang, group, namespace, node, pod, pods, priority_class, queue, quota

RECLAIM = "enqueue, allocate, reclaim"


def test_the_largest_request_that_would_start_now() -> None:
    said = explained("big", node("n", gpu=8, cpu=64), pod("a", node="n", gpu=3, cpu=1), pod("big", gpu=6, cpu=4))
    assert said.standing is JobStanding.WAITING
    assert (said.reason, said.nodes) == ("InsufficientResources", {"insufficient nvidia.com/gpu": 1})
    assert "request at most 5 nvidia.com/gpu instead of 6" in texts(said)
    assert "less cpu per pod" in tried(said)


def test_a_request_is_searched_finely_enough_to_be_used() -> None:
    said = explained("a", node("n", cpu="3500m", memory="5000Mi"), pod("a", cpu=4, memory="1Gi"))
    assert texts(said, "request") == ["request at most 3500m cpu instead of 4"]
    said = explained("a", node("n", cpu=8, memory="5000Mi"), pod("a", cpu=4, memory="6Gi"))
    assert texts(said, "request") == ["request at most 5000Mi memory instead of 6Gi"]


def test_a_request_of_several_containers_is_cut_as_a_whole() -> None:
    resources = {"resources": {"requests": {"cpu": "3"}}}
    two = pod("a", spec={"containers": [{"name": "x", **resources}, {"name": "y", **resources}]})
    assert texts(explained("a", node("n", cpu=4), two), "request") == ["request at most 4 cpu instead of 6"]


def test_a_gang_would_start_with_fewer_members() -> None:
    said = explained("g", node("n", cpu=5), gang("g", members=4, cpu=2))
    assert "lower minMember from 4 to 2" in texts(said)
    assert "request at most 1250m cpu per pod instead of 2" in texts(said)


HELD = {"fairway.dev/hold": "true"}


def test_what_is_held_or_gated_would_start_if_it_were_released() -> None:
    room = node("n", cpu=8)
    assert texts(explained("a", room, pod("a", cpu=1, annotations=HELD)))[0] == "remove the annotation fairway.dev/hold"
    members = [pod(f"g-{i}", group="g", cpu=1, gates=["team.example/quota"] * i) for i in range(2)]
    said = explained("g", room, group("g", minimum=2, annotations=HELD), members)
    assert texts(said)[0] == "remove the annotation fairway.dev/hold and the scheduling gate team.example/quota"
    assert texts(explained("a", node("n", cpu=1), pod("a", cpu=4, gates=["x.dev/y"])), "release") == []
    assert "releasing it" not in tried(explained("a", node("n", cpu=1), pod("a", cpu=4)))


def test_the_smallest_change_comes_first() -> None:
    said = explained("g", node("n", cpu=7), gang("g", members=4, cpu=2))
    assert texts(said)[0] == "request at most 1750m cpu per pod instead of 2"
    sizes = [change.size for change in said.counterfactual.changes] if said.counterfactual else []
    assert sizes == sorted(sizes)


def test_whose_end_would_let_it_start_is_told_in_the_order_of_their_ends() -> None:
    there = [
        since(pod("late", node="n", cpu=2, annotations=lasting("3h")), 60),
        since(pod("soon", node="n", cpu=1, annotations=lasting("10m")), 60),
        since(pod("next", node="n", cpu=2, annotations=lasting("20m")), 60),
        since(pod("never", node="n", cpu=2), 60),
    ]
    said = explained("a", node("n", cpu=8), there, pod("a", cpu=4))
    (text,) = texts(said, "ends")
    assert text == "wait for the end of default/next, default/soon (all known to end by 2026-01-02T00:19:00Z)"
    change = next(change for change in said.counterfactual.changes if change.kind == "ends")
    assert change.pods == ("default/next", "default/soon")


def test_a_run_that_cannot_be_spared_has_no_known_end() -> None:
    said = explained("a", node("n", cpu=8), pod("other", node="n", cpu=6), pod("a", cpu=4))
    assert texts(said, "ends") == ["wait for the end of default/other (its end is unknown)"]


def test_those_that_start_with_the_next_cycle_count_as_running() -> None:
    """Two wait for the room of one: the end of the first would let the second start."""
    waiting = [pod("first", created=0, cpu=4), pod("second", created=1, cpu=4)]
    said = explained("second", node("n", cpu=4), waiting)
    assert texts(said, "ends") == ["wait for the end of default/first (its end is unknown)"]


def test_how_much_more_capability_a_queue_would_need() -> None:
    capped = queue("q", capability={"cpu": 4, "memory": "8Gi"})
    busy = pod("busy", node="n", queue="q", cpu=3, memory="1Gi")
    said = explained("a", node("n", cpu=64, memory="64Gi"), capped, busy, pod("a", queue="q", cpu=4, memory="1Gi"))
    assert said.reason == "QueueCapability"
    assert texts(said, "capability") == ["raise the capability of queue q from 4 to 7 cpu"]
    assert "request at most 1 cpu instead of 4" in texts(said)


def test_capability_is_raised_in_every_dimension_and_queue_that_needs_it() -> None:
    above, below = queue("above", capability={"cpu": 4}), queue("below", parent="above", capability={"memory": "1Gi"})
    said = explained("a", node("n", cpu=64, memory="64Gi"), above, below, pod("a", queue="below", cpu=6, memory="2Gi"))
    assert texts(said, "capability") == [
        "raise the capability of queue below from 1Gi to 2Gi memory and queue above from 4 to 6 cpu"
    ]


def test_a_closed_queue_would_have_to_be_opened_and_a_missing_one_made() -> None:
    closed = explained("a", node("n", cpu=4), queue("q", state="Closed"), pod("a", queue="q", cpu=1))
    assert (closed.reason, texts(closed)) == ("QueueClosed", ["open queue q"])
    missing = explained("a", node("n", cpu=4), pod("a", queue="q", cpu=1))
    assert (missing.reason, texts(missing)) == ("QueueNotFound", ["create queue q"])


def test_more_weight_lets_a_queue_reclaim() -> None:
    """Under equal weights q has its half; with more it may take back what r borrowed."""
    objects = [
        node("n", cpu=12),
        queue("q"),
        queue("r"),
        [pod(f"q{i}", node="n", queue="q", cpu=2) for i in range(3)],
        [pod(f"r{i}", node="n", queue="r", cpu=2) for i in range(3)],
        pod("a", queue="q", cpu=2),
    ]
    said = explained("a", objects, with_policy=policy(actions=RECLAIM))
    assert texts(said, "weight") == ["raise the weight of queue q from 1 to 2"]
    (change,) = [change for change in said.counterfactual.changes if change.kind == "weight"]
    assert change.effect is Effect.EVICTS


def test_more_namespace_weight_moves_a_job_up_the_line() -> None:
    objects = [
        node("n", cpu=6),
        quota("x", 1),
        pod("held", "x", node="n", cpu=2),
        pod("a", "x", cpu=4),
        pod("held", "y", node="n", cpu=0),
        pod("b", "y", cpu=4),
    ]
    said = explained("x/a", objects)
    assert texts(said, "namespaceWeight") == []  # y holds nothing: no weight makes x the smaller one
    objects[4] = pod("held", "y", node="m", cpu=1)
    said = explained("x/a", objects, node("m", cpu=1))
    assert texts(said, "namespaceWeight") == ["raise the weight of namespace x from 1 to 2"]


def test_a_selector_a_taint_or_a_cordon_in_the_way() -> None:
    nodes = [
        node("tainted", cpu=8, taints=["team=x:NoSchedule"]),
        node("plain", cpu=2),
        node("shut", cpu=8, unschedulable=True),
        node("dead", cpu=8, ready=False),
    ]
    said = explained("a", nodes, pod("a", cpu=4))
    assert {"tolerate the taint team=x", "uncordon shut", "restore dead"} <= set(texts(said))
    said = explained("a", node("n", cpu=8), pod("a", cpu=4, spec={"nodeSelector": {"disk": "ssd", "zone": "z"}}))
    assert texts(said, "rule") == ["drop all node selectors"]
    said = explained(
        "a", node("n", cpu=8, labels={"zone": "z"}), pod("a", cpu=4, spec={"nodeSelector": {"disk": "ssd"}})
    )
    assert texts(said, "rule") == ["drop the node selector disk=ssd"]


def test_a_higher_priority_just_above_those_in_the_way() -> None:
    classes = [priority_class("high", 100), priority_class("mid", 50)]
    ahead = pod("ahead", cpu=4, created=0, spec={"priorityClassName": "mid"})
    other = pod("other", node="m", cpu=1, spec={"priorityClassName": "high"})
    said = explained("a", node("n", cpu=4), node("m", cpu=1), classes, ahead, other, pod("a", cpu=4, created=1))
    assert texts(said, "priority") == ["raise its priority from 0 to 51"]


def test_a_group_with_a_priority_class_is_tried_as_a_whole() -> None:
    objects = [
        node("n", cpu=4),
        priority_class("low", 1),
        pod("ahead", cpu=4, created=0, spec={"priority": 7}),
        gang("g", members=2, created=1, cpu=2, priority_class="low", spec={"priority": 1}),
    ]
    assert texts(explained("g", objects), "priority") == ["raise its priority from 1 to 8"]


def test_when_nothing_helps_that_is_said_with_what_was_tried() -> None:
    said = explained("a", node("n", cpu=4), pod("a", cpu=1, gpu=1, memory="9Gi"))
    assert texts(said) == []
    assert {"less cpu per pod", "a higher priority", "a higher queue weight", "less nvidia.com/gpu per pod"} <= tried(
        said
    )
    assert said.counterfactual is not None
    assert said.counterfactual.decisions == sum(trial.decisions for trial in said.counterfactual.tried)


def test_the_search_ends_at_its_limit_and_says_so() -> None:
    copy = situation(node("n", cpu=5), gang("g", members=4, cpu=2))
    found = counterfactual(copy, copy.decide(), "default/g", "default", limit=3)
    assert (found.decisions, found.complete) == (3, False)
    assert not counterfactual(copy, copy.decide(), "default/g", "default", limit=3).complete


def test_a_job_that_runs_or_starts_needs_no_help() -> None:
    objects = [node("n", cpu=4), pod("there", node="n", cpu=1), pod("new", cpu=1)]
    there, new = explained("there", objects), explained("new", objects)
    assert (there.standing, there.counterfactual, there.forecast) == (JobStanding.RUNNING, None, None)
    assert [(place.pod, place.node) for place in there.places] == [("default/there", "n")]
    assert (new.standing, new.counterfactual) == (JobStanding.STARTING, None)
    assert [(place.pod, place.node) for place in new.places] == [("default/new", "n")]


def test_asking_changes_nothing() -> None:
    """After every question the copy decides as before, byte for byte, and as a copy that was never asked."""
    objects = [
        namespace("x"),
        queue("q", capability={"cpu": 6}),
        node("n", cpu=8, taints=["t=1:NoSchedule"]),
        node("m", cpu=4, labels={"zone": "z"}),
        pod("r", node="m", cpu=2, annotations=lasting("1h")),
        gang("g", members=3, queue="q", cpu=3),
        pods("w", 3, cpu=1, spec={"nodeSelector": {"zone": "z"}}),
    ]
    copy = situation(objects)
    before = msgspec.json.encode(copy.decide().document())
    explain(copy, "g")
    invariants.check(copy.state)
    assert msgspec.json.encode(copy.decide().document()) == before
    assert msgspec.json.encode(decided(state_of(objects), copy.policy).document()) == before


def test_a_job_is_found_by_name_by_pod_and_else_said_to_be_missing() -> None:
    objects = [node("n", cpu=1), gang("g", members=2, cpu=1), pod("x", "one", cpu=9), pod("x", "two", cpu=9)]
    copy = situation(objects)
    assert [copy.find_job(name) for name in ("g", "default/g", "g-1", "two/x")] == ["default/g"] * 3 + ["two/x"]
    with pytest.raises(InputError, match="several jobs have this name, expected one of one/x, two/x"):
        copy.find_job("x")
    with pytest.raises(InputError, match="y: there is no such job, expected one of default/g, one/x, two/x"):
        copy.find_job("y")
    with pytest.raises(InputError, match="there are no jobs"):
        situation(node("n")).find_job("y")


def test_where_a_job_stands() -> None:
    objects = [
        node("n", cpu=8),
        queue("q", weight=3),
        pod("busy", "x", node="n", queue="q", cpu=6),
        pod("first", "x", queue="q", cpu=4, created=0),
        pod("second", "x", queue="q", cpu=5, created=1),
    ]
    said = explained("second", objects)
    assert (said.position, said.line, said.waiting, said.minimum) == (2, 2, 1, 1)
    assert said.queue is not None
    assert (said.queue.name, said.queue.allocated["cpu"]) == ("q", "6")
    assert said.namespace is not None
    assert (said.namespace.namespace, said.namespace.share) == ("x", 0.75)
    assert said.since == "2026-01-01T00:00:01Z"


def test_a_group_without_enough_pods_could_be_content_with_less() -> None:
    said = explained("g", node("n", cpu=4), group("g", minimum=3), pods("p", 2, group="g", cpu=1))
    assert said.reason == "GangTooFewPods"
    assert texts(said, "members") == ["lower minMember from 3 to 2"]
