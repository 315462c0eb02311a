"""Accounts: what queues, and namespaces in them, have allocated and may have, as a session moves it.

Amounts are lists of Python ints by row of the axis: unbounded, exact, and for a handful of resources several times
faster than arrays. A queue's account is charged together with those of its ancestors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fairway.clock import Micros
from fairway.resources.columns import Vector
from fairway.state.queues import Amounts, QueueInfo, QueueTotals, add
from fairway.state.tables import PODS

UNLIMITED = 1 << 100
"""An amount that no sum reaches: what is missing from a capability."""

SHARE_BITS = 64
"""Shares are compared as integers, this many bits behind the point: never float, never an overflow."""


def share(allocated: Amounts, total: Amounts, weight: int, skip: int) -> int:
    """The dominant share over weight, in units of 2**-64. Dimensions that the cluster has none of do not count."""
    most = 0
    for row, (amount, whole) in enumerate(zip(allocated, total, strict=False)):
        if amount > 0 and whole > 0 and row != skip:
            part = (amount << SHARE_BITS) // (whole * weight)
            if part > most:
                most = part
    return most


def share_text(units: int) -> str:
    """A share for people: `0.25`."""
    return f"{units / (1 << SHARE_BITS):.6g}"


class NamespaceAccount:
    """What a namespace has allocated in a queue. Priority and creation are those of the job at its head."""

    __slots__ = ("allocated", "namespace", "queue", "top_created", "top_priority", "weight")

    def __init__(self, namespace: str, queue: QueueAccount, allocated: Amounts, weight: int) -> None:
        self.namespace = namespace
        self.queue = queue
        self.allocated = allocated
        self.weight = weight
        self.top_priority = 0
        self.top_created: Micros = 0


class QueueAccount:
    """A queue's standing. `allocated_at_start` is what it had when the session began, `requested` what it requests on
    top; `deserved` is filled by proportion or capacity; None means that no plugin does.
    """

    __slots__ = (
        "accounts",
        "allocated",
        "allocated_at_start",
        "ancestry",
        "capability",
        "deserved",
        "guarantee",
        "info",
        "leaf",
        "name",
        "parent",
        "requested",
        "shared",
        "uncounted",
    )

    def __init__(self, info: QueueInfo, allocated: Amounts, requested: Amounts, shared: tuple[int, ...]) -> None:
        """`shared` are the rows that shares are made of."""
        self.shared = shared
        self.info = info
        self.name = info.name
        self.parent: QueueAccount | None = None
        self.leaf = not info.children
        self.allocated = allocated
        self.allocated_at_start = allocated.copy()
        self.requested = requested
        self.capability = _by_row(info.capability, len(allocated), UNLIMITED)
        self.guarantee = _by_row(info.guarantee, len(allocated), 0)
        self.deserved: Amounts | None = None
        self.ancestry: tuple[QueueAccount, ...] = (self,)
        self.accounts: dict[str, NamespaceAccount] = {}
        """Those of its namespaces that were asked for so far."""
        self.uncounted: frozenset[int] = frozenset()
        """Dimensions that do not count in its share: classes, whose devices count by kind."""

    def account(self, namespace: str, weight_of: Callable[[str], int]) -> NamespaceAccount:
        account = self.accounts.get(namespace)
        if account is None:
            known = self.info.accounts.get(namespace)
            allocated = _copy(known.allocated if known else [], len(self.allocated))
            account = self.accounts[namespace] = NamespaceAccount(namespace, self, allocated, weight_of(namespace))
        return account

    def is_above_deserved(self) -> bool:
        """Whether it has more than it deserves of anything."""
        deserved = self.deserved
        return deserved is not None and any(
            allocated > deserved[row] for row, allocated in enumerate(self.allocated) if row != PODS
        )

    def is_below_deserved(self) -> bool:
        """Whether it has less than it deserves of anything."""
        deserved = self.deserved
        return deserved is not None and any(
            allocated < deserved[row] for row, allocated in enumerate(self.allocated) if row != PODS
        )

    def charge(self, vector: Vector, count: int) -> None:
        """The queue's tasks have this much more (or, with a negative count, less)."""
        for account in self.ancestry:
            add(account.allocated, vector, count)

    def fits_under(self, limits: Amounts, vector: Vector, count: int) -> int:
        """How many of `count` requests still fit under a limit."""
        allocated = self.allocated
        for row, amount in vector:
            room = (limits[row] - allocated[row]) // amount
            if room < count:
                count = room
        return count if count > 0 else 0

    def __repr__(self) -> str:
        return f"<QueueAccount {self.name}>"


def _copy(amounts: Amounts, dimensions: int) -> Amounts:
    return amounts[:dimensions] + [0] * (dimensions - len(amounts))


def _by_row(amounts: Mapping[int, int], dimensions: int, missing: int) -> Amounts:
    found = [missing] * dimensions
    for row, amount in amounts.items():
        if row < dimensions:
            found[row] = amount
    return found


def queue_share(queue: QueueAccount) -> int:
    """The largest part of what it deserves that a queue has, in units of 2**-64."""
    if queue.deserved is None:
        return 0
    most = 0
    for row in queue.shared:
        allocated, deserved = queue.allocated[row], queue.deserved[row]
        if allocated <= 0 or deserved >= UNLIMITED or row in queue.uncounted:
            continue
        part = (allocated << SHARE_BITS) // deserved if deserved else 1 << SHARE_BITS
        if part > most:
            most = part
    return most


class OpenAccounts(Mapping[str, QueueAccount]):
    """By name of queue, in the order of the names. `shared` are the resources that shares are made of."""

    def __init__(self, totals: QueueTotals, dimensions: int, shared: tuple[int, ...]) -> None:
        self.totals = totals
        self._dimensions = dimensions
        self._shared = shared
        self._opened: dict[str, QueueAccount] = {}
        self._deserved: Mapping[str, Amounts] = {}

    def __getitem__(self, name: str) -> QueueAccount:
        return self._opened.get(name) or self._open(name)

    def __contains__(self, name: object) -> bool:
        return name in self.totals.totals

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals.totals)

    def __len__(self) -> int:
        return len(self.totals.totals)

    def opened(self) -> dict[str, QueueAccount]:
        """Those that were asked for so far: only they can differ from the totals."""
        return self._opened

    def deserve(self, deserved: Mapping[str, Amounts]) -> None:
        """What each queue deserves from now on, those too that are opened later."""
        self._deserved = deserved
        for name, account in self._opened.items():
            if name in deserved:
                account.deserved = fitted(deserved[name], self._dimensions)

    def _open(self, name: str) -> QueueAccount:
        total = self.totals.totals[name]
        account = QueueAccount(total.info, total.allocated.copy(), total.requested.copy(), self._shared)
        self._opened[name] = account  # before those above it, which may be in a circle with it
        account.ancestry = (account, *(self[above] for above in total.ancestry[1:]))
        account.parent = self[total.parent] if total.parent else None
        if name in self._deserved:
            account.deserved = fitted(self._deserved[name], self._dimensions)
        return account


def fitted(amounts: Amounts, dimensions: int) -> Amounts:
    """What is not mentioned is not deserved."""
    return [*amounts[:dimensions], *[0] * (dimensions - len(amounts))]
