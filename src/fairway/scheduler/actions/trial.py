"""What allocate would do if it ran now: tried on a session of its own, of which nothing remains."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Job, Task

Steps = list[tuple[Job, list[Task], list[int]]]
"""Jobs with the tasks that a step placed, and on which rows; in the order decided."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What allocate places on the state before reserve, or has placed already where it comes first."""

    highest: int | None = None
    """The highest priority of what is placed; None if nothing is."""
    steps: Steps = field(default_factory=list)
    """What it would place; nothing where it has done so."""


def allocate_would_place(session: Session) -> Answer:
    from fairway.scheduler.actions.allocate import allocate

    trial = session.fresh_session()
    allocate(trial, trial.policy.arguments("allocate"))
    highest = max((job.priority for job, _, _ in trial.decisions.bindings), default=None)
    steps: Steps = [(job.job, tasks, rows) for job, tasks, rows in trial.decisions.bindings]
    session.nodes.snapshot.resume_after(trial.nodes.snapshot)
    session.nodes.kernel.reopen()
    return Answer(highest, steps)
