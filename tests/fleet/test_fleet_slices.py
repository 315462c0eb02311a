"""Decision groups, slices of a hundred, and writing them without a gap."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.fleet import PlacementDecision
from fairway.fleet.records import recorded
from fairway.fleet.slices import Write, group_size, members, writes
from fleet.fleet_objects import cluster, condition, decide, decision, fleet, placement, run
from support.effort import examples


def labels(slice: PlacementDecision) -> tuple[str, str, str]:
    prefix = "cluster.open-cluster-management.io/"
    reserved = slice.metadata.labels
    return (
        reserved[f"{prefix}placement"],
        reserved[f"{prefix}decision-group-name"],
        reserved[f"{prefix}decision-group-index"],
    )


def test_no_chosen_cluster_is_one_empty_slice() -> None:
    [slice] = decide(placement()).slices
    assert (slice.metadata.name, slice.metadata.namespace) == ("p-decision-1", "ns")
    assert slice.status.decisions == ()
    assert labels(slice) == ("p", "", "0")


def test_slices_have_at_most_a_hundred_in_order_of_name() -> None:
    names = [f"c{number:03d}" for number in range(250)]
    slices = decide(*map(cluster, names), placement()).slices
    assert [slice.metadata.name for slice in slices] == ["p-decision-1", "p-decision-2", "p-decision-3"]
    assert [len(slice.status.decisions) for slice in slices] == [100, 100, 50]
    assert [item.cluster_name for slice in slices for item in slice.status.decisions] == names
    assert {labels(slice) for slice in slices} == {("p", "", "0")}


def strategy(size: object = None, *groups: tuple[str, dict[str, str]]) -> dict[str, Any]:
    named = [
        {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": match}}} for name, match in groups
    ]
    given: dict[str, Any] = {"decisionGroups": named}
    if size is not None:
        given["clustersPerDecisionGroup"] = size
    return {"groupStrategy": given}


def test_named_groups_come_first_in_order_and_the_rest_follows() -> None:
    clusters = [cluster(name, labels={"canary": "yes"} if name in "bd" else {"prod": "yes"}) for name in "abcde"]
    groups = strategy(2, ("canary", {"canary": "yes"}), ("both", {}))
    slices = decide(*clusters, placement(decisionStrategy=groups)).slices
    found = [(labels(slice)[1:], sorted(members(slice))) for slice in slices]
    assert found == [(("canary", "0"), ["b", "d"]), (("both", "1"), ["a", "c"]), (("both", "2"), ["e"])]
    rest = strategy("40%", ("canary", {"canary": "yes"}))
    slices = decide(*clusters, placement(decisionStrategy=rest)).slices
    assert [(labels(s)[1:], sorted(members(s))) for s in slices] == [
        (("canary", "0"), ["b", "d"]),
        (("", "1"), ["a", "c"]),
        (("", "2"), ["e"]),
    ]


@pytest.mark.parametrize(
    ("setting", "clusters", "expected"),
    [(None, 7, 7), (3, 7, 3), ("50%", 7, 4), ("100%", 7, 7), ("1%", 7, 1), ("5", 7, 5), (None, 0, 1), ("50%", 0, 1)],
)
def test_group_sizes(setting: int | str | None, clusters: int, expected: int) -> None:
    assert group_size(setting, clusters) == expected


@pytest.mark.parametrize("size", [0, -3, "0%", "101%", "many", "2.5%"])
def test_group_sizes_that_make_no_sense(size: object) -> None:
    outcome = decide(cluster("a"), decision("p", ["a"]), placement(decisionStrategy=strategy(size)))
    assert f"clustersPerDecisionGroup is {size!r}" in condition(outcome, "PlacementMisconfigured")[2]
    assert [item.cluster for item in outcome.decisions] == ["a"]


def published(before: dict[str, PlacementDecision], steps: tuple[Write, ...]) -> list[dict[str, frozenset[str]]]:
    """What readers see after every step."""
    now = {name: members(slice) for name, slice in before.items()}
    seen = []
    for step in steps:
        if step.action == "delete":
            del now[step.name]
        else:
            assert (step.name in now) == (step.action == "update")
            now[step.name] = members(step.decision)
        seen.append(dict(now))
    return seen


def slices_of(groups: list[list[str]]) -> dict[str, PlacementDecision]:
    made = [decision("p", names, number=number + 1) for number, names in enumerate(groups)]
    return {slice.metadata.name: slice for slice in made}


names = st.lists(st.sampled_from("abcdefghij"), unique=True)


@st.composite
def partitions(draw: st.DrawFn) -> dict[str, PlacementDecision]:
    """Some clusters, cut into slices at random."""
    order = draw(names)
    cuts = sorted(draw(st.sets(st.integers(0, len(order)), max_size=4)))
    bounds = [0, *cuts, len(order)]
    return slices_of([order[a:b] for a, b in pairwise(bounds)])


@given(partitions(), partitions())
def test_who_stays_is_always_in_some_slice(
    before: dict[str, PlacementDecision], after: dict[str, PlacementDecision]
) -> None:
    steps = writes(before, tuple(after.values()), placement())
    kept = frozenset().union(*map(members, before.values())) & frozenset().union(*map(members, after.values()))
    for seen in published(before, steps):
        assert kept <= frozenset().union(*seen.values())
        assert all(len(clusters) <= 100 for clusters in seen.values())
    final = published(before, steps)[-1] if steps else {name: members(s) for name, s in before.items()}
    assert final == {name: members(slice) for name, slice in after.items()}


def test_full_slices_that_wait_for_each_other_use_a_slice_in_between() -> None:
    before = slices_of([["a", "b"], ["c", "d"]])
    after = slices_of([["a", "d"], ["b", "c"]])
    steps = writes(before, tuple(after.values()), placement())
    assert [(step.action, step.name) for step in steps] == [
        ("create", "p-decision-3"),
        ("update", "p-decision-1"),
        ("update", "p-decision-2"),
        ("delete", "p-decision-3"),
    ]


@settings(max_examples=examples(10))
@given(st.integers(0, 120), st.integers(0, 120))
def test_a_growing_fleet_is_published_without_a_gap(first: int, second: int) -> None:
    state = fleet(*(cluster(f"m{number:03d}") for number in range(101)), placement())
    [outcome] = run(state).outcomes
    before = {slice.metadata.name: slice for slice in outcome.slices}
    for number in range(first):
        state.upsert(cluster(f"a{number:03d}"))
    for number in range(second % 101):
        state.delete(cluster(f"m{number:03d}"))
    for outcome in run(state).outcomes:
        stay = frozenset(outcome.clusters) & frozenset().union(*map(members, before.values()))
        for seen in published(before, outcome.writes):
            assert stay <= frozenset().union(*seen.values())
            assert all(len(clusters) <= 100 for clusters in seen.values())


def test_nothing_is_written_where_nothing_changed() -> None:
    state = fleet(cluster("a"), placement())
    [outcome] = run(state).outcomes
    assert [write.action for write in outcome.writes] == ["create"]
    for slice in outcome.slices:
        state.upsert(slice)
    assert run(state).outcomes == ()


def test_tampered_decisions_are_repaired() -> None:
    state = fleet(cluster("a"), cluster("b"), placement())
    [outcome] = run(state).outcomes
    [slice] = outcome.slices
    state.upsert(decision("p", ["b"]))
    [again] = run(state).outcomes
    assert [(write.action, members(write.decision)) for write in again.writes] == [("update", {"a", "b"})]  # type: ignore[comparison-overlap]
    state.delete(slice)
    [again] = run(state).outcomes
    assert [write.action for write in again.writes] == ["create"]


def test_room_stays_on_record_while_slices_change_places() -> None:
    def slices(*groups: tuple[str, ...]) -> dict[str, PlacementDecision]:
        made = {}
        for number, names in enumerate(groups):
            ledger = json.dumps({name: {"cpu": "1"} for name in names})
            slice = decision("p", names, number=number + 1, **{"fairway.dev/ledger": ledger})
            made[slice.metadata.name] = slice
        return made

    before, after = slices(("a", "b"), ("c", "d")), slices(("a", "d"), ("b", "c"))
    now = dict(before)
    for step in writes(before, tuple(after.values()), placement()):
        if step.action == "delete":
            del now[step.name]
        else:
            now[step.name] = step.decision
        _, reserved, _ = recorded(now)
        assert set(reserved) == set("abcd")


def test_a_group_size_of_thousands_of_digits_is_a_problem_of_the_placement() -> None:
    strategy = {"groupStrategy": {"clustersPerDecisionGroup": "1" + "0" * 5000}}
    outcome = decide(cluster("a"), placement(decisionStrategy=strategy))
    assert "clustersPerDecisionGroup is '1000" in condition(outcome, "PlacementMisconfigured")[2]
    assert len(outcome.slices) == 0
