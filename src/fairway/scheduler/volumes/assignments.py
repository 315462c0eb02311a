"""Volumes in a session: which pod gets which, written and taken back together with the capacity.

As in kube-scheduler, the claims of a pod are served by increasing size. Each gets the volume that is pre-bound to it,
else the smallest available one that matches and can be reached from the node, else it is left to the provisioner of its
class, if that may, and can, make a volume for the node. Unlike there, what is provisioned in a cycle is taken off the
capacity that the driver has published: pods of one cycle do not count on the same bytes.

A claim that several pods use is decided by the first of them; the others follow where that volume can be reached, or
to the node that was selected.

`fits` answers for many nodes at once and `_choose` for one; a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from fairway.errors import InvariantError
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.volumes.supply import Offer, OfferedVolume, StoragePool, VolumeSupply, volume_supply
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy
from fairway.state.volumes import UnboundClaim

NO_LIMIT = 1 << 40
_NOTHING: Collection[str] = ()


class ChosenVolume(NamedTuple):
    """What a claim gets: a volume that is there, or one that is provisioned for the node."""

    request: UnboundClaim
    volume: str = ""
    pool: StoragePool | None = None
    """Where a provisioned one is taken from, if the driver says what it has."""
    follows: bool = False
    """Another pod has decided: there is nothing to take."""


class GivenVolumes(NamedTuple):
    row: int
    choices: tuple[ChosenVolume, ...] | None
    """None only in a trial of what would be if others were gone."""


class _Decision:
    """What the first pod with a shared claim has decided, and how many pods rest on it."""

    def __init__(self, choice: ChosenVolume, row: int) -> None:
        self.choice = choice
        self.row = row
        self.pods = 0


class VolumeAssignments:
    """The volumes assumed in one session, with an undo entry for each."""

    def __init__(self, state: ClusterState, snapshot: WorkingCopy, pods: PodCounts) -> None:
        self._state = state
        self._snapshot = snapshot
        self._pods = pods
        kept = volume_supply(state, snapshot)
        self._supply_basis: object = None if kept is None else kept.basis
        self._constant: dict[Shape, tuple[ChosenVolume, ...] | None] = {}
        self._idle: dict[Shape, bool] = {}
        self._groups: dict[Shape, list[list[UnboundClaim]]] = {}
        self._given: dict[Task, list[GivenVolumes]] = {}
        self._taken: set[str] = set()
        self._counts: dict[UnboundClaim, IntColumn] = {}
        """Offers of which something was taken in this session."""
        self._drawn: dict[StoragePool, int] = {}
        """By pool: bytes that are to be provisioned from it."""
        self._provisionable_columns: dict[UnboundClaim, IntColumn] = {}
        self._decisions: dict[str, _Decision] = {}

    @property
    def basis(self) -> object:
        """What kept columns of shapes with volumes rest on."""
        return self._supply_basis, self._state.volume_use.generation

    @cached_property
    def supply(self) -> VolumeSupply:
        """Made when the first pod has an unbound claim."""
        supply = self._state.derived.get(VolumeSupply)
        supply.bring_up_to_date(self._snapshot)
        return supply

    # -- questions ------------------------------------------------------------------------------------------------

    def fits(self, shape: Shape, nodes: NodeView) -> tuple[BoolColumn, BoolColumn]:
        """On which of these nodes every unbound claim has a volume or a provisioner, and on which there is storage for
        what would have to be provisioned.
        """
        found: BoolColumn = np.ones(nodes.size, dtype=np.bool_)
        has_space: BoolColumn = np.ones(nodes.size, dtype=np.bool_)
        for group in self._groups_of(shape):
            if len(set(group)) == 1:
                self._fit_alike(group, nodes, found, has_space)
            else:
                self._fit_each(group, nodes.all_rows(), found, has_space)
        return found, has_space

    def limit(self, shape: Shape, nodes: NodeView) -> IntColumn | None:
        """How many like pods each node has volumes for; None if that is no limit anywhere. Exact for shapes that do not
        look around.
        """
        found: IntColumn | None = None
        for group in self._groups_of(shape):
            offer = self.supply.offer(group[0])
            if offer.is_unlimited:
                continue
            part: IntColumn = nodes.counts(self._available(offer))
            if offer.pools is not None and offer.provisions is not None:
                more = nodes.counts(self._provisionable(offer))
                # Without volumes a node for which nothing may be provisioned is not feasible, whatever its limit.
                part = part + np.where(nodes.picked(offer.provisions), more, 0) if offer.rows else more
            elif offer.provisions is not None:
                part = np.where(nodes.picked(offer.provisions), NO_LIMIT, part)
            if len(group) > 1:
                part = part // len(group)
            found = part if found is None else np.minimum(found, part)
        return found

    def looks_around(self, shape: Shape) -> bool:
        """Whether placing one pod of a shape may change other nodes for its like, or this node in an odd way."""
        for group in self._groups_of(shape):
            if len(set(group)) > 1 or any(request.shared or request.volume or request.node for request in group):
                return True
            offer = self.supply.offer(group[0])
            if offer.wide or offer.shares_pools:
                return True
        return False

    def of(self, task: Task) -> tuple[ChosenVolume, ...]:
        """What a task that is bound in this session gets, in the order of its shape's requests."""
        if not task.shape.volumes.unbound:
            return ()
        always = self._always(task.shape)
        if always is not None:
            return always
        given = self._given.get(task)
        if not given or given[-1].choices is None:
            raise InvariantError(f"{task.key} is bound to a node that has no volumes for it")
        return given[-1].choices

    # -- giving and taking back -----------------------------------------------------------------------------------

    def write(self, shape: Shape, tasks: Sequence[Task], rows: Sequence[int], sign: int) -> None:
        """Give tasks their volumes (sign 1), or take them back."""
        if self._always(shape) is not None:
            return
        pairs = list(zip(tasks, rows, strict=True))
        if sign < 0:
            for task, _ in reversed(pairs):
                self._take_back(task)
            return
        for task, row in pairs:
            choices = self._choose(shape.volumes.unbound, row)
            self._given.setdefault(task, []).append(GivenVolumes(row, choices))
            for choice in choices or ():
                self._count(choice, row, 1)

    def _always(self, shape: Shape) -> tuple[ChosenVolume, ...] | None:
        """What every pod of a shape gets where there is nothing to take: no volume is available, and the provisioners
        of its classes do not say what they have left. That is what most clouds have, so it must cost nothing.
        """
        if shape not in self._constant:
            requests = shape.volumes.unbound
            is_constant = all(
                self.supply.offer(request).is_unlimited and not (request.node or request.volume or request.shared)
                for request in requests
            )
            self._constant[shape] = tuple(ChosenVolume(request) for request in requests) if is_constant else None
        return self._constant[shape]

    def is_idle(self, shape: Shape) -> bool:
        """Whether volumes have no say in where a shape goes: nothing is to be taken of any node, and none is excluded.
        Asked for every pod that is placed, answered once.
        """
        idle = self._idle.get(shape)
        if idle is None:
            volumes = shape.volumes
            idle = not (volumes.exclusive or volumes.disks)
            drivers = [driver for driver, _ in volumes.attached] + [driver for _, driver in volumes.shared]
            idle = idle and not any(self._pods.has_limit(driver) for driver in drivers)
            if idle and volumes.unbound:
                idle = self._always(shape) is not None and all(map(self._provisions_anywhere, volumes.unbound))
            self._idle[shape] = idle
        return idle

    def _provisions_anywhere(self, request: UnboundClaim) -> bool:
        provisions = self.supply.offer(request).provisions
        return provisions is not None and bool((provisions >= self._snapshot.alive).all())

    def _groups_of(self, shape: Shape) -> list[list[UnboundClaim]]:
        groups = self._groups.get(shape)
        if groups is None:
            groups = self._groups[shape] = _by_class(shape.volumes.unbound)
        return groups

    def _take_back(self, task: Task) -> None:
        given = self._given.get(task)
        if not given:
            return  # it was on its node before this session: its claims have what they have
        row, choices = given.pop()
        for choice in reversed(choices or ()):
            self._count(choice, row, -1)

    def _count(self, choice: ChosenVolume, row: int, by: int) -> None:
        request = choice.request
        if request.shared and not self._decide(choice, row, by):
            return
        if choice.pool is not None:
            self._draw(choice.pool, by * request.size)
        if not choice.volume or choice.volume == request.volume:
            return  # what is pre-bound to a claim is nobody else's
        if by > 0:
            self._taken.add(choice.volume)
        else:
            self._taken.discard(choice.volume)
        for offer in self.supply.offers():
            reached = offer.rows.get(choice.volume)
            if reached is not None:
                self._available(offer, writes=True)[reached] -= by
                if len(reached) > 1:
                    self._pods.changes += 1

    def _draw(self, pool: StoragePool, size: int) -> None:
        """Bytes are to be provisioned from a pool."""
        before = self._left(pool)
        self._drawn[pool] = self._drawn.get(pool, 0) + size
        if before is None:
            return
        for request, column in self._provisionable_columns.items():
            if request.storage_class == pool.storage_class and request.size <= pool.largest:
                column[pool.rows] += max(0, before - size) // request.size - max(0, before) // request.size
        if len(pool.rows) > 1:
            self._pods.changes += 1

    def _decide(self, choice: ChosenVolume, row: int, by: int) -> bool:
        """Count a pod with a shared claim; whether what the claim gets is to be taken, or given back, because of it."""
        self._pods.changes += 1
        claim = choice.request.shared
        decision = self._decisions.setdefault(claim, _Decision(choice, row))
        decision.pods += by
        if not decision.pods:
            del self._decisions[claim]
        return decision.pods == (1 if by > 0 else 0)

    # -- one node -------------------------------------------------------------------------------------------------

    def _choose(self, requests: Sequence[UnboundClaim], row: int) -> tuple[ChosenVolume, ...] | None:
        """What each claim of a pod gets on a row; None if one gets nothing."""
        if len(requests) == 1:
            choice = self._there(requests[0], row, _NOTHING) or self._provisioned(requests[0], row, {})[0]
            return None if choice is None else (choice,)
        found: list[ChosenVolume] = []
        to_provision: list[UnboundClaim] = []
        chosen: set[str] = set()
        for request in requests:
            choice = self._there(request, row, chosen)
            if choice is not None:
                found.append(choice)
                chosen.add(choice.volume)
            else:
                to_provision.append(request)
        drawn: dict[StoragePool, int] = {}
        for request in to_provision:
            choice, _ = self._provisioned(request, row, drawn)
            if choice is None:
                return None
            found.append(choice)
        return tuple(_in_order(requests, found))

    def _there(self, request: UnboundClaim, row: int, chosen: Collection[str]) -> ChosenVolume | None:
        """A volume that is there, or what was decided for a shared claim already."""
        decision = self._decisions.get(request.shared) if request.shared else None
        if decision is not None:
            follows = decision.choice._replace(follows=True)
            return follows if self._reaches(decision, row) else None
        if request.node:
            return None
        if request.volume:
            return ChosenVolume(request, request.volume) if row in self._rows_of(request.volume) else None
        offer, taken = self.supply.offer(request), self._taken
        best: OfferedVolume | None = None
        for one in offer.narrow.get(row, ()):
            if one[1] not in taken and one[1] not in chosen:
                best = one
                break
        for one in offer.wide:
            if one[1] not in taken and one[1] not in chosen and row in offer.rows[one[1]]:
                best = one if best is None else min(best, one)
                break
        return None if best is None else ChosenVolume(request, best[1])

    def _provisioned(
        self, request: UnboundClaim, row: int, drawn: dict[StoragePool, int]
    ) -> tuple[ChosenVolume | None, bool]:
        """A volume that is provisioned for the node, if it can be; and whether only storage is short."""
        if request.shared in self._decisions:
            return None, False  # decided otherwise
        offer = self.supply.offer(request)
        is_selected = not request.node or self._state.nodes.rows.get(request.node) == row
        if offer.provisions is None or not offer.provisions[row] or not is_selected:
            return None, False
        if offer.pools is None:
            return ChosenVolume(request), False
        for pool in offer.pools_at(row):
            if self._has_left(pool, request, drawn.get(pool, 0)):
                drawn[pool] = drawn.get(pool, 0) + request.size
                return ChosenVolume(request, pool=None if request.node else pool), False
        return None, True

    def _has_left(self, pool: StoragePool, request: UnboundClaim, drawn: int) -> bool:
        if pool.total is None:
            return True
        if request.node:
            return pool.total >= request.size  # it is among what is being provisioned, and counted there
        left = self._left(pool)
        return left is None or left - drawn >= request.size

    def _left(self, pool: StoragePool) -> int | None:
        """What is left in a pool; None if that is not known."""
        if pool.total is None:
            return None
        return pool.total - self._drawn.get(pool, 0) - self._in_progress.get(pool, 0)

    @cached_property
    def _in_progress(self) -> dict[StoragePool, int]:
        """By pool: bytes that provisioners were asked for and have not delivered. What they have delivered, drivers
        take off what they publish.
        """
        found: dict[StoragePool, int] = {}
        rows = self._state.nodes.rows
        for class_name, size, node in self._state.volumes.provisioning.values():
            row = rows.get(node, -1)
            for pool in self.supply.pools(class_name) if size else ():
                if row in pool.rows and pool.largest >= size:
                    found[pool] = found.get(pool, 0) + size
                    break
        return found

    def _reaches(self, decision: _Decision, row: int) -> bool:
        choice = decision.choice
        return row in self._rows_of(choice.volume) if choice.volume else row == decision.row

    def _rows_of(self, name: str) -> IntColumn:
        volume = self._state.volumes.volume(name)
        assert volume is not None
        return self.supply.rows_of(volume)

    # -- many nodes -----------------------------------------------------------------------------------------------

    def _fit_alike(
        self, group: Sequence[UnboundClaim], nodes: NodeView, found: BoolColumn, has_space: BoolColumn
    ) -> None:
        request, needed = group[0], len(group)
        decision = self._decisions.get(request.shared) if request.shared else None
        if decision is not None:
            choice, rows = decision.choice, nodes.all_rows()
            found &= np.isin(rows, self._rows_of(choice.volume)) if choice.volume else rows == decision.row
            return
        offer = self.supply.offer(request)
        if not offer.rows and not request.node and not request.volume and offer.provisions is not None:
            # Nothing is there: what can be provisioned decides.
            may = nodes.picked(offer.provisions)
            found &= may
            if offer.pools is not None:
                has_space &= ~may | (nodes.counts(self._provisionable(offer)) >= needed)
            return
        there: IntColumn
        if request.node:
            there = np.zeros(nodes.size, dtype=np.int64)
            found &= nodes.all_rows() == self._state.nodes.rows.get(request.node, -1)
        elif request.volume:
            there = np.isin(nodes.all_rows(), self._rows_of(request.volume)).astype(np.int64)
        else:
            there = nodes.counts(self._available(offer))
        lacks = there < needed
        if offer.provisions is None:
            found &= ~lacks
            return
        may = nodes.picked(offer.provisions)
        found &= ~lacks | may
        if offer.pools is not None:
            more: IntColumn = nodes.counts(self._provisionable(offer, selected=bool(request.node)))
            has_space &= ~(lacks & may) | (there + more >= needed)

    def _fit_each(
        self, group: Sequence[UnboundClaim], rows: IntColumn, found: BoolColumn, has_space: BoolColumn
    ) -> None:
        """Claims of one class that differ compete for its volumes: each node is asked."""
        for place, row in enumerate(rows.tolist()):
            chosen: set[str] = set()
            drawn: dict[StoragePool, int] = {}
            left: list[UnboundClaim] = []
            for request in group:
                choice = self._there(request, row, chosen)
                if choice is None:
                    left.append(request)
                else:
                    chosen.add(choice.volume)
            for request in left:
                choice, is_short = self._provisioned(request, row, drawn)
                if choice is None:
                    found[place] &= is_short
                    has_space[place] &= not is_short
                    break

    def _available(self, offer: Offer, *, writes: bool = False) -> IntColumn:
        """By row, how many volumes are left."""
        counts = self._counts.get(offer.request)
        if counts is None:
            if not writes:
                return offer.counts
            counts = self._counts[offer.request] = offer.counts.copy()
        return counts

    def _provisionable(self, offer: Offer, *, selected: bool = False) -> IntColumn:
        """By row, how many volumes of the request's size can be provisioned. `selected`: not counting what is being
        provisioned.
        """
        known = None if selected else self._provisionable_columns.get(offer.request)
        if known is not None:
            return known
        size = offer.request.size
        found: IntColumn = np.zeros(self._snapshot.size, dtype=np.int64)
        for pool in offer.pools or ():
            whole = selected and pool.total is not None
            found[pool.rows] += (pool.total or 0) // size if whole else self._number(pool, size)
        if not selected:
            self._provisionable_columns[offer.request] = found
        return found

    def _number(self, pool: StoragePool, size: int) -> int:
        """How many volumes of a size a pool has left."""
        left = self._left(pool)
        return NO_LIMIT if left is None else max(0, left) // size


def _by_class(requests: Sequence[UnboundClaim]) -> list[list[UnboundClaim]]:
    """Requests that could take the same volumes, each group by size."""
    ordered = sorted(requests, key=lambda request: (request.storage_class, request))
    return [list(group) for _, group in groupby(ordered, key=lambda request: request.storage_class)]


def _in_order(requests: Sequence[UnboundClaim], choices: Sequence[ChosenVolume]) -> list[ChosenVolume]:
    """The choices in the order of the requests; equal ones are interchangeable."""
    left = list(choices)
    found = []
    for request in requests:
        choice = next(choice for choice in left if choice.request == request)
        left.remove(choice)
        found.append(choice)
    return found
