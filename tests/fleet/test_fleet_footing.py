"""A decision that stands is told from the few clusters that changed, and the plan says what a full one would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.fleet import FleetPlan, FleetState, place
from fairway.fleet.plan import placement_document
from fairway.fleet.records import MAX_CHANGED
from fairway.fleet.table import KEPT, SlotLog
from fleet.fleet_objects import cluster, decision, everywhere, exact, fleet, placement, run
from support.effort import examples

NAMES = "abcdefgh"


def selecting(**labels: str) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


RELATIVE = exact("ResourceAllocatableCPU", "Steady")
ONE = {"numberOfClusters": 1}
SPECS: dict[str, dict[str, Any]] = {
    "relative": {"prioritizerPolicy": RELATIVE, "numberOfClusters": 2},
    "ratio": {"prioritizerPolicy": exact("ResourceRatioCPU", "ResourceAllocatableMemory"), "numberOfClusters": 2},
    "balanced": {"numberOfClusters": 3},
    "both": {
        "prioritizerPolicy": {"configurations": [{"name": "ResourceRatioCPU", "weight": 3}]},
        "numberOfClusters": 1,
    },
    "selective": {"prioritizerPolicy": RELATIVE, "predicates": selecting(on="1"), "numberOfClusters": 1},
    "all": {"prioritizerPolicy": exact("ResourceFreeCPU", "Balance")},
    "none": {"prioritizerPolicy": RELATIVE, "numberOfClusters": 0},
    "spread": {
        "prioritizerPolicy": RELATIVE,
        "numberOfClusters": 2,
        "spreadPolicy": {"spreadConstraints": [{"topologyKey": "on", "maxSkew": 1}]},
    },
    "sized": {"prioritizerPolicy": RELATIVE, "requirements": {"cpu": "3"}, "numberOfClusters": 2},
    "peer": {"prioritizerPolicy": RELATIVE, "numberOfClusters": 2},
}


def placements() -> list[Any]:
    notes = {"peer": {"fairway.dev/missing-resource": "zero"}, "both": {"fairway.dev/min-gain": "20"}}
    return [placement(name, annotations=notes.get(name), **spec) for name, spec in SPECS.items()]


def reported(name: str, cpu: int, memory: int, capacity: int, on: int, tainted: int) -> Any:
    taints = [{"key": "k", "effect": "PreferNoSelect"}] if tainted else []
    amounts = {"cpu": str(cpu), "memory": f"{memory}Gi"} if cpu else {"memory": f"{memory}Gi"}
    most = {"cpu": str(capacity), "memory": "9Gi"} if capacity else {}
    return cluster(name, amounts, most, labels={"on": str(on)}, free={"cpu": str(cpu)}, taints=taints)


def documents(plan: FleetPlan) -> dict[str, Any]:
    return {outcome.name: placement_document(outcome) for outcome in plan.outcomes}


def without_memory(state: FleetState) -> FleetState:
    """The same fleet, from its objects alone: nothing is kept that could be compared with."""
    objects: list[object] = [*everywhere(), *state.clusters.values(), *placements()]
    for record in state.records.values():
        objects += record.slices.values()
    return FleetState(objects)


small = st.integers(0, 9)
event = st.tuples(
    st.sampled_from(NAMES), small, small, small, st.integers(0, 4).map(bool), st.integers(0, 9).map(lambda n: n == 9)
)
steps = st.lists(st.lists(event, min_size=1, max_size=2), min_size=1, max_size=6)


@settings(max_examples=examples(8))
@given(steps, st.lists(event, min_size=8, max_size=8))
def test_a_plan_says_the_same_as_one_for_which_nothing_was_kept(batches: list[list[Any]], first: list[Any]) -> None:
    state = fleet(*placements())
    for name, (_, *amounts) in zip(NAMES, first, strict=True):
        state.upsert(reported(name, *amounts))
    for batch in [[], *batches]:
        for one in batch:
            state.upsert(reported(*one))
        for _ in range(2):
            slow = {outcome.key: outcome for outcome in place(without_memory(state), 0).outcomes}
            plan = place(state, 0)
            for outcome in plan.outcomes:
                assert placement_document(outcome) == placement_document(slow[outcome.key])
                assert outcome.slices == slow[outcome.key].slices
            state.apply(plan)
        state.check()


def rested(*objects: Any) -> FleetState:
    """Decided until nothing changes, so that all decisions have been found to stand."""
    state = fleet(*objects)
    for name in "zy":
        state.upsert(cluster(name, {"cpu": "50"}))
        while run(state).outcomes:
            pass
    return state


def five(*objects: Any) -> FleetState:
    return rested(*(cluster(name, {"cpu": str(10 * number)}) for number, name in enumerate("abcde", 1)), *objects)


def stood(state: FleetState) -> dict[str, bool]:
    return {outcome.key[1]: outcome.stands for outcome in run(state).outcomes}


CPU = placement("p", prioritizerPolicy=RELATIVE, numberOfClusters=2)


def test_a_cluster_below_the_cut_leaves_the_decision_standing() -> None:
    state = five(CPU)
    state.upsert(cluster("b", {"cpu": "21"}))
    assert stood(state) == {"p": True}
    state.upsert(cluster("b", {"cpu": "22"}))
    assert stood(state) == {"p": True}, "and again: the footing goes on"


@pytest.mark.parametrize(
    ("name", "cpu"), [("b", "49"), ("e", "49"), ("a", "5"), ("z", "51"), ("b", "51"), ("a", "11"), ("z", "49")]
)
def test_what_could_alter_points_is_decided_again(name: str, cpu: str) -> None:
    """A chosen cluster, one that comes before the last chosen, and those that all others are compared with."""
    state = five(placement("p", prioritizerPolicy=exact("ResourceAllocatableCPU"), numberOfClusters=3))
    state.upsert(cluster(name, {"cpu": cpu}))
    chosen = state.records["ns", "p"].chosen.tolist()
    slow = documents(place(without_memory_of(state, "p"), 0))
    plan = place(state, 0)
    assert documents(plan) == slow
    [outcome] = plan.outcomes
    moved = set(outcome.chosen.tolist()) != set(chosen)
    assert not (outcome.stands and moved)
    assert not outcome.stands or name not in outcome.clusters


def without_memory_of(state: FleetState, name: str) -> FleetState:
    record = state.records["ns", name]
    assert record.rules is not None
    return FleetState([*everywhere(), *state.clusters.values(), record.rules.placement, *record.slices.values()])


def test_the_footing_ends_with_the_rules_and_with_decisions_of_others() -> None:
    state = five(CPU)
    assert state.records["ns", "p"].footing is not None
    state.upsert(placement("p", prioritizerPolicy=RELATIVE, numberOfClusters=3))
    assert state.records["ns", "p"].footing is None
    state = five(CPU)
    state.upsert(decision("p", ["a", "b"]))
    assert state.records["ns", "p"].footing is None


def test_what_happens_between_a_plan_and_its_being_carried_out_is_not_overlooked() -> None:
    state = five(CPU)
    state.upsert(cluster("b", {"cpu": "21"}))
    plan = place(state, 0)
    assert plan.outcomes[0].stands
    state.upsert(decision("p", ["a", "b"]))
    state.apply(plan)
    assert state.records["ns", "p"].footing is None
    assert [state.table.names[slot] for slot in state.records["ns", "p"].chosen.tolist()] == ["e", "z"]
    state.check()


def test_many_changes_at_once_are_decided_as_ever() -> None:
    names = [f"c{number:02d}" for number in range(MAX_CHANGED + 4)]
    state = rested(*(cluster(name, {"cpu": "20"}) for name in names), cluster("low", {"cpu": "1"}), CPU)
    for name in names:
        state.upsert(cluster(name, {"cpu": "21"}))
    assert stood(state) == {"p": False}


def test_the_ranking_of_a_standing_decision_is_as_it_was_when_the_plan_was_made() -> None:
    """It is worked out when it is read; by then the clusters report something else."""
    state = five(CPU, placement("q", prioritizerPolicy=exact("Balance"), numberOfClusters=1))
    state.upsert(cluster("b", {"cpu": "21"}))
    at_once = documents(place(state, 0))
    plan = place(state, 0)
    state.apply(plan)
    state.upsert(cluster("b", {"cpu": "90"}))
    state.upsert(decision("other", ["b", "c"], namespace="elsewhere"))
    run(state)
    assert documents(plan) == at_once


@given(st.lists(st.integers(0, 5)), st.integers(0, 40))
def test_a_log_names_the_slots_since_a_place(slots: list[int], place_asked: int) -> None:
    log = SlotLog()
    for slot in slots:
        log.append(slot)
    if place_asked <= log.end:
        assert log.since(place_asked) == frozenset(slots[place_asked:])


def test_a_log_forgets_what_is_old() -> None:
    log = SlotLog()
    for slot in range(5 * KEPT):
        log.append(slot)
    assert log.since(0) is None
    assert log.since(log.end - 2) == frozenset((5 * KEPT - 1, 5 * KEPT - 2))
    place_before = log.end
    log.forget()
    assert log.since(place_before) is None
    assert log.since(log.end) == frozenset()
