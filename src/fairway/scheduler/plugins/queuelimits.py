"""What a queue may take, given what it deserves: common to proportion and capacity."""

from __future__ import annotations

from fairway.resources.columns import Vector
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.books import SHARE_BITS, UNLIMITED, QueueBook
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.session import Session
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.cluster import PODS
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.waiting import Signature


class QueueLimits:
    """Order of queues by their share, and how much more each may take."""

    name = ""
    built_in = True
    lends = True

    def __init__(self) -> None:
        self.books: dict[str, QueueBook] = {}
        self._guaranteed_rows: set[int] = set()
        self._session: Session | None = None
        self._minimums: dict[tuple[Signature, int], tuple[tuple[int, int], ...]] = {}

    def open(self, session: Session) -> None:
        self._session = session
        self._minimums = {}
        self.books = session.queues
        promised = {row for book in self.books.values() for row, amount in enumerate(book.guarantee) if amount}
        self._guaranteed_rows = {row for row in promised if row != PODS and row < len(session.total)}

    def queue_key(self, queue: QueueBook) -> tuple[int, int]:
        return -queue.info.priority, queue_share(queue)

    def overused(self, queue: QueueBook) -> bool:
        """Nothing it deserves is left to take."""
        deserved = queue.deserved
        assert deserved is not None
        return all(queue.held[row] >= amount for row, amount in enumerate(deserved) if row != PODS and amount > 0)

    def allocatable(self, queue: QueueBook, shape: Shape, count: int) -> int:
        """Under the capability of the queue and of all above it; within its share too, while nothing is lent."""
        assert self._session is not None
        for book in queue.line:
            if book.info.capability:
                count = book.room_under(book.capability, self._session.device_queues.named(shape), count)
            if not self._session.lending and book.deserved is not None:
                count = book.room_under(book.deserved, self._session.device_queues.asked(shape), count)
        return self._beside_guarantees(queue, shape.vector, count) if self._session.lending else count

    def guaranteed(self, book: QueueBook, row: int) -> int:
        """A parent's guarantee covers those of its children."""
        below = sum(self.guaranteed(child, row) for child in self.children(book))
        return max(book.guarantee[row], below)

    def _beside_guarantees(self, queue: QueueBook, vector: Vector, count: int) -> int:
        """What is lent leaves to every other queue what it holds or is guaranteed, whichever is more."""
        assert self._session is not None
        for row, amount in vector:
            if row not in self._guaranteed_rows:
                continue
            limit = self._session.total[row]
            for book in reversed(queue.line):
                limit -= sum(max(other.held[row], self.guaranteed(other, row)) for other in self.beside(book))
                count = min(count, (limit - book.held[row]) // amount)
        return max(count, 0)

    def beside(self, book: QueueBook) -> list[QueueBook]:
        """The other queues of its level."""
        level = self.top() if book.parent is None else self.children(book.parent)
        return [other for other in level if other is not book]

    def top(self) -> list[QueueBook]:
        return [book for book in self.books.values() if book.parent is None]

    def enqueueable(self, job: JobRun) -> Verdict:
        """The minimum fits under the capability, and leaves the others' guarantees alone."""
        assert self._session is not None
        need = self._minimum(job)
        for book in job.queue.line:
            for row, amount in need:
                if amount and book.held[row] + amount > book.capability[row]:
                    return self._no(job, row, amount, f"exceeds what queue {book.name} may hold", book.capability[row])
        if not self._guaranteed_rows:
            return YES
        others = [other for book in job.queue.line for other in self.beside(book)]
        for row, amount in need:
            promised = sum(self.guaranteed(book, row) for book in others) if row in self._guaranteed_rows else 0
            if promised and amount and amount > self._session.total[row] - promised:
                left = self._session.total[row] - promised
                return self._no(job, row, amount, "would touch what is guaranteed to others", left)
        return YES

    def not_allowed(self, job: JobRun) -> Verdict:
        """Which limit the job's next step would break."""
        assert self._session is not None
        missing = job.minimum - job.ready
        need: Amounts = []
        for run in job.runs:
            if not run.left:
                continue
            if missing <= 0:
                need = []  # a ready job goes on one by one; the others have to be placed together
            add(need, self._session.device_queues.asked(run.shape), max(1, min(run.left, missing)))
            for book in job.queue.line:
                row = self._over(book, book.capability, need)
                if row is not None:
                    return self._over_limit(Reason.QUEUE_CAPABILITY, job, book, row, book.capability[row])
            for book in job.queue.line:
                row = None if book.deserved is None else self._over(book, book.deserved, need)
                if row is not None and book.deserved is not None:
                    return self._over_limit(Reason.QUEUE_OVERUSED, job, book, row, book.deserved[row])
        return YES

    def children(self, book: QueueBook) -> list[QueueBook]:
        found = [self.books[name] for name in sorted(book.info.children) if name in self.books]
        return [child for child in found if child.parent is book]

    def _name(self, row: int) -> str:
        assert self._session is not None
        return self._session.state.axis.names[row]

    def _over(self, book: QueueBook, limits: Amounts, need: Amounts) -> int | None:
        """The dimension, first by name, in which a limit would be broken."""
        over = [row for row, amount in enumerate(need) if amount and book.held[row] + amount > limits[row]]
        return min(over, key=self._name, default=None)

    def _over_limit(self, reason: Reason, job: JobRun, book: QueueBook, row: int, limit: int) -> Verdict:
        name = self._name(row)
        what = "capability" if reason is Reason.QUEUE_CAPABILITY else "deserved share"
        have, most = _text(name, book.held[row]), _text(name, limit)
        return Verdict(False, reason, self.name, f"queue {book.name} holds {have} of {most} {name}, its {what}")

    def _no(self, job: JobRun, row: int, amount: int, what: str, limit: int) -> Verdict:
        name = self._name(row)
        asked, most = _text(name, amount), _text(name, limit)
        detail = f"its minimum of {asked} {name} {what} ({most})"
        return Verdict(False, Reason.NOT_ENQUEUED, self.name, detail)

    def _minimum(self, job: JobRun) -> tuple[tuple[int, int], ...]:
        """`minResources` if given, else in each dimension the sum of the smallest requests that make the minimum; by
        name of the resource.
        """
        if job.signature.minimum_resources is not None:
            need = [(row, max(0, amount - job.held[row])) for row, amount in job.signature.minimum_resources]
            return tuple(sorted(need, key=self._by_name))
        key = (job.signature, max(0, job.minimum - job.ready))
        known = self._minimums.get(key)
        if known is None:
            rows = {row for run in job.signature.runs for row, _ in run.shape.vector}
            need = [(row, _smallest(job, row, key[1])) for row in rows]
            known = self._minimums[key] = tuple(sorted(need, key=self._by_name))
        return known

    def _by_name(self, asked: tuple[int, int]) -> str:
        return self._name(asked[0])


def queue_share(queue: QueueBook) -> int:
    """The largest part of what it deserves that a queue holds, in units of 2**-64."""
    if queue.deserved is None:
        return 0
    most = 0
    for row in queue.shared:
        held, deserved = queue.held[row], queue.deserved[row]
        if held <= 0 or deserved >= UNLIMITED or row in queue.uncounted:
            continue
        part = (held << SHARE_BITS) // deserved if deserved else 1 << SHARE_BITS
        if part > most:
            most = part
    return most


def _text(name: str, amount: int) -> str:
    return format_amount(name, min(max(amount, 0), INT64_MAX))


def _smallest(job: JobRun, row: int, count: int) -> int:
    amounts = sorted((dict(run.shape.vector).get(row, 0), run.size) for run in job.signature.runs)
    total = 0
    for amount, size in amounts:
        taken = min(size, count)
        total += amount * taken
        count -= taken
    return total
