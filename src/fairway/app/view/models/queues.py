"""Queues as a tree, and the namespaces in them."""

from __future__ import annotations

from fairway.app.view.models.common import PageStruct


class QueueAmount(PageStruct, frozen=True):
    """One resource of a queue, in base units."""

    resource: str
    allocated: float
    """To pods that are on nodes."""
    reserved: float
    """Set aside by reservations and nominations, not allocated yet."""
    deserved: float
    """Its fair share as an amount, at most what it has and requests."""
    entitled: float
    """Its fair share if every queue requested all that it may have: what it can always get back."""
    requested: float
    """By pods that wait."""
    guarantee: float
    capability: float | None
    """null: no limit."""
    borrowed: float
    """What it has allocated above what it is entitled to."""
    lent: float
    """What it is entitled to and others have."""


class NamespaceUse(PageStruct, frozen=True):
    """A namespace in one queue."""

    namespace: str
    weight: int
    share: float
    """Its dominant share: the largest part of a resource that it has."""
    weighted_share: float
    """The dominant share divided by the weight: the smallest is served first."""
    allocated: dict[str, float]
    waiting_jobs: int
    running_jobs: int


class QueueNode(PageStruct, frozen=True):
    name: str
    parent: str
    """"" for one at the top."""
    depth: int
    state: str
    """Open or Closed."""
    weight: int
    share: float
    """The largest part of what it deserves that it has allocated; above 1 it borrows."""
    dominant_share: float
    """The largest part of the cluster that it has allocated."""
    reclaimable: bool
    waiting_jobs: int
    """Including the queues below it."""
    running_jobs: int
    amounts: list[QueueAmount]
    namespaces: list[NamespaceUse]


class LentAmount(PageStruct, frozen=True):
    """What one queue deserves and another has: matched in proportion, as no single unit has a lender of its own."""

    resource: str
    lender: str
    borrower: str
    amount: float


class QueuesPage(PageStruct, frozen=True):
    """GET /queues: parents before children, siblings by name."""

    revision: int
    now: str
    queues: list[QueueNode]
    loans: list[LentAmount]
