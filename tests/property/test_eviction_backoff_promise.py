"""Between two stops of a job there is at least its protection (7.6), over random streams with every action.

The test counts for itself: it looks at pods on nodes and at the evictions of each plan, and reads no record.
"""

from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.meta import OwnerReference
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.drive.planned_changes import eviction_record
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.contention import preempting, running_gang, waiting
from support.effort import examples
from support.every_action import clusters, policies
from support.objects import BEGIN
from support.world import World

many = settings(
    max_examples=examples(20, 2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
DAY = 86_400


Step = tuple[int, int, int]
"""Seconds that pass, which pod is lost (0: none), how large a claimant comes (0: none)."""


class RecordingWorld(World):
    """It keeps EvictionRecords too, and recreated pods are other objects than those before."""

    def recreate(self, key: str) -> None:
        super().recreate(key)
        pod = self.pods[key]
        self.state.apply(Deleted(pod))
        self._put(replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}+")))

    def submit(self, pod: Pod) -> None:
        self._put(pod)

    def carry_out(self, plan: Plan) -> None:
        for entry in plan.stops:
            record = eviction_record(entry if entry.stops else replace(entry, stopped_at="1970-01-01T00:00:00Z"))
            self.state.apply(Upserted(record) if entry.stops else Deleted(record))
        super().carry_out(plan)


class StopWatch:
    """How often each job was stopped, and when it first had its minimum again."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world = world
        self.shortest = {action.name: max(60, getattr(action.arguments, "min_runtime", 0)) for action in policy.actions}
        self.stops: dict[str, int] = {}
        self.since: dict[str, int] = {}
        self.most = 0

    def job(self, key: str) -> str:
        pod = self.world.pods[key]
        group = pod.metadata.annotations.get("scheduling.k8s.io/group-name")
        return f"group {pod.metadata.namespace}/{group}" if group else f"pod {key}"

    def minimum(self, job: str) -> int:
        kind, _, key = job.partition(" ")
        return max(1, self.world.groups[key].spec.min_member) if kind == "group" else 1

    def placed(self, without: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, pod in self.world.pods.items():
            job = self.job(key)
            is_there = pod.spec.node_name and pod.metadata.deletion_timestamp is None and key not in without
            found[job] = found.get(job, 0) + bool(is_there)
        return found

    def judge(self, plan: Plan) -> None:
        """Before the plan is carried out."""
        counted = {entry.pod: entry.action for entry in plan.evictions if entry.action in ("preempt", "reclaim")}
        left = self.placed(set(counted))
        for binding in plan.bindings:
            left[self.job(binding.pod)] += 1
        for job in dict.fromkeys(map(self.job, counted)):
            if left[job] >= self.minimum(job):
                continue
            stops = self.stops.get(job, 0)
            if stops:
                action = next(action for key, action in counted.items() if self.job(key) == job)
                span = min(DAY, self.shortest[action] * 2 ** min(stops, 30))
                assert job in self.since, f"{job} is stopped again though it did not run"
                assert self.world.now >= self.since[job] + span, f"{job}: stop {stops + 1} too early by {action}"
            self.stops[job] = stops + 1
            self.most = max(self.most, stops + 1)
            self.since.pop(job, None)

    def look(self) -> None:
        """After it was carried out."""
        for job, pods in self.placed(set()).items():
            if pods >= self.minimum(job) and job in self.stops and job not in self.since:
                self.since[job] = self.world.now


def owned(thing: Any) -> Any:
    """A lone pod with a controller: without one it would be gone for good, and each pod a new job."""
    if not isinstance(thing, Pod) or "scheduling.k8s.io/group-name" in thing.metadata.annotations:
        return thing
    owner = OwnerReference("ReplicaSet", thing.metadata.name, f"owner-{thing.metadata.name}", True, "apps/v1")
    return replace(thing, metadata=replace(thing.metadata, owner_references=(owner,)))


def promised(objects: list[Any], policy: Policy, steps: list[Step]) -> int:
    """Carry plans out. Claimants of high priority come and go, and pods are lost. Returns the most stops of one job."""
    world = RecordingWorld([owned(thing) for thing in objects], policy=policy)
    watch = StopWatch(world, policy)
    for number, (gap, lost, claim) in enumerate(steps):
        world.now += gap
        world.pass_time()
        placed = sorted(key for key, pod in world.pods.items() if pod.spec.node_name)
        if placed and lost:
            world.recreate(placed[lost % len(placed)])
        if claim:
            name = f"claim-{number}"
            world.runs[name] = 1 + claim * 20
            world.submit(waiting(name, queue="q0", cpu=claim, priority=1000, created=world.now))
        plan = decide(world.state, policy, BEGIN + world.now * SECOND)
        watch.judge(plan)
        world.carry_out(plan)
        watch.look()
    return watch.most


gaps = st.sampled_from((1, 1, 5, 30, 59, 60, 61, 119, 120, 121, 240, 500, 4000))
steps = st.lists(
    st.tuples(gaps, st.sampled_from((0, 0, 0, 1, 2, 3, 4)), st.sampled_from((0, 1, 2, 3))), min_size=8, max_size=30
)


@many
@given(objects=clusters(), policy=policies(), steps=steps)
def test_two_stops_of_a_job_are_at_least_its_protection_apart(
    objects: list[Any], policy: Policy, steps: list[Step]
) -> None:
    note(f"most stops of one job: {promised(objects, policy, steps)}")


def test_the_property_looks_at_jobs_that_are_stopped_again_and_again() -> None:
    """One node, one gang, and a claimant every two minutes for four hours: by the protection it is stopped seven times
    at most (2 + 4 + ... + 128 minutes), without it more than a hundred times.
    """
    cluster = [make.node("n1", cpu=1), make.queue("q0"), *running_gang("g", ["n1"], cpu=1, queue="q0")]
    assert promised(cluster, preempting(), [(60, 0, number % 2) for number in range(240)]) == 7
