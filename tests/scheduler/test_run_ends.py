"""Run ends that are kept from cycle to cycle, against the same read from all pods, one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.arguments import BackfillArguments
from fairway.api.meta import Condition
from fairway.clock import SECOND, Micros, to_datetime
from fairway.scheduler.backfill.run_ends import HORIZON, RunEnds, run_ends
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.jobs import Task
from fairway.state.snapshot import snapshot_of
from support import objects as make
from support.contention import reservation, running, running_gang
from support.effort import examples
from support.objects import BEGIN
from support.streams import EXPECTED

NODES = ("n0", "n1", "n2")
EASY = BackfillArguments(mode="easy")
ALLOW = BackfillArguments(mode="easy", overrun="allow")
HISTORY = BackfillArguments(mode="easy", estimate="user-history")
NEVER = {"fairway.dev/never-evict": "true"}
QUEUE = "scheduling.volcano.sh/queue-name"


def slowly(state: ClusterState, arguments: BackfillArguments, now: Micros) -> dict[str, Any]:
    """The columns as a list of runs: (end, node, sure), and what is said of nodes."""
    runtimes, ends = Runtimes(state, arguments), []
    unknown, estimated, runs = set(), set(), 0
    for task in [*state.tasks.values(), *state.foreign.values()]:
        if task.state.name == "RELEASING" and task.node >= 0:
            runs += 1
            ends.append((now, task.node, task.shape.vector, True))
        elif task.state.name in ("BOUND", "RUNNING", "UNKNOWN"):
            runs += 1
            runtime = runtimes.of(task)
            if runtime is None:
                system = task.job.namespace == "kube-system" or task.priority >= 2_000_000_000
                if not task.shape.best_effort and not system and task.key in state.tasks:
                    unknown.add(task.node)
                continue
            if runtime.estimated:
                estimated.add(task.node)
            began = now if task.started is None else task.started
            end = runtime.end(began, now)
            if end <= now + HORIZON:
                ends.append((end, task.node, task.shape.vector, runtime.is_sure_at(began, end)))
    return {"ends": ends, "unknown": unknown, "estimated": estimated, "runs": runs}


def compare(kept: RunEnds, slow: dict[str, Any], shape: tuple[int, int]) -> None:
    moments = sorted({end for end, *_ in slow["ends"]})
    assert kept.moments == moments
    assert kept.runs == slow["runs"]
    assert set(np.flatnonzero(kept.unknown)) == slow["unknown"]
    assert set(np.flatnonzero(kept.estimated)) == slow["estimated"]
    for at in moments:
        assert kept.ends_at(at)
        for columns, counted in ((kept.ends, slow["ends"]), (kept.unsure, [run for run in slow["ends"] if not run[3]])):
            wanted = np.zeros(shape, dtype=np.int64)
            for end, row, vector, _ in counted:
                for dimension, amount in vector if end <= at else ():
                    wanted[dimension, row] += amount
            assert (columns.at([at])[0] == wanted).all()
            assert (columns.at([at, at])[1] == wanted).all()


def busy(name: str = "a", on: str = "n0", **rest: Any) -> Any:
    return running(name, on, cpu=1, **rest)


def said(span: int) -> dict[str, str]:
    return {EXPECTED: str(span)}


def noted(thing: Any, **notes: str) -> Any:
    """With other annotations."""
    return replace(thing, metadata=replace(thing.metadata, annotations=notes))


def leaving(pod: Any) -> Any:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=to_datetime(BEGIN)))


def unprioritised(pod: Any) -> Any:
    return replace(pod, spec=replace(pod.spec, priority=None))


def overrun(pod: Any, *, overran: bool = True) -> Any:
    thing: Any = reservation(pod)
    return replace(thing, status=replace(thing.status, overran=overran))


def finished(name: str, seconds: int) -> Any:
    """A pod that ran for so long."""
    pod = busy(name)
    ended = Condition(type="Ready", status="False", last_transition_time=to_datetime(BEGIN + seconds * SECOND))
    return replace(pod, status=replace(pod.status, phase="Succeeded", conditions=(ended,)))


def system_class() -> Any:
    made: Any = make.priority_class("any", 5, default=True)
    return replace(made, value=2_000_000_000)


def gang(**notes: str) -> Any:
    return noted(running_gang("gang", NODES, cpu=1)[0], **notes)


def in_queue(group: Any, queue: str) -> Any:
    return replace(group, spec=replace(group.spec, queue=queue))


EVENTS: dict[str, tuple[list[Any], Any, int, BackfillArguments]] = {
    "a run comes": ([], busy(annotations=said(9)), 0, EASY),
    "a run goes": ([busy(annotations=said(9))], Deleted(busy()), 0, EASY),
    "a run says otherwise": ([busy(annotations=said(9))], busy(annotations=said(7)), 0, EASY),
    "a run is being deleted": ([busy(annotations=said(9))], leaving(busy(annotations=said(9))), 0, EASY),
    "its group says otherwise": (running_gang("gang", NODES, cpu=1), gang(**said(9)), 0, EASY),
    "its group is spared now": (
        [*running_gang("gang", NODES, cpu=1), gang(**said(9)), make.queue("kept"), noted(make.queue("q"), **NEVER)],
        in_queue(gang(**said(9)), "q"),
        0,
        EASY,
    ),
    "its queue is spared now": (
        [make.queue("q"), busy(annotations={**said(9), QUEUE: "q"})],
        noted(make.queue("q"), **NEVER),
        0,
        EASY,
    ),
    "it was evicted before": ([busy(annotations=said(9))], overrun(busy()), 0, EASY),
    "that is forgotten": ([busy(annotations=said(9)), overrun(busy())], overrun(busy(), overran=False), 0, EASY),
    "its group was evicted before": ([*running_gang("gang", NODES, cpu=1), gang(**said(9))], overrun(gang()), 0, EASY),
    "it is of the system now": ([unprioritised(busy())], system_class(), 0, EASY),
    "its gang is of the system now": (
        [*map(unprioritised, running_gang("gang", NODES, cpu=1)[1:])],
        system_class(),
        0,
        EASY,
    ),
    "a like run has ended": ([busy("a-2")], finished("a-1", 7), 0, HISTORY),
    "its time is up, for sure": ([busy(annotations=said(9))], None, 10, EASY),
    "its time is up, not for sure": ([busy(annotations=said(9))], None, 10, ALLOW),
    "its time is up twice": ([busy(annotations=said(9))], None, 40, ALLOW),
    "it is being deleted still": ([leaving(busy(annotations=said(9)))], None, 10, EASY),
    "time goes back": ([busy(annotations=said(3))], None, -3, ALLOW),
}


def taken(kept: RunEnds) -> list[object]:
    unsure = [kept.unsure.at([moment]).tolist() for moment in kept.moments]
    return [kept.runs, [*kept.moments], *unsure, kept.unknown.tolist(), kept.estimated.tolist()]


@pytest.mark.parametrize("what", EVENTS)
def test_what_changes_an_end_is_noticed(what: str) -> None:
    before, event, later, arguments = EVENTS[what]
    state, now = ClusterState(), BEGIN + 5 * SECOND
    state.upsert([make.node(name, cpu=64) for name in NODES])
    state.upsert(before)

    def kept(at: Micros) -> RunEnds:
        shape = snapshot_of(state).idle.shape
        found = run_ends(state, Runtimes(state, arguments), shape, at)
        compare(found, slowly(state, arguments, at), shape)
        return found

    first = taken(kept(now))
    if event is not None:
        state.apply(event if isinstance(event, Deleted) else Upserted(event))
    assert taken(kept(now + later * SECOND)) != first
    compare(kept(now), slowly(state, arguments, now), snapshot_of(state).idle.shape)


@settings(max_examples=examples(40))
@given(st.data(), st.sampled_from((EASY, ALLOW, HISTORY)))
def test_kept_ends_are_those_of_all_that_runs(data: st.DataObject, arguments: BackfillArguments) -> None:
    state, now = ClusterState(), BEGIN
    state.upsert([make.node(name, cpu=64) for name in NODES])
    happens = [(before, event) for before, event, *_ in EVENTS.values()]
    for _ in range(data.draw(st.integers(1, 8))):
        for before, event in data.draw(st.lists(st.sampled_from(happens), max_size=2)):
            state.upsert(before)
            if event is not None:
                state.apply(event if isinstance(event, Deleted) else Upserted(event))
        now += data.draw(st.sampled_from((0, 0, 1, 7, 30, 300, -5))) * SECOND
        shape = snapshot_of(state).idle.shape
        compare(run_ends(state, Runtimes(state, arguments), shape, now), slowly(state, arguments, now), shape)


def test_a_change_of_one_node_reads_no_other() -> None:
    state = ClusterState()
    state.upsert([make.node(name, cpu=64) for name in NODES])
    state.upsert([busy("a", "n0", annotations=said(9)), busy("b", "n1", annotations=said(9))])
    shape, read = snapshot_of(state).idle.shape, list[str]()

    class Counting(Runtimes):
        def of(self, task: Task) -> Runtime | None:
            read.append(task.key)
            return super().of(task)

    for _ in range(2):
        run_ends(state, Counting(state, EASY), shape, BEGIN)
    state.apply(Upserted(busy("c", "n1", annotations=said(9))))
    run_ends(state, Counting(state, EASY), snapshot_of(state).idle.shape, BEGIN)
    assert read == ["default/a", "default/b", "default/c"]
