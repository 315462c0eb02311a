"""What allocate would do if it ran now: tried on a session of its own, of which nothing remains."""

from __future__ import annotations

from fairway.scheduler.session import Session


def highest_priority_placed(session: Session) -> int | None:
    """The highest priority among the jobs that allocate would place on the state as it is; None if none."""
    from fairway.scheduler.actions.allocate import allocate

    snapshot = session.snapshot
    written = snapshot.writing()
    trial = session.again()
    allocate(trial, trial.arguments("allocate"))
    placed = max((job.priority for job, _, _ in trial.bindings), default=None)
    snapshot.sync()
    snapshot.write_again(written)
    session.kernel.reopen()
    return placed
