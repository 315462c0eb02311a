"""Which jobs starve: those that have waited longer than they should, and neither run nor have a reservation."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import ReserveArguments
from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.candidates import admission, is_for_backfill, next_in_class
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.reservations.overtaken import overtakers
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, TaskState
from fairway.state.waiting import EquivalenceClass, WaitingIndex, starvation_override


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
    filled = session.statement()
    for reservation in session.reservations.of(job):
        if reservation.state is not TaskState.ALLOCATED:  # counts as ready already
            filled.assume_ready(job, reservation.task)
    ready = session.reservations.has(job) and session.rules.job_ready(job)
    filled.rollback()
    return ready


def next_starvation(waiting: WaitingIndex, arguments: ReserveArguments, now: Micros) -> Micros | None:
    """The next moment at which some waiting job begins to starve."""
    policy = threshold(arguments, None)
    waiting.ages.advance(now - policy)
    since = waiting.ages.next()
    moments = [] if since is None else [since + policy + 1]
    own = ((job.waits_since, threshold(arguments, starvation_override(job))) for job in waiting.with_own_threshold)
    moments += [began + limit + 1 for began, limit in own if began is not None]
    return min((moment for moment in moments if moment > now), default=None)
