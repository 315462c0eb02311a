"""Namespaces: their labels, their weight from ResourceQuotas (spec S1.5), and their scheduling budgets.

A budget limits what a namespace may cost in one cycle, so that no tenant's objects delay the pods of another. Work is
counted in units of about a microsecond, by what is examined and not by a clock: the same input costs the same on every
machine. A namespace that would exceed its part has the rest of its work done in later cycles, in order; the excess is
deducted from its next part. While no namespace comes near its part, budgets change nothing.

A cycle is identified by its time. All decisions about one time begin with the same accounts, so that a decision can be
repeated with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairway.api.core import NAMESPACE_WEIGHT, Namespace, ResourceQuota
from fairway.clock import Micros
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_quantity
from fairway.state.membership import queue_named

DEFAULT_WEIGHT = 1
_NANO = 10**9
_MAX_WEIGHT = 1 << 31
_LONGEST = 64


def weight_of(text: str) -> int | None:
    """A weight is a quantity equal to a positive whole number (`3`, `1k`, `2000m`); anything else is none."""
    try:
        nanos = parse_quantity(text).nanos
    except QuantityError:
        return None
    weight, rest = divmod(nanos, _NANO)
    return weight if weight > 0 and not rest and weight <= _MAX_WEIGHT else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


class Namespaces:
    """Labels and weights. Several quotas of a namespace: the highest weight counts."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._queues: dict[str, str] = {}
        self._weights: dict[str, dict[str, str]] = {}

    def labels(self, namespace: str) -> Mapping[str, str]:
        """The labels; like the API server, every namespace carries its own name."""
        return {"kubernetes.io/metadata.name": namespace, **self._labels.get(namespace, {})}

    def upsert(self, namespace: Namespace) -> None:
        self._labels[namespace.metadata.name] = namespace.metadata.labels
        self._queues[namespace.metadata.name] = queue_named(namespace.metadata)

    def delete(self, name: str) -> None:
        self._labels.pop(name, None)
        self._queues.pop(name, None)

    def queue(self, namespace: str) -> str:
        """The queue of jobs that name none themselves; "" if the namespace names none either."""
        return self._queues.get(namespace, "")

    def upsert_quota(self, quota: ResourceQuota) -> None:
        text = quota.spec.hard.get(NAMESPACE_WEIGHT)
        if text is None:
            self.delete_quota(quota.metadata.namespace, quota.metadata.name)
        else:
            self._weights.setdefault(quota.metadata.namespace, {})[quota.metadata.name] = text

    def delete_quota(self, namespace: str, name: str) -> None:
        texts = self._weights.get(namespace, {})
        texts.pop(name, None)
        if not texts:
            self._weights.pop(namespace, None)

    def weight(self, namespace: str) -> int:
        texts = self._weights.get(namespace)
        if not texts:
            return DEFAULT_WEIGHT
        return max((weight_of(text) or DEFAULT_WEIGHT for text in texts.values()), default=DEFAULT_WEIGHT)

    def warnings(self) -> list[str]:
        return [
            f"resourcequota {namespace}/{name}: {NAMESPACE_WEIGHT} {_shown(text)} is not a whole number from 1 to "
            f"{_MAX_WEIGHT}, counted as {DEFAULT_WEIGHT}"
            for namespace, texts in sorted(self._weights.items())
            for name, text in sorted(texts.items())
            if weight_of(text) is None
        ]


SCHEDULING_BUDGET = 6_000
"""Units of one cycle, where a scheduler runs on a cluster."""
LEAST = 500
"""Units of a namespace in one cycle, however many namespaces have more to do than their part."""
MAX_DEBT = 64
"""Parts that a namespace can be behind: one object may cost more than a part."""
_NO_MOMENT: Micros = -(1 << 62)


class NamespaceBudgets:
    """The accounts of a state. Without a `limit` there are none."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        """Units of one cycle that the namespaces with more to do than their part share."""
        self._now = _NO_MOMENT
        self._part = limit or 0
        self._debts: dict[str, int] = {}
        self._spent: dict[str, int] = {}
        self._short: set[str] = set()
        self.waited: dict[Any, None] = {}
        """What was put off in the last cycle of another moment, in order: it comes first."""
        self._put_off: dict[Any, None] = {}
        self._put_last: dict[Any, None] = {}

    def open(self, now: Micros) -> CycleBudget | None:
        """The budget of a cycle; None if there are no limits."""
        if self.limit is None:
            return None
        if now != self._now:
            self._begin(now, self.limit)
        self._put_off, self._put_last = {}, {}
        return CycleBudget(self, now, self._part, self._debts)

    def _begin(self, now: Micros, limit: int) -> None:
        owed = {name: self._debts.get(name, 0) + self._spent.get(name, 0) for name in {*self._debts, *self._spent}}
        self._debts = {
            name: min(units - self._part, MAX_DEBT * self._part) for name, units in owed.items() if units > self._part
        }
        self._part = max(LEAST, limit // max(1, len(self._short)))
        self._now, self._spent, self._short = now, {}, set()
        self.waited = {**self._put_off, **self._put_last}

    def note(self, namespace: str, spent: int) -> None:
        """So much was spent in a cycle of this moment; the dearest of them counts."""
        if spent > self._spent.get(namespace, 0):
            self._spent[namespace] = spent

    def put_off(self, thing: Any, namespace: str, *, last: bool = False) -> None:
        """`last`: it has had its turn and is not finished."""
        (self._put_last if last else self._put_off)[thing] = None
        self._short.add(namespace)


class NamespacePurse:
    """What one namespace may still spend in a cycle."""

    __slots__ = ("_budgets", "_namespace", "_opening", "_spent", "now")

    def __init__(self, budgets: NamespaceBudgets, namespace: str, now: Micros, opening: int) -> None:
        self._budgets = budgets
        self._namespace = namespace
        self._opening = opening
        self._spent = 0
        self.now = now

    @property
    def left(self) -> int:
        return self._opening - self._spent

    @property
    def spent(self) -> int:
        return self._spent

    def spend(self, units: int) -> None:
        self._spent += units
        self._budgets.note(self._namespace, self._spent)


class CycleBudget:
    """The purses of one cycle."""

    def __init__(self, budgets: NamespaceBudgets, now: Micros, part: int, debts: dict[str, int]) -> None:
        self._budgets = budgets
        self._now = now
        self.part = part
        self._debts = debts
        self._purses: dict[str, NamespacePurse] = {}
        self.deferred: dict[Any, None] = {}
        """What was put off in this cycle."""

    @property
    def waited(self) -> dict[Any, None]:
        return self._budgets.waited

    def purse(self, namespace: str) -> NamespacePurse:
        found = self._purses.get(namespace)
        if found is None:
            opening = self.part - self._debts.get(namespace, 0)
            found = self._purses[namespace] = NamespacePurse(self._budgets, namespace, self._now, opening)
        return found

    def put_off(self, thing: Any, namespace: str, *, last: bool = False) -> None:
        """Something is left for a later cycle."""
        self.deferred[thing] = None
        self._budgets.put_off(thing, namespace, last=last)
