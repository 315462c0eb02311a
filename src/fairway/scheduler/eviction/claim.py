"""A claim: a job that needs capacity, what it may take for it, and what is found for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.budgets import DisruptionBudgets
from fairway.scheduler.eviction.entitlement import Entitlement
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.eviction.units import Taken, Unit
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.job_run import JobRun, TaskRun, grouped
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Task
from fairway.state.queues import Amounts

Place = tuple[Task, int]


@dataclass(frozen=True)
class EvictionClaim:
    """`tasks` are what has to be placed, all of them; `gang` is what they ask for together. `eligible` are, by number,
    the units that protections leave and that the claimant may be entitled to.
    """

    session: Session
    job: JobRun
    tasks: list[Task]
    gang: Amounts
    entitlement: Entitlement
    index: VictimIndex
    eligible: BoolColumn
    budgets: DisruptionBudgets

    def entitled(self, entitlement: Entitlement) -> EvictionClaim:
        """The same with an entitlement to fewer units."""
        return replace(self, entitlement=entitlement, eligible=self.eligible & entitlement.candidates(self.index))

    def nothing_taken(self) -> Taken:
        devices = self.session.nodes.devices
        return Taken(devices.kinds if devices.ledger.enabled else None)

    def allows(self, unit: Unit, taken: Taken) -> bool:
        return self.entitlement.allows(unit, taken) and self.budgets.allow(unit.tasks)

    def over_limits(self, taken: Taken) -> dict[int, int]:
        """What the claimant's queues would have above their limits, with what is taken off, by dimension."""
        over: dict[int, int] = {}
        lends = self.session.rules.lends()
        for account in self.job.queue.ancestry:
            limits = [account.capability] if lends else [account.capability, account.deserved or account.capability]
            lost = [
                taken.of_queue(name)
                for name in taken.queues()
                if account in self.session.accounts.queues[name].ancestry
            ]
            for row, amount in enumerate(self.gang):
                given = sum(amounts[row] for amounts in lost if row < len(amounts))
                limit = min(limit[row] for limit in limits)
                if amount and limit < UNLIMITED and account.allocated[row] - given + amount > limit:
                    over[row] = max(over.get(row, 0), account.allocated[row] - given + amount - limit)
        return over

    def limit(self, taken: Taken) -> str:
        """The limit of its queues that the claimant would exceed, with what is taken off; "" if none."""
        name_of = self.session.state.axis.names.__getitem__
        for row in sorted(self.over_limits(taken), key=name_of):
            for account in self.job.queue.ancestry:
                lost = sum(
                    _at(taken.of_queue(n), row)
                    for n in taken.queues()
                    if account in self.session.accounts.queues[n].ancestry
                )
                allocated = account.allocated[row] - lost + self.gang[row]
                if allocated > account.capability[row]:
                    return f"queue {account.name} would exceed its capability of {name_of(row)}"
                if (
                    not self.session.rules.lends()
                    and account.deserved is not None
                    and allocated > account.deserved[row]
                ):
                    return f"queue {account.name} would exceed the {name_of(row)} that it deserves"
        return ""

    def runs(self) -> list[TaskRun]:
        """The tasks in runs of like ones, one run for each shape."""
        order = {task.shape: place for place, task in reversed(list(enumerate(self.tasks)))}
        return grouped(sorted(self.tasks, key=lambda task: order[task.shape]))


class Found(NamedTuple):
    """Which units have to go, in the order in which units go, and where the claimant's tasks will be.

    `limits` names, for units that go only because a queue would exceed a limit otherwise, that limit. `domain` are the
    rows that a topology confines the claimant to; None if to none.
    """

    units: list[Unit]
    places: list[Place]
    limits: dict[Unit, str]
    domain: BoolColumn | None = None


@dataclass(eq=False)
class Settled:
    """A claim whose victims go, with the units that go for it, and the rows that its topology confines it to."""

    claim: EvictionClaim
    units: list[Unit]
    domain: BoolColumn | None


def _at(amounts: Amounts, row: int) -> int:
    return amounts[row] if row < len(amounts) else 0
