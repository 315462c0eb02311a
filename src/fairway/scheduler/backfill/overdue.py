"""Runs that outlive their expected time, where the policy says `overrun: evict`.

They may go on as long as no planned start needs what they have. Where one does they are evicted: one by one, or as a
whole gang that would lose its minimum. Such a job then comes after the job it was evicted for until that one has
started, and states no run time any more: the two cannot evict each other in turns (spec S8.8).
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.backfill.timeline import Timeline
from fairway.scheduler.eviction.budgets import DisruptionBudgets
from fairway.scheduler.eviction.evict import charge_off
from fairway.scheduler.eviction.units import Unit, units_of, with_surplus_units
from fairway.scheduler.framework.decisions import PlannedStart
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Eviction
from fairway.state.jobs import Task, TaskState

REASON = "it has outlived its expected run time, and a planned start needs its resources"


def evict_overdue(session: Session, runtimes: Runtimes, timeline: Timeline) -> None:
    budgets, bound = DisruptionBudgets(session.state), session.decisions.bound_jobs()
    for planned in timeline.planned:
        for task in _in_the_way(session, runtimes, timeline, planned):
            unit = _unit_of(task)
            if unit is None or unit.protected or task.job in bound:
                continue
            going = [each for each in with_surplus_units([unit]) if each.tasks[0] not in session.decisions.evicted]
            tasks = [task for each in going for task in each.tasks]
            if budgets.allow(tasks):
                budgets.spend(tasks)
                session.decisions.overruns.setdefault(task.job, planned.job.job)
                for each in going:
                    _evict(session, each, planned)


def _in_the_way(session: Session, runtimes: Runtimes, timeline: Timeline, planned: PlannedStart) -> Iterator[Task]:
    """Runs of other jobs whose capacity the planned start needs: what is spare is left to the most important, then the
    longest.
    """
    for row in sorted({row for _, row in planned.places}):
        overdue = [task for task in session.state.nodes.tasks[row] if _is_overdue(session, runtimes, task)]
        spare = timeline.spare(row, planned.start) if overdue else []
        for task in sorted(overdue, key=lambda task: (-task.priority, task.started or 0, task.key)):
            if task in session.decisions.evicted or task.job is planned.job.job:
                continue
            if all(spare[dimension] >= amount for dimension, amount in task.shape.vector):
                for dimension, amount in task.shape.vector:
                    spare[dimension] -= amount
            else:
                yield task


def _is_overdue(session: Session, runtimes: Runtimes, task: Task) -> bool:
    if task.state is not TaskState.RUNNING or task.started is None or not runtimes.may_evict(task):
        return False
    expected = runtimes.expected(task)
    return expected is not None and task.started + expected <= session.now


def _unit_of(task: Task) -> Unit | None:
    """The unit that the task goes with."""
    return next((unit for unit in units_of(task.job) if task in unit.tasks), None)


def _evict(session: Session, unit: Unit, planned: PlannedStart) -> None:
    names = session.nodes.snapshot.names
    charge_off(session, unit)
    for task in sorted(unit.tasks, key=lambda task: task.key):
        session.decisions.evicted.add(task)
        session.decisions.evictions.append(Eviction(task.key, names[task.node], planned.job.key, "backfill", REASON))
