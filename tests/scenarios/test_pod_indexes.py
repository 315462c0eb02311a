"""Pods with an index are laid out along the topology: consecutive ranks change domain as rarely as the nodes allow."""

import json
from itertools import pairwise
from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import Deleted
from support import engine
from support.devices import asking, device_node, gpu, kind_class
from support.engine import bound, plan
from support.objects import NOW, group, made, node, pod

BLOCK, RACK = "example.com/block", "example.com/rack"
COMPLETION = "batch.kubernetes.io/job-completion-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
WORKER, WORKER_GROUP = "leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/group-index"
JOB, REPLICATED = "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/replicatedjob-name"


def policy(levels: list[str], actions: Any = "enqueue, allocate, backfill", score: str = "nodeorder") -> Policy:
    names = ["priority", "gang", "conformance", "drf", "predicates", "proportion", score]
    tiers = [{"plugins": [{"name": name} for name in names]}]
    text = json.dumps({"actions": actions, "topology": {"levels": levels}, "tiers": tiers})
    return parse_policy(text, "policy", default_registry().catalog)


LEVELS = policy([BLOCK, RACK])


def racks(*sizes: int, gpus: int = 8) -> list[ApiObject]:
    """Racks of so many nodes each, two racks to a block. Names do not follow the racks: `n0` is in the last one."""
    places = [rack for rack, size in enumerate(sizes) for _ in range(size)]
    return [
        node(f"n{i:03}", gpu=gpus, labels={BLOCK: f"b{rack // 2}", RACK: f"r{rack % 2}"})
        for i, rack in enumerate(interleaved(places))
    ]


def interleaved(places: list[int]) -> list[int]:
    return [*places[::3], *places[1::3], *places[2::3]]


def worker(i: int, *, label: str = COMPLETION, gpu: int = 1, **more: Any) -> ApiObject:
    labels = {label: str(i), **more.pop("labels", {})}
    return pod(f"w-{i}", group="w", labels=labels, gpu=gpu, **more)


def gang(members: int, minimum: int | None = None, **more: Any) -> list[ApiObject]:
    return [group("w", minimum=minimum or members), *(worker(i, **more) for i in range(members))]


def sequence(nodes: list[ApiObject], places: dict[str, str], order: list[str], *keys: str) -> list[tuple[str, ...]]:
    """By rank, the domains of its node at these levels."""
    labels = {thing.metadata.name: {**thing.metadata.labels, "": thing.metadata.name} for thing in nodes}
    return [tuple(labels[places[name]][key] for key in keys) for name in order]


def crossings(found: list[tuple[str, ...]]) -> int:
    return sum(a != b for a, b in pairwise(found))


def ranks(count: int) -> list[str]:
    return [f"w-{i}" for i in range(count)]


def loads(found: Plan) -> list[str]:
    return sorted(binding.node for binding in found.bindings)


class TestWholeGang:
    @pytest.mark.parametrize("label", [COMPLETION, POD_INDEX, WORKER, JOB])
    def test_64_pods_over_8_racks_cross_7_times(self, label: str) -> None:
        nodes = racks(*[4] * 8, gpus=2)
        found = plan(nodes, gang(64, label=label), policy=LEVELS)
        seen = sequence(nodes, bound(found), ranks(64), BLOCK, RACK)
        assert crossings(seen) == 7
        assert crossings([path[:1] for path in seen]) == 3, "the blocks are entered once, too"
        assert crossings(sequence(nodes, bound(found), ranks(64), "")) == 31, "and so are the nodes"

    def test_without_an_index_nothing_changes(self) -> None:
        nodes = racks(*[4] * 8, gpus=2)
        found, plain = (plan(nodes, gang(64, label=label), policy=LEVELS) for label in (COMPLETION, "example.com/i"))
        assert crossings(sequence(nodes, bound(plain), ranks(64), BLOCK, RACK)) > 7
        assert loads(found) == loads(plain), "the same nodes get as many pods as before"
        assert [one.pod for one in found.bindings] == [one.pod for one in plain.bindings], "in the same order"

    def test_racks_of_one_name_in_two_blocks_are_two(self) -> None:
        nodes = racks(1, 1, 1, 1, gpus=2)
        seen = sequence(nodes, bound(plan(nodes, gang(8), policy=LEVELS)), ranks(8), BLOCK, RACK)
        assert seen == sorted(seen)
        assert crossings(seen) == 3

    def test_without_levels_neighbours_share_a_node(self) -> None:
        nodes = [node(f"n{i}", gpu=4) for i in range(3)]
        places = bound(plan(nodes, gang(12), policy=policy([])))
        assert crossings(sequence(nodes, places, ranks(12), "")) == 2

    def test_the_level_of_the_request_counts_where_the_policy_lists_none(self) -> None:
        nodes = racks(3, 3, gpus=1)
        notes = {"kueue.x-k8s.io/podset-preferred-topology": RACK}
        found = plan(nodes, gang(6, annotations=notes), policy=policy([]))
        assert crossings(sequence(nodes, bound(found), ranks(6), RACK)) == 1

    def test_hypernodes_are_levels(self) -> None:
        nodes = [node(f"n{i}", gpu=1) for i in range(8)]
        leaves = [hyper(f"s{i}", 1, [f"n{i}", f"n{i + 4}"], "Node") for i in range(4)]
        spines = [hyper(f"t{i}", 2, [f"s{i}", f"s{i + 2}"], "HyperNode") for i in range(2)]
        places = bound(plan(nodes, leaves, spines, gang(8), policy=policy([])))
        numbers = [int(places[name][1:]) % 4 for name in ranks(8)]
        assert numbers == [0, 0, 2, 2, 1, 1, 3, 3]

    def test_order_of_input_does_not_matter(self) -> None:
        nodes, job = racks(2, 3, 2, gpus=2), gang(13)
        first = plan(nodes, job, policy=LEVELS)
        assert plan(nodes[::-1], job[::-1], policy=LEVELS).bindings == first.bindings


def hyper(name: str, tier: int, members: list[str], kind: str) -> ApiObject:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return made("HyperNode", name, spec={"tier": tier, "members": listed})


class TestRanks:
    def test_numbers_are_not_texts(self) -> None:
        nodes = racks(1, 1, 1, gpus=4)
        seen = sequence(nodes, bound(plan(nodes, gang(12), policy=LEVELS)), ranks(12), BLOCK, RACK)
        assert crossings(seen) == 2, "rank 10 follows 9, not 1"

    def test_a_job_set_counts_by_job_and_index(self) -> None:
        nodes = racks(1, 1, 1, gpus=4)
        names = [(job, i) for job in range(4) for i in range(3)]
        labels = [{JOB: str(job), COMPLETION: str(i), REPLICATED: "workers"} for job, i in names]
        pods = [pod(f"p{i}-{j}", group="w", gpu=1, labels=label) for (j, i), label in zip(names, labels, strict=True)]
        found = bound(plan(nodes, group("w", minimum=12), pods, policy=LEVELS))
        seen = sequence(nodes, found, [f"p{i}-{j}" for j, i in names], BLOCK, RACK)
        assert crossings(seen) == 2

    def test_replicated_jobs_do_not_mix(self) -> None:
        nodes = racks(1, 1, gpus=4)
        names = [(job, i) for job in ("actor", "critic") for i in range(4)]
        pods = [
            pod(f"p{i}-{job}", group="w", gpu=1, labels={JOB: "0", COMPLETION: str(i), REPLICATED: job})
            for job, i in names
        ]
        found = bound(plan(nodes, group("w", minimum=8), pods, policy=LEVELS))
        assert crossings(sequence(nodes, found, [f"p{i}-{job}" for job, i in names], RACK)) == 1

    def test_two_jobs_of_one_group_do_not_mix(self) -> None:
        nodes = racks(1, 1, gpus=4)
        names = [(job, i) for job in "ab" for i in range(4)]
        pods = [
            pod(f"p{i}-{job}", group="w", gpu=1, owner=f"Job/{job}", labels={COMPLETION: str(i)}) for job, i in names
        ]
        found = bound(plan(nodes, group("w", minimum=8), pods, policy=LEVELS))
        assert crossings(sequence(nodes, found, [f"p{i}-{job}" for job, i in names], RACK)) == 1

    def test_workers_of_one_leader_stay_together(self) -> None:
        nodes = racks(1, 1, gpus=4)
        names = [(leader, i) for leader in range(2) for i in range(4)]
        pods = [
            pod(f"p{i}-{g}", group="w", gpu=1, labels={WORKER: str(i), WORKER_GROUP: str(g), POD_INDEX: str(i or g)})
            for g, i in names
        ]
        found = bound(plan(nodes, group("w", minimum=8), pods, policy=LEVELS))
        assert crossings(sequence(nodes, found, [f"p{i}-{g}" for g, i in names], RACK)) == 1

    @pytest.mark.parametrize("text", ["", "x", "1.5", "9" * 30])
    def test_an_index_that_is_no_number_breaks_nothing(self, text: str) -> None:
        job = [group("w", minimum=3), *(pod(f"w-{i}", group="w", gpu=1, labels={COMPLETION: text}) for i in range(3))]
        assert len(bound(plan(racks(1, 1, gpus=2), job, policy=LEVELS))) == 3


class TestRunningGang:
    def test_restarted_pods_go_to_their_holes(self) -> None:
        nodes = racks(2, 2, 2, 2, gpus=2)
        places = bound(plan(nodes, gang(16), policy=LEVELS))
        for lost in ((3,), (3, 9), (0, 5, 15), (2, 3, 10, 11)):
            job = [group("w", minimum=16)]
            job += [worker(i, node="" if i in lost else places[f"w-{i}"]) for i in range(16)]
            again = bound(plan(nodes, job, policy=LEVELS))
            whole = {**places, **again}
            seen, first = (sequence(nodes, found, ranks(16), BLOCK, RACK, "") for found in (whole, places))
            assert seen == first, lost

    def test_many_restarted_pods_restore_the_line(self) -> None:
        nodes = racks(*[4] * 8, gpus=2)
        places = bound(plan(nodes, gang(64), policy=LEVELS))
        lost = range(1, 64, 4)
        job = [group("w", minimum=64), *(worker(i, node="" if i in lost else places[f"w-{i}"]) for i in range(64))]
        whole = places | bound(plan(nodes, job, policy=LEVELS))
        assert crossings(sequence(nodes, whole, ranks(64), BLOCK, RACK)) == 7

    def test_growth_stays_in_the_block_before_a_rack_of_the_same_name(self) -> None:
        """Nodes of a rack r0 are in both blocks; the running pods are in that of b1."""
        nodes = [node("m", gpu=2, labels={BLOCK: "b1", RACK: "r0"})]
        nodes += [node(f"n{i}", gpu=1, labels={BLOCK: f"b{i % 2}", RACK: f"r{i % 2}"}) for i in range(20)]
        job = [group("w", minimum=2), *(worker(i, node="m" if i < 2 else "") for i in range(22))]
        whole = {"w-0": "m", "w-1": "m"} | bound(plan(nodes, job, policy=LEVELS))
        seen = sequence(nodes, whole, ranks(22), BLOCK, RACK)
        assert seen == [("b1", "r0")] * 2 + [("b1", "r1")] * 10 + [("b0", "r0")] * 10

    def test_growth_goes_on_where_the_last_rank_is(self) -> None:
        nodes = racks(2, 2, gpus=4)
        in_r1 = sorted(thing.metadata.name for thing in nodes if thing.metadata.labels[RACK] == "r1")
        job = gang(14, minimum=2)[:1] + [worker(i, node=in_r1[0] if i < 2 else "") for i in range(14)]
        places = bound(plan(nodes, job, policy=LEVELS)) | {"w-0": in_r1[0], "w-1": in_r1[0]}
        seen = sequence(nodes, places, ranks(14), RACK)
        assert seen[:6] == [("r1",)] * 6, "as long as there is a place in that rack"
        assert crossings(seen) == 1

    def test_a_launcher_of_another_shape_begins_the_line(self) -> None:
        nodes = [*racks(0, 1, 0, 1, gpus=4), node("z", gpu=4, cpu=2, labels={BLOCK: "b1", RACK: "r1"})]
        job = [group("w", minimum=9), worker(0, cpu=2, gpu=4), *(worker(i) for i in range(1, 9))]
        places = bound(plan(nodes, job, policy=LEVELS))
        assert places["w-0"] == "z"
        assert crossings(sequence(nodes, places, ranks(9), BLOCK, RACK)) == 1

    def test_a_pod_with_a_nomination_keeps_its_node(self) -> None:
        nodes = [node(f"n{i}", gpu=1) for i in range(3)]
        job = [group("w", minimum=3), worker(0, nominated="n2"), worker(1), worker(2)]
        assert bound(plan(nodes, job, policy=policy([]))) == {"w-0": "n2", "w-1": "n0", "w-2": "n1"}


def test_only_equal_pods_change_places() -> None:
    nodes = [node(f"{rack}{i}", gpu=1, labels={RACK: rack}) for rack in "ab" for i in range(2)]
    job = [group("w", minimum=4), *(worker(i, spec={"nodeSelector": {RACK: "ba"[i % 2]}}) for i in range(4))]
    places = bound(plan(nodes, job, policy=policy(["made-up", RACK])))
    assert places == {"w-0": "b0", "w-1": "a0", "w-2": "b1", "w-3": "a1"}


def test_pods_with_devices_stay_where_their_devices_are() -> None:
    nodes = [device_node(f"n{i}", gpu(f"gpu-{i}", 2)) for i in range(3)]

    def found(label: str) -> ExplainedPlan:
        pods = [asking(f"w-{i}", group="w", classes={"any": 1}, labels={label: str(5 - i)}) for i in range(6)]
        job = [kind_class("any", "nvidia-gpu"), group("w", minimum=6), *pods]
        return plan(nodes, job, policy=engine.policy(devices={}))

    with_index = found(COMPLETION)
    assert len(with_index.bindings) == 6
    assert with_index.document() == found("example.com/i").document()


def test_an_index_that_changes_is_read_again() -> None:
    state = engine.state_of([node(f"n{i}", gpu=2) for i in range(2)], gang(4))
    assert bound(engine.decided(state, policy([]))) == {"w-0": "n0", "w-1": "n0", "w-2": "n1", "w-3": "n1"}
    state.upsert([pod(f"w-{i}", group="w", gpu=1, labels={COMPLETION: str(9 - i)}) for i in range(4)])
    assert bound(engine.decided(state, policy([]))) == {"w-0": "n1", "w-1": "n1", "w-2": "n0", "w-3": "n0"}
    for i in range(4):
        state.apply(Deleted(worker(i)))
    engine.decided(state, policy([]))
    assert not state.indexed_pods


def test_cycles_without_reasons_bind_the_same() -> None:
    state = engine.state_of(racks(2, 2, gpus=2), gang(8))
    told = bound(decide_and_explain(state, LEVELS, NOW))
    assert bound(decide(state, LEVELS, NOW)) == told
