"""Which prioritizers count with which weight: both forms, both modes, ranges and mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.fleet.rules import read
from fleet.fleet_objects import cluster, condition, decide, decision, placement

V1ALPHA1 = "cluster.open-cluster-management.io/v1alpha1"


def weights(policy: dict[str, Any], **more: Any) -> dict[str, int]:
    rules = read(placement(prioritizerPolicy=policy, **more))
    assert not rules.problems
    return {prioritizer.name: weight for prioritizer, weight in rules.weights}


def built_in(name: str, **more: int) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, **more}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {"Balance": 1, "Steady": 1}),
        ({"mode": ""}, {"Balance": 1, "Steady": 1}),
        ({"mode": "Additive", "configurations": [{"name": "Steady", "weight": 0}]}, {"Balance": 1}),
        ({"configurations": [{"name": "ResourceRatioCPU"}]}, {"Balance": 1, "Steady": 1, "ResourceRatioCPU": 1}),
        ({"mode": "Exact"}, {}),
        ({"mode": "Exact", "configurations": [built_in("Steady", weight=3)]}, {"Steady": 3}),
        ({"mode": "Exact", "configurations": [built_in("Balance", weight=-10)]}, {"Balance": -10}),
        (
            {"mode": "Exact", "configurations": [{"name": "ResourceRatio:nvidia.com/gpu"}]},
            {"ResourceRatio:nvidia.com/gpu": 1},
        ),
        (
            {"mode": "Exact", "configurations": [{"name": "ResourceFreeexample.com/TPU"}]},
            {"ResourceFreeexample.com/TPU": 1},
        ),
        (
            {
                "mode": "Exact",
                "configurations": [
                    {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}},
                ],
            },
            {"AddOn/usage/cpu": 1},
        ),
    ],
)
def test_modes_and_forms(policy: dict[str, Any], expected: dict[str, int]) -> None:
    assert weights(policy) == expected


def test_the_last_of_a_duplicate_counts_and_is_warned_of() -> None:
    policy = {"mode": "Exact", "configurations": [{"name": "Balance", "weight": 2}, {"name": "Balance", "weight": 5}]}
    outcome = decide(cluster("c"), placement(prioritizerPolicy=policy))
    assert outcome.decisions[0].score == 500
    assert outcome.warnings == (
        "prioritizerPolicy.configurations[1]: Balance is listed more than once, the last one counts",
    )


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"name": "Balance", "weight": -1}, "weight is -1, expected 0 to 10"),
        ({"name": "Balance", "weight": 11}, "weight is 11, expected 0 to 10"),
        (built_in("Balance", weight=-11), "weight is -11, expected -10 to 10"),
        ({"name": "Fastest"}, "unknown prioritizer 'Fastest'"),
        ({"name": "ResourceRatioGPU"}, "unknown prioritizer 'ResourceRatioGPU'"),
        ({"name": "ResourceAllocatable:"}, "unknown prioritizer"),
        (built_in(""), "unknown prioritizer ''"),
        ({}, "expected either name or scoreCoordinate"),
        ({"name": "Steady", **built_in("Steady")}, "expected either name or scoreCoordinate"),
        ({"scoreCoordinate": {"type": "AddOn"}}, "expected resourceName and scoreName"),
        ({"scoreCoordinate": {"type": "Magic"}}, "type 'Magic' is unknown"),
    ],
)
def test_a_bad_configuration_keeps_the_last_good_decisions(configuration: dict[str, Any], message: str) -> None:
    wrong = placement(prioritizerPolicy={"configurations": [configuration]})
    outcome = decide(cluster("a"), cluster("b"), decision("p", ["b"]), wrong)
    assert [item.cluster for item in outcome.decisions] == ["b"]
    assert condition(outcome, "PlacementMisconfigured")[:2] == ("True", "Misconfigured")
    assert "prioritizerPolicy.configurations[0]" in condition(outcome, "PlacementMisconfigured")[2]
    assert message in condition(outcome, "PlacementMisconfigured")[2]
    assert condition(outcome)[:2] == ("False", "NotAllDecisionsScheduled")
    assert not outcome.writes


def test_the_older_form_takes_no_negative_weight() -> None:
    old = placement(version=V1ALPHA1, prioritizerPolicy={"configurations": [built_in("Steady", weight=-1)]})
    assert read(old).problems == ("prioritizerPolicy.configurations[0].weight is -1, expected 0 to 10",)


def test_an_unknown_mode_is_misconfigured() -> None:
    outcome = decide(cluster("a"), placement(prioritizerPolicy={"mode": "Random"}))
    assert condition(outcome, "PlacementMisconfigured")[2] == (
        "prioritizerPolicy.mode 'Random' is unknown, expected Additive or Exact"
    )
    assert condition(outcome)[0] == "False"
