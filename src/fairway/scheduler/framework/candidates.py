"""Which jobs an action has to look at, each line of like jobs represented by its first.

A signature whose tasks fit nowhere keeps all its lines out at once, however many jobs stand in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from fairway.scheduler.framework.admission import admission
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.shapes import Shape
from fairway.state.waiting import GangTemplate, Line

_EVICTED = Verdict(
    False, Reason.GANG_NOT_READY, detail="pods of it are evicted in this cycle; the next cycle considers it again"
)


def candidates(session: Session) -> list[JobRun]:
    """The first job of every line that may be placed, and every started job that waits for more."""
    return [*_lines(session, best_effort=False), *_admitted(session, _started(session))]


def _started(session: Session) -> Iterator[JobRun]:
    """Jobs that are partly placed, or have a claim to room. One that was just evicted waits for the next cycle: what
    it has left is not known to be enough.
    """
    gone = session.evicted_jobs()
    for job, (signature, entry) in session.state.waiting.started.items():
        if job in gone:
            session.outcomes.jobs[session.holders.get(job) or session.job_run(entry, signature)] = _EVICTED
        elif job not in session.holders:
            yield session.job_run(entry, signature)
    for run in session.holders.values():
        if run.job not in gone and (run.left() or session.holds.of(run)):
            yield run


def first_of_each_line(session: Session) -> list[JobRun]:
    """The first job of every line, whether or not anything of its kind fits now, and every started job."""
    lines = [
        line
        for signature in session.state.waiting.templates()
        for line in signature.lines.values()
        if not is_for_backfill(line)
    ]
    return list(_admitted(session, chain(_heads(session, lines), _started(session))))


def everybody(session: Session) -> list[JobRun]:
    """Every waiting job by itself, whether or not anything of its kind has room now."""
    fresh = (
        session.job_run(entry, signature)
        for signature in session.state.waiting.templates()
        for line in signature.lines.values()
        if not is_for_backfill(line)
        for entry in line.entries
        if entry.job not in session.holders
    )
    return list(_admitted(session, chain(fresh, _started(session))))


def best_effort_candidates(session: Session) -> list[JobRun]:
    """The first pod of every line of lone BestEffort pods."""
    return _lines(session, best_effort=True)


def _lines(session: Session, *, best_effort: bool) -> list[JobRun]:
    found: list[JobRun] = []
    for signature in session.state.waiting.templates():
        if signature.best_effort:
            lines = [line for line in signature.lines.values() if is_for_backfill(line) == best_effort]
            if not lines:
                continue
        elif best_effort:
            continue
        else:
            lines = list(signature.lines.values())
        if has_room(session, signature) or not all(feasibility_is_monotone(run.shape) for run in signature.runs):
            found.extend(_admitted(session, _heads(session, lines)))
        else:
            session.outcomes.no_room.add(signature)
    return found


def has_room(session: Session, signature: GangTemplate) -> bool:
    """Whether at least one task of the signature fits somewhere."""
    kernel = session.kernel
    return any(may_fit(run.shape, kernel.most(run.shape)) and kernel.has_room(run.shape) for run in signature.runs)


def may_fit(shape: Shape, most: list[int]) -> bool:
    """Whether a shape asks for no more of anything than one node at most has free."""
    for row, amount in shape.vector:  # noqa: SIM110 - asked of everything that waits
        if amount > most[row]:
            return False
    return True


def feasibility_is_monotone(shape: Shape) -> bool:
    """Whether room for a shape can only get less as others are placed. Affinity to pods can make it more."""
    return not shape.rules.affinity and not shape.rules.spread


def is_for_backfill(line: Line) -> bool:
    """Lone BestEffort pods are placed by backfill."""
    return line.signature.best_effort and not line.key.group


def _heads(session: Session, lines: list[Line]) -> Iterator[JobRun]:
    for line in lines:
        if not session.can_group_equivalent_jobs:
            yield from (session.job_run(entry, line.signature) for entry in line.entries)
            continue
        first = in_line(session, line, 0)
        if first is not None:
            yield first


def in_line(session: Session, line: Line, place: int) -> JobRun | None:
    """The first job at or behind a place in a line; those who got a claim to room stand for themselves."""
    for at in range(place, len(line.entries)):
        entry = line.entries[at]
        if entry.job not in session.holders:
            return session.job_run(entry, line.signature, line, at)
    return None


def _admitted(session: Session, jobs: Iterable[JobRun]) -> Iterator[JobRun]:
    for job in jobs:
        verdict = admission(session, job)
        if verdict.ok:
            yield job
        elif job.line is not None:
            session.outcomes.lines[job.line] = verdict
        else:
            session.outcomes.jobs[job] = verdict
