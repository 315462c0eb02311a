"""Levels: ways to divide the nodes into domains, by labels or by HyperNodes of a tier.

In which domains a job's next step may go, best first.

Free capacity by domain is counted with array code, for one shape at a time. It decides which domains are tried and in
which order; whether a gang really fits is found out by placing it. Tightest first: a domain that just takes the gang
leaves the larger ones whole.

Placing the next step of a job that asks for a topology: domain after domain, until one way works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.api.pods import matches
from fairway.api.scheduling import HyperNode, HyperNodeMember
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.framework.candidates import feasibility_is_monotone
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.placement.kernel import INFEASIBLE, PLAIN, Placing
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, same
from fairway.state.jobs import NOWHERE, RESERVATION_STATES, TaskState
from fairway.state.labels import ABSENT
from fairway.state.shapes import Shape
from fairway.state.tables import PODS
from fairway.state.topology import TopologyRequest

Codes = NDArray[np.int32]
_PART_BITS = 30
"""Idle capacity is compared in parts of 2**-30 of the cluster."""


class Level(NamedTuple):
    """By node row the code of its domain, `ABSENT` where it is in none; `names` of domains by code - 1."""

    name: str
    codes: Codes
    names: list[str]


def levels_of(state: ClusterState, size: int, listed: tuple[str, ...], request: TopologyRequest) -> list[Level]:
    """The levels at which a request may be met by one domain, the narrowest first. `listed`: the policy's labels."""
    if not request.keys:
        return network_levels(state, size, listed, highest_tier(state, request))
    if request.hard or len(request.keys) > 1:
        return [_combined(state, size, request.keys, listed)]
    key = request.keys[0]
    wider = listed[: listed.index(key)] if key in listed else ()
    return [_combined(state, size, (name,), listed) for name in (key, *reversed(wider))]


def highest_tier(state: ClusterState, request: TopologyRequest) -> int:
    """The tier up to which domains count, 0 for any; the name of one wins over its number."""
    named = state.hyper_nodes.tier_named(request.tier_name) if request.tier_name else None
    return request.tier if named is None else named


def network_levels(state: ClusterState, size: int, listed: tuple[str, ...], highest: int) -> list[Level]:
    """Tiers of HyperNodes; where there are none, the policy's labels are the tiers, the narrowest being the first."""
    if state.hyper_nodes:
        tiers = state.derived.get(HyperLevels).over(size)
        return [level for tier, level in tiers if not highest or tier <= highest]
    labels = [_combined(state, size, (key,), listed) for key in reversed(listed)]
    return labels[:highest] if highest else labels


def _combined(state: ClusterState, size: int, keys: tuple[str, ...], listed: tuple[str, ...]) -> Level:
    """Domains by the values of all these labels together, and of those that the policy lists above them: rack r1 of
    block b1 is not rack r1 of block b2. A node without a label above is in a domain of those that lack it, too.
    """
    labels = state.nodes.labels
    if not all(labels.has(key) for key in keys):
        return Level(" and ".join(keys), np.zeros(size, dtype=np.int32), [])
    lowest = max((listed.index(key) for key in keys if key in listed), default=0)
    above = [key for key in listed[:lowest] if key not in keys and labels.has(key)]
    path = (*above, *keys)
    columns = [labels.column(key, size) for key in path]
    if len(path) == 1:
        return Level(keys[0], columns[0], labels.values(keys[0]))
    stacked = np.stack(columns, axis=1)
    found, inverse = np.unique(stacked, axis=0, return_inverse=True)
    whole = (stacked[:, len(above) :] != ABSENT).all(axis=1)
    codes = np.where(whole, inverse.reshape(-1) + 1, ABSENT).astype(np.int32)
    values = [labels.values(key) for key in path]
    names = ["/".join(values[i][code - 1] if code else "" for i, code in enumerate(row)) for row in found.tolist()]
    return Level(" and ".join(keys), codes, names)


class HyperLevels(
    DerivedValue,
    name="hyper-levels",
    holds="domains of HyperNodes by tier, and the nodes in each",
    inputs=("HyperNodes", "nodes"),
    saves="matching the members of every HyperNode with every node",
):
    """By tier, the lowest first; kept until HyperNodes or nodes change."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.nodes.reshaped)
        self._state = state
        self._size = 0
        self._levels: list[tuple[int, Level]] = []

    @classmethod
    def make(cls, state: ClusterState) -> HyperLevels:
        return cls(state)

    def generations(self) -> Generations:
        return self._state.hyper_nodes.generation, self._size

    def rebuild(self) -> None:
        self._levels = _resolve(self._state, self._size)

    def over(self, size: int) -> list[tuple[int, Level]]:
        """The tiers, with so many rows of nodes."""
        self._size = size
        self.sync()
        return self._levels

    def check(self) -> None:
        self.sync()
        kept, again = (
            [(tier, level.codes.tolist(), level.names) for tier, level in levels]
            for levels in (self._levels, _resolve(self._state, self._size))
        )
        same("domains of HyperNodes", kept, again)


def _resolve(state: ClusterState, size: int) -> list[tuple[int, Level]]:
    things = state.hyper_nodes.by_name()
    by_tier: dict[int, list[str]] = {}
    for name, thing in things.items():
        by_tier.setdefault(thing.spec.tier, []).append(name)
    known: dict[str, set[int]] = {}
    levels = []
    for tier, names in sorted(by_tier.items()):
        codes = np.zeros(size, dtype=np.int32)
        for code, name in enumerate(names, 1):
            rows = [row for row in _rows_of(name, things, state, known, ()) if codes[row] == ABSENT]
            codes[rows] = code
        levels.append((tier, Level(f"HyperNodes of tier {tier}", codes, names)))
    return levels


def _rows_of(
    name: str, things: dict[str, HyperNode], state: ClusterState, known: dict[str, set[int]], above: tuple[str, ...]
) -> set[int]:
    """The rows of all nodes in a HyperNode; a circle of members ends where it closes."""
    if name in known:
        return known[name]
    rows: set[int] = set()
    for member in things[name].spec.members:
        if member.type == "Node":
            rows |= {row for row in state.nodes.rows.values() if _is_member(member, row, state)}
            continue
        for inner in things:
            if inner != name and inner not in above and _matches(member, inner):
                rows |= _rows_of(inner, things, state, known, (*above, name))
    if not above:
        known[name] = rows
    return rows


def _is_member(member: HyperNodeMember, row: int, state: ClusterState) -> bool:
    labels = member.selector.label_match
    if labels is not None:
        return matches(labels, state.nodes.labels.at(row))
    return _matches(member, state.nodes.names[row])


def _matches(member: HyperNodeMember, name: str) -> bool:
    selector = member.selector
    if selector.exact_match is not None:
        return selector.exact_match.name == name
    return selector.regex_match is not None and re.search(selector.regex_match.pattern, name) is not None


def domains_text(domains: Domains, found: list[Domain], needed: int, most: int) -> str:
    """`no domain of topology.kubernetes.io/rack can take 8 pods at once: the largest takes 6`."""
    level = " or ".join(level.name for level in domains.levels)
    if not domains.levels:
        return "there are no HyperNodes of an allowed tier, and the policy lists no topology.levels"
    if not found:
        return f"no node is in a domain of {level}"
    if found[0].members:
        names = " and ".join(sorted({domain.name for domain in found}))
        pods = "1 more pod" if needed == 1 else f"{needed} more pods"
        return f"its other pods are in {names} of {level}, which can take {most} of the {pods} it needs"
    pods = "1 pod" if needed == 1 else f"{needed} pods at once"
    return f"no domain of {level} can take {pods}: the largest takes {most}"


PLACED = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})
"""States of pods that fix where the rest of their job goes."""


class Domain(NamedTuple):
    """A domain to try: how many pods of the job are there, and for how many more there is free capacity."""

    members: int
    free: int
    idle: int
    """The free capacity of nodes that can take a pod of the job. `free` is capped by what the job needs: among domains
    that are all large enough, only this tells which is the fullest.
    """
    name: str
    code: int
    level: Level

    @property
    def mask(self) -> BoolColumn:
        found: BoolColumn = self.level.codes == self.code
        return found


class Domains:
    """The domains of one job in a session, as free capacity is now."""

    def __init__(self, session: Session, job: JobRun, placing: Placing = PLAIN, *, claims: bool = False) -> None:
        """With `claims`, nodes that it waits on count as where it is: more claims go to the same domain."""
        assert job.job.topology is not None
        self._session = session
        self._job = job
        self._placing = placing
        self.request = job.job.topology
        size = session.nodes.snapshot.size
        self.levels = levels_of(session.state, size, session.policy.topology_levels, self.request)
        self.members = self._members(RESERVATION_STATES if claims else frozenset({TaskState.ALLOCATED}))
        self.needed = max(1, job.minimum - job.ready)
        shapes = dict.fromkeys(run.shape for run in job.runs if run.left)
        self._shapes = list(shapes)
        self._fit_counts: dict[Shape, IntColumn] = {}
        self._idle_parts: IntColumn | None = None

    def _members(self, held: frozenset[TaskState]) -> IntColumn:
        """The rows of its pods that have their places, those of this cycle too."""
        session, job = self._session, self._job
        rows = [task.node for task in job.job.tasks if task.state in PLACED and task not in session.decisions.evicted]
        rows += [reservation.row for reservation in session.reservations.of(job) if reservation.state in held]
        rows += session.decisions.rows_bound(job.job)
        return np.array([row for row in rows if row != NOWHERE], dtype=np.int64)

    def whole(self) -> Iterator[Domain]:
        """Domains that may take all that the job still needs at once; those where it already is, if it is somewhere."""
        for level in self.levels:
            found = self._in_level(level)
            most = max((domain.members for domain in found), default=0)
            least = self._least()
            fitting = [d for d in found if d.members == most and self._may_take(d, least)]
            yield from sorted(fitting, key=lambda d: (d.free, d.idle, d.name))

    def all(self) -> list[Domain]:
        """Every domain in which more of the job may go, whatever is free there, the emptiest first."""
        found = [domain for level in self.levels for domain in self._in_level(level)]
        most = max((domain.members for domain in found), default=0)
        return sorted((d for d in found if d.members == most), key=lambda d: (-d.free, d.level.name, d.name))

    def fewest(self) -> Iterator[list[BoolColumn]]:
        """Ways to place the job in few domains, each a list of masks to fill one after the other.

        One domain of the narrowest level that takes it whole; else, level by level upwards, one that does, filled by
        few of the narrower ones; else few of the widest.
        """
        for height, level in enumerate(self.levels):
            found = [d for d in self._in_level(level) if self._may_take(d, self._least())]
            for domain in sorted(found, key=lambda d: (-d.members, d.free, d.idle, d.name)):
                yield [*self._filled(domain.mask, height - 1, self.needed), domain.mask]
        if self.levels:
            everywhere = np.ones(self._session.nodes.snapshot.size, dtype=np.bool_)
            yield self._filled(everywhere, len(self.levels) - 1, self.needed)

    def used(self) -> Iterator[BoolColumn]:
        """Where the job already is, the narrowest level first."""
        for level in self.levels:
            codes = np.unique(level.codes[self.members])
            codes = codes[codes != ABSENT]
            if len(codes):
                yield np.isin(level.codes, codes)

    def largest(self) -> int:
        """How many of the pods that it needs one domain can take, by free capacity; exact for like pods."""
        return max((min(domain.free, self.needed) for domain in self.all()), default=0)

    def is_exact(self) -> bool:
        """Whether counting tells what fits: all that waits is alike, and does not mind where other pods are."""
        return len(self._shapes) == 1 and not self._session.nodes.kernel.looks_around(self._shapes[0])

    def _filled(self, within: BoolColumn, height: int, needed: int) -> list[BoolColumn]:
        """Domains of a level, in a part of the cluster, to fill one after the other: as few as can be."""
        if height < 0 or not self._shapes:
            return []
        level = self.levels[height]
        open_ = [domain for domain in self._in_level(level, within) if domain.free]
        masks: list[BoolColumn] = []
        while open_ and needed > 0:
            chosen = min(open_, key=partial(_filling_order, needed))
            open_.remove(chosen)
            taken = min(needed, chosen.free)
            mask = chosen.mask & within
            masks += [*self._filled(mask, height - 1, taken), mask]
            needed -= taken
        return masks

    def _in_level(self, level: Level, within: BoolColumn | None = None) -> list[Domain]:
        shape = self._shapes[0] if self._shapes else None
        rooms = self.fit_counts(shape) if shape is not None else np.zeros(len(level.codes), dtype=np.int64)
        if within is not None:
            rooms = np.where(within, rooms, 0)
        count = len(level.names) + 1
        total = np.bincount(level.codes, weights=rooms, minlength=count).astype(np.int64)
        idle = np.bincount(level.codes, weights=np.where(rooms > 0, self._idle(shape), 0), minlength=count)
        members = np.bincount(level.codes[self.members], minlength=count)
        inside = level.codes if within is None else level.codes[within]
        present = np.unique(inside[inside != ABSENT]).tolist()
        return [
            Domain(int(members[code]), int(total[code]), int(idle[code]), level.names[code - 1], code, level)
            for code in present
        ]

    def _idle(self, shape: Shape | None) -> IntColumn:
        """By node, what is idle of what a shape requests, as parts of the cluster's total added up."""
        known = self._idle_parts
        if known is None:
            nodes, total = self._session.nodes.snapshot, self._session.accounts.total
            known = self._idle_parts = np.zeros(nodes.size, dtype=np.int64)
            for dimension, _ in shape.vector if shape is not None else ():
                if dimension != PODS and total[dimension] > 0:
                    # the division comes first: memory in bytes, shifted, would not fit into an int64
                    known += np.maximum(nodes.idle[dimension], 0) // max(1, total[dimension] >> _PART_BITS)
        return known

    def fit_counts(self, shape: Shape) -> IntColumn:
        """By node, how many tasks of a shape fit now, at most as many as are needed."""
        known = self._fit_counts.get(shape)
        if known is None:
            known = self._fit_counts[shape] = self._count_fits(shape)
        return known

    def _count_fits(self, shape: Shape) -> IntColumn:
        kernel, idle = self._session.nodes.kernel, self._session.nodes.snapshot.idle
        rooms = np.full(self._session.nodes.snapshot.size, self.needed, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, idle[dimension] // amount, out=rooms)
        limits = kernel.limits(shape, self._placing)
        if limits is not None:
            np.minimum(rooms, limits, out=rooms)
        rooms[kernel.column(shape).keys >= INFEASIBLE] = 0
        return np.maximum(rooms, 0)

    def _least(self) -> list[tuple[Shape, int]]:
        """Of each shape, how many tasks must be among those that make up what is needed."""
        left = dict.fromkeys(self._shapes, 0)
        for run in self._job.runs:
            if run.left:
                left[run.shape] += run.left
        total = sum(left.values())
        return [
            (shape, self.needed - (total - count)) for shape, count in left.items() if feasibility_is_monotone(shape)
        ]

    def _may_take(self, domain: Domain, least: list[tuple[Shape, int]]) -> bool:
        return all(
            count <= 0
            or (domain.free if shape is self._shapes[0] else int(self.fit_counts(shape)[domain.mask].sum())) >= count
            for shape, count in least
        )


def _filling_order(needed: int, domain: Domain) -> tuple[int, bool, int, int, str]:
    """Where the job is already; then the tightest that takes all that is left, else the largest; then by name."""
    enough = domain.free >= needed
    return -domain.members, not enough, domain.free if enough else -domain.free, domain.idle, domain.name


Attempt = Callable[[Placing], Step]
"""Places what it can on the nodes that are open to it. What does not suffice stays on the statement."""


def begin_in_domains(session: Session, job: JobRun, statement: Statement, placing: Placing, begin: Attempt) -> Step:
    """The job's whole minimum in one domain (hard), or in few; NO_ROOM leaves the statement as it was."""
    domains = Domains(session, job, placing)
    mark = statement.checkpoint()
    ways = ([domain.mask] for domain in domains.whole()) if domains.request.hard else domains.fewest()
    for way in ways:
        for mask in way:
            step = begin(placing.within(mask))
            if step is not Step.NO_CAPACITY:
                return step
        statement.rollback(mark)
    return Step.NO_CAPACITY if domains.request.hard else begin(placing)


def grow_in_domains(session: Session, job: JobRun, placing: Placing, grow: Attempt) -> Step:
    """One more task: where the job is (hard), or there first and else anywhere."""
    domains = Domains(session, job, placing)
    masks = (domain.mask for domain in domains.whole()) if domains.request.hard else domains.used()
    for mask in masks:
        step = grow(placing.within(mask))
        if step is not Step.NO_CAPACITY:
            return step
    return Step.NO_CAPACITY if domains.request.hard else grow(placing)
