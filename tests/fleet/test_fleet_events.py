"""Events in, affected placements out: who is decided again, and who is not."""

from __future__ import annotations

from time import process_time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api import fleet as api
from fairway.fleet import FleetState, place
from fleet.fleet_objects import (
    chosen,
    cluster,
    decision,
    everywhere,
    exact,
    fleet,
    placement,
    reasons,
    run,
    scores,
)
from support.effort import examples

STATIC = {"mode": "Exact", "configurations": [{"name": "Steady"}]}


def selecting(**match: str) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": match}}}]


def affected(state: FleetState) -> set[str]:
    return {name for _, name in state.affected(0)}


@pytest.fixture
def state() -> FleetState:
    """Four placements that care about different things, all at rest."""
    made = fleet(
        cluster("a", {"cpu": "1", "memory": "1Gi"}, labels={"env": "prod", "note": "x"}, claims={"id": "1"}),
        cluster("b", {"cpu": "2", "memory": "2Gi"}, labels={"env": "test"}),
        placement("cpu", prioritizerPolicy=exact("ResourceRatioCPU")),
        placement("memory", prioritizerPolicy=exact("ResourceAllocatableMemory")),
        placement("prod", prioritizerPolicy=STATIC, predicates=selecting(env="prod")),
        placement("any", prioritizerPolicy=STATIC),
    )
    run(made)
    assert affected(made) == set()
    return made


def a(cpu: str = "1", memory: str = "1Gi", **more: Any) -> Any:
    standard = {"labels": {"env": "prod", "note": "x"}, "claims": {"id": "1"}}
    return cluster("a", {"cpu": cpu, "memory": memory}, **{**standard, **more})


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (a(), set()),
        (a(cpu="3"), {"cpu"}),
        (a(memory="3Gi"), {"memory"}),
        (a(labels={"env": "prod", "note": "y"}), set()),
        (a(labels={"env": "test", "note": "x"}), {"prod"}),
        (a(claims={"id": "2"}), set()),
        (a(taints=[{"key": "k", "effect": "NoSelect"}]), {"cpu", "memory", "prod", "any"}),
        (a(available="False"), {"cpu", "memory", "prod", "any"}),
        (cluster("c"), {"cpu", "memory", "prod", "any"}),
        (cluster("b", {"cpu": "9", "memory": "2Gi"}, labels={"env": "test"}), {"cpu"}),
        (placement("any", prioritizerPolicy=STATIC), set()),
        (placement("any", prioritizerPolicy=STATIC, numberOfClusters=1), {"any"}),
        (decision("any", ["a"]), {"any"}),
        (everywhere()[0], set()),
        (everywhere()[1], set()),
    ],
)
def test_only_those_an_event_can_concern_are_decided_again(
    state: FleetState, event: object, expected: set[str]
) -> None:
    state.upsert(event)
    assert affected(state) == expected
    assert {outcome.key[1] for outcome in run(state).outcomes} == expected
    assert affected(state) == set()


def test_a_label_that_brings_a_cluster_in_concerns_those_that_select_it(state: FleetState) -> None:
    state.upsert(cluster("b", {"cpu": "2", "memory": "2Gi"}, labels={"env": "prod"}))
    assert chosen(run(state)) == {"ns/prod": ["a", "b"]}


def test_a_cluster_that_is_not_selected_does_not_concern(state: FleetState) -> None:
    state.upsert(placement("prod-cpu", prioritizerPolicy=exact("ResourceRatioCPU"), predicates=selecting(env="prod")))
    run(state)
    state.upsert(cluster("b", {"cpu": "7", "memory": "2Gi"}, labels={"env": "test"}))
    assert affected(state) == {"cpu"}


def test_another_decision_concerns_those_that_weigh_balance() -> None:
    state = fleet(
        *map(cluster, "ab"),
        placement("balanced", prioritizerPolicy=exact("Balance"), numberOfClusters=1),
        placement("fixed", prioritizerPolicy=STATIC),
    )
    while run(state).outcomes:
        pass
    state.upsert(decision("other", ["a", "b"], namespace="elsewhere"))
    assert affected(state) == {"balanced"}


def test_sets_and_bindings_concern_their_namespaces() -> None:
    state = FleetState([*everywhere("one"), *everywhere("two"), cluster("a")])
    for namespace in ("one", "two"):
        state.upsert(placement("p", namespace, prioritizerPolicy=STATIC))
    run(state)
    state.delete(everywhere("one")[1])
    assert state.affected(0) == [("one", "p")]
    run(state)
    state.delete(everywhere()[0])
    assert chosen(run(state)) == {"two/p": []}
    state.upsert(everywhere()[0])
    assert chosen(run(state)) == {"two/p": ["a"]}


def test_deleting_everything_leaves_nothing() -> None:
    objects = [*everywhere(), *map(cluster, "abc"), placement(), decision("q", ["a", "gone"])]
    state = FleetState(objects)
    run(state)
    for item in objects:
        state.delete(item)
        state.delete(item)
    state.check()
    assert state.affected(0) == []
    assert not state.table.slots
    assert not state.records


def test_more_clusters_than_there_were_slots() -> None:
    state = fleet(placement(prioritizerPolicy=exact("ResourceAllocatableCPU"), numberOfClusters=2))
    for number in range(300):
        state.upsert(cluster(f"c{number:03d}", {"cpu": str(number)}, free={"cpu": "1"}))
        if number % 97 == 0:
            run(state)
    assert chosen(run(state)) == {"ns/p": ["c299", "c298"]}


def test_what_is_held_stays_held_when_there_are_more_clusters_than_slots() -> None:
    needs = {"requirements": {"cpu": "1"}, "prioritizerPolicy": exact("ResourceFreeCPU"), "numberOfClusters": 2}
    state = fleet(placement(**needs), *(cluster(f"c{i:03d}", free={"cpu": str(1 + i)}) for i in range(60)))
    assert chosen(run(state)) == {"ns/p": ["c059", "c058"]}
    for i in range(60, 150):
        state.upsert(cluster(f"c{i:03d}", free={"cpu": str(200 - i)}))
    assert chosen(run(state)) == {"ns/p": ["c060", "c061"]}
    assert {state.table.names[slot] for slot in state.ledger.slots()} == {"c060", "c061"}


def test_decisions_that_name_many_unknown_clusters_make_room_for_themselves() -> None:
    """The table grows though no cluster came; what was worked out for the smaller one is not used any more."""
    asked = placement(
        prioritizerPolicy=exact("ResourceAllocatableCPU"), numberOfClusters=1, predicates=selecting(on="1")
    )
    state = fleet(asked, *(cluster(name, {"cpu": "1"}, labels={"on": "1"}) for name in "ab"))
    assert chosen(run(state)) == {"ns/p": ["a"]}
    state.upsert(decision("other", [f"gone-{number:03d}" for number in range(90)], namespace="elsewhere"))
    state.upsert(decision("p", ["b"]))
    assert chosen(run(state)) == {"ns/p": ["a"]}
    state.upsert(cluster("b", {"cpu": "2"}, labels={"on": "1"}))
    assert chosen(run(state)) == {"ns/p": ["b"]}


def test_autoscaling_up_and_down_moves_the_decision() -> None:
    """The appendix of the seed: workloads arrive, a node is added, later an idle node is removed."""
    watching = placement(numberOfClusters=1, prioritizerPolicy=exact("ResourceAllocatableCPU"))
    careless = placement("fixed", numberOfClusters=1, prioritizerPolicy=STATIC)
    state = fleet(cluster("a", {"cpu": "10"}), cluster("b", {"cpu": "8"}), watching, careless)
    assert chosen(run(state)) == {"ns/fixed": ["a"], "ns/p": ["a"]}
    state.upsert(cluster("a", {"cpu": "4"}, {"cpu": "10"}))
    assert chosen(run(state)) == {"ns/p": ["b"]}, "the workload took room in a"
    state.upsert(cluster("a", {"cpu": "12"}, {"cpu": "18"}))
    plan = run(state)
    assert chosen(plan) == {"ns/p": ["a"]}, "its autoscaler added a node"
    assert [(move.cluster, move.joined) for move in plan.outcomes[0].moves] == [("a", True), ("b", False)]
    state.upsert(cluster("a", {"cpu": "7"}, {"cpu": "10"}))
    plan = run(state)
    assert chosen(plan) == {"ns/p": ["b"]}, "and removed it again"
    assert scores(plan.outcomes[0]) == {"b": 100, "a": -100}


changes = st.lists(
    st.one_of(
        st.tuples(st.just("cpu"), st.sampled_from("abc"), st.integers(0, 9)),
        st.tuples(st.just("label"), st.sampled_from("abc"), st.integers(0, 1)),
        st.tuples(st.just("taint"), st.sampled_from("abc"), st.integers(0, 1)),
        st.tuples(st.just("gone"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("free"), st.sampled_from("abc"), st.integers(0, 9)),
    ),
    max_size=12,
)


@settings(max_examples=examples(60))
@given(changes)
def test_deciding_the_affected_is_as_good_as_deciding_all(events: list[tuple[str, str, int]]) -> None:
    """No placement that was not affected would have been decided otherwise."""
    specs: dict[str, dict[str, Any]] = {
        "cpu": {"prioritizerPolicy": exact("ResourceAllocatableCPU", "Steady"), "numberOfClusters": 1},
        "label": {"prioritizerPolicy": STATIC, "predicates": selecting(on="1")},
        "room": {"prioritizerPolicy": STATIC, "requirements": {"cpu": "4"}, "numberOfClusters": 2},
        "free": {"prioritizerPolicy": exact("ResourceFreeCPU", "Steady"), "numberOfClusters": 2},
    }
    placements = [placement(name, **spec) for name, spec in specs.items()]
    reserved: dict[str, dict[str, Any]] = {name: {"cpu": 1, "label": 0, "taint": 0, "free": 5} for name in "abc"}
    state = fleet(*placements)
    for kind, name, value in [("cpu", name, 1) for name in "abc"] + events:
        if kind == "gone":
            reserved.pop(name, None)
            state.delete(cluster(name))
        else:
            facts = reserved.setdefault(name, {"cpu": 1, "label": 0, "taint": 0, "free": 5})
            facts[kind] = value
            taints = [{"key": "k", "effect": "NoSelect"}] if facts["taint"] else []
            labels, free = {"on": str(facts["label"])}, {"cpu": str(facts["free"])}
            state.upsert(cluster(name, {"cpu": str(facts["cpu"])}, labels=labels, taints=taints, free=free))
        run(state)
        objects = [*everywhere(), *state.clusters.values(), *placements]
        for record in state.records.values():
            objects += record.slices.values()
        full = {name: set(names) for name, names in chosen(place(FleetState(objects), 0)).items()}
        kept = {
            "/".join(key): {state.table.names[slot] for slot in record.chosen.tolist()}
            for key, record in state.records.items()
        }
        assert full == kept


def test_a_cluster_that_changes_sets_concerns_both_sides() -> None:
    label = "cluster.open-cluster-management.io/clusterset"
    objects: list[object] = []
    for name in ("red", "blue"):
        binding = {"metadata": {"name": name, "namespace": name}, "spec": {"clusterSet": name}}
        objects.append(msgspec.convert({"metadata": {"name": name}}, api.ManagedClusterSet))
        objects.append(msgspec.convert(binding, api.ManagedClusterSetBinding))
        objects.append(placement("p", name, prioritizerPolicy=STATIC))
    state = FleetState([*objects, cluster("c", labels={label: "red"})])
    assert chosen(run(state)) == {"blue/p": [], "red/p": ["c"]}
    state.upsert(cluster("c", labels={label: "blue"}))
    assert chosen(run(state)) == {"blue/p": ["c"], "red/p": []}


def test_an_expression_looks_at_everything() -> None:
    selector = {"celSelector": {"celExpressions": ['managedCluster.status.allocatable["cpu"] == "2"']}}
    state = fleet(cluster("a", {"cpu": "1"}), placement(predicates=[{"requiredClusterSelector": selector}]))
    assert chosen(run(state)) == {"ns/p": []}
    state.upsert(cluster("a", {"cpu": "2"}))
    assert chosen(run(state)) == {"ns/p": ["a"]}


def test_usage_concerns_those_that_divide_by_room() -> None:
    free = {"type": "Free", "perReplica": {"cpu": "1"}}
    state = fleet(
        *(cluster(name, free={"cpu": "2"}) for name in "ab"),
        placement(prioritizerPolicy=STATIC, replicas=4, replicaStrategy=free),
    )
    run(state)
    state.upsert(cluster("a", free={"cpu": "2"}, usage={"ns/p": {"cpu": "4"}}))
    [outcome] = run(state).outcomes
    assert {item.cluster: item.replicas for item in outcome.decisions} == {"a": 3, "b": 1}


def test_a_cluster_that_begins_to_report_concerns_those_that_need_room() -> None:
    """That nothing is free is another answer than that nothing is known."""
    state = fleet(cluster("a"), placement(prioritizerPolicy=STATIC, requirements={"cpu": "1"}))
    unknown = reasons(run(state).outcomes[0])["a"][1]
    state.upsert(cluster("a", free={}))
    nothing = reasons(run(state).outcomes[0])["a"][1]
    assert unknown != nothing
    state.upsert(cluster("a"))
    assert reasons(run(state).outcomes[0])["a"][1] == unknown


def test_room_that_is_returned_concerns_those_that_need_it() -> None:
    needs = {"prioritizerPolicy": STATIC, "numberOfClusters": 1, "requirements": {"cpu": "3"}}
    state = fleet(cluster("a", free={"cpu": "4"}), placement("first", **needs), placement("second", **needs))
    assert chosen(run(state)) == {"ns/first": ["a"], "ns/second": []}
    assert run(state).outcomes == ()
    state.delete(placement("first", **needs))
    assert chosen(run(state)) == {"ns/second": ["a"]}


def test_room_that_is_returned_is_there_for_the_rest_of_the_run() -> None:
    needs = {"prioritizerPolicy": STATIC, "numberOfClusters": 1}
    state = fleet(cluster("a", free={"cpu": "4"}), placement("first", requirements={"cpu": "3"}, **needs))
    run(state)
    state.upsert(placement("first", **needs))
    state.upsert(placement("second", requirements={"cpu": "3"}, **needs))
    assert chosen(run(state)) == {"ns/first": ["a"], "ns/second": ["a"]}


def test_the_most_used_cluster_concerns_all_that_weigh_balance() -> None:
    """Balance is relative to the most used cluster, wherever that is."""
    state = fleet(
        cluster("a", labels={"on": "1"}),
        cluster("b", labels={"on": "1"}),
        cluster("far"),
        decision("x", ["a"]),
        placement(prioritizerPolicy=exact("Balance"), predicates=selecting(on="1")),
    )
    assert scores(run(state).outcomes[0]) == {"a": -100, "b": 100}
    state.upsert(decision("y", ["far"]))
    state.upsert(decision("z", ["far"]))
    assert scores(run(state).outcomes[0]) == {"a": 0, "b": 100}


def test_ten_thousand_decisions_of_another_program_are_read_in_one_go() -> None:
    """Each of them used to be read again for each that came; and names of no cluster to make all columns longer."""
    state = fleet(cluster("a"), cluster("b"), placement("p", numberOfClusters=1))
    run(state)
    begin = process_time()
    for number in range(10_000):
        state.upsert(decision("foreign", [f"x{number}-{index}" for index in range(3)] + ["b"], number=number))
    state.affected(0)
    assert process_time() - begin < 20  # some hundreds of seconds before
    assert state.table.size == 64
    slot = state.table.slots["b"]
    assert state.counts[slot] == 1
    state.check()
    state.upsert(cluster("x77-0"))  # which then is one that others use
    state.affected(0)
    assert state.counts[state.table.slots["x77-0"]] == 1
    for number in range(10_000):
        state.delete(decision("foreign", [], number=number))
    state.check()
    assert state.counts[slot] == 0
    assert set(state.records) == {("ns", "p")}


def test_a_list_of_a_placement_has_at_most_256_entries() -> None:
    many = [{"key": f"k{number}", "operator": "Exists"} for number in range(257)]
    (outcome,) = run(fleet(cluster("a"), placement("p", tolerations=many))).outcomes
    assert outcome.rules.problems == ("there are 257 tolerations, expected at most 256",)
