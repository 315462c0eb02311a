"""What stands in annotations because OCM has no field for it: requirements, replicas, ends of reports."""

from __future__ import annotations

import msgspec
import pytest

from fairway.api.fleet import ManagedCluster, PlacementDecision
from fairway.api.meta import OwnerReference
from fairway.fleet import FleetState
from fairway.fleet.names import FREE, REPLICA_STRATEGY, REPLICAS, REPORTED_UNTIL, REQUIREMENTS
from fairway.fleet.reports import ends_at, trusted
from fairway.fleet.slices import same
from fleet.fleet_objects import at, cluster, condition, decide, decision, everywhere, placement, run

SECOND = 1_000_000


def test_requirements_in_an_annotation_count_as_in_the_spec() -> None:
    clusters = [cluster("a", free={"cpu": "4"}), cluster("b", free={"cpu": "40"})]
    noted = decide(*clusters, placement(annotations={REQUIREMENTS: '{"cpu": "32"}'}))
    written = decide(*clusters, placement(requirements={"cpu": "32"}))
    assert noted.clusters == written.clusters == ("b",)
    assert noted.filtered == written.filtered
    assert noted.reserved == written.reserved


def test_numbers_are_quantities_in_an_annotation_too() -> None:
    assert decide(cluster("a", free={"cpu": "4"}), placement(annotations={REQUIREMENTS: '{"cpu": 4}'})).clusters


def test_an_annotation_takes_the_place_of_the_field() -> None:
    outcome = decide(
        cluster("a", free={"cpu": "4"}),
        placement(annotations={REQUIREMENTS: '{"cpu": "2"}'}, requirements={"cpu": "9"}),
    )
    assert outcome.clusters == ("a",)


def test_replicas_in_annotations_are_divided() -> None:
    notes = {REPLICAS: "5", REPLICA_STRATEGY: '{"type": "Weighted", "weights": {"a": 4}}'}
    outcome = decide(cluster("a"), cluster("b"), placement(annotations=notes))
    assert dict(zip(outcome.clusters, outcome.replicas or (), strict=True)) == {"a": 4, "b": 1}


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        (REQUIREMENTS, "{", "not JSON"),
        (REQUIREMENTS, '["cpu"]', "requirements"),
        (REQUIREMENTS, '{"cpu": "a lot"}', "cpu"),
        (REQUIREMENTS, '{"cpu": -1}', "cpu"),
        (REPLICAS, '"many"', "replicas"),
        (REPLICAS, "-1", "replicas"),
        (REPLICA_STRATEGY, '{"type": "Random"}', "Random"),
        (REPLICA_STRATEGY, "[" * 100_000, "not JSON"),
    ],
)
def test_an_annotation_that_makes_no_sense_misconfigures_and_keeps_the_decision(
    name: str, text: str, part: str
) -> None:
    outcome = decide(cluster("a"), decision("p", ["a"]), placement(annotations={name: text}))
    status, _, message = condition(outcome, "PlacementMisconfigured")
    assert status == "True"
    assert part in message
    assert outcome.clusters == ("a",)


def test_a_placement_seen_again_with_the_same_annotations_is_not_decided_again() -> None:
    state = FleetState([*everywhere(), cluster("a", free={"cpu": "4"})])
    asked = placement(annotations={REQUIREMENTS: '{"cpu": "2"}'})
    state.upsert(asked)
    run(state)
    state.upsert(asked)
    assert state.affected(0) == []


def reporting(until: str | None, free: str | None = '{"cpu": "4"}') -> ManagedCluster:
    notes = {} if until is None else {REPORTED_UNTIL: until}
    notes |= {} if free is None else {FREE: free}
    found = cluster("a")
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=notes))


def test_a_report_counts_until_the_instant_it_names() -> None:
    report = reporting(at(10))
    assert ends_at(report) == 10 * SECOND
    assert FREE in trusted(report, 10 * SECOND - 1).metadata.annotations
    assert FREE not in trusted(report, 10 * SECOND).metadata.annotations


def test_a_report_without_an_end_counts_always_and_one_with_a_broken_end_never() -> None:
    assert trusted(reporting(None), 2**60) == reporting(None)
    assert FREE not in trusted(reporting("soon"), 0).metadata.annotations
    assert ends_at(reporting(at(10), None)) is None


def owned(made: PlacementDecision, uid: str) -> PlacementDecision:
    owners = (OwnerReference("Placement", "p", uid, True),)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=owners))


def labelled(made: PlacementDecision, **labels: str) -> PlacementDecision:
    labels = {**made.metadata.labels, **labels}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


def test_a_label_that_another_program_added_is_not_a_difference_but_another_owner_is() -> None:
    made = decision("p", ["a"])
    assert same(made, labelled(made, team="x"))
    assert not same(made, labelled(made, **{"cluster.open-cluster-management.io/placement": "q"}))
    assert same(owned(made, "1"), owned(made, "1"))
    assert not same(owned(made, "1"), owned(made, "2"))
