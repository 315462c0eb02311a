"""The tenants of a cluster: queues and their namespaces, with what they have allocated, wait for and are entitled to.

Entitlement is weighted dominant resource fairness as a fluid: what each claimant would have if work could be divided at
will. All claimants' dominant shares divided by their weights rise together, the *level*, until a claimant has all that
it requests or a resource that it needs is used up; then it stops and the others rise on. Measured shares are compared
with that. It is a measure, not a decision: floats are good enough, and the order of the claims decides the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from fairway.clock import Micros

_NEVER = float("inf")


class Demand(Protocol):
    """What a tenant has and waits for, in the order of the capacity's resources."""

    @property
    def weight(self) -> float: ...
    @property
    def demand(self) -> Sequence[int]: ...


def fill(room: Sequence[float], claims: Sequence[Demand], total: Sequence[float]) -> list[float]:
    """For each claim the fraction of its demand, 0 to 1, that it may have of `room`; shares are of `total`."""
    if len(room) == 1:
        return _fill_one(room[0], claims)
    return _fill_many(room, claims, total)


def _fill_one(room: float, claims: Sequence[Demand]) -> list[float]:
    """One resource: the smallest demand per weight is met first, the rest is divided by weight."""
    order = sorted([(claim.demand[0] / claim.weight, index) for index, claim in enumerate(claims)])
    weight, left = sum([claim.weight for claim in claims]), float(room)
    granted = [1.0] * len(claims)
    for position, (per_weight, first) in enumerate(order):
        if per_weight * weight > left:
            level = left / weight
            for wanted, index in order[position:]:
                granted[index] = level / wanted
            break
        claim = claims[first]
        left -= claim.demand[0]
        weight -= claim.weight
    return granted


def _fill_many(room: Sequence[float], claims: Sequence[Demand], total: Sequence[float]) -> list[float]:
    resources = [index for index, amount in enumerate(total) if amount > 0]
    share = [max((claim.demand[r] / total[r] for r in resources), default=0.0) for claim in claims]
    full = [part / claim.weight for part, claim in zip(share, claims, strict=True)]
    rising = [index for index in range(len(claims)) if share[index] > 0]
    granted = [1.0] * len(claims)
    left = {r: float(room[r]) for r in resources}
    level = 0.0
    while rising:
        # Demand per unit of level: what each resource loses while the level rises by one.
        rate = {r: sum(claims[i].demand[r] / full[i] for i in rising) for r in resources}
        lasts = {r: left[r] / rate[r] if rate[r] > 0 else _NEVER for r in resources}
        step = min(min(full[i] for i in rising) - level, max(0.0, min(lasts.values())))
        level += step
        for r in resources:
            left[r] -= rate[r] * step
        used_up = [r for r in resources if lasts[r] <= step]
        stopped = [i for i in rising if full[i] <= level or any(claims[i].demand[r] for r in used_up)]
        for i in stopped:
            granted[i] = min(1.0, level / full[i])
        gone = set(stopped)
        rising = [i for i in rising if i not in gone]
    return granted


ONE = 1 << 32
"""The whole cluster, as a share."""

_SLACK = ONE >> 20
"""Entitlements are computed in floats: a share within this of one is not below it."""

Vector = tuple[int, ...]
H = TypeVar("H", bound="Tenant")


class Tenant:
    """A queue, or a namespace in a queue: a part of the cluster over time."""

    __slots__ = (
        "_full",
        "_since",
        "allocated",
        "below_since",
        "demand",
        "entitled",
        "jobs",
        "longest_below",
        "longest_since",
        "name",
        "service",
        "share",
        "steps",
        "weight",
    )

    def __init__(self, name: str, weight: int, size: int, at: Micros) -> None:
        self.name = name
        self.weight = weight
        self.jobs = 0
        self.allocated = [0] * size
        self.demand = [0] * size
        """What it has allocated and waits for."""
        self._full = 0
        self.steps: dict[Vector, int] = {}
        """How many pending jobs would next take this much: a gang's minimum, or one more task."""
        self.share = 0
        """The dominant share of its allocation, in units of ONE."""
        self.service = 0
        """The share summed over time."""
        self.entitled = 0
        self.below_since: Micros | None = None
        self.longest_below: Micros = 0
        self.longest_since: Micros = at
        self._since = at

    def settle(self, at: Micros) -> None:
        """Brings the service up to `at`."""
        self.service += self.share * (at - self._since)
        self._since = at

    def charge(self, at: Micros, amounts: Vector, sign: int, capacity: Sequence[int]) -> None:
        self.service += self.share * (at - self._since)
        self._since = at
        self.allocated = [have + sign * amount for have, amount in zip(self.allocated, amounts, strict=True)]
        self.share = dominant(self.allocated, capacity)

    def want(self, amounts: Vector, sign: int) -> None:
        """Its demand grows or shrinks by this much. An allocation of what it waited for does not change the demand."""
        self.demand = [have + sign * amount for have, amount in zip(self.demand, amounts, strict=True)]
        self._full = -1

    def full(self, capacity: Sequence[int]) -> int:
        """The dominant share of its demand; valid for one capacity, until `resized`."""
        if self._full < 0:
            self._full = dominant(self.demand, capacity)
        return self._full

    def resized(self, at: Micros, capacity: Sequence[int]) -> None:
        """The capacity of the cluster has changed."""
        self.settle(at)
        self.share = dominant(self.allocated, capacity)
        self._full = -1

    def step(self, amounts: Vector, sign: int) -> None:
        count = self.steps.get(amounts, 0) + sign
        if count:
            self.steps[amounts] = count
        else:
            self.steps.pop(amounts, None)

    def below(self, capacity: Sequence[int]) -> bool:
        """Whether it waits for something that would still be within its entitlement."""
        if self.share + _SLACK >= self.entitled:
            return False
        limit, allocated = self.entitled + _SLACK, self.allocated
        for step in self.steps:
            for have, more, total in zip(allocated, step, capacity, strict=True):
                if total > 0 and (have + more) * ONE // total > limit:
                    break
            else:
                return True
        return False

    def watch(self, at: Micros, below: bool) -> None:
        """Records since when it has been below its entitlement."""
        if self.below_since is not None and at - self.below_since > self.longest_below:
            self.longest_below = at - self.below_since
            self.longest_since = self.below_since
        if not below:
            self.below_since = None
        elif self.below_since is None:
            self.below_since = at

    def entitle_nothing(self) -> None:
        self.entitled = 0


class QueueTenant(Tenant):
    """A queue with its namespaces and its guarantee."""

    __slots__ = ("active", "guarantee", "guaranteed", "namespaces")

    def __init__(self, name: str, weight: int, guarantee: Vector, at: Micros) -> None:
        super().__init__(name, weight, len(guarantee), at)
        self.guarantee = guarantee
        self.guaranteed = any(guarantee)
        self.namespaces: dict[str, Tenant] = {}
        self.active: dict[str, Tenant] = {}
        """The namespaces with a living job, in the order in which they became active."""

    def entitle_nothing(self) -> None:
        self.entitled = 0
        for holder in self.active.values():
            holder.entitled = 0

    def gains(self, holder: Tenant) -> None:
        """A job of this namespace arrived."""
        holder.jobs += 1
        self.active[holder.name] = holder

    def loses(self, at: Micros, holder: Tenant) -> None:
        """A job of this namespace ended."""
        holder.jobs -= 1
        if not holder.jobs:
            del self.active[holder.name]
            holder.entitled = 0
            holder.watch(at, False)

    def below_guarantee(self) -> bool:
        """Whether it waits for something that its guarantee still covers."""
        return self.guaranteed and any(
            all(h + s <= g or not s for h, s, g in zip(self.allocated, step, self.guarantee, strict=True))
            for step in self.steps
            if any(step)
        )


def dominant(amounts: Sequence[int], capacity: Sequence[int]) -> int:
    """The largest fraction of a resource, in units of ONE; resources that the cluster lacks are skipped."""
    largest = 0
    for amount, total in zip(amounts, capacity, strict=True):
        if total > 0:
            part = amount * ONE // total
            if part > largest:
                largest = part
    return largest


def entitle(queues: Iterable[QueueTenant], capacity: Sequence[int]) -> None:
    """Divides the cluster among the queues by weight, and each queue's part among its namespaces by weight."""
    wanting = _wanting(queues)
    for queue, part in zip(wanting, fill(capacity, wanting, capacity), strict=True):
        queue.entitled = round(part * queue.full(capacity))
        room = capacity if len(wanting) == 1 else [part * amount for amount in queue.demand]
        _entitle_namespaces(queue, room, capacity)


def _entitle_namespaces(queue: QueueTenant, room: Sequence[float], capacity: Sequence[int]) -> None:
    wanting = _wanting(queue.active.values())
    for holder, part in zip(wanting, fill(room, wanting, capacity), strict=True):
        holder.entitled = round(part * holder.full(capacity))


def _wanting(holders: Iterable[H]) -> list[H]:
    """Those with a demand; the others are entitled to nothing."""
    found = []
    for holder in holders:
        if any(holder.demand):
            found.append(holder)
        else:
            holder.entitle_nothing()
    return found
