"""What a queue may take, given what it deserves: common to proportion and capacity."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairway.resources.columns import Vector
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.framework.accounts import SHARE_BITS, QueueAccount, queue_share, share_text
from fairway.scheduler.framework.hooks import (
    Allocatable,
    Enqueueable,
    KeyText,
    LeavesGuarantees,
    Lends,
    Opens,
    OrderedBy,
    OrdersQueues,
    Overused,
    TellsLimits,
    TellsOrder,
    TellsQueueKeys,
    TellsWhatIsOwed,
)
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.plugins.share_tree import KeptShares, kept_shares
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.tables import PODS
from fairway.state.waiting import GangTemplate

_NOTHING_KEPT = KeptShares()
"""What a plugin has before a cycle begins; it is never written to."""


class QueueLimits(
    Opens,
    OrdersQueues,
    TellsQueueKeys,
    TellsOrder,
    Overused,
    Allocatable,
    Enqueueable,
    Lends,
    TellsLimits,
    LeavesGuarantees,
    TellsWhatIsOwed,
):
    """Order of queues by their share, and how much more each may take."""

    name = ""

    def __init__(self) -> None:
        self._guaranteed_rows: frozenset[int] = frozenset()
        self._kept = _NOTHING_KEPT
        self._session: SessionView | None = None
        self._minimums: dict[tuple[GangTemplate, int], tuple[tuple[int, int], ...]] = {}

    def open(self, session: SessionView) -> None:
        self._session = session
        self._minimums = {}
        self._kept = kept_shares(session.state)
        self._kept.read(session.queues.totals, len(session.total))
        self._guaranteed_rows = self._kept.rows

    def ordered_by(self) -> tuple[OrderedBy, ...]:
        return (OrderedBy.SHARE,)

    def lends(self) -> bool:
        return True

    def queue_key(self, queue: QueueAccount) -> tuple[int, int]:
        return -queue.info.priority, queue_share(queue)

    def queue_key_texts(self, queue: QueueAccount) -> list[KeyText]:
        own = queue_share(queue)
        return [
            KeyText("queue priority", -queue.info.priority, str(queue.info.priority)),
            KeyText("share of deserved", own, f"{share_text(own)}{self._share_of(queue, own)}"),
        ]

    def _share_of(self, queue: QueueAccount, own: int) -> str:
        """The dimension, first by name, in which the queue has that part of what it deserves."""
        due_of = queue.deserved or []
        for row in sorted(queue.shared, key=self._name) if own and due_of else ():
            deserved = due_of[row]
            if deserved and (queue.allocated[row] << SHARE_BITS) // deserved == own:
                have, due = self._texts(row, queue.allocated[row], deserved)
                return f" = {have} of {due} {self._name(row)}"
        return ""

    def overused(self, queue: QueueAccount) -> bool:
        """Nothing it deserves is left to take."""
        deserved = queue.deserved
        assert deserved is not None
        return all(queue.allocated[row] >= amount for row, amount in enumerate(deserved) if row != PODS and amount > 0)

    def allocatable(self, queue: QueueAccount, shape: Shape, count: int, lending: bool) -> int:
        """Under the capability of the queue and of all above it; within its share too, while nothing is lent."""
        session = self._session
        assert session is not None
        for account in queue.ancestry:
            if account.info.capability:
                count = account.fits_under(account.capability, session.device_queues.named(shape), count)
            if not lending and account.deserved is not None:
                count = account.fits_under(account.deserved, session.device_queues.requested(shape), count)
        return self._beside_guarantees(queue, shape.vector, count) if lending and self._guaranteed_rows else count

    def _guaranteed(self, account: QueueAccount, row: int) -> int:
        """A parent's guarantee covers those of its children."""
        return self._kept.guaranteed[account.name][row]

    def _beside_guarantees(self, queue: QueueAccount, vector: Vector, count: int) -> int:
        """What is lent leaves to every other queue what it holds or is guaranteed, whichever is more."""
        assert self._session is not None
        for row, amount in vector:
            if row not in self._guaranteed_rows:
                continue
            limit = self._session.guarantee_total[row]
            for account in reversed(queue.ancestry):
                limit -= sum(max(other.allocated[row], self._guaranteed(other, row)) for other in self._beside(account))
                count = min(count, (limit - account.allocated[row]) // amount)
        return count if count > 0 else 0

    def leaves_guarantees(self, queue: QueueAccount, need: Mapping[int, int]) -> bool:
        """Whether a queue that sets aside so much more leaves to the others what they are guaranteed."""
        assert self._session is not None
        for row in self._guaranteed_rows.intersection(need):
            limit = self._session.guarantee_total[row]
            for account in reversed(queue.ancestry):
                limit -= sum(self._guaranteed(other, row) for other in self._beside(account))
                if account.allocated[row] + need[row] > limit:
                    return False
        return True

    def owed(self, queue: QueueAccount, reserved: Mapping[str, Amounts]) -> dict[int, tuple[int, int]]:
        """By dimension, of what other queues are guaranteed: what they have, and what they still ask for. What is only
        reserved for them they do not have yet.
        """
        found: dict[int, tuple[int, int]] = {}
        for row in self._guaranteed_rows:
            met = unmet = 0
            for other in (other for account in queue.ancestry for other in self._beside(account)):
                due = self._guaranteed(other, row)
                aside = reserved.get(other.name, [])
                have = min(due, other.allocated[row] - (aside[row] if row < len(aside) else 0))
                met += have
                unmet += min(due - have, other.requested[row])
            if unmet:
                found[row] = met, unmet
        return found

    def _beside(self, account: QueueAccount) -> list[QueueAccount]:
        """The other queues of its level."""
        assert self._session is not None
        queues = self._session.queues
        level = queues.totals.top if account.parent is None else queues.totals.totals[account.parent.name].children
        return [queues[name] for name in level if name != account.name]

    def enqueueable(self, job: JobRun) -> Verdict:
        """The minimum fits under the capability, and leaves the others' guarantees alone."""
        assert self._session is not None
        need = self._minimum(job)
        for account in job.queue.ancestry:
            for row, amount in need:
                if amount and account.allocated[row] + amount > account.capability[row]:
                    detail = self._above_capability(account, row, amount)
                    return Verdict(False, Reason.NOT_ENQUEUED, self.name, detail)
        if not self._guaranteed_rows:
            return YES
        others = [other for account in job.queue.ancestry for other in self._beside(account)]
        for row, amount in need:
            promised = sum(self._guaranteed(account, row) for account in others) if row in self._guaranteed_rows else 0
            if promised and amount and amount > self._session.guarantee_total[row] - promised:
                detail = self._too_little_left(row, promised, amount)
                return Verdict(False, Reason.NOT_ENQUEUED, self.name, detail)
        return YES

    def not_allowed(self, job: JobRun) -> Verdict:
        """Which limit the job's next step would break, as things stand; `YES` if none."""
        assert self._session is not None
        queues = self._session.device_queues
        named, asked = self._next_step(job, queues.named), self._next_step(job, queues.requested)
        for account in job.queue.ancestry:
            row = self._over(account, account.capability, named)
            if row is not None:
                detail = self._above_capability(account, row, named[row])
                return Verdict(False, Reason.QUEUE_CAPABILITY, self.name, detail)
        if self._session.lends():
            return self._beyond_what_is_lent(job)
        for account in job.queue.ancestry:
            row = None if account.deserved is None else self._over(account, account.deserved, asked)
            if row is not None and account.deserved is not None:
                detail = self._above_deserved(account, row, account.deserved[row], asked[row])
                return Verdict(False, Reason.QUEUE_OVERUSED, self.name, detail)
        return YES

    def _next_step(self, job: JobRun, vector_of: Callable[[Shape], Vector]) -> Amounts:
        """What the rest of the job's minimum asks for, in task order; of a ready job, its first waiting task."""
        missing = max(1, job.minimum - job.ready)
        need: Amounts = []
        for run in job.runs:
            taken = min(run.left, missing)
            if taken:
                add(need, vector_of(run.shape), taken)
            missing -= taken
        return need

    def _beyond_what_is_lent(self, job: JobRun) -> Verdict:
        """Where idle capacity is lent, only what the other queues are guaranteed stands in the way."""
        assert self._session is not None
        need = self._next_step(job, lambda shape: shape.vector)
        rows = [row for row, amount in enumerate(need) if amount and row in self._guaranteed_rows]
        for row in sorted(rows, key=self._name):
            others = 0
            for account in reversed(job.queue.ancestry):
                others += sum(
                    max(other.allocated[row], self._guaranteed(other, row)) for other in self._beside(account)
                )
                if others + account.allocated[row] + need[row] > self._session.guarantee_total[row]:
                    detail = self._above_the_rest(account, row, others, need[row])
                    return Verdict(False, Reason.QUEUE_OVERUSED, self.name, detail)
        return YES

    def _name(self, row: int) -> str:
        assert self._session is not None
        return self._session.state.axis.names[row]

    def _over(self, account: QueueAccount, limits: Amounts, need: Amounts) -> int | None:
        """The dimension, first by name, in which a limit would be broken."""
        over = [row for row, amount in enumerate(need) if amount and account.allocated[row] + amount > limits[row]]
        return min(over, key=self._name, default=None)

    # Each sentence states an inequality that holds: what is allocated or reserved and what would be added exceed the
    # limit.

    def _above_capability(self, account: QueueAccount, row: int, more: int) -> str:
        have, aside = self._have(account, row)
        most, added = self._texts(row, account.capability[row], more)
        name = self._name(row)
        allocated = f"queue {account.name} has {have} of {most} {name} allocated{aside}"
        return f"{allocated}; {added} more would exceed its capability"

    def _above_deserved(self, account: QueueAccount, row: int, deserved: int, more: int) -> str:
        have, aside = self._have(account, row)
        due, added = self._texts(row, deserved, more)
        name = self._name(row)
        allocated = f"queue {account.name} has {have} {name} allocated{aside}"
        return f"{allocated} and deserves {due}; {added} more would exceed that"

    def _above_the_rest(self, account: QueueAccount, row: int, others: int, more: int) -> str:
        assert self._session is not None
        have, aside = self._have(account, row)
        theirs, total, added = self._texts(row, others, self._session.guarantee_total[row], more)
        return (
            f"other queues have or are guaranteed {theirs} of {total} {self._name(row)}; "
            f"queue {account.name} has {have} allocated{aside}, {added} more would exceed the rest"
        )

    def _have(self, account: QueueAccount, row: int) -> tuple[str, str]:
        """What a queue has allocated, and ` + 16 reserved` where something is reserved or nominated besides."""
        assert self._session is not None
        reserved = self._session.set_aside_for(account, row)
        have, aside = self._texts(row, account.allocated[row] - reserved, reserved)
        return have, f" + {aside} reserved" if reserved else ""

    def _too_little_left(self, row: int, promised: int, more: int) -> str:
        assert self._session is not None
        theirs, total, added = self._texts(row, promised, self._session.guarantee_total[row], more)
        name = self._name(row)
        return f"other queues are guaranteed {theirs} of {total} {name}; the {added} of its minimum would cut into that"

    def _texts(self, row: int, *amounts: int) -> list[str]:
        return [format_amount(self._name(row), min(max(amount, 0), INT64_MAX)) for amount in amounts]

    def _minimum(self, job: JobRun) -> tuple[tuple[int, int], ...]:
        """`minResources` if given, else in each dimension the sum of the smallest requests that make the minimum; by
        name of the resource.
        """
        if job.template.minimum_resources is not None:
            need = [(row, max(0, amount - job.allocated[row])) for row, amount in job.template.minimum_resources]
            return tuple(sorted(need, key=self._by_name))
        key = (job.template, max(0, job.minimum - job.ready))
        known = self._minimums.get(key)
        if known is None:
            rows = {row for run in job.template.runs for row, _ in run.shape.vector}
            need = [(row, _smallest(job, row, key[1])) for row in rows]
            known = self._minimums[key] = tuple(sorted(need, key=self._by_name))
        return known

    def _by_name(self, asked: tuple[int, int]) -> str:
        return self._name(asked[0])


def _smallest(job: JobRun, row: int, count: int) -> int:
    amounts = sorted((dict(run.shape.vector).get(row, 0), run.size) for run in job.template.runs)
    total = 0
    for amount, size in amounts:
        taken = min(size, count)
        total += amount * taken
        count -= taken
    return total
