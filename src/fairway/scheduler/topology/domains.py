"""In which domains a job's next step may go, best first.

Free capacity by domain is counted with array code, for one shape at a time. It decides which domains are tried and in
which order; whether a gang really fits is found out by placing it. Tightest first: a domain that just takes the gang
leaves the larger ones whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.framework.candidates import feasibility_is_monotone
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.packed_keys import INFEASIBLE
from fairway.scheduler.topology.levels import Level, levels_of
from fairway.state.jobs import NOWHERE, RESERVATION_STATES, TaskState
from fairway.state.labels import ABSENT
from fairway.state.shapes import Shape


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
    name: str
    code: int
    level: Level

    @property
    def mask(self) -> BoolColumn:
        found: BoolColumn = self.level.codes == self.code
        return found


class Domains:
    """The domains of one job in a session, as free capacity is now."""

    def __init__(self, session: Session, job: JobRun, *, claims: bool = False) -> None:
        """With `claims`, nodes that it waits on count as where it is: more claims go to the same domain."""
        assert job.job.topology is not None
        self._session = session
        self._job = job
        self.request = job.job.topology
        size = session.nodes.snapshot.size
        self.levels = levels_of(session.state, size, session.policy.topology_levels, self.request)
        self.members = self._members(RESERVATION_STATES if claims else frozenset({TaskState.ALLOCATED}))
        self.needed = max(1, job.minimum - job.ready)
        shapes = dict.fromkeys(run.shape for run in job.runs if run.left)
        self._shapes = list(shapes)
        self._fit_counts: dict[Shape, IntColumn] = {}

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
            yield from sorted(fitting, key=lambda d: (d.free, d.name))

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
            for domain in sorted(found, key=lambda d: (-d.members, d.free, d.name)):
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
        members = np.bincount(level.codes[self.members], minlength=count)
        inside = level.codes if within is None else level.codes[within]
        present = np.unique(inside[inside != ABSENT]).tolist()
        return [Domain(int(members[code]), int(total[code]), level.names[code - 1], code, level) for code in present]

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
        limits = kernel.limits(shape)
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


def _filling_order(needed: int, domain: Domain) -> tuple[int, bool, int, str]:
    """Where the job is already; then the tightest that takes all that is left, else the largest; then by name."""
    enough = domain.free >= needed
    return -domain.members, not enough, domain.free if enough else -domain.free, domain.name
