"""What would bring a cluster in, filter by filter; and the clusters of a fleet at one glance."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.fleet import ManagedCluster
from fairway.fleet.advice import Advice, advise
from fairway.fleet.names import FREE, REPORTED_AT, REPORTED_UNTIL, SET_LABEL, SHAPES
from fairway.fleet.overview import overview
from fleet.fleet_objects import at, cluster, decision, everywhere, exact, placement

KEY = ("ns", "p")
SECOND = 1_000_000


def asked(name: str, *objects: object, now: int = 0) -> Advice:
    return advise([*everywhere(), *objects], KEY, name, now)


def test_a_chosen_cluster_needs_no_step() -> None:
    assert asked("a", cluster("a"), placement()) == Advice("a", True, ())


def test_a_cluster_under_the_cut_needs_a_larger_number_or_more_points() -> None:
    clusters = [cluster(name, {"cpu": size}) for name, size in (("a", "3"), ("b", "2"), ("c", "1"))]
    policy = exact("ResourceAllocatableCPU")
    found = asked("c", *clusters, placement(numberOfClusters=1, prioritizerPolicy=policy))
    assert found.steps == ("choose 3 clusters (numberOfClusters), or give it 201 more points",)
    assert not found.is_chosen


def test_each_filter_in_turn() -> None:
    taints = [{"key": "down", "effect": "NoSelect"}]
    wanted = placement(
        numberOfClusters=1,
        predicates=[{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"zone": "x"}}}}],
        requirements={"cpu": "8"},
        prioritizerPolicy=exact("ResourceAllocatableCPU"),
    )
    best = cluster("best", {"cpu": "90"}, labels={"zone": "x"}, free={"cpu": "90"})
    found = asked("a", best, cluster("a", {"cpu": "9"}, taints=taints, available="False", free={"cpu": "2"}), wanted)
    assert found.steps == (
        "label the cluster zone=x",
        "tolerate down:NoSelect, or remove the taint",
        "make the cluster available (condition ManagedClusterConditionAvailable)",
        "free 6 cpu more in it",
        "choose 2 clusters (numberOfClusters), or give it 201 more points",
    )
    assert found.obstacle == ""


def test_a_cluster_of_another_set() -> None:
    sets = [
        msgspec.convert({"metadata": {"name": "blue"}}, _kind("ManagedClusterSet")),
        msgspec.convert({"metadata": {"name": "red"}}, _kind("ManagedClusterSet")),
        msgspec.convert(
            {"metadata": {"name": "blue", "namespace": "ns"}, "spec": {"clusterSet": "blue"}},
            _kind("ManagedClusterSetBinding"),
        ),
    ]
    red = cluster("a", labels={SET_LABEL: "red"})
    assert advise([*sets, red, placement()], KEY, "a", 0).steps == (
        f"put the cluster into the set blue (label {SET_LABEL})",
    )
    unbound = [one for one in sets if not hasattr(one.spec, "cluster_set")]
    assert advise([*unbound, red, placement()], KEY, "a", 0).steps == (
        "bind the set red to namespace ns (ManagedClusterSetBinding)",
    )


def _kind(name: str) -> Any:
    from fairway.api import fleet

    return getattr(fleet, name)


def test_what_no_step_changes_is_said() -> None:
    assert asked("zzz", cluster("a"), placement()).obstacle == "there is no such cluster"
    assert "being deleted" in asked("a", cluster("a", deleting=True), placement()).obstacle
    assert "misconfigured" in asked("a", cluster("a"), placement(numberOfClusters=-1)).obstacle
    claims = [
        {"requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}}
    ]
    assert asked("a", cluster("a"), placement(predicates=claims)).obstacle.startswith("Predicate:")


@given(
    st.lists(
        st.builds(
            dict,
            cpu=st.integers(0, 9),
            free=st.one_of(st.none(), st.integers(0, 9)),
            tainted=st.booleans(),
            available=st.sampled_from([None, "True", "False"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 6),
    st.integers(0, 9),
)
def test_every_cluster_gets_in_or_is_told_why_not(fleet: list[dict[str, Any]], count: int, need: int) -> None:
    clusters = [
        cluster(
            f"c{number}",
            {"cpu": str(one["cpu"])},
            free=None if one["free"] is None else {"cpu": str(one["free"])},
            taints=[{"key": "t", "effect": "NoSelect"}] if one["tainted"] else [],
            available=one["available"],
        )
        for number, one in enumerate(fleet)
    ]
    more: dict[str, Any] = {"requirements": {"cpu": str(need)}} if need else {}
    wanted = placement(numberOfClusters=count, **more)
    for number in range(len(clusters)):
        found = asked(f"c{number}", *clusters, wanted)
        assert found.obstacle == ""
        assert found.is_chosen != bool(found.steps)


# -- overview ----------------------------------------------------------------------------------------------------


def noted(one: ManagedCluster, **notes: str) -> ManagedCluster:
    names = {"free": FREE, "shapes": SHAPES, "at": REPORTED_AT, "until": REPORTED_UNTIL}
    annotations = {names[name]: text for name, text in notes.items()}
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, annotations=annotations))


def test_a_cluster_at_one_glance() -> None:
    shapes = json.dumps([{"request": {"nvidia.com/gpu": "8"}, "fits": 3}])
    reporting = noted(cluster("a"), free='{"cpu": "4"}', shapes=shapes, at=at(10), until=at(100))
    found = overview([reporting, decision("p", ["a"]), decision("q", ["a"]), cluster("b")], 30 * SECOND)
    assert [one.name for one in found] == ["a", "b"]
    first = found[0]
    assert (first.free, first.placements, first.report_age, first.report_ended) == ({"cpu": "4"}, 2, 20, False)
    assert [(size.request, size.fits) for size in first.shapes] == [({"nvidia.com/gpu": "8"}, 3)]
    assert (found[1].free, found[1].report_age) == (None, None)
    late = overview([reporting], 100 * SECOND)[0]
    assert (late.free, late.shapes, late.report_ended) == (None, (), True)


@pytest.mark.parametrize("text", ["{", '{"fits": 1}', "[" * 100_000, '[{"request": 1}]'])
def test_sizes_that_make_no_sense_are_a_problem_and_no_error(text: str) -> None:
    found = overview([noted(cluster("a"), shapes=text)], 0)[0]
    assert found.shapes == ()
    assert len(found.problems) == 1
