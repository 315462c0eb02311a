"""Who waits: jobs with pending tasks, grouped so that a cycle need not look at each of them.

    GangTemplate   what has to be placed: runs of like tasks, and how many make the job ready
      Line      jobs of one queue, namespace and priority with that signature, in the order of the tie rule

Jobs of a line that have not started are alike in everything that orders or places them, but for the tie rule: if the
first cannot be placed, none can. So a cycle costs in proportion to the templates that have no room and to the
lines that have some, not to the pods that wait. Jobs that have started stand on their own (`started`).

A plan refers to the lines as they were. `GangTemplate.capture` hands them out; who changes them afterwards makes a
copy first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from fairway.clock import Micros
from fairway.resources.columns import Vector
from fairway.state.ages import Ages
from fairway.state.annotations import STARVING_AFTER, parse_span
from fairway.state.jobs import Job, JobOrder
from fairway.state.queues import QueueTree, add
from fairway.state.shapes import Shape
from fairway.state.tasks import Task
from fairway.state.topology import TopologyRequest


class Run(NamedTuple):
    """Like tasks that follow each other in task order."""

    shape: Shape
    role: str
    size: int


class ClassKey(NamedTuple):
    """What the jobs of a line have in common."""

    queue: str
    namespace: str
    priority: int
    group: bool
    phase: str
    valid: bool
    starvation_override: Micros | None = None
    """What the job itself says about when it starves."""


class Entry(NamedTuple):
    """A waiting job, and its tasks without a place in task order."""

    job: Job
    tasks: list[Task]


class Line:
    """Jobs that differ in the tie rule only."""

    __slots__ = ("_orders", "entries", "key", "signature")

    def __init__(self, key: ClassKey, signature: GangTemplate) -> None:
        self.key = key
        self.signature = signature
        self.entries: list[Entry] = []
        self._orders: list[JobOrder] = []

    def add(self, entry: Entry) -> None:
        order = entry.job.order
        place = bisect_left(self._orders, order)
        self._orders.insert(place, order)
        self.entries.insert(place, entry)

    def remove(self, order: JobOrder) -> None:
        place = bisect_left(self._orders, order)
        del self._orders[place], self.entries[place]

    def copy(self) -> Line:
        line = Line(self.key, self.signature)
        line.entries, line._orders = self.entries.copy(), self._orders.copy()
        return line


GangTemplateKey = tuple[tuple[Run, ...], int, tuple[tuple[str, int], ...], Vector | None, TopologyRequest | None]


class GangTemplate:
    """What a job of this kind needs, and the lines of those who need it."""

    __slots__ = (
        "_captured",
        "best_effort",
        "key",
        "lines",
        "minimum",
        "minimum_resources",
        "role_minimums",
        "runs",
        "topology",
        "total",
        "uniform",
        "users",
    )

    def __init__(self, key: GangTemplateKey) -> None:
        self.key = key
        self.runs, self.minimum, self.role_minimums, self.minimum_resources, self.topology = key
        amounts: dict[int, int] = {}
        for run in self.runs:
            for row, amount in run.shape.vector:
                amounts[row] = amounts.get(row, 0) + amount * run.size
        self.total: Vector = tuple(sorted(amounts.items()))
        self.best_effort = len(self.runs) == 1 and self.runs[0].shape.best_effort
        """Whether a lone pod of this kind is placed by backfill."""
        self.uniform = len({run.shape for run in self.runs}) == 1
        """Whether all its tasks are alike: then how many fit does not depend on who was placed first."""
        self.lines: dict[ClassKey, Line] = {}
        self.users = 0
        self._captured = False

    def capture(self) -> dict[ClassKey, Line]:
        """The lines as they are now, for good."""
        self._captured = True
        return self.lines

    def line(self, key: ClassKey) -> Line:
        self._own()
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key, self)
        return line

    def discard(self, key: ClassKey) -> None:
        self._own()
        del self.lines[key]

    def _own(self) -> None:
        if self._captured:
            self.lines = {key: line.copy() for key, line in self.lines.items()}
            self._captured = False


class Place(NamedTuple):
    """Where a job stands in the index, to find it again after it has changed."""

    signature: GangTemplate
    line: ClassKey
    order: JobOrder


def starvation_override(job: Job) -> Micros | None:
    text = job.annotations.get(STARVING_AFTER) if job.annotations else None
    return None if text is None else parse_span(text)


class WaitingIndex:
    """All jobs with pending tasks. `refresh` moves a job to where it now belongs."""

    def __init__(self, queues: QueueTree) -> None:
        self._queues = queues
        self._signatures: dict[GangTemplateKey, GangTemplate] = {}
        self._places: dict[Job, Place] = {}
        self.started: dict[Job, tuple[GangTemplate, Entry]] = {}
        self.holding: dict[Job, None] = {}
        """Those with a claim to room somewhere."""
        self.ages = Ages()
        """Those who leave it to the policy when they starve."""
        self.patient: dict[Job, None] = {}
        """Those who do not."""
        self.empty: dict[Job, None] = {}
        """Groups that nobody has made a pod for, or whose pods are all gone."""
        self.gated: dict[Job, None] = {}
        """Jobs that nothing waits of but pods with scheduling gates."""

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job: Job) -> bool:
        return job in self._places

    def templates(self) -> list[GangTemplate]:
        """Those with lines of jobs that have not started."""
        return [signature for signature in self._signatures.values() if signature.lines]

    def jobs(self) -> Iterator[Job]:
        return iter(self._places)

    def refresh(self, job: Job, queue: str, *, valid: bool, fresh: bool) -> None:
        self.discard(job)
        requested = self._queues.get(queue).requested
        self.empty.pop(job, None)
        if job.group and not job.tasks:
            self.empty[job] = None
        self.gated.pop(job, None)
        if not job.pending:
            if job.gated:
                self.gated[job] = None
            return
        entry = Entry(job, job.waiting())
        signature = self._signature(entry)
        signature.users += 1
        key = ClassKey(queue, job.namespace, job.priority, not job.alone, job.phase, valid, starvation_override(job))
        self._places[job] = Place(signature, key, job.order)
        if fresh:
            signature.line(key).add(entry)
        else:
            self.started[job] = (signature, entry)
            if len(entry.tasks) < job.pending:
                self.holding[job] = None
        self._note_age(job, key)
        if valid:
            add(requested, signature.total)

    def discard(self, job: Job) -> None:
        place = self._places.pop(job, None)
        if place is None:
            return
        self.holding.pop(job, None)
        self.ages.discard(job)
        self.patient.pop(job, None)
        signature, key, order = place
        if key.valid:
            add(self._queues.get(key.queue).requested, signature.total, -1)
        if self.started.pop(job, None) is None:
            line = signature.line(key)
            line.remove(order)
            if not line.entries:
                signature.discard(key)
        signature.users -= 1
        if not signature.users:
            del self._signatures[signature.key]

    def _note_age(self, job: Job, key: ClassKey) -> None:
        since = job.waits_since
        if since is not None and job.ready < job.minimum:
            if key.starvation_override is None:
                self.ages.add(job, since)
            else:
                self.patient[job] = None

    def has_priority_above(self, priority: int) -> bool:
        """Whether somebody of a higher priority waits."""
        return any(job.priority > priority for job in self.started) or any(
            key.priority > priority for signature in self.templates() for key in signature.lines
        )

    def all_of_one_priority(self) -> bool:
        """Whether nobody who waits is more important than anybody else who does."""
        priorities = {key.priority for signature in self.templates() for key in signature.lines}
        return len(priorities.union(job.priority for job in self.started)) <= 1

    def place_of(self, job: Job) -> Place:
        return self._places[job]

    def _signature(self, entry: Entry) -> GangTemplate:
        job, tasks = entry
        runs: list[Run] = []
        for task in tasks:
            shape, role = task.shape, task.traits.role
            if runs and runs[-1].shape is shape and runs[-1].role == role:
                runs[-1] = Run(shape, role, runs[-1].size + 1)
            else:
                runs.append(Run(shape, role, 1))
        key: GangTemplateKey = (tuple(runs), job.minimum, job.role_minimums, job.minimum_resources, job.topology)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._signatures[key] = GangTemplate(key)
        return signature
