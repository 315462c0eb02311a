"""Evictions serve somebody: once the victims of a claim are gone, the claimant starts, and nobody takes its places.

Random full clusters are driven through time with every action. Waiting pods may arrive late, victims may take seconds
to terminate; nodes stay.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from fairway.api.pods import Pod
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Upserted
from fairway.state.jobs import ON_NODE, Job, TaskState
from support import objects as make
from support.contended import contended
from support.contention import acting, running, waiting, waiting_gang
from support.effort import examples
from support.world import World

some = settings(
    max_examples=examples(40, 10_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

CYCLES = 14
"""So many cycles a cluster is watched for."""

PATIENCE = 2
"""Within so many cycles after its victims are gone a claimant starts."""


@st.composite
def all_actions(draw: st.DrawFn) -> Any:
    """The default actions, preempt, or both, with a short starvation threshold."""
    starving = {"starvingJobTimeThreshold": draw(st.sampled_from((0, 1, 3)))}
    reserve = ("reserve", {**starving, "reservedNodePercent": draw(st.sampled_from((40, 60, 100)))})
    evicting = draw(st.sampled_from((("reclaim",), ("preempt",), ("preempt", "reclaim"), ("reclaim", "preempt"))))
    drf = {"priorityFirst": draw(st.booleans())}
    return acting("enqueue", reserve, "allocate", *evicting, "backfill", drf=drf)


@st.composite
def arrivals(draw: st.DrawFn, objects: list[Any]) -> dict[str, int]:
    """Which waiting pods arrive late, and when."""
    pending = [thing for thing in objects if isinstance(thing, Pod) and not thing.spec.node_name]
    return {_key(pod): draw(st.integers(1, 8)) for pod in pending if draw(st.integers(0, 2)) == 0}


@dataclass
class Claim:
    """A job that pods are evicted for."""

    job: str
    priority: int
    pods: set[str]
    """The pods that were nominated."""
    gone_at: int
    """The first cycle in which the last of its victims is gone."""


class Watched(World):
    """A world that watches what becomes of claims."""

    reasons = False

    def __init__(self, objects: list[Any], policy: Any, late: dict[str, int]) -> None:
        super().__init__(
            [thing for thing in objects if not (isinstance(thing, Pod) and _key(thing) in late)], policy=policy
        )
        self._late = sorted(
            (
                (at, _key(thing), thing)
                for thing in objects
                if isinstance(thing, Pod)
                for at in [late.get(_key(thing))]
                if at
            ),
            key=lambda entry: entry[:2],
        )
        self._claims: dict[str, Claim] = {}

    def moments(self) -> list[tuple[int, Any]]:
        return [*super().moments(), *((at, key) for at, key, _ in self._late)]

    def pass_time(self) -> None:
        super().pass_time()
        while self._late and self._late[0][0] <= self.now:
            _, key, pod = self._late.pop(0)
            self.pods[key] = pod
            self.state.apply(Upserted(pod))
            arrived = self.state.tasks[key].job
            # a job of higher priority may come between, by the letter of the promise
            self._claims = {name: claim for name, claim in self._claims.items() if claim.priority >= arrived.priority}

    def watch(self, second: int) -> None:
        plan = self.step(second)
        self.state.refresh()
        jobs = {job.key: job for job in self.state.jobs()}
        for binding in plan.bindings:
            note(f"{second}: {binding.pod} is bound to {binding.node}")
        for eviction in plan.evictions:
            note(f"{second}: {eviction.for_} evicts {eviction.pod} on {eviction.node} ({eviction.action})")
        for entry in plan.nominations:
            note(f"{second}: {entry.pod} is nominated on {entry.node}")
        for place in plan.reservations:
            note(f"{second}: {place.pod} has {place.node} {place.state}")
        for end in plan.released:
            note(f"{second}: {end.pod} gives up {end.node}: {end.reason}")
        assert crowded(self.state) == [], "a pod was bound into a place that is another's"
        for claim in list(self._claims.values()):
            if claim.job not in jobs or _has_started(jobs[claim.job], claim):
                del self._claims[claim.job]
        self._note_claims(plan, jobs)
        for claim in self._claims.values():
            assert second < claim.gone_at + PATIENCE - 1, f"{claim.job} does not start"

    def _note_claims(self, plan: Plan, jobs: dict[str, Job]) -> None:
        for eviction in plan.evictions:
            job = jobs[eviction.for_]
            pods = {entry.pod for entry in plan.nominations if self.state.tasks[entry.pod].job is job}
            gone_at = self.now + max(self.grace, 1)
            self._claims[job.key] = Claim(job.key, job.priority, pods, gone_at)


def _has_started(job: Job, claim: Claim) -> bool:
    return job.ready >= job.minimum and not any(
        task.key in claim.pods and task.state in (TaskState.PENDING, TaskState.PIPELINED) for task in job.tasks
    )


def crowded(state: ClusterState) -> list[str]:
    """Nodes on which pods that stay, nominations and held places together take more than there is."""
    used: dict[int, Counter[int]] = {}
    for task in [*state.tasks.values(), *state.foreign.values()]:
        if task.state in (ON_NODE | {TaskState.PIPELINED}) - {TaskState.RELEASING}:
            used.setdefault(task.node, Counter()).update(dict(task.shape.vector))
    return [
        state.nodes.names[row]
        for row, amounts in used.items()
        for whole in [dict(state.nodes.allocatable.at(row))]
        if any(amount > whole.get(dimension, 0) for dimension, amount in amounts.items())
    ]


def _key(thing: Any) -> str:
    return f"{thing.metadata.namespace}/{thing.metadata.name}"


@some
@given(contended(), all_actions(), st.integers(0, 3), st.data())
def test_a_claimant_starts_once_its_victims_are_gone(objects: list[Any], policy: Any, grace: int, data: Any) -> None:
    """And meanwhile no pod is bound into its places."""
    world = Watched(objects, policy, data.draw(arrivals(objects)))
    world.grace = grace
    for second in world.seconds(CYCLES):
        world.watch(second)


DEFAULT = acting(
    "enqueue",
    ("reserve", {"starvingJobTimeThreshold": 0, "reservedNodePercent": 100}),
    "allocate",
    "reclaim",
    "backfill",
)


@pytest.mark.parametrize("below", [True, False], ids=["below what it deserves", "at what it deserves"])
def test_a_place_that_reserve_holds_is_kept_while_reclaim_frees_the_other(below: bool) -> None:
    """The default actions: reserve holds n1 for a gang, reclaim frees the second node. In the next cycle its own
    nomination counts: the gang keeps n1, which pods of lower priority wait for.

    A queue that has what it deserves only with what it has reserved may reclaim, too: it does not have it yet.
    """
    nodes = [make.node(f"n{number}", cpu=1, pods=10) for number in range(1, 5 if below else 4)]
    others = [running(f"v{number}", f"n{number}", cpu=1, queue="lends") for number in range(2, 5 if below else 4)]
    more = [waiting(f"o{number}", cpu=1, queue="lends", created=5) for number in (1, 2)]
    gang = waiting_gang("gang", 2, cpu=1, queue="owns", priority=5)
    large = waiting("large", cpu=2, queue="owns")
    queues = [make.queue("owns", 3 if below else 2), make.queue("lends", 1)]
    world = World(nodes, queues, others, more, gang, large, policy=DEFAULT)
    world.now, world.grace = 1, 2
    world.play(4)
    assert len(world.evictions) == 1
    assert {name for name in world.started if name.startswith("gang")} == {"gang-0", "gang-1"}
    assert not any(name.startswith("o") for name in world.started)
