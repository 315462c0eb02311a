"""Pods with an index, laid out along the topology: neighbours in rank are neighbours in the tree.

Ranks of a training job talk to their neighbours most: rings and pipelines run from rank to rank. Which nodes a gang
gets is the kernel's choice and stays as it is. Pods of one shape are interchangeable, so the choice says nothing about
which of them goes where. The kernel hands places out in order of score, to pods in order of name (`w-10` before `w-2`),
and neighbours end up in different racks for no reason. Here the places that a job got in this cycle are handed out
again: the same pods are bound, each node gets as many pods of each shape as before, and only who goes where changes. It
is done last, on the finished decisions, so that no rule, account, eviction or other job can notice.

A pod's place is a path: the domains of its node from the widest level down (the policy's `topology.levels`, or the
tiers of HyperNodes), and at the end the node itself. Nodes that lack a label count as one domain of its level. Two
places are as near as the common beginning of their paths is long. What counts are the changes of domain between
consecutive ranks, at each level; of two arrangements the better one has fewer at the widest level where they differ.

- Pods that start together, all of one shape: places in order of path. Each domain of each level is entered once; fewer
  changes are not possible.
- Some pods run already, or there are several shapes: the exact minimum by search where that is small (`MAX_SEARCH`),
  else the best of what the kernel chose, each shape's places in order (`_sorted`), and gaps filled from their ends with
  the nearest places (`_filled`). Which domains should fill which gap is a bin packing problem, hence the limit.

Some pods stay where the kernel has put them, and the others are arranged around them: pods with a reservation or a
nomination, which was made for that pod on that node, and pods with devices, which were chosen for that pod on that
node. Pods without an index do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairway.resources.columns import IntColumn
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.topology.domains import PLACED, Codes, network_levels
from fairway.state.jobs import NOWHERE, Job, Task, TaskState
from fairway.state.membership import PodRank

MAX_SEARCH = 1024
"""Remainders of the places, times distinct places: above this no search. Seven pods on seven nodes are 896."""

Path = tuple[int, ...]
"""By level, from the whole cluster (always 0) to the node, the number of the domain; numbers follow the order."""

Bindings = list[tuple[JobRun, list[Task], list[int]]]


def bindings_by_rank(session: Session) -> Bindings:
    """What the session has bound, with the places of each job's equal pods in order of their indexes."""
    bindings = session.decisions.bindings
    indexed = {job for job in session.decisions.bound_jobs() if job.hints and _has_index(job)}
    if not indexed:
        return bindings
    steps: dict[Job, list[int]] = {}
    for number, (run, _, _) in enumerate(bindings):
        if run.job in indexed:
            steps.setdefault(run.job, []).append(number)
    found = list(bindings)
    for job, numbers in steps.items():
        tasks = [task for number in numbers for task in bindings[number][1]]
        rows = [row for number in numbers for row in bindings[number][2]]
        arranged, end = _laid_out(session, job, tasks, rows), 0
        for number in numbers:
            run, placed, _ = bindings[number]
            begin, end = end, end + len(placed)
            found[number] = run, placed, arranged[begin:end]
    return found


def _has_index(job: Job) -> bool:
    return any(hints.indexed for hints in job.hints)


# -- one job ---------------------------------------------------------------------------------------------------------


def _laid_out(session: Session, job: Job, tasks: list[Task], rows: list[int]) -> list[int]:
    """The rows of a job's pods that were bound in this cycle, once equal ones have exchanged their places."""
    if len(set(rows)) == 1:
        return rows
    if len(job.tasks) == len(tasks) and _are_equal(session, tasks):
        order = _rank_order([task.rank for task in tasks if task.rank is not None])
        arranged = np.empty(len(rows), dtype=np.int64)
        arranged[order] = _Places(session, job, rows).sorted_rows(rows)
        return arranged.tolist()
    return _arranged(session, job, tasks, rows)


def _are_equal(session: Session, tasks: list[Task]) -> bool:
    """Whether all may exchange their places, as in most gangs: then no pod is looked at more closely."""
    shape, traits, priority = tasks[0].shape, tasks[0].traits, tasks[0].priority
    pending = TaskState.PENDING
    for task in tasks:
        if (
            task.shape is not shape
            or task.rank is None
            or task.traits is not traits
            or task.priority != priority
            or task.state is not pending
            or task.record
        ):
            return False
    return not session.nodes.devices.uses_devices(shape)


def _rank_order(ranks: list[PodRank]) -> IntColumn:
    """Positions in order of rank."""
    numbers = np.array([rank[1] for rank in ranks], dtype=np.int64)
    order = numbers.argsort()
    in_order = numbers[order]
    if len({rank[0] for rank in ranks}) == 1 and (in_order[1:] != in_order[:-1]).all():
        return order
    return np.array(sorted(range(len(ranks)), key=ranks.__getitem__), dtype=np.int64)


class _RankedPlace(NamedTuple):
    """A rank and its place; `at` is its position among the pods bound in this cycle, -1 for one that runs."""

    rank: PodRank
    at: int
    row: int
    pool: int


FIXED = -1
"""The pool of pods that stay where they are."""


def _arranged(session: Session, job: Job, tasks: list[Task], rows: list[int]) -> list[int]:
    """The same if some pods keep their places: running pods, and pods that no other pod equals."""
    pools = _pools(session, tasks)
    slots = [_RankedPlace(task.rank, at, rows[at], pools[at]) for at, task in enumerate(tasks) if task.rank is not None]
    distinct = {(slot.pool, slot.row) for slot in slots if slot.pool != FIXED}
    if len({pool for pool, _ in distinct}) == len(distinct):
        return rows  # no two places to exchange
    slots += [
        _RankedPlace(task.rank, -1, task.node, FIXED)
        for task in job.tasks
        if task.rank is not None and task.state in PLACED and task.node != NOWHERE
    ]
    slots = _beside_free(sorted(slots))
    places = _Places(session, job, [slot.row for slot in slots])
    paths = places.paths()
    found = arrange([paths[slot.row] for slot in slots], [slot.pool for slot in slots])
    arranged, in_order = list(rows), places.rows
    for slot, path in zip(slots, found, strict=True):
        if slot.pool != FIXED:
            arranged[slot.at] = in_order[path[-1]]
    return arranged


def _beside_free(slots: list[_RankedPlace]) -> list[_RankedPlace]:
    """Without those between fixed ones: whatever is chosen, they are where they are. A large gang in which a few pods
    restart costs little more than these.
    """
    free = [False, *(slot.pool != FIXED for slot in slots), False]
    return [slot for i, slot in enumerate(slots) if free[i] or free[i + 1] or free[i + 2]]


def _pools(session: Session, tasks: list[Task]) -> list[int]:
    """The pool of each task. Tasks of one pool may exchange places."""
    uses_devices = session.nodes.devices.uses_devices
    numbers: dict[object, int] = {}
    return [
        FIXED
        if task.state is not TaskState.PENDING or task.record or uses_devices(task.shape)
        else numbers.setdefault((task.shape, task.traits, task.priority), len(numbers))
        for task in tasks
    ]


class _Places:
    """The nodes that a job uses, in order of their paths."""

    def __init__(self, session: Session, job: Job, rows: list[int]) -> None:
        snapshot = session.nodes.snapshot
        used = np.zeros(snapshot.size, dtype=np.bool_)
        used[rows] = True
        distinct = np.flatnonzero(used)
        columns = [*_level_columns(session, job, distinct), snapshot.rank[distinct].astype(np.int64)]
        order = np.lexsort(columns[::-1])
        self._columns, self._order = columns, order
        self._in_order = distinct[order]
        self._position = np.zeros(snapshot.size, dtype=np.int64)
        self._position[self._in_order] = np.arange(len(order))

    @property
    def rows(self) -> list[int]:
        rows: list[int] = self._in_order.tolist()
        return rows

    def sorted_rows(self, rows: list[int]) -> IntColumn:
        """Rows, with repetitions, in order of their paths."""
        positions = self._position[rows]
        positions.sort()
        return self._in_order[positions]

    def paths(self) -> dict[int, Path]:
        table = np.stack(self._columns)[:, self._order]
        numbers = np.zeros((len(table) + 1, len(self._order)), dtype=np.int64)
        # A domain is a path: where a wider one changes, a narrower one of the same name is another.
        changed = np.logical_or.accumulate(table[:, 1:] != table[:, :-1], axis=0)
        numbers[1:, 1:] = np.cumsum(changed, axis=1)
        return dict(zip(self.rows, map(tuple, numbers.T.tolist()), strict=True))


def _level_columns(session: Session, job: Job, rows: IntColumn) -> list[IntColumn]:
    """By level, the widest first, a number for the domain of each row; numbers are in order of names, for codes depend
    on the order in which nodes came.
    """
    state, size = session.state, session.nodes.snapshot.size
    listed, requested = session.policy.topology_levels, () if job.topology is None else job.topology.keys
    if state.hyper_nodes and not requested:
        tiers = reversed(network_levels(state, size, listed, 0))
        return [_in_order(level.codes[rows], level.names) for level in tiers]
    labels = state.nodes.labels
    keys = [key for key in dict.fromkeys((*listed, *requested)) if labels.has(key)]
    return [_in_order(labels.column(key, size)[rows], labels.values(key)) for key in keys]


def _in_order(codes: Codes, domains: list[str]) -> IntColumn:
    used = np.zeros(len(domains) + 1, dtype=np.bool_)
    used[codes] = True
    found = np.flatnonzero(used).tolist()
    found.sort(key=lambda code: domains[code - 1] if code else "")
    numbers = np.zeros(len(used), dtype=np.int64)
    numbers[found] = np.arange(len(found))
    return numbers[codes]


# -- paths only ------------------------------------------------------------------------------------------------------


def arrange(own: Sequence[Path], pools: Sequence[int]) -> Sequence[Path]:
    """Places by rank, with few changes of domain. Tasks exchange places within their pool; the pool `FIXED` stays put.

    `own` is what each rank has at first.
    """
    if pools.count(pools[0]) == len(pools):
        return own if pools[0] == FIXED else sorted(own)
    best = min(own, _sorted(own, pools), _filled(own, pools), key=changes)
    if changes(best) == _least_changes(own) or _search_size(own, pools) > MAX_SEARCH:
        return best
    return min(best, _searched(own, pools), key=changes)


def changes(places: Sequence[Path]) -> tuple[int, ...]:
    """By level, the widest first, how often consecutive ranks change domain."""
    table = np.array(places)
    return tuple((table[1:] != table[:-1]).sum(axis=0).tolist())


def _least_changes(places: Sequence[Path]) -> tuple[int, ...]:
    """A lower bound: each domain has to be entered."""
    return tuple(len(set(level)) - 1 for level in zip(*places, strict=True))


def _sorted(own: Sequence[Path], pools: Sequence[int]) -> list[Path]:
    """The places of each pool in order, whatever is between them: best where pools take turns in rank."""
    stock = {pool: iter(sorted(path for path, its in zip(own, pools, strict=True) if its == pool)) for pool in {*pools}}
    return [path if pool == FIXED else next(stock[pool]) for path, pool in zip(own, pools, strict=True)]


class _Stock:
    """Places that are still to be handed out, by pool and domain, each pile in order of path."""

    def __init__(self, own: Sequence[Path], pools: Sequence[int]) -> None:
        self._taken = [False] * len(own)
        self._own = own
        self._piles: dict[tuple[int, int, int], list[int]] = {}
        for i in sorted(range(len(own)), key=own.__getitem__, reverse=True):
            if pools[i] != FIXED:
                for level, number in enumerate(own[i]):
                    self._piles.setdefault((pools[i], level, number), []).append(i)

    def take(self, pool: int, level: int, near: Path) -> Path | None:
        """The first place in the domain of another one; None if there is none."""
        pile = self._piles.get((pool, level, near[level]))
        while pile:
            i = pile.pop()
            if not self._taken[i]:
                self._taken[i] = True
                return self._own[i]
        return None


def _filled(own: Sequence[Path], pools: Sequence[int]) -> list[Path]:
    """Gaps between fixed ranks, filled from both ends with what is nearest; then from rank to rank.

    The narrowest level goes first, over all gaps: no gap takes a place that would continue another one better.
    """
    stock, ranks, levels = _Stock(own, pools), range(len(own)), range(len(own[0]) - 1, 0, -1)
    found: list[Path | None] = [None if pool != FIXED else path for path, pool in zip(own, pools, strict=True)]
    for level in levels if FIXED in pools else ():
        for step, order in ((-1, ranks[1:]), (1, ranks[-2::-1])):
            for i in order:
                near = found[i + step]
                if found[i] is None and near is not None:
                    found[i] = stock.take(pools[i], level, near)
    last: Path = (0,) * len(own[0])
    whole: list[Path] = []
    for path, pool in zip(found, pools, strict=True):
        if path is None:
            nearest = (stock.take(pool, level, last) for level in (*levels, 0))
            path = next(place for place in nearest if place is not None)
        last = path
        whole.append(path)
    return whole


def _search_size(own: Sequence[Path], pools: Sequence[int]) -> int:
    """How many remainders of the places there are, times the distinct places."""
    counts = _counts(own, pools)
    size = len(counts)
    for count in counts.values():
        size *= count + 1
        if size > MAX_SEARCH:
            break
    return size


def _counts(own: Sequence[Path], pools: Sequence[int]) -> dict[tuple[int, Path], int]:
    """How many places there are to hand out, by pool and path."""
    counts: dict[tuple[int, Path], int] = {}
    for path, pool in zip(own, pools, strict=True):
        if pool != FIXED:
            counts[pool, path] = counts.get((pool, path), 0) + 1
    return counts


_Trail = tuple["_Trail | None", Path]
"""The places handed out so far, last first."""


def _searched(own: Sequence[Path], pools: Sequence[int]) -> list[Path]:
    """The exact minimum, rank by rank: for each remainder of the places and last place, the cheapest way there."""
    counts = _counts(own, pools)
    kinds = sorted(counts)
    costs = _costs(len(own), len(own[0]))
    ways: dict[tuple[tuple[int, ...], Path | None], tuple[int, _Trail | None]]
    ways = {(tuple(counts[kind] for kind in kinds), None): (0, None)}
    for i, pool in enumerate(pools):
        before = own[i - 1] if i and pools[i - 1] == FIXED else None
        if pool == FIXED and (before is not None or not i):
            continue  # between two that stay nothing can be chosen
        further: dict[tuple[tuple[int, ...], Path | None], tuple[int, _Trail | None]] = {}
        for (left, last), (cost, trail) in ways.items():
            previous = before or last
            if pool == FIXED:
                more = 0 if previous is None else costs[_common(previous, own[i])]
                _keep(further, (left, None), cost + more, trail)
                continue
            for k, (owner, path) in enumerate(kinds):
                if owner == pool and left[k]:
                    more = 0 if previous is None else costs[_common(previous, path)]
                    rest = (*left[:k], left[k] - 1, *left[k + 1 :])
                    _keep(further, (rest, path), cost + more, (trail, path))
        ways = further
    trail = min(ways.values(), key=lambda way: way[0])[1]
    handed: list[Path] = []
    while trail is not None:
        trail, path = trail
        handed.append(path)
    return [path if pool == FIXED else handed.pop() for path, pool in zip(own, pools, strict=True)]


def _keep(
    ways: dict[tuple[tuple[int, ...], Path | None], tuple[int, _Trail | None]],
    key: tuple[tuple[int, ...], Path | None],
    cost: int,
    trail: _Trail | None,
) -> None:
    known = ways.get(key)
    if known is None or cost < known[0]:
        ways[key] = cost, trail


def _costs(ranks: int, levels: int) -> list[int]:
    """What a step costs, by how many levels the two paths have in common: one change at a level outweighs all that can
    happen at the narrower ones.
    """
    weights = [ranks ** (levels - 1 - level) for level in range(levels)]
    return [sum(weights[common:]) for common in range(levels + 1)]


def _common(one: Path, other: Path) -> int:
    for level, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b:
            return level
    return len(one)
