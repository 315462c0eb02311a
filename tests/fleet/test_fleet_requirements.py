"""At least this much space: requirements, the ledger behind them, and what happens when room is taken."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.fleet import FleetState
from fleet.fleet_objects import chosen, cluster, condition, decide, decision, everywhere, fleet, placement, reasons, run

NEEDS = {"requirements": {"cpu": "8", "nvidia.com/gpu": "2"}}


def roomy(name: str, cpu: str = "16", gpu: str = "4", **more: Any) -> Any:
    return cluster(name, {"cpu": "100", "nvidia.com/gpu": "8"}, free={"cpu": cpu, "nvidia.com/gpu": gpu}, **more)


def entries(state: FleetState) -> dict[tuple[str, str], tuple[dict[str, str], dict[str, str]]]:
    """(placement, cluster) -> (consumed, remaining)."""
    return {
        (entry.placement, state.table.names[slot]): (entry.consumed.format(), entry.remaining.format())
        for slot in state.ledger.slots()
        for entry in state.ledger.entries(slot)
    }


def test_clusters_without_room_fail_and_the_dimension_is_named() -> None:
    outcome = decide(roomy("fits"), roomy("tight", gpu="1"), cluster("silent", {"cpu": "100"}), placement(**NEEDS))
    assert outcome.clusters == ("fits",)
    assert reasons(outcome)["tight"] == ("Requirements", "InsufficientFree: nvidia.com/gpu: 1 available, 2 required")
    assert reasons(outcome)["silent"][1].startswith("FreeUnknown: ")
    assert condition(outcome, "PlacementOverdrawn")[0] == "False"


def test_what_one_placement_holds_is_not_there_for_the_next_of_the_run() -> None:
    state = fleet(roomy("one"), *(placement(name, numberOfClusters=1, **NEEDS) for name in "abc"))
    plan = run(state)
    assert chosen(plan) == {"ns/a": ["one"], "ns/b": ["one"], "ns/c": []}
    assert reasons(plan.outcomes[2])["one"] == ("Requirements", "InsufficientFree: cpu: 0 available, 8 required")
    assert condition(plan.outcomes[2])[1] == "NoManagedClusterMatched"


def test_what_is_consumed_is_no_longer_held() -> None:
    state = fleet(roomy("one"), placement(numberOfClusters=1, **NEEDS))
    run(state)
    assert entries(state) == {
        ("ns/p", "one"): ({"cpu": "0", "nvidia.com/gpu": "0"}, {"cpu": "8", "nvidia.com/gpu": "2"})
    }
    state.upsert(roomy("one", cpu="10", gpu="3", usage={"ns/p": {"cpu": "6", "nvidia.com/gpu": "1"}}))
    run(state)
    assert entries(state) == {
        ("ns/p", "one"): ({"cpu": "6", "nvidia.com/gpu": "1"}, {"cpu": "2", "nvidia.com/gpu": "1"})
    }
    state.upsert(placement("q", numberOfClusters=1, **NEEDS))
    plan = run(state)
    assert plan.outcomes[-1].clusters == ("one",), "10 free, 2 of them held for p"
    state.upsert(roomy("one", cpu="0", usage={"ns/p": {"cpu": "20", "nvidia.com/gpu": "9"}}))
    run(state)
    assert entries(state)["ns/p", "one"][1] == {"cpu": "0", "nvidia.com/gpu": "0"}, "never below nothing"


def test_the_end_of_a_decision_returns_what_is_left() -> None:
    state = fleet(roomy("one"), placement("a", numberOfClusters=1, requirements={"cpu": "12"}))
    run(state)
    state.upsert(placement("b", numberOfClusters=1, requirements={"cpu": "12"}))
    assert chosen(run(state)) == {"ns/b": []}
    state.delete(placement("a"))
    assert chosen(run(state)) == {"ns/b": ["one"]}
    assert list(entries(state)) == [("ns/b", "one")]


def test_requirements_dropped_or_lowered_are_returned_too() -> None:
    state = fleet(roomy("one"), placement("a", requirements={"cpu": "12"}))
    run(state)
    state.upsert(placement("a", requirements={"cpu": "4"}))
    run(state)
    assert entries(state) == {("ns/a", "one"): ({"cpu": "0"}, {"cpu": "4"})}
    state.upsert(placement("a"))
    assert chosen(run(state)) == {"ns/a": ["one"]}
    assert entries(state) == {}


def test_room_taken_by_others_is_told_and_no_placement_is_moved() -> None:
    state = fleet(roomy("one"), roomy("two"), placement(numberOfClusters=1, **NEEDS))
    assert chosen(run(state)) == {"ns/p": ["one"]}
    state.upsert(roomy("one", cpu="3"))
    [outcome] = run(state).outcomes
    assert outcome.clusters == ("one",)
    assert condition(outcome, "PlacementOverdrawn") == (
        "True",
        "RoomTaken",
        "one lacks 5 of cpu for what is reserved there",
    )
    state.upsert(roomy("one", cpu="16"))
    [outcome] = run(state).outcomes
    assert condition(outcome, "PlacementOverdrawn")[0] == "False"
    silent = cluster("one", {"cpu": "100"})
    state.upsert(silent)
    [outcome] = run(state).outcomes
    assert outcome.clusters == ("one",)
    assert condition(outcome, "PlacementOverdrawn")[2] == "one does not report its free capacity"


def test_a_lost_node_overdraws_all_that_hold_the_dimension() -> None:
    state = fleet(
        roomy("one"), placement("a", requirements={"cpu": "8"}), placement("b", requirements={"nvidia.com/gpu": "1"})
    )
    run(state)
    state.upsert(roomy("one", cpu="2"))
    told = {outcome.name: condition(outcome, "PlacementOverdrawn")[0] for outcome in run(state).outcomes}
    assert told["ns/a"] == "True"
    assert told.get("ns/b", "False") == "False"


def test_asking_for_more_than_is_there_does_move() -> None:
    state = fleet(roomy("one"), roomy("two", cpu="50"), placement(numberOfClusters=1, **NEEDS))
    assert chosen(run(state)) == {"ns/p": ["one"]}
    state.upsert(placement(numberOfClusters=1, requirements={"cpu": "20"}))
    plan = run(state)
    assert chosen(plan) == {"ns/p": ["two"]}
    assert reasons(plan.outcomes[0])["one"][1] == "InsufficientFree: cpu: 16 available, 20 required"


def test_the_ledger_survives_a_restart_in_the_decisions() -> None:
    state = fleet(roomy("one"), roomy("two"), *(placement(name, numberOfClusters=1, **NEEDS) for name in "ab"))
    plan = run(state)
    slices = [slice for outcome in plan.outcomes for slice in outcome.slices]
    assert slices[0].metadata.annotations == {"fairway.dev/ledger": '{"one":{"cpu":"8","nvidia.com/gpu":"2"}}'}
    full = roomy("one", cpu="1", gpu="0")
    restarted = FleetState(
        [*everywhere(), full, roomy("two"), *slices, *(placement(name, numberOfClusters=1, **NEEDS) for name in "ab")]
    )
    assert entries(restarted) == entries(state)
    again = run(restarted)
    assert chosen(again) == chosen(plan), "a keeps the room that was taken from it"
    assert condition(again.outcomes[0], "PlacementOverdrawn")[0] == "True"


def test_a_decision_without_an_entry_has_to_have_room() -> None:
    outcome = decide(
        roomy("one", cpu="1"), roomy("two"), decision("p", ["one"]), placement(numberOfClusters=1, **NEEDS)
    )
    assert outcome.clusters == ("two",)
    using = roomy("one", cpu="1", gpu="0", usage={"ns/p": {"cpu": "7", "nvidia.com/gpu": "2"}})
    outcome = decide(using, roomy("two"), decision("p", ["one"]), placement(numberOfClusters=1, **NEEDS))
    assert outcome.clusters == ("one",), "what it uses there already is not needed again"


def test_a_resource_that_no_cluster_reports_is_told_from_one_that_is_used_up() -> None:
    things = [cluster("a", free={"cpu": "4", "gpu": "0"}), cluster("b", free={"cpu": "4"})]
    used_up = decide(*things, placement(requirements={"gpu": "1"}))
    assert reasons(used_up)["b"] == ("Requirements", "InsufficientFree: gpu: 0 available, 1 required")
    unknown = decide(*things, placement(requirements={"cpu": "1", "gpo": "1"}))
    assert reasons(unknown)["b"] == (
        "Requirements",
        "InsufficientFree: gpo: 0 available, 1 required (no cluster reports it)",
    )


def test_requirements_that_do_not_parse_are_misconfigured() -> None:
    outcome = decide(roomy("one"), decision("p", ["one"]), placement(requirements={"cpu": "a lot"}))
    assert "requirements: invalid quantity 'a lot'" in condition(outcome, "PlacementMisconfigured")[2]
    assert [item.cluster for item in outcome.decisions] == ["one"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, {"a": 6, "b": 6, "c": 6}),
        ({"type": "Duplicated"}, {"a": 6, "b": 6, "c": 6}),
        ({"type": "Weighted"}, {"a": 2, "b": 2, "c": 2}),
        ({"type": "Weighted", "weights": {"a": 4}}, {"a": 4, "b": 1, "c": 1}),
        ({"type": "Weighted", "weights": {"a": 0}}, {"a": 0, "b": 3, "c": 3}),
        ({"type": "Weighted", "weights": {"a": 40}, "minPerCluster": 2}, {"a": 2, "b": 2, "c": 2}),
        ({"type": "Aggregated"}, {"a": 6, "b": 0, "c": 0}),
        ({"type": "Aggregated", "perReplica": {"cpu": "4"}}, {"a": 2, "b": 4, "c": 0}),
        ({"type": "Free"}, {"a": 2, "b": 4, "c": 0}),
        ({"type": "Free", "perReplica": {"cpu": "4"}}, {"a": 2, "b": 4, "c": 0}),
    ],
)
def test_replicas_are_divided(strategy: dict[str, Any], expected: dict[str, int]) -> None:
    objects = [roomy("a", cpu="8"), roomy("b", cpu="16"), cluster("c", {"cpu": "100"})]
    outcome = decide(*objects, placement(replicas=6, replicaStrategy=strategy))
    assert {item.cluster: item.replicas for item in outcome.decisions} == expected
    [slice] = outcome.slices
    assert {item.cluster_name: item.replicas for item in slice.status.decisions} == expected


def test_replicas_without_room_are_told_and_running_ones_count() -> None:
    spec = placement(replicas=9, replicaStrategy={"type": "Free", "perReplica": {"cpu": "4"}})
    outcome = decide(roomy("a", cpu="8"), roomy("b", cpu="16"), spec)
    assert outcome.warnings == ("3 of 9 replicas do not fit",)
    running = [roomy("a", cpu="0", usage={"ns/p": {"cpu": "8"}}), roomy("b", cpu="4", usage={"ns/p": {"cpu": "12"}})]
    outcome = decide(*running, placement(replicas=6, replicaStrategy={"type": "Free", "perReplica": {"cpu": "4"}}))
    assert {item.cluster: item.replicas for item in outcome.decisions} == {"a": 2, "b": 4}


def test_what_a_placement_holds_itself_is_there_for_its_replicas() -> None:
    free = {"type": "Free", "perReplica": {"cpu": "1"}}

    def asking(replicas: int) -> Any:
        return placement(requirements={"cpu": "2"}, replicas=replicas, replicaStrategy=free)

    state = fleet(cluster("a", free={"cpu": "4"}), asking(3))
    run(state)
    state.upsert(asking(4))
    assert [item.replicas for item in run(state).outcomes[0].decisions] == [4]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicas": -1}, "replicas is -1, expected 0 to 100000"),
        ({"replicas": 200_000}, "replicas is 200000"),
        ({"replicas": 1, "replicaStrategy": {"type": "Even"}}, "replicaStrategy.type 'Even' is unknown"),
        ({"replicas": 1, "replicaStrategy": {"minPerCluster": -1}}, "minPerCluster is -1"),
        ({"replicas": 1, "replicaStrategy": {"weights": {"a": -1}}}, "weights: a -1 is negative"),
        ({"replicas": 1, "replicaStrategy": {"perReplica": {"cpu": "x"}}}, "perReplica: invalid quantity"),
    ],
)
def test_replica_mistakes(spec: dict[str, Any], message: str) -> None:
    outcome = decide(cluster("a"), placement(**spec))
    assert message in condition(outcome, "PlacementMisconfigured")[2]


def test_absurd_amounts_are_refused() -> None:
    outcome = decide(roomy("one"), placement(requirements={"memory": "7Ei"}))
    message = condition(outcome, "PlacementMisconfigured")[2]
    assert message == "requirements.memory is more than any cluster has"
    state = fleet(roomy("one"))
    for name in "ab":
        recorded = {"fairway.dev/ledger": '{"one": {"memory": "7Ei"}}'}
        state.upsert(decision(name, ["one"], **recorded))
    assert entries(state) == {}


DISABLED = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (placement(), False),
        (placement(**NEEDS), True),
        (placement(**NEEDS, annotations=DISABLED), False),
    ],
    ids=["no requirements", "requirements", "requirements, but scheduling is disabled"],
)
def test_whether_capacity_is_overdrawn_is_said_where_it_was_looked_at(given: Any, told: bool) -> None:
    types = [item.type for item in decide(roomy("one"), given).conditions]
    expected = ["PlacementSatisfied", "PlacementMisconfigured"]
    assert types == ([*expected, "PlacementOverdrawn"] if told else expected)
