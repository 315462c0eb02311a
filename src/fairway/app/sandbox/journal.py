"""Notes the events of an instant, to be saved at its end and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway.app.records import FinishedJob, SandboxEvent
from fairway.clock import Micros, from_datetime
from fairway.drive import Change, Cycle
from fairway.sim.metrics import JobFacts
from fairway.sim.virtual_jobs import SimJob
from fairway.state.events import Event

NAMED = 4
"""Nodes that a text names; the rest are counted."""


class Journal:
    """Observes the virtual cluster (`sim.run_observer`) and the scheduler's loop; keeps events until they are saved."""

    def __init__(self) -> None:
        self.happenings: list[SandboxEvent] = []
        self.outcomes: list[FinishedJob] = []
        self.reserved_jobs: set[str] = set()
        """Jobs with a reservation at the end of the last cycle."""
        self.last_cycle = 0
        """Nanoseconds that the last cycle took."""

    def note(self, at: Micros, kind: str, text: str, job: str = "", pods: Mapping[str, str] | None = None) -> None:
        self.happenings.append(SandboxEvent(at, kind, text, job, dict(pods or {})))

    # -- the scheduler's loop ------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self.last_cycle = cycle.nanoseconds
        at, plan = cycle.now, cycle.plan
        placed: dict[str, dict[str, str]] = {}
        for binding in plan.bindings:
            placed.setdefault(binding.job, {})[binding.pod] = binding.node
        for job, pods in placed.items():
            self.note(at, "placed", f"{_count(len(pods))} on {_nodes(pods)}", job, pods)
        for eviction in plan.evictions:
            why = f"for {eviction.for_} ({eviction.action}: {eviction.reason})"
            text = f"{eviction.pod} evicted from {eviction.node} {why}"
            self.note(at, "evicted", text, pods={eviction.pod: eviction.node})
        for released in plan.released:
            self.note(at, "released", f"{released.node} no longer reserved for {released.pod}: {released.reason}")

        reserved: dict[str, dict[str, str]] = {}
        for entry in plan.reservations:
            reserved.setdefault(entry.job, {})[entry.pod] = entry.node
        for job in sorted(reserved.keys() - self.reserved_jobs):
            self.note(at, "reserved", f"{_nodes(reserved[job])} reserved for {_count(len(reserved[job]))}", job)
        self.reserved_jobs = set(reserved)

    # -- the virtual cluster -------------------------------------------------------------------------------

    def ended(self, at: Micros, job: SimJob) -> None:
        """A job has finished."""
        submitted, started = submitted_at(job, at), at if job.start is None else job.start
        outcome = FinishedJob(job.key, job.queue, job.namespace, len(job.pods), submitted, started, ended=at)
        self.outcomes.append(outcome)
        self.note(at, "finished", f"{_count(len(job.pods))} done", job.key, {pod.key: pod.node for pod in job.pods})

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
    """When a job was submitted: the creation time of its group, or else of its first pod."""
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
