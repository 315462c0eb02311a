"""Gangs that have been broken for too long are evicted as a whole, and wait again (spec S5.5)."""

from __future__ import annotations

from fairway.clock import SECOND
from fairway.scheduler.eviction.budgets import DisruptionBudgets
from fairway.scheduler.eviction.evict import charge_off
from fairway.scheduler.eviction.units import units_of
from fairway.scheduler.framework.broken import broken_since
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Eviction
from fairway.state.jobs import Job


def evict_stale(session: Session, timeout: int) -> None:
    """Protections and disruption budgets hold for them as for other victims."""
    budgets = DisruptionBudgets(session.state)
    for job in sorted(session.state.broken_gangs, key=lambda job: job.order):
        since = broken_since(job, session.now)
        if since is None:
            continue
        stale = since + timeout * SECOND + 1
        if session.now < stale:
            session.decisions.rechecks.append(stale)
        else:
            _evict(session, job, budgets, f"its gang has been below its minimum for more than {timeout} s")


def _evict(session: Session, job: Job, budgets: DisruptionBudgets, reason: str) -> None:
    units = units_of(job)
    tasks = sorted((task for unit in units for task in unit.tasks), key=lambda task: task.key)
    if any(unit.protected or unit.system for unit in units) or not budgets.allow(tasks):
        return
    budgets.spend(tasks)
    names = session.nodes.snapshot.names
    for unit in units:
        charge_off(session, unit)
    for task in tasks:
        session.decisions.evicted.add(task)
        session.decisions.evictions.append(Eviction(task.key, names[task.node], job.key, "allocate", reason))
