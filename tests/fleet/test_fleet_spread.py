"""Spreading over topologies: the skew, hard and soft constraints, and what is said of those passed over."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.fleet_objects import cluster, condition, decide, decision, exact, placement, reasons

CPU = exact("ResourceAllocatableCPU")


def spread(*constraints: tuple[str, int, str], kind: str = "Label") -> dict[str, Any]:
    made = [
        {"topologyKey": key, "topologyKeyType": kind, "maxSkew": skew, "whenUnsatisfiable": when}
        for key, skew, when in constraints
    ]
    return {"spreadConstraints": made}


def zoned(name: str, zone: str | None, cpu: int = 1, **labels: str) -> Any:
    return cluster(name, {"cpu": str(cpu)}, labels={"zone": zone, **labels} if zone else labels)


HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def test_a_hard_constraint_passes_over_better_clusters() -> None:
    objects = [zoned("a1", "a", 9), zoned("a2", "a", 8), zoned("a3", "a", 7), zoned("b1", "b", 1)]
    spec = placement(numberOfClusters=2, prioritizerPolicy=CPU, spreadPolicy=spread(("zone", 1, HARD)))
    outcome = decide(*objects, spec)
    assert outcome.clusters == ("a1", "b1")
    assert reasons(outcome)["a2"] == ("Spread", "1 with label zone=a chosen, maxSkew is 1")
    assert decide(*objects, placement(numberOfClusters=2, prioritizerPolicy=CPU)).clusters == ("a1", "a2")


def test_too_few_topologies_leave_clusters_unscheduled() -> None:
    objects = [zoned("a1", "a"), zoned("a2", "a"), zoned("a3", "a"), zoned("b1", "b"), zoned("x", None)]
    outcome = decide(*objects, placement(numberOfClusters=5, spreadPolicy=spread(("zone", 1, HARD))))
    assert sorted(outcome.clusters) == ["a1", "a2", "b1"]
    assert reasons(outcome)["x"] == ("Spread", "it has no label zone to spread over")
    assert condition(outcome)[:2] == ("False", "NotAllDecisionsScheduled")
    assert "by Spread" in condition(outcome)[2]


def test_a_soft_constraint_is_kept_where_possible() -> None:
    objects = [zoned("a1", "a", 9), zoned("a2", "a", 8), zoned("b1", "b", 1)]
    soft = spread(("zone", 1, SOFT))
    two = decide(*objects, placement(numberOfClusters=2, prioritizerPolicy=CPU, spreadPolicy=soft))
    assert two.clusters == ("a1", "b1")
    three = decide(*objects, placement(numberOfClusters=3, prioritizerPolicy=CPU, spreadPolicy=soft))
    assert set(three.clusters) == {"a1", "a2", "b1"}


def test_claims_and_several_constraints() -> None:
    objects = [cluster(f"{zone}{rack}", claims={"zone": zone, "rack": rack}) for zone in "ab" for rack in "12"]
    both = spread(("zone", 1, HARD), ("rack", 1, HARD), kind="Claim")
    outcome = decide(*objects, placement(numberOfClusters=2, spreadPolicy=both))
    assert outcome.clusters in {("a1", "b2"), ("a2", "b1")}


def test_chosen_clusters_stay_while_the_spread_allows() -> None:
    objects = [zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("b2", "b")]
    spec = placement(numberOfClusters=2, spreadPolicy=spread(("zone", 1, HARD)))
    assert set(decide(*objects, decision("p", ["a2", "b2"]), spec).clusters) == {"a2", "b2"}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(0, 12)),
)
def test_a_hard_skew_is_never_exceeded_and_as_many_as_possible_are_chosen(
    clusters: list[tuple[str, int]], skew: int, count: int | None
) -> None:
    objects = [zoned(f"c{index}", zone, cpu) for index, (zone, cpu) in enumerate(clusters)]
    spec = {} if count is None else {"numberOfClusters": count}
    outcome = decide(*objects, placement(prioritizerPolicy=CPU, spreadPolicy=spread(("zone", skew, HARD)), **spec))
    there = Counter(zone for zone, _ in clusters)
    taken = Counter(clusters[int(name[1:])][0] for name in outcome.clusters)
    counts = [taken[zone] for zone in there]
    assert max(counts) - min(counts) <= skew
    possible = sum(min(size, min(there.values()) + skew) for size in there.values())
    assert len(outcome.clusters) == min(possible, len(clusters) if count is None else count)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"maxSkew": 1}, "topologyKey is empty"),
        ({"topologyKey": "z", "maxSkew": 0}, "maxSkew is 0, expected 1 or more"),
        ({"topologyKey": "z", "topologyKeyType": "Node"}, "topologyKeyType 'Node'"),
        ({"topologyKey": "z", "whenUnsatisfiable": "Maybe"}, "whenUnsatisfiable 'Maybe'"),
    ],
)
def test_bad_constraints(constraint: dict[str, Any], message: str) -> None:
    outcome = decide(cluster("a"), decision("p", ["a"]), placement(spreadPolicy={"spreadConstraints": [constraint]}))
    assert message in condition(outcome, "PlacementMisconfigured")[2]
    assert [item.cluster for item in outcome.decisions] == ["a"]
