"""Water-filling: an amount shared out by weight between lower and upper bounds, in exact integers.

What queues deserve by proportion, kept from cycle to cycle: a change costs the queues whose share it changes.

    wants    what a queue has and requests; a queue with queues below it wants what these may have
    due      what it gets if there is enough: what it wants, between guarantee and capability

As long as a level of queues is due no more than the queue above has for it, each gets what it is due, and a change of
one changes no other. Only where there is too little a level is divided again. `Proportion` says what the numbers mean;
the plain recursion that it must agree with is in `tests/oracles/queues.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import lcm
from typing import NamedTuple

from fairway.scheduler.framework.accounts import UNLIMITED, OpenAccounts
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, same
from fairway.state.queues import Amounts, QueueTotal, QueueTotals
from fairway.state.tables import PODS


class Claim(NamedTuple):
    """A sharer: gets at least `low`, at most `high`, and between them in proportion to `weight`."""

    name: str
    weight: int
    low: int
    high: int


def fill(total: int, claims: list[Claim]) -> list[int]:
    """What each claim gets: min(high, max(low, weight * level)) for the level at which `total` is used up.

    Whole units only: fractions are floored, and the units that are left go one each by largest remainder, then name.
    The sum never exceeds the total; lower bounds that together do are scaled down.
    """
    lows = sum(claim.low for claim in claims)
    if lows > total:
        return _scaled_lows(total, lows, claims)
    if sum(claim.high for claim in claims) <= total:
        return [claim.high for claim in claims]
    numerator, denominator = _level(total, claims)
    got: list[int] = []
    remainders: list[tuple[int, str, int]] = []
    for place, claim in enumerate(claims):
        whole, rest = divmod(claim.weight * numerator, denominator)
        if claim.low <= whole < claim.high:
            remainders.append((-rest, claim.name, place))
            got.append(whole)
        else:
            got.append(min(claim.high, max(claim.low, whole)))
    left = total - sum(got)
    for _, _, place in sorted(remainders)[:left]:
        got[place] += 1
    return got


def _level(total: int, claims: list[Claim]) -> tuple[int, int]:
    """The level, as a fraction, at which the claims add up to the total.

    As the level rises from 0 a claim stays at `low`, grows by its weight, then stays at `high`. The turning points are
    compared over one common denominator, so they are integers.
    """
    common = lcm(*(claim.weight for claim in claims))
    turns = sorted(
        turn
        for claim in claims
        for turn in (
            (claim.low * (common // claim.weight), claim.weight),
            (claim.high * (common // claim.weight), -claim.weight),
        )
    )
    amount, slope, reached = sum(claim.low for claim in claims) * common, 0, 0
    for point, change in turns:
        after = amount + slope * (point - reached)
        if after >= total * common:
            break
        amount, slope, reached = after, slope + change, point
    return (total * common - amount + slope * reached, slope * common) if slope else (reached, common)


def _scaled_lows(total: int, lows: int, claims: list[Claim]) -> list[int]:
    got = [claim.low * total // lows for claim in claims]
    remainders = sorted((-(claim.low * total % lows), claim.name, place) for place, claim in enumerate(claims))
    for _, _, place in remainders[: total - sum(got)]:
        got[place] += 1
    return got


ROOT = ""
"""Stands for the cluster, above all queues at the top."""


class _Level:
    """A queue, or the root, as far as sharing goes. Lists have one amount for each resource."""

    __slots__ = (
        "below",
        "capability",
        "children",
        "depth",
        "due",
        "enough",
        "low",
        "moved",
        "name",
        "parent",
        "share",
        "total",
        "wants",
        "weight",
    )

    def __init__(self, name: str, dimensions: int, total: QueueTotal | None) -> None:
        self.name = name
        self.total = total
        """None for the root."""
        self.depth = 0
        self.parent: _Level | None = None
        self.children: list[_Level] = []
        self.weight = 1 if total is None else total.info.weight
        limits = {} if total is None else total.info.capability
        self.capability = [limits.get(row, UNLIMITED) for row in range(dimensions)]
        self.low = [0] * dimensions
        self.wants = [0] * dimensions
        self.due = [0] * dimensions
        self.below = [0] * dimensions
        """What all children together are due."""
        self.share = [0] * dimensions
        self.enough = [True] * dimensions
        """Whether each child got what it was due, when this was last shared out."""
        self.moved: dict[_Level, None] = {}
        """Children that are due something else since then."""


class ShareTree(Mapping[str, Amounts]):
    """What each queue deserves, by name; `divide` brings it up to date."""

    def __init__(self) -> None:
        self._levels: dict[str, _Level] = {}
        self._root = _Level(ROOT, 0, None)
        self._read = -1
        self._given: dict[str, tuple[Amounts, Amounts]] = {}
        self._made: list[_Level] = []
        """What has never been shared out."""
        self.version = 0
        """Counts divisions that changed something."""

    def __getitem__(self, name: str) -> Amounts:
        return self._levels[name].share

    def __iter__(self) -> Iterator[str]:
        return iter(self._levels)

    def __len__(self) -> int:
        return len(self._levels)

    def divide(self, totals: QueueTotals, cluster: Amounts, given: Mapping[str, tuple[Amounts, Amounts]]) -> None:
        """Divide what the cluster has. `given` has what some queues have and request in this cycle, where that may
        differ from the totals; the lists are kept.
        """
        changed = totals.changed.since(self._read)
        self._read = totals.changed.end
        whole = [amount if row != PODS and amount > 0 else 0 for row, amount in enumerate(cluster)]
        dirty: dict[_Level, None] = dict.fromkeys(self._made)
        self._made = []
        names = dict.fromkeys((*(self._levels if changed is None else changed), *self._given, *given))
        self._given = dict(given)
        for name in names:
            level = self._levels[name]
            assert level.total is not None
            allocated, requested = self._given.get(name) or (level.total.allocated, level.total.requested)
            self._want(level, _wants(level, allocated, requested), dirty)
        if whole != self._root.share:
            self._root.share = whole
            dirty[self._root] = None
        if dirty:
            self.version += 1
            self._settle(dirty)

    def make(self, totals: QueueTotals, guaranteed: Mapping[str, Amounts], dimensions: int) -> None:
        """Begin again with these queues, and what each is guaranteed."""
        self.version += 1
        self._given = {}
        self._read = -1
        self._root = _Level(ROOT, dimensions, None)
        self._levels = {name: _Level(name, dimensions, total) for name, total in totals.totals.items()}
        for name in reversed(totals.bottom_up()):
            level, parent = self._levels[name], totals.totals[name].parent
            level.parent = self._levels[parent] if parent else self._root
            level.depth = level.parent.depth + 1
            level.share[PODS] = UNLIMITED
        for name, level in self._levels.items():
            assert level.parent is not None
            level.low = [min(most, least) for most, least in zip(level.capability, guaranteed[name], strict=True)]
            level.due = level.low.copy()
            level.parent.children.append(level)
            level.parent.below = [sums + low for sums, low in zip(level.parent.below, level.low, strict=True)]
            level.parent.moved[level] = None
        self._made = [self._root, *(level for level in self._levels.values() if level.children)]

    def _want(self, level: _Level, wants: Amounts, dirty: dict[_Level, None]) -> None:
        """A queue wants so much now: pass on upwards what that changes."""
        while wants != level.wants:
            level.wants = wants
            above, before = level.parent, level.due
            assert above is not None
            due = [
                max(low, min(most, wish)) for low, most, wish in zip(level.low, level.capability, wants, strict=True)
            ]
            if due == before:
                return
            level.due = due
            above.moved[level] = None
            dirty[above] = None
            above.below = [sums + now - then for sums, now, then in zip(above.below, due, before, strict=True)]
            if above.total is None:
                return
            level, wants = above, _wants(above, (), ())

    def _settle(self, dirty: Iterable[_Level]) -> None:
        """Share out again what these queues have, and what queues below them get otherwise than before."""
        waiting = [(level.depth, place, level) for place, level in enumerate(dirty)]
        heapify(waiting)
        place, last = len(waiting), None
        while waiting:
            *_, level = heappop(waiting)
            if level is last:
                continue
            last = level
            for child in self._share_out(level):
                if child.children:
                    place += 1
                    heappush(waiting, (child.depth, place, child))

    def _share_out(self, level: _Level) -> Iterable[_Level]:
        """Give the children of a queue what they get now; returns those that get something else than before."""
        moved, level.moved = level.moved, {}
        changed: dict[_Level, None] = {}
        for row, has in enumerate(level.share):
            if row == PODS:
                continue
            enough, had_enough = level.below[row] <= has, level.enough[row]
            level.enough[row] = enough
            if enough:
                takers: Iterable[_Level] = moved if had_enough else level.children
                shares = [child.due[row] for child in takers]
            else:
                takers = level.children
                shares = fill(has, [_claim(child, row, has) for child in level.children])
            for child, amount in zip(takers, shares, strict=True):
                if child.share[row] != amount:
                    child.share[row] = amount
                    changed[child] = None
        return changed


def _wants(level: _Level, allocated: Sequence[int], requested: Sequence[int]) -> Amounts:
    """What a queue has and requests; nothing new comes into a queue that is closed or not there."""
    assert level.total is not None
    if level.children:
        return [below + own for below, own in zip(level.below, level.total.own_allocated, strict=True)]
    info = level.total.info
    if not info.open or not info.exists:
        return [*allocated]
    return [has + more for has, more in zip(allocated, requested, strict=True)]


def _claim(level: _Level, row: int, total: int) -> Claim:
    low = level.low[row]
    return Claim(level.name, level.weight, low, max(low, min(level.capability[row], total, level.wants[row])))


class Division(Mapping[str, Amounts]):
    """What queues deserve in one cycle. The tree serves one cycle after the other, and trials inside a cycle: where it
    was asked to divide something else meanwhile, it divides this again.
    """

    def __init__(self, tree: ShareTree, queues: OpenAccounts, cluster: Amounts) -> None:
        self._tree = tree
        self._totals = queues.totals
        self._cluster = cluster
        self._given = {
            name: (account.allocated.copy(), account.requested.copy()) for name, account in queues.opened().items()
        }
        self._version = -1

    def __getitem__(self, name: str) -> Amounts:
        if self._version != self._tree.version:
            self._tree.divide(self._totals, self._cluster, self._given)
            self._version = self._tree.version
        return self._tree[name]

    def __contains__(self, name: object) -> bool:
        return name in self._totals.totals

    def __iter__(self) -> Iterator[str]:
        return iter(self._totals.totals)

    def __len__(self) -> int:
        return len(self._totals.totals)


class KeptShares(
    DerivedValue,
    name="shares",
    holds="guaranteed and deserved amounts of queues, as a tree in which only changed levels are divided again",
    inputs=("queue-totals",),
    saves="dividing the cluster among all queues",
):
    """What proportion and capacity keep of one state from cycle to cycle."""

    def __init__(self) -> None:
        super().__init__()
        self._totals: QueueTotals | None = None
        self._dimensions = 0
        self.tree = ShareTree()
        self.guaranteed: dict[str, Amounts] = {}
        """By queue; what is guaranteed to a queue covers what is guaranteed to those below it."""
        self.rows: frozenset[int] = frozenset()
        """Resources of which something is guaranteed."""
        self.promised: Amounts = []
        """What all queues at the top are guaranteed together."""
        self.describing: tuple[str, ...] = ()
        """Queues whose objects say what they deserve."""
        self.even: tuple[object, dict[str, Amounts]] = (None, {})
        """Shares that do not follow what queues request, and what they were worked out from."""

    def read(self, totals: QueueTotals, dimensions: int) -> None:
        """Look again at what queues say, if that may have changed."""
        self._totals, self._dimensions = totals, dimensions
        self.sync()

    def generations(self) -> Generations:
        assert self._totals is not None
        return self._totals, self._totals.layout, self._dimensions

    def rebuild(self) -> None:
        totals, dimensions = self._totals, self._dimensions
        assert totals is not None
        self.even = (None, {})
        self.guaranteed = {}
        for name in totals.bottom_up():
            total = totals.totals[name]
            below = [self.guaranteed[child] for child in total.children]
            self.guaranteed[name] = [
                max(total.info.guarantee.get(row, 0), sum(amounts[row] for amounts in below))
                for row in range(dimensions)
            ]
        top = [self.guaranteed[name] for name in totals.top]
        self.promised = [sum(amounts[row] for amounts in top) for row in range(dimensions)]
        self.rows = frozenset(
            row
            for total in totals.totals.values()
            for row, amount in total.info.guarantee.items()
            if amount and row != PODS and row < dimensions
        )
        self.describing = tuple(name for name, total in totals.totals.items() if total.info.deserved)
        self.tree.make(totals, self.guaranteed, dimensions)

    def check(self) -> None:
        if self._totals is None:
            return
        self._totals.sync()
        self.sync()
        fresh = KeptShares()
        fresh.read(self._totals, self._dimensions)
        for name in ("guaranteed", "rows", "promised", "describing"):
            same(f"shares: {name}", getattr(self, name), getattr(fresh, name))


def kept_shares(state: ClusterState) -> KeptShares:
    return state.derived.get(KeptShares)
