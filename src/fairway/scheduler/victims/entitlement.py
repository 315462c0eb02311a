"""Who is entitled to whose room: one comparison, in allocate's own order.

preempt, inside a queue: by default weighted namespace share first; inside one namespace or at equal shares job
priority, then job share. With `priorityFirst` job priority comes first. In the priority step the claimant must be
strictly higher; in a share step strictly lower even after the move, with the claimant's gang added and the victims
removed. That is what keeps two jobs from evicting each other in turns. For the same reason shares are equal only as
long as nothing is taken from the other namespace: at equal shares a claimant takes one unit of each at most, for of two
units the smaller could come back by share, and then the whole would begin again. Nor does it take what somebody else of
that namespace, who waits and asks for less, would then be entitled to take back by share.

reclaim, across queues: the claimant's queue stays within what it deserves, and the victim's queue is above its own in a
dimension the claimant asks for; no queue goes below its guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.books import AccountBook, QueueBook, share
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.session import Session
from fairway.scheduler.victims.index import VictimIndex
from fairway.scheduler.victims.units import Taken, Unit
from fairway.state.cluster import PODS
from fairway.state.jobs import Job
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.tasks import ACCOUNTED


class Entitlement(Protocol):
    """Which units a claimant may take. `candidates` is a first sieve; `allows` is exact, given what is taken; where it
    says no, `refuses_alike` tells whether it will to every unit of that kind, as long as not less is taken.
    """

    action: str

    def candidates(self, index: VictimIndex) -> BoolColumn: ...
    def allows(self, unit: Unit, taken: Taken) -> bool: ...
    def refuses_alike(self, unit: Unit, taken: Taken) -> bool: ...
    def reason(self, unit: Unit) -> str: ...


class PreemptEntitlement:
    """Inside a queue."""

    action = "preempt"

    def __init__(self, session: Session, claimant: JobRun, gang: Amounts) -> None:
        self._session = session
        self._claimant = claimant
        self._gang = gang
        self._total = session.share_total
        drf = session.plugin("drf")
        self._by_share = drf is not None
        self._priority_first = bool(getattr(drf, "priority_first", False))
        self._by_priority = session.plugin("priority") is not None
        self._asked: dict[AccountBook, list[Amounts]] = {}
        self._mine = self._weighted(claimant.account)
        self._mine_after = self._weighted(claimant.account, more=gang)

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        if any(book.info.never_evict for book in self._claimant.queue.line):
            return np.zeros(count, dtype=np.bool_)
        chosen: BoolColumn = index.usable[:count] & (index.queue[:count] == index.code(self._claimant.queue.name))
        lower = index.priority[:count] < self._claimant.priority if self._by_priority else np.zeros(count, np.bool_)
        same = index.priority[:count] == self._claimant.priority if self._by_priority else np.ones(count, np.bool_)
        by_share, tied = self._namespaces(index, count)
        rest = same & index.surplus[:count] if self._by_share else np.zeros(count, np.bool_)
        if self._priority_first:
            return chosen & (lower | (same & by_share) | (tied & rest))
        return chosen & (by_share | (tied & (lower | rest)))

    def allows(self, unit: Unit, taken: Taken) -> bool:
        if unit.job is self._claimant.job:
            return False
        first = self._first_steps(unit, taken)
        return bool(self._job_step(unit, taken)) if first is None else first

    def refuses_alike(self, unit: Unit, taken: Taken) -> bool:
        return unit.job is not self._claimant.job and self._first_steps(unit, taken) is False

    def _first_steps(self, unit: Unit, taken: Taken) -> bool | None:
        """What namespaces and priorities say; None if they say nothing."""
        steps = [self._namespace_step, self._priority_step]
        for step in reversed(steps) if self._priority_first else steps:
            answer = step(unit, taken)
            if answer is not None:
                return answer
        return None

    def reason(self, unit: Unit) -> str:
        """By which step the claimant is entitled."""
        claimant, theirs = self._claimant, unit.job
        by_namespace = f"namespace {claimant.namespace} has less of its weighted share than {theirs.namespace}"
        by_priority = f"priority {claimant.priority} is higher than {theirs.priority}"
        namespace = self._namespace_step(unit, Taken()) is True
        priority = self._priority_step(unit, Taken()) is True
        if self._priority_first:
            return by_priority if priority else by_namespace if namespace else "its job has a smaller share"
        return by_namespace if namespace else by_priority if priority else "its job has a smaller share"

    def _namespaces(self, index: VictimIndex, count: int) -> tuple[BoolColumn, BoolColumn]:
        """Which units belong to a namespace that has more than the claimant's, and which to one that is level."""
        more, level = [], [index.code(self._claimant.namespace)]
        for namespace in self._claimant.queue.info.accounts if self._by_share else ():
            if namespace == self._claimant.namespace:
                continue
            theirs = self._weighted(self._session.account(self._claimant.queue, namespace))
            if self._mine_after < theirs:
                more.append(index.code(namespace))
            elif self._mine == theirs:
                level.append(index.code(namespace))
        column = index.namespace[:count]
        tied = np.isin(column, level) if self._by_share else np.ones(count, dtype=np.bool_)
        return np.isin(column, more), tied

    def _namespace_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_share or unit.job.namespace == self._claimant.namespace:
            return None
        account = self._session.account(self._claimant.queue, unit.job.namespace)
        gone = taken.of_namespace(unit.job.namespace)
        if self._mine_after < self._weighted(account, less=plus(gone, taken.held_by(unit))):
            return True
        level = self._mine == self._weighted(account) == self._weighted(account, less=gone)
        return None if level and not self._comes_back(account, plus(gone, taken.held_by(unit))) else False

    def _comes_back(self, account: AccountBook, lost: Amounts) -> bool:
        """Whether, with so much less, the namespace would have less than the claimant's though somebody of it, who
        waits, were given what he asks for: he could take the claimant's room, and its own could take his again.
        """
        return any(self._weighted(account, more=gang, less=lost) < self._mine for gang in self._waiting(account))

    def _waiting(self, account: AccountBook) -> list[Amounts]:
        """What those of a namespace who wait ask for, each at least."""
        known = self._asked.get(account)
        if known is None:
            known = self._asked[account] = list(waiting_gangs(self._session, account))
        return known

    def _priority_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_priority or unit.priority == self._claimant.priority:
            return None
        return unit.priority < self._claimant.priority

    def _job_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_share:
            return None
        lost = plus(taken.of_job(unit.job), taken.held_by(unit))
        mine = share(plus(self._claimant.held, self._gang), self._total, 1, PODS)
        held = self._held(unit.job)
        before = share(self._claimant.held, self._total, 1, PODS) < share(held, self._total, 1, PODS)
        return before and mine < share(minus(held, lost), self._total, 1, PODS)

    def _held(self, job: Job) -> Amounts:
        """What a job holds, without those of it that were evicted for others."""
        held: Amounts = []
        for task in job.tasks:
            if task.state in ACCOUNTED and task not in self._session.evicted:
                add(held, task.shape.vector)
                add(held, self._session.devices.kinds(task))
        return held

    def _weighted(self, account: AccountBook, more: Amounts | None = None, less: Amounts | None = None) -> int:
        held = plus(account.held, more) if more else account.held
        return share(minus(held, less) if less else held, self._total, account.weight, PODS)


def waiting_gangs(session: Session, account: AccountBook) -> Iterator[Amounts]:
    """What each kind of job of a namespace that waits in a queue asks for at least: the smallest tasks that make up its
    minimum, or one task where something of it has begun, or was just evicted.
    """
    waiting, queue, namespace = session.state.waiting, account.queue.name, account.namespace
    for signature in waiting.signatures():
        if any(key.queue == queue and key.namespace == namespace for key in signature.lines):
            yield _least(session, [(run.shape, run.size) for run in signature.runs], max(1, signature.minimum))
    tasks = [task for job, (_, entry) in waiting.started.items() if _is_of(job, account) for task in entry.tasks]
    for task in (*tasks, *(gone for gone in session.evicted if _is_of(gone.job, account))):
        yield _least(session, [(task.shape, 1)], 1)


def _is_of(job: Job, account: AccountBook) -> bool:
    return job.queue == account.queue.name and job.namespace == account.namespace


def _least(session: Session, shapes: list[tuple[Shape, int]], count: int) -> Amounts:
    """The least that so many of these tasks ask for, in each resource by itself."""
    columns: dict[int, list[int]] = {}
    for shape, size in shapes:
        for row, amount in session.device_queues.asked(shape):
            columns.setdefault(row, []).extend([amount] * min(size, count))
    of_all = sum(min(size, count) for _, size in shapes)
    least: Amounts = [0] * (max(columns, default=-1) + 1)
    for row, amounts in columns.items():
        missing = of_all - len(amounts)  # tasks that ask for none of it
        least[row] = sum(sorted(amounts)[: max(0, count - missing)])
    return least


class ReclaimEntitlement:
    """Across queues."""

    action = "reclaim"

    def __init__(self, session: Session, claimant: JobRun, gang: Amounts) -> None:
        self._session = session
        self._claimant = claimant
        self._asked = [row for row, amount in enumerate(gang) if amount and row != PODS]
        self._gang = gang

    def may_act(self) -> bool:
        """The claimant's queue stays within what it deserves, in every dimension it asks for."""
        queue = self._claimant.queue
        return queue.deserved is not None and all(
            queue.held[row] + self._gang[row] <= queue.deserved[row] for row in self._asked
        )

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        queues = [index.code(book.name) for book in self._session.queues.values() if self._gives(book, Taken())]
        return index.usable[:count] & np.isin(index.queue[:count], queues)

    def allows(self, unit: Unit, taken: Taken) -> bool:
        book = self._session.queues[unit.job.queue]
        return self._gives(book, taken) and self._keeps_guarantees(book, unit, taken)

    def refuses_alike(self, unit: Unit, taken: Taken) -> bool:
        return True

    def reason(self, unit: Unit) -> str:
        return f"queue {unit.job.queue} holds more than it deserves, queue {self._claimant.queue.name} less"

    def _gives(self, book: QueueBook, taken: Taken) -> bool:
        """Above what it deserves in a dimension asked for, what is taken already taken off."""
        if book is self._claimant.queue or book.deserved is None or not self._may_be_taken_from(book):
            return False
        held = minus(book.held, taken.of_queue(book.name))
        return any(held[row] > book.deserved[row] for row in self._asked)

    def _may_be_taken_from(self, book: QueueBook) -> bool:
        """What a queue is marked with holds for those below it, too; `reclaimable` speaks to those outside of it."""
        if any(above.info.never_evict for above in book.line):
            return False
        return all(above.info.reclaimable for above in book.line if above not in self._claimant.queue.line)

    def _keeps_guarantees(self, book: QueueBook, unit: Unit, taken: Taken) -> bool:
        for above in book.line:
            lost = taken.held_by(unit)
            for name in taken.queues():
                if above in self._session.queues[name].line:
                    lost = plus(lost, taken.of_queue(name))
            gained = self._gang if above in self._claimant.queue.line else []
            held = plus(minus(above.held, lost), gained)
            if any(amount and held[row] < above.guarantee[row] for row, amount in enumerate(lost)):
                return False
        return True


def above_deserved(book: QueueBook) -> bool:
    """Whether a queue holds more than it deserves of anything."""
    deserved = book.deserved
    return deserved is not None and any(held > deserved[row] for row, held in enumerate(book.held) if row != PODS)


def below_deserved(book: QueueBook) -> bool:
    """Whether a queue holds less than it deserves of anything."""
    deserved = book.deserved
    return deserved is not None and any(held < deserved[row] for row, held in enumerate(book.held) if row != PODS)


def plus(held: Amounts, more: Amounts) -> Amounts:
    longer, shorter = (held, more) if len(held) >= len(more) else (more, held)
    return [amount + (shorter[row] if row < len(shorter) else 0) for row, amount in enumerate(longer)]


def minus(held: Amounts, less: Amounts) -> Amounts:
    return [amount - (less[row] if row < len(less) else 0) for row, amount in enumerate(held)]
