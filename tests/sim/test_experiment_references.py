"""The references that published results are measured with, on made-up data: they keep their own rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from experiments.engine import EASY, Watched, policy
from experiments.packers import BestFit, DotProd, Fgd, Random
from experiments.packing import Fleet, Packer, allocation, pack, workload
from experiments.packing_engine import PLUGINS, pack_by_engine, policy_of
from experiments.schedule import Job, Start
from experiments.starvation import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.clock import SECOND
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario
from fairway.sim.traces import GPU, GPU_MODEL_LABEL, TraceNode
from fairway.sim.traces.csv_traces import OpenbPod
from oracles.easy import simulate
from oracles.easy_pool import simulate_pool
from support.effort import examples


@st.composite
def job_lists(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for number in range(draw(st.integers(1, 12))):
        walltime = draw(st.integers(1, 9))
        run = draw(st.integers(1, walltime))
        jobs.append(Job(number, draw(st.integers(0, 9)), draw(st.integers(1, 4)), walltime, run))
    return jobs


def test_a_short_job_passes_the_head_and_a_long_one_does_not() -> None:
    jobs = [Job(0, 0, 3, 10, 10), Job(1, 1, 4, 5, 5), Job(2, 2, 1, 20, 20), Job(3, 3, 1, 7, 7)]
    starts = {start.job.number: (start.at, start.hosts) for start in simulate(jobs, 4)}
    assert starts == {0: (0, (0, 1, 2)), 1: (10, (0, 1, 2, 3)), 2: (15, (0,)), 3: (3, (3,))}
    assert {s.job.number: s.at for s in simulate_pool(jobs, 4)} == {0: 0, 1: 10, 2: 15, 3: 3}


@settings(max_examples=examples(60))
@given(job_lists())
def test_every_job_starts_once_no_host_is_shared_and_no_promise_is_missed(jobs: list[Job]) -> None:
    starts = simulate(jobs, 4)
    _check_promises(jobs, starts)
    for one in starts:
        assert len(one.hosts) == one.job.hosts
        for other in starts:
            if one is not other and set(one.hosts) & set(other.hosts):
                assert one.at + one.job.run <= other.at or other.at + other.job.run <= one.at


@settings(max_examples=examples(60))
@given(job_lists())
def test_the_pool_is_never_overdrawn_and_no_promise_is_missed(jobs: list[Job]) -> None:
    starts = simulate_pool(jobs, 4)
    _check_promises(jobs, starts)
    for at in {start.at for start in starts}:
        assert sum(s.job.hosts for s in starts if s.at <= at < s.at + s.job.run) <= 4


def test_the_engine_is_watched_as_the_references_are() -> None:
    """The head is promised the end of the long job; the short one passes it."""
    jobs = (
        "{name: j-0, tasks: 3, request: {cpu: 1}, run: 10s, limit: 10s}",
        "{name: j-1, tasks: 4, request: {cpu: 1}, run: 5s, limit: 5s, arrive: 1s}",
        "{name: j-3, request: {cpu: 1}, run: 7s, limit: 7s, arrive: 3s}",
    )
    scenario = f"cluster: {{nodes: 4 x {{cpu: 1}}}}\nworkload: {{jobs: [{', '.join(jobs)}]}}\n"
    starts = {start.job.number: start for start in Watched(scenario, policy(EASY, "easy")).starts}
    assert {number: (start.at // SECOND, start.hosts) for number, start in starts.items()} == {
        0: (0, (0, 1, 2)),
        1: (10, (0, 1, 2, 3)),
        3: (3, (3,)),
    }
    assert starts[1].planned == 10 * SECOND


def test_the_picture_of_the_gang_is_one_svg() -> None:
    jobs = (
        "{name: g, queue: gangs, tasks: 2, request: {cpu: 1}, run: 10s, arrive: 2s}",
        "{name: s, queue: stream, request: {cpu: 1}, run: 5s}",
    )
    scenario = (
        "cluster: {nodes: 2 x {cpu: 1}, queues: [{name: gangs}, {name: stream}]}\n"
        f"workload: {{jobs: [{', '.join(jobs)}]}}\n"
    )
    report = Simulation(parse_scenario(scenario, Path("s.yaml")), policy(EASY, "easy")).run().report
    root = ElementTree.fromstring(picture([report, report]))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg",
        "style",
        "text",
        "line",
        "path",
        "rect",
    }


def _check_promises(jobs: list[Job], starts: list[Start]) -> None:
    assert sorted(start.job.number for start in starts) == sorted(job.number for job in jobs)
    assert all(start.at >= start.job.submit for start in starts)
    assert all(start.at <= start.planned for start in starts if start.planned is not None)


def node(name: str, gpus: int, model: str, cpu: int = 16_000) -> TraceNode:
    amounts = {"cpu": cpu, "memory": 64 << 30, GPU: gpus * 1000}
    return TraceNode(name, amounts, {GPU_MODEL_LABEL: model} if model else {}, gpus)


PODS = [
    OpenbPod("whole", 4000, 1024, 1, 1000),
    OpenbPod("half", 2000, 1024, 1, 500),
    OpenbPod("part", 1000, 1024, 1, 300, ("T4",)),
    OpenbPod("pair", 6000, 1024, 2, 1000),
    OpenbPod("cpu", 3000, 1024, 0, 0),
]
NODES = [node("a", 4, "T4"), node("b", 2, "P100"), node("c", 1, "T4"), node("d", 8, "P100")]


def slow_fragmentation(cpu: int, gpus: Sequence[int], model: str, pods: Sequence[OpenbPod]) -> float:
    """Every pod is typical, each as likely as it is frequent."""
    total = 0.0
    for pod in pods:
        fits = sum(left >= pod.gpu_milli for left in gpus) >= pod.num_gpu
        allowed = not pod.gpu_models or model in pod.gpu_models
        if pod.num_gpu and fits and allowed and cpu >= pod.cpu_milli:
            total += sum(left for left in gpus if left < pod.gpu_milli)
        else:
            total += sum(gpus)
    return total / len(pods)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(PODS), min_size=1, max_size=25))
def test_fgd_scores_are_those_of_the_definition_though_they_are_kept(rows: list[OpenbPod]) -> None:
    fleet = Fleet(NODES, range(len(NODES)))
    packer = Fgd(PODS, fleet)
    for pod in rows:
        nodes = fleet.feasible(pod)
        scores = packer.scores(fleet, pod, nodes)
        for index, score in zip(nodes.tolist(), scores.tolist(), strict=True):
            assert score == _slow_score(fleet, pod, index)
        if len(nodes):
            chosen = int(nodes[scores.argmax()])
            fleet.place(pod, chosen, packer.gpus(fleet, pod, chosen) if pod.num_gpu else ())
            packer.placed(fleet, chosen)


def _slow_score(fleet: Fleet, pod: OpenbPod, index: int) -> int:
    cpu, model = int(fleet.cpu[index]), fleet.models[index]
    gpus = [left for left in fleet.gpus[index].tolist() if left >= 0]
    before = slow_fragmentation(cpu, gpus, model, PODS)
    fits = [g for g, left in enumerate(gpus) if left >= pod.gpu_milli]
    choices = [[g] for g in fits] if pod.num_gpu == 1 else [fits[: pod.num_gpu]]
    found = []
    for choice in choices:
        after = [left - pod.gpu_milli * (g in choice) for g, left in enumerate(gpus)]
        gain = (before - slow_fragmentation(cpu - pod.cpu_milli, after, model, PODS)) / 1000
        found.append(int(100 / (1 + math.exp(-gain)) + 1e-9))
    return max(found)


@pytest.mark.parametrize("name", ["fgd", "best", "dot", "random"])
def test_packing_never_overdraws_and_is_the_same_for_the_same_seed(name: str) -> None:
    outcomes = []
    for _ in range(2):
        dice = np.random.default_rng(5)
        fleet = Fleet(NODES, dice.permutation(len(NODES)).tolist())
        rows = workload(PODS, fleet.capacity, dice)
        makers: dict[str, Packer] = {"best": BestFit(), "dot": DotProd(), "random": Random(dice)}
        places = pack(fleet, rows, makers.get(name) or Fgd(PODS, fleet))
        assert (fleet.gpus >= -1).all()
        assert (fleet.cpu >= 0).all()
        assert fleet.idle.tolist() == fleet.gpus.clip(min=0).sum(axis=1).tolist()
        outcomes.append((places, allocation(rows, places, fleet.capacity)))
    assert outcomes[0] == outcomes[1]
    first, second = outcomes[0][1]
    assert 50 < first <= second <= 100


LIKE = [*NODES, node("e", 4, "T4", 5_000), node("f", 4, "T4", 9_000), node("g", 2, "P100", 3_000)]
"""Nodes that are alike but for their cpu."""
FRACTIONS = [OpenbPod(f"f{milli}", cpu, 512, 1, milli) for milli in (100, 300, 400, 600) for cpu in (500, 2000)]


@settings(max_examples=examples(15), deadline=None)
@given(
    st.lists(st.sampled_from([*PODS, *FRACTIONS]), min_size=1, max_size=60),
    st.permutations(range(len(LIKE))),
)
def test_the_engine_puts_every_pod_where_the_reference_does(rows: list[OpenbPod], order: list[int]) -> None:
    """The same node and the same GPUs, or nowhere. Random throws other dice. One pod asks for any GPU."""
    rows = [PODS[1], *rows]
    for name in ("FGD", "BestFit", "DotProd"):
        fleet = Fleet(LIKE, order)
        packers: dict[str, Packer] = {"BestFit": BestFit(), "DotProd": DotProd()}
        expected = pack(fleet, rows, packers.get(name) or Fgd(rows, fleet))
        assert pack_by_engine(LIKE, order, rows, policy_of(name, 1)) == expected


def test_the_engine_draws_what_fits_and_the_same_for_the_same_seed() -> None:
    rows = workload(PODS * 4, 15_000, np.random.default_rng(2))
    order = list(range(len(NODES)))
    first, again, other = (pack_by_engine(NODES, order, rows, policy_of("Random", seed)) for seed in (1, 1, 2))
    assert first == again != other
    left = Fleet(NODES, order)
    for pod, place in zip(rows, first, strict=True):
        if place is None:
            continue
        assert place[0] in left.feasible(pod)
        left.place(pod, *place)
    assert (left.gpus >= -1).all()
    assert set(PLUGINS) == {"FGD", "BestFit", "DotProd", "Random"}


def test_allocation_is_read_when_so_much_was_asked_for() -> None:
    whole, pair = PODS[0], PODS[3]
    places = [(0, (0,)), None, (0, (1,)), None]
    assert allocation([whole, pair, whole, pair], places, 4000) == [50.0, 50.0]
    assert allocation([whole, whole], [(0, (0,)), None], 1000, marks=(100, 130)) == [100.0, 100.0]


def test_the_workload_asks_for_up_to_130_percent() -> None:
    rows = workload(PODS, 15_000, np.random.default_rng(1))
    asked = sum(pod.num_gpu * pod.gpu_milli for pod in rows)
    assert 15_000 * 1.3 - 1000 <= asked <= 15_000 * 1.3 + 1000
