"""reserve: keep nodes for jobs that have waited too long to fit anywhere (seed 004).

A starving job gets places for its whole minimum or nothing. A place with room is `allocated` at once and held; a place
without is `reserved`: nobody new may use that node, and when those who run there are gone the job has it.
"""

from __future__ import annotations

from fairway.api.arguments import ReserveArguments
from fairway.api.settings import Arguments
from fairway.scheduler.holding.reserving import Places
from fairway.scheduler.holding.resuming import broken, resume
from fairway.scheduler.holding.starving import condition_ready, next_starving, starving
from fairway.scheduler.holding.trial import highest_priority_placed
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.session import Session
from fairway.state.tasks import TaskState


def reserve(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, ReserveArguments)
    session.divide()
    guard = _guard(session, arguments)
    resume(session)
    jobs = sorted(starving(session, arguments), key=_rank)
    if jobs:
        _reserve_for(session, arguments, jobs, guard)
    _release_parts(session)


def _reserve_for(session: Session, arguments: ReserveArguments, jobs: list[JobRun], guard: int | None) -> None:
    """Places for one starving job after the other, and for those behind it in its line."""
    places = Places(session, arguments)
    while jobs:
        job = jobs.pop(0)
        if guard is not None and job.priority < guard:
            session.notes[job.job] = "reserves nothing while jobs of higher priority are being placed"
            session.rechecks.append(session.now + 1)  # the next round is its own
            continue
        line, place = job.line, job.place
        if places.reserve(job) and line is not None:
            following = next_starving(session, line, place + 1, arguments)
            if following is not None:
                jobs = sorted([*jobs, following], key=_rank)


def _rank(job: JobRun) -> tuple[object, ...]:
    """Priority, then longest starving, then the tie rule."""
    return -job.priority, job.job.waits_since, job.job.order


def _guard(session: Session, arguments: ReserveArguments) -> int | None:
    """The highest priority that is being placed in this cycle; jobs below it must not reserve now."""
    if not session.bindings and session.state.waiting.all_of_one_priority():
        return None
    jobs = [*starving(session, arguments)]
    if not session.resumed:
        jobs += [hold.job for hold, _ in broken(session)]  # they may want to reserve anew
    if not jobs:
        return None
    if session.bindings:
        return max(job.priority for job, _, _ in session.bindings)
    least = min(job.priority for job in jobs)
    return highest_priority_placed(session) if session.state.waiting.has_priority_above(least) else None


def _release_parts(session: Session) -> None:
    """All or nothing: a gang that lost a place, and found no other, gives up the rest."""
    for job in list(session.holders.values()):
        reserved = [hold for hold in session.holds.of(job) if hold.state is not TaskState.PIPELINED]
        if reserved and not condition_ready(session, job):
            for hold in reserved:
                session.holds.release(hold, "the job has no place for all that it needs any more")
