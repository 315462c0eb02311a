"""Which jobs may evict: those that still wait, each equivalence class represented by the first that may."""

from __future__ import annotations

from collections.abc import Container, Iterator

from fairway.api.arguments import EvictionArguments
from fairway.clock import SECOND
from fairway.scheduler.framework.candidates import admission, is_for_backfill, next_in_class
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.overrun import comes_after
from fairway.scheduler.framework.session import Session
from fairway.scheduler.reservations.reservable import missing_tasks
from fairway.scheduler.reservations.starving import condition_ready
from fairway.state.jobs import Task
from fairway.state.waiting import EquivalenceClass


class Claimants:
    """Jobs with pods that wait, and that have waited long enough to evict. A job that has reserved nodes may evict too:
    it need not wait until pods of lower priority end by themselves.
    """

    def __init__(self, session: Session, arguments: EvictionArguments, queues: Container[str] | None = None) -> None:
        """With `queues`, only jobs of these."""
        self._session = session
        self._queues = queues
        self._delay = arguments.preemption_delay * SECOND
        self._single = {job.job for job in session.outcomes.jobs}

    def __iter__(self) -> Iterator[JobRun]:
        for job in self._waiting():
            if admission(self._session, job).ok:
                yield job

    def behind(self, job_class: EquivalenceClass, position: int) -> JobRun | None:
        """The first of a line, from a place on, that was not placed in this cycle and may evict."""
        bound = self._session.decisions.bound_jobs()
        while True:
            job = next_in_class(self._session, job_class, position)
            if job is None:
                return None
            if job.job not in bound and job.job not in self._single and self._may_evict(job):
                return job
            position = job.position + 1

    def _waiting(self) -> Iterator[JobRun]:
        session = self._session
        for template in session.state.waiting.templates():
            if session.effort is not None and not session.effort.admits(template):
                continue
            for job_class in template.classes.values():
                if not self._may_claim(job_class.key.queue) or is_for_backfill(job_class):
                    continue
                job = self.behind(job_class, 0)
                if job is not None:
                    yield job
        for job in [*session.outcomes.jobs, *self._untried()]:
            if (
                self._may_claim(job.queue.name)
                and job.left()
                and not session.reservations.of(job)
                and self._may_evict(job)
            ):
                yield job
        for job in list(session.reservations.reserving_jobs.values()):
            if (
                self._may_claim(job.queue.name)
                and job.job not in session.decisions.bound_jobs()
                and (session.reservations.waiting_on_nodes(job) or self._lost_a_nomination(job))
                and self._may_evict(job)
            ):
                yield job

    def _lost_a_nomination(self, job: JobRun) -> bool:
        """Whether pods were evicted for the job, and one of its places has gone since: it claims another."""
        session = self._session
        return session.reservations.is_nominated(job) and not (
            session.rules.job_ready(job) or condition_ready(session, job)
        )

    def _may_claim(self, queue: str) -> bool:
        return self._queues is None or queue in self._queues

    def _untried(self) -> Iterator[JobRun]:
        """Started jobs that no action before this one has tried to place."""
        tried = self._single | self._session.decisions.bound_jobs() | self._session.reservations.reserving_jobs.keys()
        for job, (template, pending_job) in self._session.state.waiting.started.items():
            if job not in tried:
                yield self._session.job_run(pending_job, template)

    def _may_evict(self, job: JobRun) -> bool:
        tasks = job.waiting or [each.task for each in self._session.reservations.of(job)]
        if not tasks or not all(_preempts(self._session, task) for task in tasks):
            return False
        if comes_after(self._session, job.job) is not None:
            return False  # it has just made way for a job that still waits
        if self._session.policy.compatible and self._session.rules.job_ready(job):
            return False  # in Volcano nothing is evicted for pods above the minimum
        since = job.job.waits_since
        if since is None or self._session.now - since >= self._delay:
            return True
        self._session.decisions.rechecks.append(since + self._delay)
        return False


def claimed_tasks(session: Session, job: JobRun) -> list[Task]:
    """What has to be placed: the rest of the minimum, or one task of a job that is ready. Of a job that has reserved
    nodes, what waits there for capacity.
    """
    reserved = session.reservations.waiting_on_nodes(job)
    if reserved:
        return [reservation.task for reservation in reserved]
    if session.rules.job_ready(job):
        return [run.tasks[run.placed] for run in job.runs if run.left][:1]
    return missing_tasks(session.reservations, job)


def _preempts(session: Session, task: Task) -> bool:
    return task.traits.preempts and not session.state.priorities.never_preempts(task.traits.priority_class)
