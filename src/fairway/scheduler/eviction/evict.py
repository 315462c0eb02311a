"""What preempt and reclaim have in common: claimants in the one order, victims, nominations.

A claim that was granted: its victims will go, but have not gone yet.

Until the pods are gone no other job gains their capacity, and what the claimant is nominated for is not lost.

Gangs that have been broken for too long are evicted as a whole, and wait again (spec S5.5).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import EvictionArguments
from fairway.clock import SECOND, format_rfc3339
from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction import choice
from fairway.scheduler.eviction.claims import (
    Claimants,
    EvictionClaim,
    Found,
    Hopeless,
    Place,
    Settled,
    TerminatingCapacity,
    claimed_tasks,
)
from fairway.scheduler.eviction.entitlement import Entitlement
from fairway.scheduler.eviction.protections import DisruptionBudgets, StopProtections
from fairway.scheduler.eviction.victims import Unit, VictimIndex, units_of, victim_index
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.effort import SEARCHING
from fairway.scheduler.framework.job_run import JobRun, broken_since
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.unevictable import Unevictable
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.plan import Eviction
from fairway.scheduler.reservations.between_cycles import resume
from fairway.scheduler.topology.domains import Domains
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.jobs import Job, Task, TaskState
from fairway.state.queues import Amounts, add

EntitlementFor = Callable[[JobRun, Amounts], Entitlement | None]
"""The claimant's entitlement, None if it may not act at all."""


def evict_for_claimants(
    session: Session,
    arguments: EvictionArguments,
    entitlement: EntitlementFor,
    queues: Container[str] | None = None,
) -> None:
    """Let every waiting job (of these queues), in order, make the capacity that it is entitled to."""
    session.accounts.compute_deserved()
    resume(session)
    hopeless = Hopeless(session, arguments)
    if hopeless.is_all():
        return
    evictor = _Evictor(session, arguments, entitlement, hopeless)
    claimants = Claimants(session, arguments, queues)
    order = Order(session.order, list(claimants))
    while order:
        job = order.turn()
        job_class, place = job.job_class, job.position
        following: list[JobRun] = []
        evicted = evictor.evict_for(job)
        if evicted:
            if job_class is not None:
                following += filter(None, [claimants.behind(job_class, place + 1)])
            if job.left() and session.rules.job_ready(job):
                following.append(job)  # it claims one task after the other
        order.replace_top(*following)
        if evicted:
            order.refresh()


class _Evictor:
    """Makes capacity for one claimant after the other."""

    def __init__(
        self, session: Session, arguments: EvictionArguments, entitlement: EntitlementFor, hopeless: Hopeless
    ) -> None:
        self._session = session
        self._hopeless = hopeless
        self._arguments = arguments
        self._entitlement = entitlement
        self._budgets = DisruptionBudgets(session.state)
        self._budgets.spend(session.decisions.evicted)
        self._index: VictimIndex | None = None
        self._protections: StopProtections | None = None
        self._bound_units: list[int] = []
        """Units of jobs that this cycle binds pods of: better not to bind one than to evict another."""

    def evict_for(self, job: JobRun) -> bool:
        """Evict for a job and nominate it; False if that is not possible or not allowed."""
        if any(task in self._session.decisions.evicted for task in job.job.tasks):
            return False  # it has just lost what it had
        tasks = claimed_tasks(self._session, job)
        with self._session.reservations.without(self._session.reservations.waiting_on_nodes(job)):
            return self._evict_for(job, tasks)

    def _evict_for(self, job: JobRun, tasks: list[Task]) -> bool:
        if not tasks or not self._is_worth_it(job, tasks):
            return False
        if any(self._hopeless.exceeds(task.shape) for task in tasks) and self._hopeless.are_silent:
            return False
        gang = [0] * len(job.queue.allocated)
        for task in tasks:
            add(gang, self._session.accounts.device_queues.requested(task.shape))
        entitlement = self._entitlement(job, gang)
        if entitlement is None:
            return False
        if self._index is None:
            self._index = victim_index(self._session.state)
            if len(self._session.state.eviction_records):
                self._protections = StopProtections(self._session, self._arguments, self._index)
            for bound in self._session.decisions.bound_jobs():
                self._bound_units += self._index.of_job(bound)
            self._index.measure(self._session.now, self._session.accounts.share_total)
        eligible = self._eligible(job, entitlement, self._index)
        protected = self._take_out_protected(eligible, tasks)
        if not eligible.any() and protected is None:
            return False
        if self._session.effort is not None and not self._session.effort.affords(job, SEARCHING):
            return False
        claim = EvictionClaim(self._session, job, tasks, gang, entitlement, self._index, eligible, self._budgets)
        terminating = TerminatingCapacity(
            self._session.nodes, self._session.reservations, self._session.decisions, tasks
        )
        with self._session.statement() as lent:
            terminating.lend(lent)
            found = self._find_victims(claim) if eligible.any() else None
            if found is None and protected is not None and self._session.explains:
                self._explain_protected(claim, protected)
        if found is None or not self._within_limit(job, found) or self._would_borrow_for_good(claim, found):
            return False
        self._commit(claim, found, terminating)
        return True

    def _find_victims(self, claim: EvictionClaim) -> Found | None:
        """For a gang that must be in one domain, in the one where that costs least; of equals, in the emptiest."""
        session, topology = self._session, claim.job.job.topology
        if topology is None or not topology.hard:
            return choice.find_victims(claim)
        best: Found | None = None
        for domain in Domains(session, claim.job, claims=True).all():
            found = choice.find_victims(claim.within(domain.mask))
            if found is not None and (best is None or _cost(claim, found) < _cost(claim, best)):
                best = found
        return best

    def _is_worth_it(self, job: JobRun, tasks: list[Task]) -> bool:
        """Whether the job would be ready with the capacity that is made for it."""
        nominated = [each.task for each in self._session.reservations.of(job) if each.state is not TaskState.ALLOCATED]
        with self._session.statement() as placed:
            for task in [*tasks, *nominated]:
                placed.assume_ready(job, task)
            return self._session.rules.job_pipelined(job)

    def _eligible(self, job: JobRun, entitlement: Entitlement, index: VictimIndex) -> BoolColumn:
        """Units that protections leave and the claimant may be entitled to."""
        session = self._session
        eligible = entitlement.candidates(index).copy()
        hook = {"preempt": "preemptable", "reclaim": "reclaimable"}[entitlement.action]
        for allowed in session.plugins.hooks(f"{hook}_units"):
            eligible &= allowed(index)
        if self._arguments.min_runtime:
            self._spare_young(eligible, index)
        self._spare_cooling(eligible, index)
        for gone in session.decisions.evicted:
            for number in index.of_job(gone.job):
                eligible[number] &= gone not in index.unit(number).tasks
        eligible[self._bound_units] = False
        for reservation in session.reservations:
            if reservation.state is TaskState.PIPELINED:  # others have gone for it: it shall have the use of that
                eligible[index.of_job(reservation.job.job)] = False
        self._ask_for_each(job, hook, eligible, index)
        return eligible

    def _spare_young(self, eligible: BoolColumn, index: VictimIndex) -> None:
        """Pods that have not run for long enough are no victims yet, and may be when they have."""
        least = self._arguments.min_runtime * SECOND
        young = eligible & (index.youngest[: len(eligible)] > self._session.now - least)
        if young.any():
            self._session.decisions.rechecks.append(int(index.youngest[: len(eligible)][young].min()) + least)
            eligible &= ~young

    def _take_out_protected(self, eligible: BoolColumn, tasks: list[Task]) -> BoolColumn | None:
        """The units that only back-off protects, out of those that are eligible; None if there are none. A claimant
        that no node could take does not wait for them.
        """
        if self._protections is None:
            return None
        hopeless = any(self._hopeless.exceeds(task.shape) for task in tasks)
        protected = self._protections.take_out(eligible, [] if hopeless else self._session.decisions.rechecks)
        return protected if protected.any() else None

    def _explain_protected(self, claim: EvictionClaim, protected: BoolColumn) -> None:
        """Where the claimant would find victims if none were protected, that is why it waits."""
        assert self._protections is not None
        found = self._find_victims(replace(claim, eligible=claim.eligible | protected))
        used = [] if found is None else [unit for unit in found.units if protected[unit.number]]
        if not used:
            return
        numbers = np.array([unit.number for unit in used])
        jobs = len({unit.job for unit in used})
        what = "a possible victim was" if jobs == 1 else f"{jobs} possible victims were"
        until = format_rfc3339(self._protections.ends(np.isin(np.arange(len(protected)), numbers)))
        note = f"{what} evicted before and {'is' if jobs == 1 else 'are'} protected until {until}"
        self._session.outcomes.notes[claim.job.job] = note

    def _spare_cooling(self, eligible: BoolColumn, index: VictimIndex) -> None:
        """Pods whose own cooldown time is not over are no victims yet."""
        cooled = index.cooled[: len(eligible)]
        cooling = eligible & (cooled > self._session.now)
        if cooling.any():
            self._session.decisions.rechecks.append(int(cooled[cooling].min()))
            eligible &= ~cooling

    def _ask_for_each(self, job: JobRun, hook: str, eligible: BoolColumn, index: VictimIndex) -> None:
        for protects in self._session.plugins.hooks(hook):
            numbers = np.flatnonzero(eligible).tolist()
            allowed = set(protects(job, [task for number in numbers for task in index.unit(number).tasks]))
            for number in numbers:
                eligible[number] = all(task in allowed for task in index.unit(number).tasks)

    def _within_limit(self, job: JobRun, found: Found) -> bool:
        most = self._arguments.max_evictions_per_cycle
        needed = sum(len(unit.tasks) for unit in found.units)
        left = needed if most is None else max(0, most - len(self._session.decisions.evictions))
        if needed <= left:
            return True
        detail = f"needs {needed} evictions, {left} left in this cycle"
        self._session.outcomes.record_wait_reason(job, Verdict(False, Reason.PREEMPTION_LIMITED, detail=detail))
        return False

    def _would_borrow_for_good(self, claim: EvictionClaim, found: Found) -> bool:
        """Whether nothing could evict the claimant, and its queue would have more than it deserves with it."""
        session, job = self._session, claim.job
        together = not session.rules.job_ready(job)
        verdict = Unevictable(session.state).verdict(job, claim.tasks, together=together)
        if verdict is None:
            return False
        taken = claim.nothing_taken()
        for unit in found.units:
            taken.add(unit)
        for account in job.queue.ancestry:
            lost = [taken.of_queue(n) for n in taken.queues() if account in session.accounts.queues[n].ancestry]
            for row, amount in enumerate(claim.gang):
                left = account.allocated[row] - sum(amounts[row] for amounts in lost if row < len(amounts))
                if amount and account.deserved is not None and left + amount > account.deserved[row]:
                    session.outcomes.notes[job.job] = f"evicts nothing: {verdict.detail}"
                    return True
        return False

    def _commit(self, claim: EvictionClaim, found: Found, terminating: TerminatingCapacity) -> None:
        """The victims go, and the claimant is nominated for the capacity."""
        session, names = self._session, self._session.nodes.snapshot.names
        for unit, reason in zip(found.units, _reasons(claim, found), strict=True):
            self._budgets.spend(unit.tasks)
            charge_off(session, unit)
            for task in sorted(unit.tasks, key=lambda task: task.key):
                session.decisions.evicted.add(task)
                eviction = Eviction(task.key, names[task.node], claim.job.key, claim.entitlement.action, reason)
                session.decisions.evictions.append(eviction)
        settle(session.nodes, session.decisions, session.statement(), terminating, found.units, found.places)
        session.reservations.nominate(claim.job, found.places)
        session.outcomes.jobs[claim.job] = None
        session.decisions.settled.append(Settled(claim, list(found.units), found.placing))


def _cost(claim: EvictionClaim, found: Found) -> tuple[int, int, int]:
    """The highest grade among those that go, the work that is lost, and the number of pods."""
    work = sum(int(claim.index.work[unit.number]) for unit in found.units)
    return max(unit.grade for unit in found.units), work, sum(len(unit.tasks) for unit in found.units)


def _reasons(claim: EvictionClaim, found: Found) -> list[str]:
    """Why each is taken, as shares are now: one answer for all units of a kind, and the queue's limit if that asks."""
    kinds = claim.index.kind[[unit.number for unit in found.units]].tolist()
    known = {kind: claim.entitlement.reason(unit) for kind, unit in dict(zip(kinds, found.units, strict=True)).items()}
    limits = [found.limits.get(unit) for unit in found.units]
    return [f"{limit}; {known[kind]}" if limit else known[kind] for kind, limit in zip(kinds, limits, strict=True)]


def charge_off(session: Session, unit: Unit, sign: int = 1) -> None:
    """Evicted pods no longer count as allocated; with sign -1 they do again."""
    queue = session.accounts.queues[unit.job.queue]
    account = session.accounts.of(queue, unit.job.namespace)
    for task in unit.tasks:
        for vector in (task.shape.vector, session.nodes.devices.kinds(task)):
            queue.charge(vector, -sign)
            add(account.allocated, vector, -sign)


def settle(
    nodes: WorkingNodes,
    decisions: Decisions,
    statement: Statement,
    terminating: TerminatingCapacity,
    units: list[Unit],
    places: list[Place],
) -> None:
    """Write down the world without the victims and with the claimant, and keep of it what is lost to others."""
    before = _RowsBefore(nodes)
    before.note(terminating.rows)
    terminating.lend(statement)
    victims = [task for unit in units for task in unit.tasks]
    for task in victims:
        before.note([task.node])
        statement.displace([task])
    for task, row in places:
        before.note([row])
        statement.occupy(task.shape, [task], [row])
    statement.commit()
    snapshot = nodes.snapshot
    for row, amounts in before.amounts.items():
        snapshot.write(row)
        np.minimum(snapshot.idle[:, row], amounts, out=snapshot.idle[:, row])
        decisions.note_settled(row, amounts - snapshot.idle[:, row])
    for task in victims:
        nodes.pods.displace(task, snapshot.size, 1)
    nodes.devices.settle(victims, [task for task, _ in places])


class _RowsBefore:
    """What rows had free before they were first written to."""

    def __init__(self, nodes: WorkingNodes) -> None:
        self._snapshot = nodes.snapshot
        self.amounts: dict[int, NDArray[np.int64]] = {}

    def note(self, rows: list[int]) -> None:
        for row in rows:
            if row not in self.amounts:
                self.amounts[row] = self._snapshot.idle[:, row].copy()


def evict_stale(session: Session, timeout: int) -> None:
    """Protections and disruption budgets hold for them as for other victims."""
    budgets = DisruptionBudgets(session.state)
    for job in sorted(session.state.broken_gangs, key=lambda job: job.order):
        since = broken_since(job, session.now)
        if since is None:
            continue
        stale = since + timeout * SECOND + 1
        if session.now < stale:
            session.decisions.rechecks.append(stale)
        else:
            _evict(session, job, budgets, f"its gang has been below its minimum for more than {timeout} s")


def _evict(session: Session, job: Job, budgets: DisruptionBudgets, reason: str) -> None:
    units = units_of(job)
    tasks = sorted((task for unit in units for task in unit.tasks), key=lambda task: task.key)
    if any(unit.protected or unit.system for unit in units) or not budgets.allow(tasks):
        return
    budgets.spend(tasks)
    names = session.nodes.snapshot.names
    for unit in units:
        charge_off(session, unit)
    for task in tasks:
        session.decisions.evicted.add(task)
        session.decisions.evictions.append(Eviction(task.key, names[task.node], job.key, "allocate", reason))
