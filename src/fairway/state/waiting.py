"""Jobs that wait: those with pending tasks, grouped so that a cycle need not look at each of them.

    GangTemplate   what has to be placed: runs of like tasks, and how many make the job ready
      EquivalenceClass   jobs of one queue, namespace and priority with that template, in the order of the tie rule

Jobs of a class that have not started are alike in everything that orders or places them, but for the tie rule: if the
first cannot be placed, none can. So a cycle costs in proportion to the templates that fit nowhere and to the
classes that fit, not to the pods that wait. Jobs that have started stand on their own (`started`).

What a cycle has to look at is kept in indexes of its own (`changed`, `best_effort`, `not_admitted`), so that no cycle
goes through all templates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from fairway.clock import Micros
from fairway.resources.columns import Vector
from fairway.state.annotations import SLA_WAITS, STARVING_AFTER, parse_runtime, parse_span
from fairway.state.derived import Log
from fairway.state.jobs import FINISHED, Job, JobOrder, Task, is_valid, unallocated
from fairway.state.queues import QueueTree
from fairway.state.shapes import Shape
from fairway.state.topology import TopologyRequest

_LONG_AGO: Micros = -(1 << 62)


class Ages:
    """Waiting jobs by the moment their wait began."""

    def __init__(self) -> None:
        self.old: dict[Job, None] = {}
        self._since: dict[Job, Micros] = {}
        self._heap: list[tuple[Micros, str, bool, int, Job]] = []
        """By the moment, then by name and kind; of two entries of one name and kind at most one is of a job that is
        still there, and the number of the entry keeps them apart.
        """
        self._entries = 0
        self._cutoff = _LONG_AGO

    def add(self, job: Job, since: Micros) -> None:
        self._since[job] = since
        if since < self._cutoff:
            self.old[job] = None
        else:
            heappush(self._heap, self._entry(job, since))

    def discard(self, job: Job) -> None:
        self._since.pop(job, None)
        self.old.pop(job, None)

    def advance(self, cutoff: Micros) -> None:
        """Jobs that wait since before the cutoff become old."""
        if cutoff < self._cutoff:
            self._rebuild()
        self._cutoff = cutoff
        self._prune()
        while self._heap and self._heap[0][0] < cutoff:
            self.old[heappop(self._heap)[4]] = None
            self._prune()

    def next(self) -> Micros | None:
        """When the longest wait of jobs that are not old began."""
        self._prune()
        return self._heap[0][0] if self._heap else None

    def _prune(self) -> None:
        """Entries of jobs that no longer wait, or wait again, are left in the heap until they come up."""
        while self._heap and self._since.get(self._heap[0][4]) != self._heap[0][0]:
            heappop(self._heap)

    def _rebuild(self) -> None:
        self.old.clear()
        self._heap = [self._entry(job, since) for job, since in self._since.items()]
        heapify(self._heap)

    def _entry(self, job: Job, since: Micros) -> tuple[Micros, str, bool, int, Job]:
        self._entries += 1
        return since, job.key, job.alone, self._entries, job


INQUEUE = "Inqueue"
ADMITTED_PHASES = frozenset({INQUEUE, "Running", "Completed", "Unknown"})
"""Phases of a group that was let in before."""


def _is_admitted(job: Job) -> bool:
    """Whether a group was let in and has not ended. One that has started was, whether or not its status says so."""
    if not job.group or job.phase == "Completed":
        return False
    if not job.tasks:
        return job.phase == INQUEUE
    if all(task.state in FINISHED for task in job.tasks):
        return False
    return job.phase in ADMITTED_PHASES or job.has_started()


class Run(NamedTuple):
    """Like tasks that follow each other in task order."""

    shape: Shape
    role: str
    size: int


class ClassKey(NamedTuple):
    """What the jobs of a class have in common."""

    queue: str
    namespace: str
    priority: int
    group: bool
    phase: str
    valid: bool
    starvation_override: Micros | None = None
    """What the job itself says about when it starves."""
    sla_wait: Micros | None = None
    """How long the job may wait, as it says itself."""
    made: bool = True
    """Whether the group that its pods name exists."""
    held: bool = False


class PendingJob(NamedTuple):
    """A waiting job, and its tasks without a place in task order."""

    job: Job
    tasks: list[Task]


class EquivalenceClass:
    """Jobs that differ in the tie rule only."""

    __slots__ = ("_orders", "jobs", "key", "template")

    def __init__(self, key: ClassKey, template: GangTemplate) -> None:
        self.key = key
        self.template = template
        self.jobs: list[PendingJob] = []
        self._orders: list[JobOrder] = []

    def add(self, pending_job: PendingJob, order: JobOrder) -> None:
        """Put a job where its order says; jobs mostly come in that order."""
        orders = self._orders
        position = len(orders) if not orders or orders[-1] < order else bisect_left(orders, order)
        orders.insert(position, order)
        self.jobs.insert(position, pending_job)

    def remove(self, order: JobOrder) -> None:
        position = bisect_left(self._orders, order)
        del self._orders[position], self.jobs[position]


GangTemplateKey = tuple[tuple[Run, ...], int, tuple[tuple[str, int], ...], Vector | None, TopologyRequest | None]


class GangTemplate:
    """What a job of this kind needs, and the classes of jobs that need it."""

    __slots__ = (
        "best_effort",
        "classes",
        "key",
        "minimum",
        "minimum_resources",
        "role_minimums",
        "runs",
        "started",
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
        """Whether all its tasks are alike: then how many fit does not depend on which is placed first."""
        self.classes: dict[ClassKey, EquivalenceClass] = {}
        self.started: dict[Job, PendingJob] = {}
        """Jobs that have started, and have such tasks waiting."""
        self.users = 0

    def job_class(self, key: ClassKey) -> EquivalenceClass:
        job_class = self.classes.get(key)
        if job_class is None:
            job_class = self.classes[key] = EquivalenceClass(key, self)
        return job_class

    def discard(self, key: ClassKey) -> None:
        del self.classes[key]


class IndexPosition(NamedTuple):
    """Where a job stands in the index, to find it again after it has changed."""

    template: GangTemplate
    class_key: ClassKey
    order: JobOrder


def sla_wait(job: Job) -> Micros | None:
    """How long a job may wait, as it says itself; Volcano's plugin sla reads that."""
    if not job.annotations:
        return None
    text = next((job.annotations[name] for name in SLA_WAITS if name in job.annotations), None)
    return None if text is None else parse_runtime(text)


def starvation_override(job: Job) -> Micros | None:
    text = job.annotations.get(STARVING_AFTER) if job.annotations else None
    return None if text is None else parse_span(text)


class WaitingIndex:
    """All jobs with pending tasks. `refresh` moves a job to where it now belongs."""

    def __init__(self, queues: QueueTree) -> None:
        self._queues = queues
        self._templates: dict[GangTemplateKey, GangTemplate] = {}
        self._positions: dict[Job, IndexPosition] = {}
        self.started: dict[Job, tuple[GangTemplate, PendingJob]] = {}
        self.with_reservations: dict[Job, None] = {}
        """Those with a reservation somewhere."""
        self.ages = Ages()
        """Jobs that leave it to the policy when they starve."""
        self.with_own_threshold: dict[Job, None] = {}
        """Jobs that do not."""
        self.empty: dict[Job, None] = {}
        """Groups that have no pods yet, or none any more."""
        self.short: dict[Job, None] = {}
        """Groups with pods of which none is pending, and too few for the minimum: the rest is not created yet."""
        self.unallocated: dict[Job, Vector] = {}
        """By admitted group that states `minResources`: what of these it has not been allocated yet."""
        self.gated: dict[Job, None] = {}
        """Jobs that nothing waits of but pods with scheduling gates."""
        self.changed: Log[GangTemplate] = Log()
        """Templates that jobs were added to or taken from."""
        self.best_effort: dict[GangTemplate, None] = {}
        """Templates of single pods that request nothing."""
        self.not_admitted: dict[tuple[GangTemplate, ClassKey], None] = {}
        """Classes of groups that were not let in yet."""
        self.started_not_admitted: dict[Job, None] = {}
        """The same, of jobs that have started."""

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, job: Job) -> bool:
        return job in self._positions

    def templates(self) -> list[GangTemplate]:
        """Templates with classes of jobs that have not started."""
        return [template for template in self._templates.values() if template.classes]

    @property
    def template_count(self) -> int:
        return len(self._templates)

    def templates_in_use(self) -> list[GangTemplate]:
        """Those with jobs, started or not."""
        return list(self._templates.values())

    def jobs(self) -> Iterator[Job]:
        return iter(self._positions)

    def retire(self, job: Job) -> None:
        """Nothing of a job is pending."""
        if job in self._positions:
            self.discard(job)
        self.empty.pop(job, None)
        self.short.pop(job, None)
        self._queues.get(job.queue)  # a queue that a job names is known, whatever the job does
        if job.group and not job.tasks:
            self.empty[job] = None
        elif job.group and not is_valid(job):
            self.short[job] = None
        if job.gated:
            self.gated[job] = None
        else:
            self.gated.pop(job, None)

    def refresh(self, job: Job, queue: str, *, valid: bool, fresh: bool) -> None:
        """Something of a job is pending."""
        if job in self._positions:
            self.discard(job)
        self.empty.pop(job, None)
        self.short.pop(job, None)
        self.gated.pop(job, None)
        pending_job = PendingJob(job, job.waiting())
        template = self._template(pending_job)
        template.users += 1
        override = starvation_override(job) if job.annotations else None
        key = ClassKey(
            queue,
            job.namespace,
            job.priority,
            not job.alone,
            job.phase,
            valid,
            override,
            sla_wait(job),
            job.is_made,
            job.held,
        )
        order = job.order
        self._positions[job] = IndexPosition(template, key, order)
        not_admitted = key.phase not in ADMITTED_PHASES
        self.changed.add(template)
        if fresh:
            template.job_class(key).add(pending_job, order)
            if key.group and not_admitted:
                self.not_admitted[template, key] = None
        else:
            self.started[job] = (template, pending_job)
            template.started[job] = pending_job
            if job.group and not_admitted:
                self.started_not_admitted[job] = None
            if len(pending_job.tasks) < job.pending:
                self.with_reservations[job] = None
        if job.ready < job.minimum:
            self._note_age(job, override)
        info = self._queues.get(queue)
        if valid:
            info.request(template.total, 1)

    def discard(self, job: Job) -> None:
        position = self._positions.pop(job, None)
        if position is None:
            return
        self.with_reservations.pop(job, None)
        self.ages.discard(job)
        self.with_own_threshold.pop(job, None)
        template, key, order = position
        if key.valid:
            self._queues.get(key.queue).request(template.total, -1)
        self.changed.add(template)
        if self.started.pop(job, None) is None:
            job_class = template.job_class(key)
            job_class.remove(order)
            if not job_class.jobs:
                template.discard(key)
                self.not_admitted.pop((template, key), None)
        else:
            del template.started[job]
            self.started_not_admitted.pop(job, None)
        template.users -= 1
        if not template.users:
            del self._templates[template.key]
            self.best_effort.pop(template, None)

    def note_claim(self, job: Job) -> None:
        """A group changed that states, or stated, `minResources`."""
        claim = unallocated(job) if _is_admitted(job) else ()
        if claim:
            self.unallocated[job] = claim
        else:
            self.unallocated.pop(job, None)

    def _note_age(self, job: Job, override: Micros | None) -> None:
        since = job.waits_since
        if since is not None:
            if override is None:
                self.ages.add(job, since)
            else:
                self.with_own_threshold[job] = None

    def has_priority_above(self, priority: int) -> bool:
        """Whether a job of a higher priority waits."""
        return any(job.priority > priority for job in self.started) or any(
            key.priority > priority for template in self.templates() for key in template.classes
        )

    def all_of_one_priority(self) -> bool:
        """Whether all jobs that wait have one priority."""
        priorities = {key.priority for template in self.templates() for key in template.classes}
        return len(priorities.union(job.priority for job in self.started)) <= 1

    def position_of(self, job: Job) -> IndexPosition:
        return self._positions[job]

    def _template(self, pending_job: PendingJob) -> GangTemplate:
        job, tasks = pending_job
        runs: list[Run] = []
        for task in tasks:
            shape, role = task.shape, task.traits.role
            if runs and runs[-1].shape is shape and runs[-1].role == role:
                runs[-1] = Run(shape, role, runs[-1].size + 1)
            else:
                runs.append(Run(shape, role, 1))
        key: GangTemplateKey = (tuple(runs), job.minimum, job.role_minimums, job.minimum_resources, job.topology)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = GangTemplate(key)
            if template.best_effort:
                self.best_effort[template] = None
        return template
