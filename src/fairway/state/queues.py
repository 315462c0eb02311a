"""Queues: a tree by `parent`, with what each has allocated, in all and by namespace.

The root is not a queue: it stands for the cluster. A queue that jobs name and that has no object is kept with
`exists` false, so that its jobs can say so; only `default` is made where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from fairway.api.meta import LabelSelector
from fairway.api.pods import matches
from fairway.api.scheduling import MAX_QUEUE_DEPTH, Queue
from fairway.clock import Micros, from_datetime
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Vector
from fairway.state.annotations import NEVER_EVICT
from fairway.state.jobs import LAST
from fairway.state.log import Log

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
