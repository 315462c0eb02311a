"""Cluster sets, bindings and predicates: labels, claims, CEL."""

from __future__ import annotations

import builtins
from typing import Any

import msgspec
import pytest

from fairway.api import fleet as api
from fairway.cel import Environment
from fairway.fleet import FleetState, cel, place
from fleet.fleet_objects import cluster, condition, decide, decision, everywhere, placement, reasons


def required(**selector: Any) -> dict[str, Any]:
    return {"requiredClusterSelector": selector}


def labels(*requirements: dict[str, Any], **match: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": match, "matchExpressions": list(requirements)}}


def needs(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


PROD = cluster("prod", labels={"env": "prod", "zone": "a"}, claims={"region": "eu", "id": "1"})
TEST = cluster("test", labels={"env": "test"}, claims={"region": "us"})
BARE = cluster("bare")


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ([], {"bare", "prod", "test"}),
        ([required()], {"bare", "prod", "test"}),
        ([required(**labels(env="prod"))], {"prod"}),
        ([required(**labels(env="prod", zone="b"))], set()),
        ([required(**labels(needs("env", "In", "prod", "test")))], {"prod", "test"}),
        ([required(**labels(needs("env", "In", "nothing")))], set()),
        ([required(**labels(needs("env", "NotIn", "test")))], {"bare", "prod"}),
        ([required(**labels(needs("env", "Exists")))], {"prod", "test"}),
        ([required(**labels(needs("env", "DoesNotExist")))], {"bare"}),
        ([required(claimSelector={"matchExpressions": [needs("region", "In", "eu")]})], {"prod"}),
        ([required(claimSelector={"matchExpressions": [needs("id", "DoesNotExist")]})], {"bare", "test"}),
        ([required(**labels(env="prod")), required(**labels(env="test"))], {"prod", "test"}),
        (
            [required(**labels(env="prod"), claimSelector={"matchExpressions": [needs("region", "In", "us")]})],
            set(),
        ),
    ],
)
def test_terms_are_ored_and_in_a_term_all_must_match(predicates: list[dict[str, Any]], expected: set[str]) -> None:
    outcome = decide(PROD, TEST, BARE, placement(predicates=predicates))
    assert set(outcome.clusters) == expected
    assert {name for name, (filter, _) in reasons(outcome).items() if filter == "Predicate"} == (
        {"bare", "prod", "test"} - expected
    )


def test_reasons_say_what_is_there_and_what_is_required() -> None:
    predicates = [
        required(**labels(env="prod")),
        required(claimSelector={"matchExpressions": [needs("region", "In", "eu", "ap")]}),
    ]
    outcome = decide(TEST, BARE, placement(predicates=predicates))
    assert reasons(outcome) == {
        "test": (
            "Predicate",
            "label env is 'test', 'prod' is required; claim region is 'us', one of [eu, ap] is required",
        ),
        "bare": (
            "Predicate",
            "label env is missing, 'prod' is required; claim region is missing, one of [eu, ap] is required",
        ),
    }


def expression(text: str) -> list[dict[str, Any]]:
    return [required(celSelector={"celExpressions": [text]})]


def test_cel_sees_the_whole_cluster() -> None:
    text = (
        'managedCluster.metadata.name.startsWith("p") && managedCluster.status.clusterClaims.exists(c, c.value == "eu")'
    )
    assert decide(PROD, TEST, BARE, placement(predicates=expression(text))).clusters == ("prod",)


def test_cel_is_anded_with_the_labels_and_a_failing_expression_does_not_match() -> None:
    outcome = decide(
        PROD, TEST, BARE, placement(predicates=expression('managedCluster.metadata.labels["env"] == "prod"'))
    )
    assert outcome.clusters == ("prod",)
    assert reasons(outcome)["test"][1] == 'CEL \'managedCluster.metadata.labels["env"] == "prod"\' gives false'
    assert "fails: no such key: 'labels'" in reasons(outcome)["bare"][1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("managedCluster.", "does not compile: 1:16: Syntax error"),
        ("cluster == 'a'", "does not compile: 1:1: undeclared reference to 'cluster'"),
        ("1 + 1", "gives INT, expected BOOL"),
    ],
)
def test_cel_that_does_not_compile_is_misconfigured(text: str, message: str) -> None:
    outcome = decide(PROD, decision("p", ["prod"]), placement(predicates=expression(text)))
    status, _, found = condition(outcome, "PlacementMisconfigured")
    assert status == "True"
    assert "predicates[0].requiredClusterSelector.celSelector" in found
    assert message in found
    assert [item.cluster for item in outcome.decisions] == ["prod"]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("cel_expr_python"):
            raise ImportError(name)
        return real(name, *rest)

    cel.compiled.cache_clear()
    monkeypatch.setattr(cel, "_ENVIRONMENT", Environment({"managedCluster": "dyn"}))
    monkeypatch.setattr(builtins, "__import__", missing)
    try:
        outcome = decide(PROD, placement(predicates=expression("true")))
    finally:
        monkeypatch.undo()
        cel.compiled.cache_clear()
    assert "pip install 'fairway[cel]'" in condition(outcome, "PlacementMisconfigured")[2]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (labels(needs("env", "In")), "operator In takes at least one value"),
        (labels(needs("env", "Exists", "x")), "operator Exists takes no values"),
        (labels(**{"not a key": "x"}), "'not a key' is not a label key"),
        (labels(env="-x-"), "'-x-' is not a label value"),
        ({"claimSelector": {"matchExpressions": [needs("", "Exists")]}}, "key is empty"),
    ],
)
def test_selectors_that_do_not_parse(selector: dict[str, Any], message: str) -> None:
    outcome = decide(PROD, placement(predicates=[required(**selector)]))
    assert message in condition(outcome, "PlacementMisconfigured")[2]


def cluster_set(name: str, **selector: Any) -> api.ManagedClusterSet:
    spec = {"clusterSelector": selector} if selector else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, api.ManagedClusterSet)


def binding(name: str, namespace: str = "ns") -> api.ManagedClusterSetBinding:
    given = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterSet": name}}
    return msgspec.convert(given, api.ManagedClusterSetBinding)


IN_BLUE = cluster("b", labels={"cluster.open-cluster-management.io/clusterset": "blue"})
IN_RED = cluster("r", labels={"cluster.open-cluster-management.io/clusterset": "red", "hot": "yes"})
RED, BLUE = cluster_set("red"), cluster_set("blue")
HOT = cluster_set("hot", selectorType="LabelSelector", labelSelector={"matchLabels": {"hot": "yes"}})


@pytest.mark.parametrize(
    ("objects", "spec", "expected", "reason"),
    [
        ([], {}, (), "NoManagedClusterSetBindings"),
        ([binding("red")], {}, (), "NoManagedClusterSetBindings"),
        ([RED, binding("red", "other")], {}, (), "NoManagedClusterSetBindings"),
        ([RED, binding("red")], {}, ("r",), "AllDecisionsScheduled"),
        ([RED, BLUE, binding("red"), binding("blue")], {}, ("b", "r"), "AllDecisionsScheduled"),
        ([RED, BLUE, binding("red"), binding("blue")], {"clusterSets": ["blue"]}, ("b",), "AllDecisionsScheduled"),
        ([RED, BLUE, binding("red")], {"clusterSets": ["blue"]}, (), "NoIntersection"),
        ([cluster_set("empty"), binding("empty")], {}, (), "AllManagedClusterSetsEmpty"),
        ([HOT, binding("hot")], {}, ("r",), "AllDecisionsScheduled"),
    ],
)
def test_sets_and_bindings(objects: list[object], spec: dict[str, Any], expected: tuple[str, ...], reason: str) -> None:
    [outcome] = place(FleetState([IN_RED, IN_BLUE, *objects, placement(**spec)]), 0).outcomes
    assert outcome.clusters == expected
    assert condition(outcome)[1] == reason
    assert set(reasons(outcome)) == {"b", "r"} - set(expected)
    assert all(filter == "ClusterSet" for filter, _ in reasons(outcome).values())


def test_a_cluster_being_deleted_is_no_candidate() -> None:
    outcome = decide(cluster("a", deleting=True), cluster("b"), decision("p", ["a"]), placement())
    assert outcome.clusters == ("b",)
    assert reasons(outcome) == {"a": ("Deleting", "the cluster is being deleted")}


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_an_unavailable_cluster_is_not_chosen_anew(status: str) -> None:
    objects = [*everywhere(), cluster("a", available=status), cluster("b", available="True"), placement()]
    [outcome] = place(FleetState(objects), 0).outcomes
    assert outcome.clusters == ("b",)
    assert reasons(outcome)["a"][0] == "Available"
    [outcome] = place(FleetState([*objects, decision("p", ["a"])]), 0).outcomes
    assert set(outcome.clusters) == {"a", "b"}
