"""Which waiting jobs were overtaken: a job that stands after them was placed since they began to wait (spec S6.1).

A job stands after another by priority, creation, namespace/name. The index of the jobs that have pods on nodes is kept
from cycle to cycle, by priority, with the last of each at hand: most questions are answered by that one.

Which jobs starve: those that have waited longer than they should, and neither run nor have a reservation.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import ReserveArguments
from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.candidates import admission, is_for_backfill, next_in_class
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, same
from fairway.state.jobs import Job, JobOrder, Task, TaskState
from fairway.state.waiting import EquivalenceClass, WaitingIndex, starvation_override

JUST_NOW: Micros = 1 << 62
"""When a pod was placed of which only the binding is known."""

_PLACED = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})


class Overtakers(
    DerivedValue,
    name="overtakers",
    holds="jobs with pods on nodes, by priority",
    inputs=("jobs",),
    saves="a scan of all running jobs for each job that may starve",
):
    """The jobs of a state that have pods on nodes."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.changed_jobs)
        self._state = state
        self._levels: dict[int, _PriorityLevel] = {}
        self._level_of: dict[Job, int] = {}

    @classmethod
    def make(cls, state: ClusterState) -> Overtakers:
        return cls(state)

    def rebuild(self) -> None:
        self._levels.clear()
        self._level_of.clear()
        for job in self._state.jobs():
            self._refresh(job)

    def update(self, jobs: list[Job]) -> None:
        for job in dict.fromkeys(jobs):
            self._refresh(job)

    def check(self) -> None:
        self.sync()
        fresh = Overtakers(self._state)
        fresh.sync()
        kept, again = ({level: one.jobs for level, one in each._levels.items()} for each in (self, fresh))
        same("jobs that may have overtaken others", kept, again)

    def has_overtaken(self, job: Job) -> bool:
        """Whether a job after this one was placed since this one began to wait, and still has pods on nodes."""
        since = job.waits_since
        if since is None:
            return False
        if any(level.last_placed >= since for priority, level in self._levels.items() if priority < job.priority):
            return True
        level = self._levels.get(job.priority)
        return level is not None and level.has_after(job.order, since)

    def _refresh(self, job: Job) -> None:
        known = self._level_of.pop(job, None)
        if known is not None:
            self._levels[known].remove(job)
            if not self._levels[known].jobs:
                del self._levels[known]
        placed = max((_placed_at(task) for task in job.tasks if task.state in _PLACED), default=None)
        if placed is not None:
            self._level_of[job] = job.priority
            self._levels.setdefault(job.priority, _PriorityLevel()).put(job, placed)


class _PriorityLevel:
    """The jobs of one priority, with their order and when the last of their pods was placed."""

    def __init__(self) -> None:
        self.jobs: dict[Job, tuple[JobOrder, Micros]] = {}
        self._last_order: tuple[JobOrder, Micros] | None = None
        self._last_placed: Micros | None = None

    @property
    def last_placed(self) -> Micros:
        if self._last_placed is None:
            self._last_placed = max(placed for _, placed in self.jobs.values())
        return self._last_placed

    def put(self, job: Job, placed: Micros) -> None:
        self.jobs[job] = entry = job.order, placed
        if self._last_order is not None:
            self._last_order = max(self._last_order, entry)
        if self._last_placed is not None:
            self._last_placed = max(self._last_placed, placed)

    def remove(self, job: Job) -> None:
        entry = self.jobs.pop(job)
        if entry == self._last_order:
            self._last_order = None
        if entry[1] == self._last_placed:
            self._last_placed = None

    def has_after(self, order: JobOrder, since: Micros) -> bool:
        """Whether a job behind a place in order was placed at or after a time."""
        if self._last_order is None:
            self._last_order = max(self.jobs.values())
        last, placed = self._last_order
        if last <= order:
            return False
        return placed >= since or any(its > order and at >= since for its, at in self.jobs.values())


def _placed_at(task: Task) -> Micros:
    """A pod that runs was placed before it started; of one that is being bound only that is known."""
    if task.started is not None:
        return task.started
    if task.state is TaskState.BOUND or task.created is None:
        return JUST_NOW
    return task.created


def overtakers(state: ClusterState) -> Overtakers:
    """The state's own index, up to date."""
    found = state.derived.get(Overtakers)
    found.sync()
    return found


def threshold(arguments: ReserveArguments, own: Micros | None) -> Micros:
    """A job may raise the policy's threshold; lower it only as far as the policy lets it."""
    policy = arguments.starving_job_time_threshold * SECOND
    if own is None or own >= policy:
        return policy if own is None else own
    least = arguments.min_starving_after
    return policy if least is None else max(own, min(policy, least * SECOND))


def is_overdue(job: Job, own: Micros | None, arguments: ReserveArguments, now: Micros) -> bool:
    """Whether it has waited longer than it should."""
    since = job.waits_since
    return since is not None and now - since > threshold(arguments, own)


def is_starving(state: ClusterState, job: Job, arguments: ReserveArguments, now: Micros) -> bool:
    """Whether it has, and was overtaken where the policy asks for that."""
    if not is_overdue(job, starvation_override(job), arguments, now):
        return False
    return not arguments.only_if_overtaken or overtakers(state).has_overtaken(job)


def starving(session: Session, arguments: ReserveArguments) -> Iterator[JobRun]:
    """The first starving job of every class, and every starving job that has started; not those left out by policy."""
    waiting = session.state.waiting
    seen: set[EquivalenceClass] = set()
    for job in overdue(session.state, arguments, session.now):
        if job in session.reservations.standing or job.queue in arguments.exclude_queues:
            continue  # what stands has all that it needs
        if job in waiting.started:
            run = _started(session, job)
        else:
            position = waiting.position_of(job)
            job_class = position.template.classes[position.class_key]
            if job_class in seen or is_for_backfill(job_class):
                continue
            seen.add(job_class)
            run = next_starving(session, job_class, 0, arguments)
        if run is not None and admission(session, run).ok:
            yield run


def overdue(state: ClusterState, arguments: ReserveArguments, now: Micros) -> list[Job]:
    """All that have waited longer than they should (and were overtaken, where that matters), whatever else is true."""
    waiting = state.waiting
    waiting.ages.advance(now - threshold(arguments, None))
    found = [
        *waiting.ages.old,
        *(job for job in waiting.with_own_threshold if is_overdue(job, starvation_override(job), arguments, now)),
    ]
    if not arguments.only_if_overtaken or not found:
        return found
    index = overtakers(state)
    return [job for job in found if index.has_overtaken(job)]


def _started(session: Session, job: Job) -> JobRun | None:
    template, pending_job = session.state.waiting.started[job]
    run = session.reservations.awake_jobs.get(job) or session.job_run(pending_job, template)
    return None if session.rules.job_ready(run) or condition_ready(session, run) else run


def next_starving(
    session: Session, job_class: EquivalenceClass, position: int, arguments: ReserveArguments
) -> JobRun | None:
    """The first starving job of a class at or behind a position."""
    while position < len(job_class.jobs):
        job = next_in_class(session, job_class, position)
        if job is None or job.job.created is None:
            return None
        if is_starving(session.state, job.job, arguments, session.now):
            return job
        if session.now - job.job.created <= threshold(arguments, job_class.key.starvation_override):
            return None  # those behind are younger still
        position = job.position + 1
    return None


def condition_ready(session: Session, job: JobRun) -> bool:
    """Whether the job is ready as soon as its reservations are filled and the pods evicted for it are gone."""
    with session.statement() as filled:
        for reservation in session.reservations.of(job):
            if reservation.state is not TaskState.ALLOCATED:  # counts as ready already
                filled.assume_ready(job, reservation.task)
        return session.reservations.has(job) and session.rules.job_ready(job)


def next_starvation(waiting: WaitingIndex, arguments: ReserveArguments, now: Micros) -> Micros | None:
    """The next moment at which some waiting job begins to starve."""
    policy = threshold(arguments, None)
    waiting.ages.advance(now - policy)
    since = waiting.ages.next()
    moments = [] if since is None else [since + policy + 1]
    own = ((job.waits_since, threshold(arguments, starvation_override(job))) for job in waiting.with_own_threshold)
    moments += [began + limit + 1 for began, limit in own if began is not None]
    return min((moment for moment in moments if moment > now), default=None)
