"""Whether a planned start can be hard: no job can take its place, and no rule but free capacity can turn it down.

Sure ends are the timeline's matter. This is about order: a planned start is soft where another job may overtake, where
another action may take the capacity, where a queue's limits may refuse the job when its time has come, and where the
job's node must satisfy rules about other pods or devices that nothing keeps free for it.

Planned starts as the state carries them: which of them still stand at the beginning of a cycle.
"""

from __future__ import annotations

from fairway.api.arguments import BackfillArguments
from fairway.clock import Micros
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.backfill.timeline import Timeline
from fairway.scheduler.framework.decisions import Places
from fairway.scheduler.framework.hooks import OrderedBy
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import INFEASIBLE
from fairway.scheduler.reservations.reserving import missing_tasks
from fairway.state.jobs import PlannedRecord, Task

_HARMLESS_ACTIONS = frozenset({"enqueue", "allocate", "backfill"})
_ORDER_HOOKS = ("queue_key", "namespace_key", "job_key")


class Hardness:
    """Answers for one cycle."""

    def __init__(self, session: Session, arguments: BackfillArguments) -> None:
        self._session = session
        told = session.plugins.by_plugin("ordered_by")
        ordering = {name for hook in _ORDER_HOOKS for name in session.plugins.by_plugin(hook)}
        compared = {what for name in ordering if name in told for what in told[name]()}
        self.first_come_first_served = not compared and ordering <= told.keys()
        """Whether jobs that wait stand in the order of their creation."""
        self.keeps_head = self.first_come_first_served or arguments.keep_head
        """Whether the head of the queue stays the head, whatever shares do."""
        self.by_priority = OrderedBy.PRIORITY in compared
        self._every = arguments.mode == "conservative"
        self._alone = all(action.name in _HARMLESS_ACTIONS for action in session.policy.actions)
        self._limits = bool(session.plugins.hooks("allocatable") or session.plugins.hooks("overused"))
        self._external = session.plugins.external_names("allocatable", "overused")
        self._lends = session.rules.lends()
        self._guarantees = any(any(queue.guarantee) for queue in session.accounts.queues.values())

    def possible(self, job: JobRun, places: Places) -> bool:
        if not self._alone or not (self._every or self.keeps_head):
            return False
        if any(self._has_other_rules(task) for task, _ in places) or self._waits_for_itself(job, places):
            return False
        return self._is_allowed_for_sure(job)

    def _waits_for_itself(self, job: JobRun, places: Places) -> bool:
        """Whether a pod of the job runs on one of the nodes: it is not evicted for its own job."""
        return not {task.node for task in job.job.tasks}.isdisjoint(row for _, row in places)

    def _is_allowed_for_sure(self, job: JobRun) -> bool:
        """Whether no limit of its queue can refuse the job later."""
        if not self._limits:
            return True
        if self._external or not self._lends or self._guarantees:
            return False
        return not any(queue.info.capability for queue in job.queue.ancestry)

    def _has_other_rules(self, task: Task) -> bool:
        shape = task.shape
        uses_devices = self._session.nodes.devices.uses_devices(shape)
        return bool(shape.ports or shape.has_pod_rules or shape.has_volumes or uses_devices)


class CarriedStarts:
    """With `conservative` all of them, with `easy` that of the head, if the head stays the head."""

    def __init__(
        self, session: Session, timeline: Timeline, runtimes: Runtimes, hardness: Hardness, *, every: bool
    ) -> None:
        self._session = session
        self._timeline = timeline
        self._runtimes = runtimes
        self._hardness = hardness
        self._every = every
        self._records: dict[JobRun, PlannedRecord] = {}
        self._found: dict[JobRun, tuple[Places, Micros]] = {}
        """Those that stand."""
        self._compress = True
        self.head: JobRun | None = None
        """The job that goes first, whatever the order says."""

    def take_up(self, jobs: list[JobRun]) -> None:
        """Read the planned starts of these jobs, and take what they need."""
        self._records = {
            job: record
            for job in jobs
            if (record := job.job.planned) is not None and not self._session.reservations.of(job)
        }
        if not self._records:
            return
        if self._every:
            counts = [record.runs for record in self._records.values() if record.runs is not None]
            self._compress = counts != [self._timeline.runs]
        else:
            self._keep_head(jobs)
        for job, record in self._records.items():
            places = self._places(job, record)
            if places is not None:
                self._found[job] = places, max(record.start, self._session.now)
                self.restore(job)
        self._give_up_overbooked()

    def stands(self, job: JobRun) -> bool:
        """Whether a job's planned start stands and need not be looked at again: no run has ended since it was made."""
        found = self._found.get(job)
        return found is not None and not self._compress and found[1] > self._session.now

    def is_due(self, job: JobRun) -> bool:
        """Whether a job's planned start stands and its time has come."""
        found = self._found.get(job)
        return found is not None and found[1] <= self._session.now

    def places(self, job: JobRun) -> tuple[Places, Micros]:
        return self._found[job]

    def find(self, job: JobRun) -> tuple[Places, Micros] | None:
        return self._found.get(job)

    def was_hard(self, job: JobRun) -> bool:
        return job in self._found and self._records[job].hard

    def restore(self, job: JobRun) -> None:
        """Take again what a job's carried planned start needs."""
        if job in self._found:
            runtime = self._runtimes.of_all(job.waiting)
            self._timeline.keep(job, *self._found[job], runtime, hard=self._records[job].hard)

    def _keep_head(self, jobs: list[JobRun]) -> None:
        """`easy`: a hard planned start keeps its job the head, unless a job of higher priority has come."""
        heads = [job for job, record in self._records.items() if record.hard and self._hardness.keeps_head]
        head = min(heads, key=lambda job: (self._records[job].start, job.job.order), default=None)
        if head is not None and self._hardness.by_priority and any(job.priority > head.priority for job in jobs):
            head = None
        self.head = head
        due = head is not None and self._records[head].start <= self._session.now
        self._records = {head: self._records[head]} if due and head is not None else {}

    def _places(self, job: JobRun, record: PlannedRecord) -> Places | None:
        """The rows of a planned start; None if the job or its nodes are not what they were."""
        session = self._session
        tasks = missing_tasks(session.reservations, job)
        if {task.key for task in tasks} != record.nodes.keys():
            return None
        places = []
        for task in tasks:
            row = session.state.nodes.find(record.nodes[task.key])
            if (
                row is None
                or row >= session.nodes.snapshot.size
                or session.nodes.kernel.base(task.shape)[row] >= INFEASIBLE
            ):
                return None
            places.append((task, row))
        return tuple(places)

    def _give_up_overbooked(self) -> None:
        """Where the capacity will not be there (a run outlived its time, a node became smaller) soft planned starts go
        first, and hard ones that still have none."""
        for keep_hard in (True, False):
            rows = self._timeline.overbooked()
            if not rows:
                return
            for job in list(self._found):
                hard = self._records[job].hard
                if not (keep_hard and hard) and any(row in rows for _, row in self._found[job][0]):
                    self._timeline.drop(job)
                    del self._found[job]
