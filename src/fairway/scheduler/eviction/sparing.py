"""Victims that no claimant needs any more are spared, after all actions: minimal is judged over the whole plan.

What one claimant takes is minimal for it. But a later one may leave more capacity than it uses, allocate may place a
nominated job elsewhere, and claimants may exchange places. So the world as it will be after the plan is set up on the
session's snapshot: victims and terminating pods are gone, nominated pods are where they are nominated. Then unit by
unit, the last one first, until no more is found, it is asked whether the unit can stay:

- with the unit back no queue exceeds what a claim of the plan rests on, and
- there are places for all pods that the plan nominates: for those of the unit's claimant with the others where they
  are, or else for all of them together (`together`, which says how far that is exact). Everything else of the plan,
  and what earlier cycles nominated, stays as it is.

A surplus pod goes along as long as its gang goes. A gang that has to be in one domain of a topology stays in the one
it was nominated in. Devices are given as they would be if the victims' were free; plans with devices that several
nodes reach are left as they are.

Places for all nominated pods of a plan at once: an exact search, up to a stated size.

Pods are placed in order, each on the best node that leaves places for all that follow. The first try is what placing
one after the other gives; where that fails, the search goes back. It is exact as long as the plan nominates at most
`MAX_PODS` pods and its searches try at most `MAX_TRIES` placements; beyond that the answer is "no".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.claims import Place, Settled
from fairway.scheduler.eviction.evict import charge_off
from fairway.scheduler.eviction.obstacles import passes_now, place
from fairway.scheduler.eviction.victims import Unit
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.hooks import EntitledBy
from fairway.scheduler.framework.job_run import grouped
from fairway.scheduler.framework.reservation_ledger import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.kernel import INFEASIBLE
from fairway.state.jobs import Task, TaskState
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape


def spare_needless(session: Session) -> None:
    """Take evictions back that nothing needs."""
    settled = [claim for claim in session.decisions.settled if isinstance(claim, Settled)]
    if settled and not _is_minimal(session, settled):
        tasks = [task for claim in settled for unit in claim.units for task in unit.tasks]
        tasks += [reservation.task for claim in settled for reservation in _nominated(session, claim)]
        uses_devices = any(session.nodes.devices.uses_devices(task.shape) for task in tasks)
        if not (uses_devices and session.nodes.devices.ledger.network):
            _Sparing(session, settled, uses_devices=uses_devices).run()


def _is_minimal(session: Session, settled: list[Settled]) -> bool:
    """Whether that is certain: one claimant of like pods, for which capacity can be counted, took what it needed."""
    shapes = {task.shape for claim in settled for task in claim.claim.tasks}
    if len(settled) > 1 or len(shapes) > 1 or len(_nominated(session, settled[0])) < len(settled[0].claim.tasks):
        return False
    return all(passes_now(session.nodes, shape) is None for shape in shapes)


def _nominated(session: Session, settled: Settled) -> list[TaskReservation]:
    """The nominations that were made with a claim and still stand."""
    tasks = set(settled.claim.tasks)
    reservations = session.reservations.of(settled.claim.job)
    return [
        reservation
        for reservation in reservations
        if reservation.state is TaskState.PIPELINED and reservation.task in tasks
    ]


class _Sparing:
    def __init__(self, session: Session, settled: list[Settled], *, uses_devices: bool) -> None:
        self._session = session
        self._settled = settled
        self._uses_devices = uses_devices
        self._nominated = {claim: _nominated(session, claim) for claim in settled}
        self._together = PlacesTogether()
        shapes = {reservation.task.shape for reservations in self._nominated.values() for reservation in reservations}
        self._can_exchange = len(shapes) > 1 or any(passes_now(session.nodes, shape) is not None for shape in shapes)
        """Whether it may matter which pod is where."""
        steps = {step for steps in session.plugins.combined("entitled_by")() for step in steps}
        self._priority_first = EntitledBy.PRIORITY_FIRST in steps
        self._before: dict[int, NDArray[np.int64]] = {}
        """What each row has free as long as no victim is gone, and without what is nominated."""

    def run(self) -> None:
        with self._after_the_plan() as served:
            while served and self._spare_some():
                pass

    def _spare_some(self) -> bool:
        spared = False
        for settled in reversed(self._settled):
            for unit in reversed(list(settled.units)):
                if not self._goes_along(unit) and self._spare(settled, unit):
                    settled.units.remove(unit)
                    spared = True
        return spared

    # -- the world after the plan -------------------------------------------------------------------------------

    @contextmanager
    def _after_the_plan(self) -> Iterator[bool]:
        """Inside, the victims are gone and the nominated pods are there. Yields False if the devices do not serve all
        of them: their pods will find out when they are free.
        """
        served = self._set_up()
        try:
            yield served
        finally:
            self._take_down()

    def _set_up(self) -> bool:
        session, idle = self._session, self._session.nodes.snapshot.idle
        released = self._released()
        rows = {task.node for task in self._evicted()} | {reservation.row for reservation in self._reservations()}
        for row in sorted(
            rows | session.decisions.settled_rows.keys() | set(np.flatnonzero(released.any(axis=0)).tolist())
        ):
            session.nodes.snapshot.write(row)
            if row in session.decisions.settled_rows:
                idle[:, row] += session.decisions.settled_rows[row]
            self._before[row] = idle[:, row].copy()
            idle[: len(released), row] += released[:, row]
        for task in self._evicted():
            session.nodes.displace(task, -1)
        for reservation in self._reservations():
            session.nodes.write_room(reservation.task.shape, [reservation.row], 1)
            if session.nodes.devices.uses_devices(reservation.task.shape):
                session.nodes.devices.write(reservation.task.shape, [reservation.task], [reservation.row], 1)
        return all(session.nodes.devices.is_served(reservation.task) for reservation in self._reservations())

    def _take_down(self) -> None:
        """Until the victims are gone no pod gains capacity, and what is nominated is not lost."""
        session, idle = self._session, self._session.nodes.snapshot.idle
        for task in self._evicted():
            session.nodes.pods.displace(task, session.nodes.snapshot.size, 1)
        for row, before in self._before.items():
            session.nodes.snapshot.write(row)
            np.minimum(idle[:, row], before, out=idle[:, row])
        session.nodes.devices.settle(self._evicted(), [reservation.task for reservation in self._reservations()])

    def _released(self) -> NDArray[np.int64]:
        """What terminating pods leave, less what the nominations of earlier cycles wait for."""
        room = self._session.state.nodes.releasing.data[:, : self._session.nodes.snapshot.size].copy()
        for reservation in self._session.reservations:
            if reservation.state is TaskState.PIPELINED and reservation.task.state is TaskState.PIPELINED:
                for dimension, amount in reservation.task.shape.vector:
                    room[dimension, reservation.row] -= amount
        return np.maximum(room, 0)

    def _evicted(self) -> list[Task]:
        return [task for claim in self._settled for unit in claim.units for task in unit.tasks]

    def _reservations(self) -> list[TaskReservation]:
        return [reservation for reservations in self._nominated.values() for reservation in reservations]

    # -- one unit -----------------------------------------------------------------------------------------------

    def _goes_along(self, unit: Unit) -> bool:
        """Whether the gang that the unit is the surplus of goes."""
        return any(unit in other.surplus_units for claim in self._settled for other in claim.units)

    def _spare(self, settled: Settled, unit: Unit) -> bool:
        """Whether all claimants have their places with the unit back; then it stays."""
        if not self._is_within_limits(settled, unit):
            return False
        alone = not self._uses_devices and self._spare_with(unit, settled)
        spared = alone or ((self._can_exchange or self._uses_devices) and self._spare_with(unit, None))
        if spared:
            self._keep(unit)
        return spared

    def _spare_with(self, unit: Unit, settled: Settled | None) -> bool:
        """Whether the pods of one claimant, or of all (None), find places with the unit back; then they have them."""
        session, reservations = self._session, self._reservations() if settled is None else self._nominated[settled]
        trial = session.statement()
        for reservation in reversed(reservations):
            trial.vacate(reservation.task, reservation.row)
        trial.bring_back(unit.tasks)
        placed = None
        if self._fits(unit):
            placed = (
                self._together.find(self._nominees(), trial)
                if settled is None
                else self._place_alone(settled, reservations, trial)
            )
        if placed is None:
            trial.rollback()
            return False
        trial.commit()
        rows = dict(placed)
        for reservation in reservations:
            reservation.row = rows[reservation.task]
        return True

    def _place_alone(
        self, settled: Settled, reservations: list[TaskReservation], trial: Statement
    ) -> list[Place] | None:
        """Places for the pods of one claimant, on the trial; None if there are none for all."""
        placed, left = place(trial, grouped([reservation.task for reservation in reservations]), settled.placing)
        return placed if left is None and self._rules_hold(settled) else None

    def _nominees(self) -> list[Nominee]:
        return [
            Nominee(reservation.task, claim.placing.domain)
            for claim, reservations in self._nominated.items()
            for reservation in reservations
        ]

    def _fits(self, unit: Unit) -> bool:
        """Whether its nodes can take the unit beside all others that are nominated there."""
        rows = sorted({task.node for task in unit.tasks})
        return bool((self._session.nodes.snapshot.idle[:, rows] >= 0).all())

    def _rules_hold(self, settled: Settled) -> bool:
        """Whether rules between pods still allow the other nominations."""
        session = self._session
        for claim, reservations in self._nominated.items():
            for reservation in reservations if claim is not settled and session.nodes.kernel.hooks.feasible else ():
                with session.statement() as without:
                    without.vacate(reservation.task, reservation.row)
                    if not session.nodes.kernel.fits_now(reservation.task.shape, reservation.row):
                        return False
        return True

    def _is_within_limits(self, settled: Settled, unit: Unit) -> bool:
        """Whether, with the unit back, no queue exceeds what the claims of this plan rest on."""
        session, lends, amounts = self._session, self._session.rules.lends(), self._held_by(unit)
        for account in session.accounts.queues[unit.job.queue].ancestry:
            claims = [claim for claim in self._settled if account in claim.claim.job.queue.ancestry]
            reclaims = any(c.claim.entitlement.action == "reclaim" and c.claim.job.queue is account for c in claims)
            limits = [account.capability]
            if account.deserved is not None and (not lends or reclaims):
                limits.append(account.deserved)
            if claims and any(_exceeds(account, amounts, limit) for limit in limits):
                return False
        return not any(self._rests_on(other, unit) for other in self._settled if other is not settled)

    def _rests_on(self, settled: Settled, unit: Unit) -> bool:
        """Whether the claim was made by the share that its namespace had without the unit. Where priority comes first,
        shares decide nothing about victims of lower priority.
        """
        job = settled.claim.job
        same = job.queue.name == unit.job.queue and job.namespace == unit.job.namespace
        return same and any(
            other.job.namespace != job.namespace and not (self._priority_first and other.priority < job.priority)
            for other in settled.units
        )

    def _held_by(self, unit: Unit) -> Amounts:
        amounts: Amounts = []
        for task in unit.tasks:
            add(amounts, task.shape.vector)
            add(amounts, self._session.nodes.devices.kinds(task))
        return amounts

    def _keep(self, unit: Unit) -> None:
        session, keys = self._session, {task.key for task in unit.tasks}
        charge_off(session, unit, -1)
        session.decisions.evicted.difference_update(unit.tasks)
        session.decisions.evictions[:] = [
            eviction for eviction in session.decisions.evictions if eviction.pod not in keys
        ]


def _exceeds(account: QueueAccount, amounts: Amounts, limit: Amounts) -> bool:
    return any(amount and account.allocated[row] + amount > limit[row] for row, amount in enumerate(amounts))


MAX_PODS = 64
MAX_TRIES = 2_000


class Nominee(NamedTuple):
    """A pod to be placed, on any node or inside a domain of its topology."""

    task: Task
    domain: BoolColumn | None = None


class PlacesTogether:
    """The searches of one plan. They share what may be tried."""

    def __init__(self) -> None:
        self._tries = MAX_TRIES
        self._nominees: list[Nominee] = []
        self._placed: list[Place] = []
        self._failed: set[Hashable] = set()

    def find(self, nominees: list[Nominee], statement: Statement) -> list[Place] | None:
        """Places for all of them, then on the statement; None if there are none, or the search was too long."""
        if len(nominees) > MAX_PODS:
            return None
        self._nominees, self._placed, self._failed = nominees, [], set()
        return self._placed if self._place_rest(statement) else None

    def _place_rest(self, statement: Statement) -> bool:
        if len(self._placed) == len(self._nominees):
            return True
        key = self._key(statement.nodes)
        if key in self._failed or not self._may_fit(statement.nodes):
            return False
        nominee = self._nominees[len(self._placed)]
        for row in self._rows(nominee, statement.nodes):
            if not self._tries:
                return False
            self._tries -= 1
            mark = statement.checkpoint()
            if self._put(nominee.task, row, statement) and self._place_rest(statement):
                return True
            self._placed.pop()
            statement.rollback(mark)
        self._failed.add(key)
        return False

    def _put(self, task: Task, row: int, statement: Statement) -> bool:
        """Place a pod; False if the node's devices turn out not to serve it."""
        statement.occupy(task.shape, [task], [row])
        self._placed.append((task, row))
        return statement.nodes.devices.is_served(task)

    def _key(self, nodes: WorkingNodes) -> Hashable:
        """What is placed, where like pods are the same. Which devices are given depends on the order, too."""
        shapes = [(task.shape, row) for task, row in self._placed]
        if any(nodes.devices.uses_devices(shape) for shape, _ in shapes):
            return tuple(shapes)
        return frozenset(Counter(shapes).items())

    def _rows(self, nominee: Nominee, nodes: WorkingNodes) -> Iterator[int]:
        """Nodes that take the pod now, the best first."""
        keys = nodes.kernel.column(nominee.task.shape).keys
        rows = np.flatnonzero(keys < INFEASIBLE if nominee.domain is None else (keys < INFEASIBLE) & nominee.domain)
        return iter(rows[keys[rows].argsort()].tolist())

    def _may_fit(self, nodes: WorkingNodes) -> bool:
        """Whether, of each shape for itself, the nodes have free capacity for all pods that follow."""
        following = Counter(nominee.task.shape for nominee in self._nominees[len(self._placed) :])
        return all(self._room(shape, nodes) >= count for shape, count in following.items())

    def _room(self, shape: Shape, nodes: WorkingNodes) -> int:
        idle, rows = nodes.snapshot.idle, np.flatnonzero(nodes.kernel.base(shape) < INFEASIBLE)
        most = np.full(len(rows), len(self._nominees), dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(most, idle[dimension, rows] // amount, out=most)
        return int(np.maximum(most, 0).sum())
