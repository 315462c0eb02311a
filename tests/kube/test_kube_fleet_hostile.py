"""A hub whose tenants and clusters mean no good: what they write harms themselves and no other."""

from __future__ import annotations

import contextlib
import json
import urllib.error
from functools import partial
from typing import Any

import pytest

from fairway.fleet import place
from fairway.kube.hub import loop
from kube.cluster import eventually
from kube.history import DirectClient, History
from kube.hub import LABEL, Hub, LiveFleet
from kube.ocm import V1BETA1, V1BETA2

REPORT = "FairwayReportAccepted"
NESTED = "[" * 60_000
MANY = json.dumps({f"r{number}": "-1" for number in range(8000)})
NONSENSE = {
    "negative": ('{"cpu": "-3"}', "must not be negative"),
    "giant": (f'{{"cpu": "{"9" * 200_000}"}}', "200000 characters"),
    "huge": ('{"cpu": "1e400"}', "too large"),
    "digits": (f'{{"cpu": {"9" * 5000}}}', "4300 digits"),
    "nan": ('{"cpu": NaN}', "'nan'"),
    "infinite": ('{"cpu": 1e999}', "'inf'"),
    "twice": ('{"cpu": "1", "cpu": "90"}', "'cpu' is given twice"),
    "nested": (NESTED, "not JSON"),
    "list": ('["cpu"]', "expected a JSON object"),
    "object": ('{"cpu": {"a": 1}}', "invalid quantity"),
    "nothing": ('{"cpu": null}', "invalid quantity"),
    "other-digits": ('{"cpu": "٣"}', "only the digits"),
    "many": (MANY, "must not be negative"),
}


def test_reports_of_every_kind_of_nonsense_and_one_good_cluster(hub: Hub) -> None:
    for name, (free, _) in NONSENSE.items():
        hub.managed(name, {"cpu": "5"}, annotations={"fairway.dev/free": free})
    until = {"fairway.dev/free": '{"cpu": "99"}', "fairway.dev/report-until": "tomorrow"}
    hub.managed("until", {"cpu": "5"}, annotations=until)
    hub.managed("liar", {"cpu": "5"}, annotations={"fairway.dev/placement-usage": f'{{"{hub.namespace}/p": "all"}}'})
    hub.managed("good", {"cpu": "5"}, annotations={"fairway.dev/free": '{"cpu": "3"}'})
    hub.placement("p", annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
    hub.placement("q")
    bad = [*NONSENSE, "until", "liar"]
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["good"])
        eventually(lambda: hub.chosen("q") == sorted([*bad, "good"]))  # what is free does not matter to it
        live.settle()
        for name in bad:
            found = eventually(partial(hub.condition_of, name, REPORT), f"{name} has a condition")
            assert (found["status"], found["reason"]) == ("False", "InvalidReport")
            assert len(found["message"]) <= 2000
            assert (
                NONSENSE.get(name, ("", "report-until" if name == "until" else "placement-usage"))[1]
                in found["message"]
            )
        assert hub.condition_of("good", REPORT) is None
        assert live.placer.metrics.set_aside._value.get() == len(bad)
    with LiveFleet(hub) as live:  # and it is said once
        live.settle()
        assert live.requests == []


def test_the_server_takes_no_annotation_of_a_megabyte(hub: Hub) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        hub.managed("a", annotations={"fairway.dev/free": "x" * (1 << 20)})
    assert refused.value.code == 422


PLACEMENTS: dict[str, tuple[dict[str, str], str]] = {
    "requirements": ({"fairway.dev/requirements": "a lot"}, "not JSON"),
    "negative": ({"fairway.dev/requirements": '{"cpu": "-1"}'}, "cpu"),
    "giant": ({"fairway.dev/requirements": f'{{"cpu": "{"9" * 99}"}}'}, "cpu"),
    "nested": ({"fairway.dev/requirements": NESTED}, "not JSON"),
    "replicas": ({"fairway.dev/replicas": "-3"}, "replicas"),
    "strategy": ({"fairway.dev/replicas": "3", "fairway.dev/replica-strategy": '{"type": "Best"}'}, "Best"),
    "gain": ({"fairway.dev/min-gain": "much"}, "min-gain"),
    "cooldown": ({"fairway.dev/cooldown": "-5"}, "cooldown"),
    "missing": ({"fairway.dev/missing-resource": "maybe"}, "missing-resource"),
}


def test_placements_that_make_no_sense_say_so_and_harm_no_other(hub: Hub) -> None:
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "3"}'})
    hub.placement("good", numberOfClusters=1)
    for name, (notes, _) in PLACEMENTS.items():
        hub.placement(name, numberOfClusters=1, annotations=notes)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("good") == ["a"])
        for name, (_, word) in PLACEMENTS.items():
            found = eventually(partial(hub.condition, name, "PlacementMisconfigured"))
            assert found[:2] == ("True", "Misconfigured"), (name, found)
            assert word in found[2], (name, found[2])
            assert len(found[2]) <= 2000
            assert hub.chosen(name) == []
        live.settle()


def test_names_that_no_decision_can_have_are_said_on_the_placement(hub: Hub) -> None:
    hub.managed("a")
    long = "n" * 64
    hub.placement(long, numberOfClusters=1)
    hub.placement("good", numberOfClusters=1)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("good") == ["a"])
        found = eventually(lambda: hub.condition(long, "PlacementMisconfigured"))
        assert found == (
            "True",
            "Misconfigured",
            "the name has 64 characters, expected at most 63: decisions have it as a label",
        )
        live.settle()
        assert [path for _, path in live.requests if "placementdecisions" in path and long in path] == []


def test_two_placements_of_one_name_in_two_namespaces(hub: Hub) -> None:
    other = Hub(hub.plane, f"{hub.namespace}-other")
    try:
        hub.managed("a")
        other.managed("b")
        hub.placement("p")
        other.placement("p")
        with LiveFleet(hub) as live:
            eventually(lambda: hub.chosen("p") == ["a"] and other.chosen("p") == ["b"])
            other.delete(other.placement_path("p"), grace=None)
            other.delete(f"{other.decisions_path}/p-decision-1")  # as the garbage collector would
            live.settle()
            assert hub.chosen("p") == ["a"]
            assert other.slices("p") == []  # not made again
    finally:
        other.clean()


def test_decisions_that_other_programs_made_under_our_label(hub: Hub) -> None:
    """Consumers read by label: what is not of the placement's decision goes; what is of no placement stays."""
    for name in "abc":
        hub.managed(name)
    hub.placement("p", numberOfClusters=1)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        for name, label in (("impostor", "p"), ("p-decision-7", "p"), ("alone-decision-1", "alone"), ("plain", "")):
            made = {"metadata": {"name": name, "labels": {LABEL: label} if label else {}}}
            hub.make(hub.decisions_path, {"apiVersion": V1BETA1, "kind": "PlacementDecision", **made})
            where, mine = f"{hub.decisions_path}/{name}/status", {"clusterName": hub.full("c"), "reason": "mine"}
            with contextlib.suppress(urllib.error.HTTPError):  # it may be gone already
                hub.patch(where, {"status": {"decisions": [mine]}})
        eventually(lambda: {one["metadata"]["name"] for one in hub.slices("p")} == {"p-decision-1"})
        live.settle()
        assert hub.chosen("p") == ["a"]
        assert hub.chosen("alone") == ["c"]
        assert hub.get(f"{hub.decisions_path}/plain") is not None


def test_a_foreign_owner_of_a_decision_is_replaced(hub: Hub) -> None:
    """The garbage collector would remove the decision with its new owner."""
    hub.managed("a")
    made = hub.placement("p")
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0000-1111"}
        path = f"{hub.decisions_path}/p-decision-1"
        hub.patch(path, {"metadata": {"ownerReferences": [other]}})

        def owners() -> list[str]:
            return [one["uid"] for one in hub.get(path)["metadata"].get("ownerReferences", [])]

        eventually(lambda: owners() == [made["metadata"]["uid"]])
        hub.patch(path, {"metadata": {"ownerReferences": None}})
        eventually(lambda: owners() == [made["metadata"]["uid"]])
        live.settle()


def test_a_namespace_that_is_deleted_while_decisions_are_written(hub: Hub) -> None:
    other = Hub(hub.plane, f"{hub.namespace}-gone")
    for number in range(4):
        hub.managed(f"c{number}")
        other.managed(f"d{number}")
    try:
        with LiveFleet(hub) as live:
            other.placement("first")
            eventually(lambda: len(other.chosen("first")) == 4)
            for number in range(20):
                other.placement(f"p{number}")
            other.delete(f"/api/v1/namespaces/{other.namespace}", grace=None)
            hub.placement("p")
            eventually(lambda: len(hub.chosen("p")) == 4)
            hub.managed("c4")
            eventually(lambda: len(hub.chosen("p")) == 5)  # the others go on
            eventually(lambda: hub.status("p").get("numberOfSelectedClusters") == 5)
            there = [one for one in live.requests if f"/{other.namespace}/" in one[1]]
            assert len(there) <= 21 * 6  # no write is tried at once again: hundreds in a second
    finally:
        other.clean()  # no controller of namespaces runs here: it would stay, and keep every later placer busy


def test_clusters_move_between_slices_without_a_gap(hub: Hub) -> None:
    """More than a hundred, and the first one leaves: all after it move up."""
    count = 205
    for number in range(count):
        hub.managed(f"c{number:03}")
    hub.placement("p")
    client = DirectClient(hub.plane)
    with LiveFleet(hub) as live:
        eventually(lambda: len(hub.chosen("p")) == count)
        live.settle()
        with History(client, {"PlacementDecision": hub.decisions_path}) as history:
            hub.taint("c000", {"key": "x", "effect": "NoSelect"})
            eventually(lambda: len(hub.chosen("p")) == count - 1)
            live.settle()
            hub.taint("c000")
            eventually(lambda: len(hub.chosen("p")) == count)
            live.settle()
            history.reaches()
            entries = history.entries()
    client.close()
    staying = {hub.full(f"c{number:03}") for number in range(1, count)}
    slices: dict[str, set[str]] = {}
    moments = 0
    for entry in entries:
        slices[entry.name] = set() if entry.is_deleted else _clusters(entry.thing)
        if len(slices) >= 3:
            moments += 1
            assert staying <= set().union(*slices.values()), entry.revision
    assert moments > 4


def _clusters(one: dict[str, Any]) -> set[str]:
    return {item["clusterName"] for item in one.get("status", {}).get("decisions", [])}


def test_a_binding_to_a_set_that_is_not_there_selects_nothing(hub: Hub) -> None:
    lone = Hub(hub.plane, f"{hub.namespace}-lone", bound=False)
    try:
        body = {"metadata": {"name": "nowhere"}, "spec": {"clusterSet": "nowhere"}}
        lone.make(
            f"/apis/{V1BETA2}/namespaces/{lone.namespace}/managedclustersetbindings",
            {"apiVersion": V1BETA2, "kind": "ManagedClusterSetBinding", **body},
        )
        lone.managed("a")
        lone.placement("p")
        with LiveFleet(hub):
            found = eventually(lambda: lone.condition("p"))
            assert found[0] == "False"
            assert lone.chosen("p") == []
    finally:
        lone.clean()


def test_expensive_expressions_of_one_tenant_do_not_keep_others_waiting(hub: Hub) -> None:
    """Hundreds of evaluations of some milliseconds each: a placement of another namespace that comes after them, and
    one with an expression of its own, are decided in between.
    """
    other = Hub(hub.plane, f"{hub.namespace}-dear")
    list_of_28 = str(list(range(28)))  # 8,800 steps, of 10,000 that are allowed
    dear, most = f"{list_of_28}.all(a, {list_of_28}.all(b, a + b >= 0))", 60
    for number in range(30):
        hub.managed(f"c{number:02}")
    other.managed("x")
    try:
        for number in range(most):
            text = f"managedCluster.metadata.name != 'n{number}' && {dear}"
            other.placement(f"p{number:02}", predicates=[_selecting(text)], prioritizerPolicy=_STEADY)

        def late() -> int:
            return sum(not other.status(f"p{number:02}") for number in range(most))

        with LiveFleet(hub) as live:
            hub.placement("plain", prioritizerPolicy=_STEADY)
            name = hub.full("c07")
            cheap = [_selecting(f"managedCluster.metadata.name == '{name}'")]
            hub.placement("cheap", predicates=cheap, prioritizerPolicy=_STEADY)
            eventually(lambda: len(hub.chosen("plain")) == 30 and hub.chosen("cheap") == ["c07"])
            assert late() > most // 2
            eventually(lambda: late() == 0)
            live.settle()
            assert {tuple(other.chosen(f"p{number:02}")) for number in range(most)} == {("x",)}
    finally:
        other.clean()


_STEADY = {"mode": "Exact", "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}}]}


def _selecting(expression: str) -> dict[str, Any]:
    return {"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}


def test_what_only_an_expression_sees_of_a_cluster_decides_again(hub: Hub) -> None:
    hub.managed("a", annotations={"tier": "iron"})
    hub.managed("b", annotations={"tier": "gold"})
    hub.placement("p", predicates=[_selecting('managedCluster.metadata.annotations["tier"] == "gold"')])
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["b"])
        hub.patch(hub.path("a"), {"metadata": {"annotations": {"tier": "gold"}}})
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        live.settle()
        count = len(live.requests)
        hub.patch(hub.path("a"), {"metadata": {"annotations": {"note": "x"}}})
        live.settle()
        assert len(live.requests) == count


def test_a_group_size_of_thousands_of_digits_is_misconfigured(hub: Hub) -> None:
    """OCM's definition takes it; it ended the placer, and the next one, and the next."""
    hub.managed("a")
    for name, size in (("text", "1" + "0" * 5000), ("number", 10**18)):
        hub.placement(name, decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": size}})
    hub.placement("good")
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("good") == ["a"])
        for name in ("text", "number"):
            found = eventually(partial(hub.condition, name, "PlacementMisconfigured"))
            assert found[0] == "True", found
            assert "clustersPerDecisionGroup is" in found[2]
            assert len(found[2]) < 200
        live.settle()


def test_an_error_of_ours_costs_one_placement_and_not_the_hub(hub: Hub, monkeypatch: Any) -> None:
    def breaks(state: Any, now: int, keys: Any) -> Any:
        if any(name == "broken" for _, name in keys):
            raise ZeroDivisionError("of this test")
        return place(state, now, keys)

    monkeypatch.setattr(loop, "place", breaks)
    hub.managed("a")
    for name in ("a", "broken", "z"):
        hub.placement(name)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("a") == ["a"] and hub.chosen("z") == ["a"])
        said = eventually(lambda: hub.notes("broken"))
        assert said[0][0] == "DecisionFailed"
        assert "ZeroDivisionError: of this test" in said[0][1]
        hub.managed("b")
        eventually(lambda: hub.chosen("z") == ["a", "b"])
        assert len(live.logged("placement not decided because of an error in Fairway")) == 1  # and not again and again
        monkeypatch.undo()
        hub.patch(hub.placement_path("broken"), {"spec": {"numberOfClusters": 1}})
        eventually(lambda: len(hub.chosen("broken")) == 1)
