"""Notes what happens, so that it can be written down at the end of an instant and shown.

`JournaledState` knows every object as the scheduler was last told of it: these are what a restart begins from.
`Journal` is told by the virtual cluster, and by the scheduler's plans, what was done and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.app.living import bound
from fairway.app.sandbox.records import Happening, Outcome
from fairway.clock import Micros, from_datetime
from fairway.scheduler.plan import Plan
from fairway.sim.jobs import SimJob
from fairway.sim.metrics import JobFacts
from fairway.sim.objects import annotated
from fairway.state.cluster import ClusterState
from fairway.state.events import Assumed, Confirmed, Deleted, Event, Forgotten, Upserted

NAMED = 4
"""Nodes that a text names; the rest are counted."""


class JournaledState(ClusterState):
    """A state that keeps the objects it was fed, and which of them changed since they were last written."""

    def __init__(self, now: Callable[[], Micros]) -> None:
        super().__init__()
        self.objects: dict[ObjectKey, ApiObject] = {}
        self.changed: dict[ObjectKey, ApiObject | None] = {}
        self._now = now

    def apply(self, event: Event) -> None:
        match event:
            case Upserted(thing):
                key = kinds.key(thing)
                self._keep(key, _with_story(thing, self.objects.get(key)) if isinstance(thing, Pod) else thing)
            case Deleted(thing):
                key = kinds.key(thing)
                if self.objects.pop(key, None) is not None:
                    self.changed[key] = None
            case Assumed(name, node, record):
                namespace, _, pod = name.partition("/")
                known = self.objects["Pod", namespace, pod]
                assert isinstance(known, Pod)
                given = annotated(known, dict(record)) if record else known
                self._keep(("Pod", namespace, pod), bound(given, node, self._now()))
            case Confirmed() | Forgotten():
                pass
        super().apply(event)

    def _keep(self, key: ObjectKey, thing: ApiObject) -> None:
        self.objects[key] = thing
        self.changed[key] = thing


def _with_story(pod: Pod, known: ApiObject | None) -> Pod:
    """The pod with what it no longer says of itself, as long as it stays where it is: when it was bound and began."""
    if not isinstance(known, Pod) or not pod.spec.node_name or known.spec.node_name != pod.spec.node_name:
        return pod
    status = replace(
        pod.status,
        conditions=pod.status.conditions or known.status.conditions,
        start_time=pod.status.start_time or known.status.start_time,
    )
    return replace(pod, status=status)


class Journal:
    """A witness of the virtual cluster (`sim.witness`) that keeps what happened until it is taken."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []
        self.outcomes: list[Outcome] = []

    def note(self, at: Micros, kind: str, text: str, job: str = "", pods: Mapping[str, str] | None = None) -> None:
        self.happenings.append(Happening(at, kind, text, job, dict(pods or {})))

    def planned(self, at: Micros, plan: Plan) -> None:
        """A plan is about to be carried out: its reasons are known only now."""
        placed: dict[str, dict[str, str]] = {}
        for binding in plan.bindings:
            placed.setdefault(binding.job, {})[binding.pod] = binding.node
        for job, pods in placed.items():
            self.note(at, "placed", f"{_count(len(pods))} on {_nodes(pods)}", job, pods)
        for eviction in plan.evictions:
            text = f"{eviction.pod} leaves {eviction.node} for {eviction.for_} ({eviction.action}: {eviction.reason})"
            self.note(at, "evicted", text, pods={eviction.pod: eviction.node})
        for released in plan.released:
            self.note(at, "released", f"{released.node} no longer kept for {released.pod}: {released.reason}")

    def reserved(self, at: Micros, job: str, pods: Mapping[str, str]) -> None:
        self.note(at, "reserved", f"{_nodes(pods)} kept for {_count(len(pods))}", job)

    def ended(self, at: Micros, job: SimJob) -> None:
        """A job ran to its end."""
        submitted, started = submitted_at(job, at), at if job.start is None else job.start
        outcome = Outcome(job.key, job.queue, job.namespace, len(job.pods), submitted, started, ended=at)
        self.outcomes.append(outcome)
        self.note(at, "finished", f"{_count(len(job.pods))} done", job.key, {pod.key: pod.node for pod in job.pods})

    # -- the witness ---------------------------------------------------------------------------------------

    def submitted(self, at: Micros, facts: JobFacts) -> None:
        needs = "" if facts.minimum <= 1 else f", {facts.minimum} at once"
        self.note(at, "submitted", f"{_count(facts.tasks)}{needs}, queue {facts.queue}", facts.key)

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None:
        if failed:
            self.note(at, "lost", f"{_count(tasks)} lost with their node", key)

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None: ...

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None: ...

    def reservations(self, at: Micros, starving: int, reserved: int) -> None: ...


def submitted_at(job: SimJob, default: Micros) -> Micros:
    """When a job came: its group's time, else its pods' first."""
    metas = [job.group.metadata] if job.group is not None else [pod.pod.metadata for pod in job.pods]
    times = [from_datetime(meta.creation_timestamp) for meta in metas if meta.creation_timestamp is not None]
    return min(times, default=default)


def _nodes(pods: Mapping[str, str]) -> str:
    counts: dict[str, int] = {}
    for node in pods.values():
        counts[node] = counts.get(node, 0) + 1
    names = sorted(counts)
    shown = ", ".join(f"{name} ({counts[name]})" if counts[name] > 1 else name for name in names[:NAMED])
    return shown + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"
