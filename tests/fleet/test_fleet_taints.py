"""Taints, tolerations and their end."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.fleet_objects import SECOND, at, cluster, condition, decide, decision, exact, fleet, placement, reasons, run

NO_SELECT = {"key": "gpu", "value": "a100", "effect": "NoSelect"}


def chosen(taint: dict[str, Any], toleration: dict[str, Any], before: bool = False, now: int = 0) -> bool:
    objects = [cluster("c", taints=[taint]), placement(tolerations=[toleration] if toleration else [])]
    outcome = decide(*objects, *([decision("p", ["c"])] if before else []), now=now)
    return outcome.clusters == ("c",)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({}, False),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"key": "gpu"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSelect"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSelectIfNew"}, False),
        ({"key": "cpu", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], expected: bool) -> None:
    assert chosen(NO_SELECT, toleration) is expected


def test_the_reason_names_the_taint() -> None:
    outcome = decide(cluster("c", taints=[NO_SELECT]), placement())
    assert reasons(outcome) == {"c": ("TaintToleration", "taint gpu=a100:NoSelect is not tolerated")}
    status, reason, message = condition(outcome)
    assert (status, reason) == ("False", "NoManagedClusterMatched")
    assert message == "none of 1 cluster passed: 1 by taints (c: taint gpu=a100:NoSelect is not tolerated)"


def test_no_select_if_new_spares_those_already_chosen() -> None:
    taint = {"key": "drain", "effect": "NoSelectIfNew"}
    assert not chosen(taint, {})
    assert chosen(taint, {}, before=True)
    assert not chosen({**taint, "effect": "NoSelect"}, {}, before=True)


@pytest.mark.parametrize(
    "mode", [exact("ResourceAllocatableCPU"), {"configurations": [{"name": "Balance", "weight": 0}]}]
)
def test_prefer_no_select_costs_a_hundred_points_once(mode: dict[str, Any]) -> None:
    soft = [{"key": "old", "effect": "PreferNoSelect"}, {"key": "slow", "effect": "PreferNoSelect"}]
    objects = [cluster("a", {"cpu": "1"}, taints=soft), cluster("b", {"cpu": "1"})]
    outcome = decide(*objects, placement(prioritizerPolicy=mode))
    by_name = {item.cluster: item for item in outcome.decisions}
    assert outcome.clusters == ("b", "a")
    assert by_name["a"].scores["PreferNoSelect"] == -100
    assert "PreferNoSelect" not in by_name["b"].scores
    assert (by_name["b"].score or 0) - (by_name["a"].score or 0) == 100
    tolerant = placement(prioritizerPolicy=mode, tolerations=[{"operator": "Exists"}])
    assert decide(*objects, tolerant).clusters == ("a", "b")


def test_toleration_seconds_count_from_the_taint_and_end_on_the_instant() -> None:
    taint = {**NO_SELECT, "timeAdded": at(100)}
    toleration = {"key": "gpu", "operator": "Exists", "tolerationSeconds": 60}
    state = fleet(cluster("c", taints=[taint]), placement(tolerations=[toleration]))
    plan = run(state, 159 * SECOND)
    assert plan.outcomes[0].clusters == ("c",)
    assert plan.recheck_at == 160 * SECOND
    assert run(state, 160 * SECOND - 1).outcomes == ()
    [outcome] = run(state, 160 * SECOND).outcomes
    assert outcome.clusters == ()
    assert reasons(outcome)["c"][1] == (
        "taint gpu=a100:NoSelect is not tolerated any more: the toleration ended 1970-01-01T00:02:40Z"
    )
    assert [(move.cluster, move.joined) for move in outcome.moves] == [("c", False)]


def test_the_longest_toleration_counts_and_one_without_seconds_never_ends() -> None:
    taint = {**NO_SELECT, "timeAdded": at(0)}
    short, long = {"operator": "Exists", "tolerationSeconds": 10}, {"operator": "Exists", "tolerationSeconds": 20}
    plan = run(fleet(cluster("c", taints=[taint]), placement(tolerations=[short, long])), 15 * SECOND)
    assert (plan.outcomes[0].clusters, plan.recheck_at) == (("c",), 20 * SECOND)
    ever = placement(tolerations=[short, {"operator": "Exists"}])
    plan = run(fleet(cluster("c", taints=[taint]), ever), 15 * SECOND)
    assert (plan.outcomes[0].clusters, plan.recheck_at) == (("c",), None)


def test_seconds_without_a_time_to_count_from_tolerate_nothing() -> None:
    outcome = decide(
        cluster("c", taints=[NO_SELECT]), placement(tolerations=[{"operator": "Exists", "tolerationSeconds": 10}])
    )
    assert reasons(outcome)["c"][1].endswith("tolerationSeconds needs the taint's timeAdded")


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ({"value": "x"}, "tolerations[0]: an empty key needs the operator Exists"),
        ({"key": "k", "operator": "Exists", "value": "x"}, "tolerations[0]: the operator Exists takes no value"),
        ({"key": "k", "operator": "Like"}, "tolerations[0].operator 'Like' is unknown"),
        ({"key": "k", "effect": "NoSchedule"}, "tolerations[0].effect 'NoSchedule' is unknown"),
    ],
)
def test_toleration_rules(toleration: dict[str, Any], message: str) -> None:
    outcome = decide(cluster("a"), decision("p", ["a"]), placement(tolerations=[toleration]))
    assert message in condition(outcome, "PlacementMisconfigured")[2]
    assert [item.cluster for item in outcome.decisions] == ["a"]


def test_a_toleration_beyond_all_time_never_ends() -> None:
    taint = {**NO_SELECT, "timeAdded": at(0)}
    for seconds, clusters in ((2**62, ("c",)), (-(2**62), ())):
        toleration = {"operator": "Exists", "tolerationSeconds": seconds}
        plan = run(fleet(cluster("c", taints=[taint]), placement(tolerations=[toleration])))
        assert (plan.outcomes[0].clusters, plan.recheck_at) == (clusters, None)
        assert plan.document()


@pytest.mark.parametrize("names", ["strict tolerant", "tolerant zealous"])
def test_each_placement_has_its_own_tolerations(names: str) -> None:
    """Two that select the same clusters, whichever of them is decided first."""
    first, second = names.split()
    tolerates = {"tolerations": [{"key": "k", "operator": "Exists"}]}
    specs: dict[str, dict[str, Any]] = {"strict": {}, "zealous": {}, "tolerant": tolerates}
    state = fleet(
        cluster("bad", taints=[{"key": "k", "effect": "NoSelect"}]),
        cluster("good"),
        *(placement(name, **specs[name]) for name in (first, second)),
    )
    found = {outcome.key[1]: sorted(outcome.clusters) for outcome in run(state).outcomes}
    assert found == {name: ["bad", "good"] if name == "tolerant" else ["good"] for name in (first, second)}
