"""The pipeline as a whole: numbers of clusters, order, conditions, churn, kept decisions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api import fleet as api
from fairway.fleet import FleetState, place
from fairway.fleet.rules import read
from fleet.fleet_objects import (
    SECOND,
    at,
    chosen,
    cluster,
    condition,
    decide,
    decision,
    everywhere,
    exact,
    fleet,
    placement,
    reasons,
    run,
    scores,
)
from oracles import fleet_scores as reference
from support.effort import examples

CPU = exact("ResourceAllocatableCPU")


def cpus(**amounts: str) -> list[api.ManagedCluster]:
    return [cluster(name, {"cpu": amount}) for name, amount in amounts.items()]


@pytest.mark.parametrize(
    ("count", "expected", "status"),
    [
        (None, ("c", "b", "a"), ("True", "AllDecisionsScheduled")),
        (0, (), ("True", "AllDecisionsScheduled")),
        (2, ("c", "b"), ("True", "AllDecisionsScheduled")),
        (3, ("c", "b", "a"), ("True", "AllDecisionsScheduled")),
        (5, ("c", "b", "a"), ("False", "NotAllDecisionsScheduled")),
    ],
)
def test_number_of_clusters(count: int | None, expected: tuple[str, ...], status: tuple[str, str]) -> None:
    spec = {} if count is None else {"numberOfClusters": count}
    outcome = decide(*cpus(a="1", b="2", c="3"), placement(prioritizerPolicy=CPU, **spec))
    assert outcome.clusters == expected
    assert condition(outcome)[:2] == status
    assert all(filter == "Cut" for filter, _ in reasons(outcome).values())


def test_names_that_are_no_labels_are_misconfigured() -> None:
    """A server would refuse the decisions, and the placement would wait for ever without a word."""
    assert read(placement("n" * 63)).problems == ()
    (said,) = read(placement("n" * 64)).problems
    assert said == "the name has 64 characters, expected at most 63: decisions have it as a label"
    group = {"groupName": "first wave", "groupClusterSelector": {}}
    strategy = {"groupStrategy": {"decisionGroups": [{**group, "groupName": "wave-1"}, group]}}
    assert read(placement("p", decisionStrategy=strategy)).problems == (
        "decisionGroups[1].groupName 'first wave' is not a label value",
    )


def test_a_negative_number_is_misconfigured() -> None:
    outcome = decide(cluster("a"), decision("p", ["a"]), placement(numberOfClusters=-1))
    assert condition(outcome, "PlacementMisconfigured")[2] == "numberOfClusters is -1, expected 0 or more"
    assert [item.cluster for item in outcome.decisions] == ["a"]


def test_ties_break_by_name() -> None:
    outcome = decide(*cpus(c="1", a="1", b="1"), placement(numberOfClusters=2, prioritizerPolicy=CPU))
    assert outcome.clusters == ("a", "b")
    assert reasons(outcome)["c"] == ("Cut", "100 points, the last of 2 chosen (b) has 100, later by name")


def test_every_cluster_has_points_or_a_reason() -> None:
    tainted = cluster("t", taints=[{"key": "k", "effect": "NoSelect"}])
    outcome = decide(*cpus(a="1", b="2", c="3"), tainted, placement(numberOfClusters=1, prioritizerPolicy=CPU))
    assert [(item.cluster, item.score, item.scores) for item in outcome.decisions] == [
        ("c", 100, {"ResourceAllocatableCPU": 100})
    ]
    assert [(item.cluster, item.filter, item.score) for item in outcome.filtered] == [
        ("b", "Cut", 0),
        ("a", "Cut", -100),
        ("t", "TaintToleration", None),
    ]
    [slice] = outcome.slices
    assert slice.status.decisions == (api.ClusterDecision("c", "rank 1 of 3: ResourceAllocatableCPU 100", 100),)


def test_too_few_say_what_stopped_the_others() -> None:
    objects = [cluster("a"), cluster("b", taints=[{"key": "k", "effect": "NoSelect"}])]
    message = condition(decide(*objects, placement(numberOfClusters=3)))[2]
    assert message == "1 of 3 clusters chosen, 2 unscheduled: 1 by taints (b: taint k:NoSelect is not tolerated)"
    few = decide(cluster("a"), placement(numberOfClusters=2))
    assert condition(few)[2] == "1 of 2 clusters chosen, 1 unscheduled: there are no more clusters in the sets"


def test_placements_are_decided_in_order_each_seeing_the_earlier() -> None:
    names = [("b", "x"), ("a", "z"), ("a", "y")]
    placements = [placement(name, namespace, numberOfClusters=1) for namespace, name in names]
    state = FleetState([*everywhere("a"), *everywhere("b"), *map(cluster, "123"), *placements])
    plan = run(state)
    assert list(chosen(plan).items()) == [("a/y", ["1"]), ("a/z", ["2"]), ("b/x", ["3"])]


def test_balance_is_at_rest_once_every_placement_has_seen_the_others() -> None:
    state = fleet(*map(cluster, "12"), *(placement(name, numberOfClusters=1) for name in "abcd"))
    first = chosen(run(state))
    assert first == {"ns/a": ["1"], "ns/b": ["2"], "ns/c": ["1"], "ns/d": ["2"]}
    for _ in range(5):
        plan = run(state)
        if not plan.outcomes:
            break
        assert all(not outcome.moves for outcome in plan.outcomes)
    assert not state.affected(0)


def test_a_move_for_balance_alone_needs_strictly_more() -> None:
    """b has as many points as a: without Steady, the name would decide, and Balance move everything about."""
    state = fleet(cluster("a"), cluster("b"), placement(numberOfClusters=1, prioritizerPolicy=exact("Balance")))
    state.upsert(decision("p", ["b"]))
    [outcome] = run(state).outcomes
    assert outcome.clusters == ("b",)
    assert reasons(outcome)["a"] == ("Cut", "100 points, b has as many and is chosen already")
    state.upsert(decision("q", ["b"]))
    [outcome] = run(state).outcomes
    assert outcome.clusters == ("a",)
    assert [(move.cluster, move.joined) for move in outcome.moves] == [("a", True), ("b", False)]


def test_min_gain_damps_moves() -> None:
    damped = placement(
        numberOfClusters=1, prioritizerPolicy=exact("ResourceRatioCPU"), annotations={"fairway.dev/min-gain": "30"}
    )
    state = fleet(cluster("a", {"cpu": "50"}, {"cpu": "100"}), cluster("b", {"cpu": "40"}, {"cpu": "100"}), damped)
    assert chosen(run(state)) == {"ns/p": ["a"]}
    state.upsert(cluster("b", {"cpu": "64"}, {"cpu": "100"}))
    [outcome] = run(state).outcomes
    assert scores(outcome) == {"a": 0, "b": 28}
    assert outcome.clusters == ("a",)
    assert reasons(outcome)["b"] == ("Cut", "28 points, a has 0 but gives way only to 30 more (fairway.dev/min-gain)")
    state.upsert(cluster("b", {"cpu": "65"}, {"cpu": "100"}))
    [outcome] = run(state).outcomes
    assert outcome.clusters == ("b",)


def test_cooldown_holds_a_decision_for_a_while_but_not_a_lost_cluster() -> None:
    cooled = placement(numberOfClusters=1, prioritizerPolicy=CPU, annotations={"fairway.dev/cooldown": "60"})
    state = fleet(*cpus(a="2", b="1", c="0"), cooled)
    assert run(state, 0).outcomes[0].slices[0].metadata.annotations == {"fairway.dev/moved-at": at(0)}
    state.upsert(cluster("b", {"cpu": "3"}))
    plan = run(state, 10 * SECOND)
    assert chosen(plan) == {"ns/p": ["a"]}
    assert reasons(plan.outcomes[0])["b"][1] == f"100 points, a has 33 but stays until {at(60)} (cooldown)"
    assert plan.recheck_at == 60 * SECOND
    restarted = FleetState([*everywhere(), *cpus(a="2", b="3", c="0"), cooled, *plan.outcomes[0].slices])
    assert chosen(run(restarted, 30 * SECOND)) == {"ns/p": ["a"]}
    assert chosen(run(state, 60 * SECOND)) == {"ns/p": ["b"]}
    state.delete(cluster("b"))
    plan = run(state, 61 * SECOND)
    assert chosen(plan) == {"ns/p": ["a"]}
    assert [(move.cluster, move.reason) for move in plan.outcomes[0].moves if not move.joined] == [
        ("b", "the cluster is gone")
    ]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [("fairway.dev/min-gain", "-1"), ("fairway.dev/cooldown", "1h"), ("fairway.dev/missing-resource", "one")],
)
def test_bad_annotations_are_misconfigured(annotation: str, value: str) -> None:
    outcome = decide(cluster("a"), placement(annotations={annotation: value}))
    assert f"annotation {annotation} is {value!r}" in condition(outcome, "PlacementMisconfigured")[2]


def test_scheduling_disabled_leaves_the_decisions() -> None:
    disabled = placement(annotations={"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"})
    outcome = decide(cluster("a"), cluster("b"), decision("p", ["b"]), disabled)
    assert [item.cluster for item in outcome.decisions] == ["b"]
    assert not outcome.writes


def test_a_repaired_misconfiguration_decides_again() -> None:
    state = fleet(*cpus(a="1", b="2"), decision("p", ["a"]), placement(numberOfClusters=-1))
    assert chosen(run(state)) == {"ns/p": ["a"]}
    state.upsert(placement(numberOfClusters=1, prioritizerPolicy=CPU))
    assert chosen(run(state)) == {"ns/p": ["b"]}


def add_on_score(name: str, value: int, valid: float | None = None) -> api.AddOnPlacementScore:
    status: dict[str, Any] = {"scores": [{"name": "cpu", "value": value}]}
    if valid is not None:
        status["validUntil"] = at(valid)
    given = {"metadata": {"name": "usage", "namespace": name}, "status": status}
    return msgspec.convert(given, api.AddOnPlacementScore)


def test_add_on_scores_expire_on_the_instant_and_missing_ones_are_zero() -> None:
    policy = {
        "mode": "Exact",
        "configurations": [
            {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}, "weight": 2}
        ],
    }
    state = fleet(cluster("a"), cluster("b"), cluster("c"), placement(prioritizerPolicy=policy))
    state.upsert(add_on_score("a", 40, valid=100))
    state.upsert(add_on_score("b", -7))
    plan = run(state, 50 * SECOND)
    assert scores(plan.outcomes[0]) == {"a": 80, "c": 0, "b": -14}
    assert plan.outcomes[0].warnings == ("AddOn/usage/cpu is missing for c",)
    assert plan.recheck_at == 100 * SECOND
    plan = run(state, 100 * SECOND)
    assert scores(plan.outcomes[0]) == {"a": 0, "c": 0, "b": -14}
    assert "AddOn/usage/cpu has expired for a" in plan.outcomes[0].warnings
    state.upsert(add_on_score("c", 500))
    assert scores(run(state, 100 * SECOND).outcomes[0])["c"] == 200


def test_bad_amounts_are_stated_and_taken_as_not_reported() -> None:
    objects = [
        cluster("bad", {"cpu": "lots", "memory": "-1"}, {"cpu": "10"}),
        cluster("odd", {"cpu": "20"}, {"cpu": "10"}),
        cluster("plain", {"cpu": "5"}, {"cpu": "10"}),
    ]
    broken = api.ManagedCluster(
        msgspec.structs.replace(
            cluster("broken").metadata, annotations={"fairway.dev/free": "{", "fairway.dev/placement-usage": "[]"}
        )
    )
    plan = place(fleet(*objects, broken, placement(prioritizerPolicy=exact("ResourceRatioCPU"))), 0)
    assert scores(plan.outcomes[0]) == {"odd": 100, "plain": 0, "bad": -100, "broken": -100}
    assert len(plan.warnings) == 5
    assert "cluster bad: status.allocatable.memory: invalid quantity '-1': must not be negative" in plan.warnings[1]
    assert "cluster odd: cpu: allocatable 20 is more than the capacity 10" in plan.warnings


amounts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), min_size=1)


@given(amounts, st.sets(st.sampled_from("abcdefgh")), st.integers(0, 8), st.integers(0, 60))
def test_the_cut_is_the_slow_cut(cpu: dict[str, int], before: set[str], count: int, gain: int) -> None:
    spec = placement(numberOfClusters=count, prioritizerPolicy=CPU, annotations={"fairway.dev/min-gain": str(gain)})
    outcome = decide(*cpus(**{name: str(a) for name, a in cpu.items()}), decision("p", sorted(before)), spec)
    totals = reference.by_amount(dict(cpu), -100)
    assert list(outcome.clusters) == reference.cut(totals, before, count, gain)


@given(amounts, amounts, st.integers(1, 8))
def test_steady_with_enough_weight_never_moves(first: dict[str, int], then: dict[str, int], count: int) -> None:
    names = sorted(first.keys() & then.keys())
    pinned = placement(numberOfClusters=count, prioritizerPolicy=exact("ResourceAllocatableCPU", Steady=3))
    state = fleet(*cpus(**{name: str(first[name]) for name in names}), pinned)
    before = chosen(run(state))
    for name in names:
        state.upsert(cluster(name, {"cpu": str(then[name])}))
    after = chosen(run(state))
    assert not after or {key: set(value) for key, value in after.items()} == {
        key: set(value) for key, value in before.items()
    }


@settings(max_examples=examples(30))
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(dice: random.Random) -> None:
    objects: list[object] = [*everywhere("a"), *everywhere("b")[1:], *cpus(a="1", b="2", c="3", d="2")]
    objects += [placement(name, ns, numberOfClusters=2) for name in "xy" for ns in "ab"]
    objects += [placement("w", "b", numberOfClusters=1, prioritizerPolicy=CPU), decision("y", ["d", "gone"], "a")]
    expected = place(FleetState(objects), 0).document()
    dice.shuffle(objects)
    state = FleetState(objects)
    assert place(state, 0).document() == expected
    assert place(state, 0).document() == expected, "placing changes nothing"


def _bound(name: str, *, exists: bool = True, bound: bool = True) -> list[object]:
    """A set that some cluster may be in by its label, bound to the namespace or not."""
    binding = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterSet": name}}
    made: list[object] = [msgspec.convert({"metadata": {"name": name}}, api.ManagedClusterSet)] if exists else []
    return [*made, *([msgspec.convert(binding, api.ManagedClusterSetBinding)] if bound else [])]


@pytest.mark.parametrize(
    ("objects", "asked", "reason"),
    [
        (_bound("red", bound=False), {}, "no ManagedClusterSet is bound to namespace ns"),
        (_bound("red", exists=False), {}, "no ManagedClusterSet is bound to namespace ns"),
        (
            [*_bound("red"), *_bound("blue", bound=False)],
            {"clusterSets": ["blue"]},
            "none of the requested cluster sets is bound to namespace ns",
        ),
        ([*_bound("red"), *_bound("blue")], {}, "in none of the cluster sets [blue, red]"),
        ([*_bound("red"), *_bound("blue")], {"clusterSets": ["red"]}, "in none of the cluster sets [red]"),
    ],
)
def test_why_a_cluster_is_in_no_set_that_counts(objects: list[object], asked: dict[str, Any], reason: str) -> None:
    [outcome] = place(FleetState([cluster("c"), placement(**asked), *objects]), 0).outcomes
    assert reasons(outcome) == {"c": ("ClusterSet", reason)}
