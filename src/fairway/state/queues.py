"""Queues: a tree by `parent`, with the allocated and requested amounts of each, in all and by namespace.

The root is not a queue; it stands for the cluster. A queue that jobs name but that has no object is kept with `exists`
false, so that its jobs can report that; only `default` is created where it is missing.

`QueueTotals` adds up each queue with all queues below it. A change moves the sums along one path to the top, so a cycle
costs the queues that changed. When queues are created, deleted or described differently, everything is added up again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from fairway.api.meta import LabelSelector
from fairway.api.pods import matches
from fairway.api.scheduling import MAX_QUEUE_DEPTH, Queue
from fairway.clock import Micros, from_datetime
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector
from fairway.state.annotations import NEVER_EVICT
from fairway.state.derived import DerivedValue, Generations, Log, same
from fairway.state.jobs import LAST

DEFAULT_QUEUE = "default"

Amounts = list[int]
"""Amounts by row of the axis, as Python ints: unbounded, and faster than an array for a handful of rows."""


ROOT_QUEUE = "root"
"""What Volcano calls the top of the tree, for which it creates a Queue."""


def add(amounts: Amounts, vector: Vector, times: int = 1) -> None:
    """Add a request some times; the list grows to the dimensions it meets."""
    if vector and vector[-1][0] >= len(amounts):  # rows rise, so the last one is the highest
        amounts.extend([0] * (vector[-1][0] + 1 - len(amounts)))
    for row, amount in vector:
        amounts[row] += amount * times


class Account:
    """What one namespace has allocated in one queue."""

    __slots__ = ("allocated", "namespace", "tasks")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.allocated: Amounts = []
        self.tasks = 0


class QueueInfo:
    """A queue as its object says, and what its tasks have."""

    __slots__ = (
        "_changed",
        "accounts",
        "allocated",
        "allowed_namespaces",
        "capability",
        "children",
        "created",
        "declared",
        "deserved",
        "guarantee",
        "name",
        "never_evict",
        "open",
        "parent",
        "priority",
        "reclaimable",
        "requested",
        "weight",
    )

    def __init__(self, name: str, changed: Log[str]) -> None:
        """`changed` is called when what is allocated or requested changes."""
        self._changed = changed
        self.name = name
        self.declared = False
        self.created: Micros = LAST
        self.weight = 1
        self.priority = 0
        self.open = True
        self.reclaimable = True
        self.never_evict = False
        self.parent = ""
        self.children: set[str] = set()
        self.capability: dict[int, int] = {}
        self.guarantee: dict[int, int] = {}
        self.deserved: dict[int, int] = {}
        self.allocated: Amounts = []
        self.requested: Amounts = []
        self.accounts: dict[str, Account] = {}
        self.allowed_namespaces: LabelSelector | None = None

    def account(self, namespace: str) -> Account:
        account = self.accounts.get(namespace)
        if account is None:
            account = self.accounts[namespace] = Account(namespace)
        return account

    def charge(self, namespace: str, vector: Vector, by: int) -> None:
        """A task of this namespace got (by 1) or gave up (by -1) this much."""
        self._changed.add(self.name)
        add(self.allocated, vector, by)
        account = self.account(namespace)
        add(account.allocated, vector, by)
        account.tasks += by
        if not account.tasks:
            del self.accounts[namespace]

    def request(self, vector: Vector, by: int) -> None:
        """A job of this queue began (by 1) or ceased (by -1) to wait for so much."""
        self._changed.add(self.name)
        add(self.requested, vector, by)

    def describe(self, queue: Queue, axis: Axis) -> None:
        spec = queue.spec
        created = queue.metadata.creation_timestamp
        capability, guarantee, deserved = (
            _amounts(quantities, axis) for quantities in (spec.capability, spec.guarantee.resource, spec.deserved)
        )
        self.declared = True
        self.created = LAST if created is None else from_datetime(created)
        self.weight = spec.weight
        self.priority = spec.priority
        self.open = (spec.state or queue.status.state) not in ("Closed", "Closing")
        self.reclaimable = spec.reclaimable is not False
        self.never_evict = queue.metadata.annotations.get(NEVER_EVICT) == "true"
        self.parent = "" if spec.parent == ROOT_QUEUE else spec.parent
        self.allowed_namespaces = spec.allowed_namespaces
        self.capability, self.guarantee, self.deserved = capability, guarantee, deserved

    def forget(self) -> None:
        """The object is gone; what its tasks have is not."""
        fresh = QueueInfo(self.name, self._changed)
        for slot in ("created", "declared", "weight", "priority", "open", "reclaimable", "never_evict", "parent"):
            setattr(self, slot, getattr(fresh, slot))
        self.capability, self.guarantee, self.deserved = {}, {}, {}
        self.allowed_namespaces = None

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Whether jobs of a namespace with these labels may use it."""
        return self.allowed_namespaces is None or matches(self.allowed_namespaces, labels)

    @property
    def exists(self) -> bool:
        """Whether jobs may name it: it has an object, or it is the default, which needs none."""
        return self.declared or self.name == DEFAULT_QUEUE

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


class QueueTree:
    """All queues by name, linked to their parents."""

    def __init__(self) -> None:
        self._queues: dict[str, QueueInfo] = {}
        self.changed: Log[str] = Log()
        """Queues of which what is allocated or requested changed."""
        self.generation = 0
        """Counts changes of which queues there are, and of what their objects say."""
        self.top: set[str] = set()
        self.restricted: set[str] = set()
        """Queues that only some namespaces may use."""
        self.never_evicted: set[str] = set()
        """Queues whose objects say that their pods are never evicted."""
        self.get(DEFAULT_QUEUE)

    def __iter__(self) -> Iterator[QueueInfo]:
        return iter(self._queues.values())

    def __getitem__(self, name: str) -> QueueInfo:
        return self._queues[name]

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def get(self, name: str) -> QueueInfo:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = QueueInfo(name, self.changed)
            self.top.add(name)
            self.generation += 1
        return queue

    def upsert(self, object_: Queue, axis: Axis) -> QueueInfo:
        queue = self.get(object_.metadata.name)
        self.generation += 1
        self._unlink(queue)
        queue.describe(object_, axis)
        self._link(queue)
        if queue.allowed_namespaces is None:
            self.restricted.discard(queue.name)
        else:
            self.restricted.add(queue.name)
        if queue.never_evict:
            self.never_evicted.add(queue.name)
        else:
            self.never_evicted.discard(queue.name)
        return queue

    def delete(self, name: str) -> None:
        queue = self._queues.get(name)
        if queue is None:
            return
        self.generation += 1
        self._unlink(queue)
        self.restricted.discard(name)
        self.never_evicted.discard(name)
        queue.forget()
        self._link(queue)

    def __len__(self) -> int:
        return len(self._queues)

    def drop_unused(self, named: Set[str]) -> None:
        """Forget queues that no object has made and neither a job (`named`) nor a queue below names any more."""
        unused = [
            queue
            for queue in self._queues.values()
            if not queue.exists and queue.name not in named and not queue.children and not queue.accounts
        ]
        self.generation += 1
        for queue in unused:
            self._unlink(queue)
            del self._queues[queue.name]

    def dimensions_in_use(self) -> set[int]:
        """Of limits and of what is allocated or requested."""
        found: set[int] = set()
        for queue in self._queues.values():
            found.update(queue.capability, queue.guarantee, queue.deserved)
            for amounts in (queue.allocated, queue.requested):
                found.update(row for row, amount in enumerate(amounts) if amount)
        return found

    def fit(self, dimensions: int) -> None:
        """The axis has so many dimensions now; what is dropped is zero."""
        self.generation += 1
        for queue in self._queues.values():
            for amounts in (
                queue.allocated,
                queue.requested,
                *(account.allocated for account in queue.accounts.values()),
            ):
                del amounts[dimensions:]

    def ancestors(self, name: str) -> list[QueueInfo]:
        """The queue and those above it, upwards. A circle of parents ends where it closes; a queue below more than a
        tree may have stands by itself.
        """
        ancestry: dict[str, QueueInfo] = {}
        queue: QueueInfo | None = self._queues.get(name)
        while queue is not None and queue.name not in ancestry:
            if len(ancestry) == MAX_QUEUE_DEPTH:
                return [self._queues[name]]
            ancestry[queue.name] = queue
            queue = self._queues.get(queue.parent) if queue.parent else None
        return list(ancestry.values())

    def in_circle(self, name: str) -> bool:
        """Whether following parents from here does not reach the top: they go in a circle, or are too many."""
        ancestry = self.ancestors(name)
        return bool(ancestry) and bool(ancestry[-1].parent) and ancestry[-1].parent in self._queues

    def orphan_of(self, name: str) -> str:
        """The nearest parent named above this queue that has no object, or ""."""
        for queue in self.ancestors(name):
            if queue.parent and (queue.parent not in self._queues or not self._queues[queue.parent].exists):
                return queue.parent
        return ""

    def _link(self, queue: QueueInfo) -> None:
        if queue.parent:
            self.get(queue.parent).children.add(queue.name)
        else:
            self.top.add(queue.name)

    def _unlink(self, queue: QueueInfo) -> None:
        self.top.discard(queue.name)
        if queue.parent in self._queues:
            self._queues[queue.parent].children.discard(queue.name)


def _amounts(quantities: dict[str, str], axis: Axis) -> dict[int, int]:
    """By row; explicit zeros count, for a capability of zero is a limit."""
    amounts = Resource.parse(quantities).amounts
    return {axis.row(name): amount for name, amount in amounts.items()}


class QueueTotal(NamedTuple):
    """A queue with all below it. The lists change in place."""

    info: QueueInfo
    parent: str
    """The queue above it; "" for the top, and for queues whose parents go in a circle."""
    ancestry: tuple[str, ...]
    """The queue and those above it, upwards."""
    children: tuple[str, ...]
    """By name; those in a circle are below no queue."""
    allocated: Amounts
    requested: Amounts
    own_allocated: Amounts
    own_requested: Amounts


class QueueTotals(
    DerivedValue,
    name="queue-totals",
    holds="allocated and requested amounts of each queue, queues below it included",
    inputs=("queues",),
    saves="adding up all queues, level by level",
):
    """The totals of one tree of queues."""

    def __init__(self, queues: QueueTree, axis: Axis) -> None:
        super().__init__(queues.changed)
        self._queues = queues
        self._axis = axis
        self.totals: dict[str, QueueTotal] = {}
        """By name, in the order of the names."""
        self.top: tuple[str, ...] = ()
        """Queues that are below no other."""
        self.layout = 0
        """Counts how often all was made again."""
        self.changed: Log[str] = Log()
        """Queues of which something changed since all was last made again. Those above them are not listed, but where
        parents go in a circle: there no queue is below another, and still each counts in the others.
        """

    @classmethod
    def make(cls, state: Any) -> QueueTotals:
        return cls(state.queues, state.axis)

    def generations(self) -> Generations:
        return self._queues.generation, len(self._axis)

    def update(self, names: list[str]) -> None:
        for name in dict.fromkeys(names):
            self._update(self.totals[name])

    def check(self) -> None:
        self.sync()
        fresh = QueueTotals(self._queues, self._axis)
        fresh.sync()
        same("queues at the top", self.top, fresh.top)
        same("totals of queues", _without_info(self.totals), _without_info(fresh.totals))

    def bottom_up(self) -> list[str]:
        """All queues, each after those below it."""
        found, at = [*self.top], 0
        while at < len(found):
            found.extend(self.totals[found[at]].children)
            at += 1
        return found[::-1]

    def rebuild(self) -> None:
        self.layout += 1
        self.changed = Log()
        queues, zeros = self._queues, [0] * len(self._axis)
        parents = {queue.name: self._parent(queue.name) for queue in queues}
        below: dict[str, list[str]] = {}
        for name, parent in sorted(parents.items()):
            below.setdefault(parent, []).append(name)
        self.top = tuple(below.get("", ()))
        self.totals = {
            name: QueueTotal(
                queues[name],
                parents[name],
                tuple(queue.name for queue in queues.ancestors(name)),
                tuple(below.get(name, ()) if name else ()),  # without a name it would be above the top, and itself
                *(zeros.copy() for _ in range(4)),
            )
            for name in sorted(parents)
        }
        for total in self.totals.values():
            self._update(total)

    def _parent(self, name: str) -> str:
        ancestry = self._queues.ancestors(name)
        return ancestry[1].name if len(ancestry) > 1 and not self._queues.in_circle(name) else ""

    def _update(self, total: QueueTotal) -> None:
        info = total.info
        if _move(total.own_allocated, info.allocated, [self.totals[name].allocated for name in total.ancestry]):
            self._note(total)
        if _move(total.own_requested, info.requested, [self.totals[name].requested for name in total.ancestry]):
            self._note(total)

    def _note(self, total: QueueTotal) -> None:
        if total.parent:
            self.changed.add(total.info.name)
            return
        for name in total.ancestry:
            self.changed.add(name)


def _without_info(totals: dict[str, QueueTotal]) -> dict[str, tuple[object, ...]]:
    return {name: total[1:] for name, total in totals.items()}


def _move(own: Amounts, is_now: Amounts, sums: list[Amounts]) -> bool:
    """Bring amounts to what they are now, and the sums that they are part of with them; whether that moved any. Of
    resources that come behind the end of a list there is nothing.
    """
    if own == is_now:
        return False
    moved, known = False, len(is_now)
    for row, before in enumerate(own):
        more = (is_now[row] if row < known else 0) - before
        if more:
            moved = True
            own[row] = before + more
            for amounts in sums:
                amounts[row] += more
    return moved
