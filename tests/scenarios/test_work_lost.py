"""Which units go first at equal priority: surplus pods of all jobs before any gang, and the least work lost (7.3)."""

from typing import Any

import pytest

from fairway.clock import SECOND, to_datetime
from fairway.state.cluster import Upserted
from support import objects as make
from support.contention import DAY, cycle, evicted, plan, running_gang, waiting_gang
from support.engine import state_of
from support.objects import BEGIN
from support.preempting import POLICY, high, low, nodes, one_node

CHECKPOINT = "fairway.dev/last-checkpoint"


def checkpointed(thing: Any, text: str) -> Any:
    thing.metadata.annotations[CHECKPOINT] = text
    return thing


def at(second: int) -> str:
    return to_datetime(BEGIN + second * SECOND).isoformat()


@pytest.mark.parametrize("spread", [False, True], ids=["one node", "a node each"])
def test_three_elastic_jobs_give_their_surplus_before_any_of_them_ends(spread):
    """Two of four pods of each are surplus. The newest lost everything when units were ordered by start alone."""
    names = [f"n{i}" for i in range(12)] if spread else ["n1"] * 12
    jobs = [
        running_gang(job, names[4 * i : 4 * i + 4], minimum=2, started=1000 * i, cpu=1) for i, job in enumerate("abc")
    ]
    cluster = nodes(*names, cpu=1) if spread else [one_node(12)]
    found = plan(cluster, jobs, waiting_gang("high", 4, cpu=1, priority=10), policy=POLICY)
    lost = [pod.split("-")[0] for pod in evicted(found)]
    assert len(lost) == 4
    assert max(lost.count(job) for job in "abc") == 2, "no job loses more than its surplus"


def test_a_gang_goes_when_all_surplus_is_not_enough():
    jobs = [running_gang(job, ["n1"] * 2, minimum=1, started=1000 * i, cpu=1) for i, job in enumerate("ab")]
    found = plan(one_node(4), jobs, waiting_gang("high", 3, cpu=1, priority=10), policy=POLICY)
    assert evicted(found) == ["a-0", "b-0", "b-1"]


def test_priority_comes_before_surplus():
    pods = [low("low", priority=0), *running_gang("g", ["n1"] * 2, minimum=1, cpu=1, priority=1)]
    assert evicted(plan(one_node(3), pods, high(), policy=POLICY)) == ["low"]


def test_work_is_counted_in_the_dominant_resource():
    """Ten seconds on half the GPUs are more than a hundred seconds on a tenth of the CPUs."""
    cluster = make.node("n1", cpu=10, gpu=2)
    pods = [low("cpus", started=DAY - 40), low("gpu", started=DAY - 10, gpu=1), low("rest", cpu=8, priority=99)]
    assert evicted(plan(cluster, pods, high(), policy=POLICY)) == ["cpus"]
    pods[0] = low("cpus", started=DAY - 60)
    assert evicted(plan(cluster, pods, high(), policy=POLICY)) == ["gpu"]


def test_work_before_the_last_checkpoint_is_not_lost():
    new = low("new", started=DAY - 100)
    assert evicted(plan(one_node(2), low("old"), new, high(), policy=POLICY)) == ["new"]
    saved = checkpointed(low("old"), at(DAY - 50))
    assert evicted(plan(one_node(2), saved, new, high(), policy=POLICY)) == ["old"]
    late = checkpointed(low("old"), at(DAY - 150))
    assert evicted(plan(one_node(2), late, new, high(), policy=POLICY)) == ["new"]


def test_a_group_states_the_checkpoint_of_all_its_pods():
    group, *pods = running_gang("old", ["n1"] * 2, cpu=1)
    new = low("new", started=DAY - 100, cpu=2)
    saved = checkpointed(group, at(DAY - 50))
    assert evicted(plan(one_node(4), saved, pods, new, high(cpu=2), policy=POLICY)) == ["old-0", "old-1"]


def test_a_checkpoint_in_the_future_counts_as_now():
    """It does not outweigh work that others lose."""
    group, *pods = running_gang("g", ["n1"] * 2, cpu=1)
    saved = checkpointed(pods[0], at(DAY + 10_000))
    new = low("new", started=DAY - 100, cpu=2)
    assert evicted(plan(one_node(4), group, saved, pods[1], new, high(cpu=2), policy=POLICY)) == ["new"]


@pytest.mark.parametrize("text", ["yesterday", "", "1700000000", "2026-13-01T00:00:00Z", "x" * 100])
def test_a_checkpoint_that_is_not_a_time_is_reported_and_ignored(text):
    pods = [checkpointed(low("old"), text), low("new", started=DAY - 100)]
    found = plan(one_node(2), pods, high(), policy=POLICY)
    assert evicted(found) == ["new"]
    (warning,) = found.warnings
    assert warning.startswith(f"pod default/old: {CHECKPOINT} ")
    assert warning.endswith(" is not a valid time: ignored, expected RFC 3339 (2026-01-31T12:00:00Z)")


def test_a_checkpoint_that_comes_between_cycles_counts():
    state = state_of([one_node(2), low("old"), low("new", started=DAY - 100), high()])
    assert evicted(cycle(state, POLICY)) == ["new"]
    state.apply(Upserted(checkpointed(low("old"), at(DAY - 50))))
    assert evicted(cycle(state, POLICY)) == ["old"]
    group, *pods = running_gang("g", ["n1"], cpu=1)
    state = state_of([one_node(2), group, *pods, low("new", started=DAY - 100), high()])
    assert evicted(cycle(state, POLICY)) == ["new"]
    state.apply(Upserted(checkpointed(group, at(DAY - 50))))
    assert evicted(cycle(state, POLICY)) == ["g-0"]


def test_a_cluster_that_grows_counts_work_anew():
    """A GPU is half of all at first, and a twentieth when a large node has come."""
    pods = [low("cpus", started=DAY - 40), low("gpu", started=DAY - 10, gpu=1), low("rest", cpu=8, priority=99)]
    state = state_of([make.node("n1", cpu=10, gpu=2), *pods, high(spec={"nodeSelector": {make.HOST: "n1"}})])
    assert evicted(cycle(state, POLICY)) == ["cpus"]
    state.apply(Upserted(make.node("n2", cpu=1, gpu=18)))
    assert evicted(cycle(state, POLICY)) == ["gpu"]
