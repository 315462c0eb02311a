"""Why a job waits, from the final state of the cycle.

Counting at the moment of failure would give numbers that depend on what was remembered and what was tried; counted
once per template at the end, they are the same however the engine got there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.report.never_fits import never_fits
from fairway.scheduler.topology.domains import Domain, Domains, domains_text
from fairway.scheduler.verdict import (
    RESERVED_TEXT,
    STAGE,
    Reason,
    causes_text,
    devices_in_use,
    insufficient,
    no_devices,
)
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import TaskState
from fairway.state.shapes import Shape
from fairway.state.waiting import GangTemplate


class NodeReport(NamedTuple):
    """How all nodes answered one more task of a shape."""

    total: int
    fits: int
    causes: dict[str, int]
    furthest: Reason

    def text(self) -> str:
        if not self.total:
            return "the cluster has no nodes"
        causes = causes_text(self.causes)
        return f"{self.fits}/{self.total} nodes fit" + (f": {causes}" if causes else "")


class Why(NamedTuple):
    """The reason a job waits for. `member` is the place, among its waiting tasks, of the one that found no node."""

    reason: Reason
    report: NodeReport
    placed: int
    needed: int
    member: int
    domains: str = ""
    """What is said of domains, where the job must be in one."""
    never: str = ""
    """What it needs and the whole cluster does not have."""

    def message(self, member: str) -> str:
        text = self.report.text()
        if self.never:
            return f"{self.never}; now {text}"
        if self.domains:
            return self.domains if self.placed or self.report.fits else f"{self.domains}; {text}"
        if self.reason is Reason.WAITING_FOR_RELEASE:
            return f"fits once the terminating pods are gone; now {text}"
        if self.reason is Reason.GANG_NOT_READY:
            return f"{self.placed} of the {self.needed} pods it needs at once could be placed; {member}: {text}"
        return text


NOT_EXPLAINED = Why(
    Reason.SCHEDULING_BUDGET,
    NodeReport(0, 0, {}, Reason.SCHEDULING_BUDGET),
    0,
    1,
    0,
    "too many kinds of pods wait in its namespace to say why each of them does; a later cycle says it of this one",
)
"""Of a template whose reasons are yet to be worked out."""
_KEPT = 16384


class KeptReasons:
    """What was last found of templates, for cycles in which their namespace has cost enough."""

    def __init__(self) -> None:
        self._known: dict[GangTemplate, Why] = {}

    def last(self, template: GangTemplate) -> Why | None:
        return self._known.get(template)

    def keep(self, template: GangTemplate, why: Why) -> Why:
        self._known.pop(template, None)
        while len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[template] = why
        return why


def explain(session: Session, job: JobRun) -> Why:
    """Try the job once more on the final state, without asking its queue, and look at what is missing."""
    session.nodes.respect_planned_starts(job)
    topology = job.job.topology
    if job.runs and topology is not None and topology.hard:
        why = _explain_domains(session, job)
    else:
        why = _explain(session, job) if job.runs else _explain_held(session, job)
    session.nodes.respect_planned_starts(None)
    if why.reason in _MAY_BE_HOPELESS and why.placed < why.needed and job.runs and not job.ready:
        never = never_fits(session, job)
        return why._replace(reason=Reason.NEVER_FITS, never=never) if never else why
    return why


_MAY_BE_HOPELESS = (Reason.INSUFFICIENT_RESOURCES, Reason.NODE_RESOURCE_RESERVED, Reason.GANG_NOT_READY)
"""Reasons that are about amounts: only of these it is said whether time can help."""


def _explain(session: Session, job: JobRun) -> Why:
    statement = session.statement()
    needed = 1 if session.rules.job_ready(job) else max(1, job.minimum - job.ready, sum(_missing_roles(job).values()))
    before = job.ready
    stuck = _place(job, statement, needed)
    placed = job.ready - before
    report = node_report(session, stuck.shape)
    statement.rollback()
    reason = Reason.GANG_NOT_READY if placed else report.furthest
    if STAGE[reason] >= STAGE[Reason.INSUFFICIENT_RESOURCES] and _fits_after_release(session, job, needed):
        reason = Reason.WAITING_FOR_RELEASE
    return Why(reason, report, placed, needed, stuck.place)


def _explain_domains(session: Session, job: JobRun) -> Why:
    """A job that must be in one domain: how many pods the domain that takes most of them could take."""
    domains = Domains(session, job)
    needed = 1 if session.rules.job_ready(job) else domains.needed
    found = domains.all()
    if domains.is_exact() and len(job.job.role_minimums) == 0:
        most = min(domains.largest(), needed)
    else:
        most = max((_taken_by(session, job, domain, needed) for domain in found), default=0)
    report = node_report(session, next(run.shape for run in job.runs if run.left))
    reason = Reason.GANG_NOT_READY if most else report.furthest
    return Why(reason, report, most, needed, 0, domains_text(domains, found, needed, most))


def _taken_by(session: Session, job: JobRun, domain: Domain, needed: int) -> int:
    statement, before = session.statement(), job.ready
    session.nodes.kernel.domain = domain.mask
    _place(job, statement, needed)
    session.nodes.kernel.domain = None
    taken = job.ready - before
    statement.rollback()
    return taken


def _explain_held(session: Session, job: JobRun) -> Why:
    """All that waits has a reservation somewhere: what is missing is the capacity of the first that has none yet."""
    reservations = [
        reservation for reservation in session.reservations.of(job) if reservation.state is not TaskState.ALLOCATED
    ]
    report = node_report(session, reservations[0].task.shape)
    nominated = any(reservation.state is TaskState.PIPELINED for reservation in reservations)
    reason = Reason.WAITING_FOR_RELEASE if nominated else report.furthest
    return Why(reason, report, 0, len(reservations), -1)


class _Stuck(NamedTuple):
    shape: Shape
    place: int


def _place(job: JobRun, statement: Statement, needed: int) -> _Stuck:
    """Place what can be placed, roles first; returns the first shape, and task, that found no node."""
    roles, stuck = _missing_roles(job), []
    for role, missing in roles.items():
        stuck += _place_some(job, statement, missing, role)
    stuck += _place_some(job, statement, needed - sum(roles.values()), None)
    if not stuck:
        last = next((run for run in job.runs if run.left), job.runs[-1])
        return _Stuck(last.shape, len(job.waiting) - 1)
    return stuck[0]


def _place_some(job: JobRun, statement: Statement, missing: int, role: str | None) -> list[_Stuck]:
    """Place so many tasks (of a role), as far as there is free capacity; returns the first of each run that found no
    node.
    """
    place, stuck = 0, []
    for run in job.runs:
        count = min(missing, run.left) if role in (None, run.role) else 0
        done = statement.allocate(job, run, count) if count > 0 else 0
        if done < count:
            stuck.append(_Stuck(run.shape, place + run.placed))
        missing -= done
        place += len(run.tasks)
    return stuck


def _missing_roles(job: JobRun) -> dict[str, int]:
    """By role: how many tasks its own minimum still lacks."""
    ready = job.role_ready or {}
    return {role: max(0, least - ready.get(role, 0)) for role, least in job.job.role_minimums}


def _fits_after_release(session: Session, job: JobRun, needed: int) -> bool:
    """Whether the job could be placed if pods that are leaving were gone."""
    nodes, snapshot = session.state.nodes, session.nodes.snapshot
    leaving = nodes.releasing.data[:, : snapshot.size]
    rows = np.flatnonzero(leaving.any(axis=0))
    if not len(rows):
        return False
    owed = np.maximum(0, nodes.pipelined.data[:, rows] - leaving[:, rows])
    gained = leaving[:, rows] - np.maximum(0, nodes.pipelined.data[:, rows] - owed)
    np.maximum(gained, 0, out=gained)
    statement = session.statement()
    statement.assume_free(rows, gained)
    before = job.ready
    _place(job, statement, needed)
    fits = job.ready - before >= needed
    statement.rollback()
    return fits


def node_report(session: Session, shape: Shape) -> NodeReport:
    """Every node once, under the first check that it fails."""
    snapshot = session.nodes.snapshot
    open_: BoolColumn = snapshot.alive.copy()
    total = int(open_.sum())
    causes: dict[str, int] = {}
    furthest = Reason.INSUFFICIENT_RESOURCES if not total else Reason.PREDICATE_FAILED
    for check in _checks(session, shape):
        failed = open_ & ~check.passes
        count = int(failed.sum())
        if count:
            causes[check.text] = causes.get(check.text, 0) + count
            open_ &= check.passes
            if STAGE[check.reason] > STAGE[furthest]:
                furthest = check.reason
    ordered = dict(sorted(causes.items(), key=lambda cause: (-cause[1], cause[0])))
    return NodeReport(total, int(open_.sum()), ordered, furthest)


def _checks(session: Session, shape: Shape) -> Iterable[Check]:
    """In the order of spec S10.2: predicates, reserved, devices, resources by name."""
    view, hooks = session.nodes.kernel.view(), session.nodes.kernel.hooks
    if shape.volumes.missing:
        yield Check(np.zeros(view.size, dtype=np.bool_), shape.volumes.missing)
    for feasible in hooks.feasible_static:
        yield from feasible(shape, view)
    later: list[Check] = []
    for feasible in hooks.feasible:
        for check in feasible(shape, view):
            if check.reason is Reason.PREDICATE_FAILED:
                yield check
            else:
                later.append(check)
    if session.nodes.kernel.reserved is not None and not shape.best_effort:
        yield Check(~session.nodes.kernel.reserved, RESERVED_TEXT, Reason.NODE_RESOURCE_RESERVED)
    caps = None if session.nodes.kernel.cap_for is None else session.nodes.kernel.cap_for(shape)
    if caps is not None:
        yield Check(caps > 0, RESERVED_TEXT, Reason.NODE_RESOURCE_RESERVED)
    names = session.state.axis.names
    asked = sorted((names[row], row, amount) for row, amount in shape.vector)
    for name, row, amount in asked:
        if name.startswith(CLASS_PREFIX):
            yield from _class_checks(session, view, name.removeprefix(CLASS_PREFIX), row, amount)
    if later:
        for text, rows in session.nodes.device_fit.failures(shape, view):
            yield Check(~rows, text, Reason.DEVICE_UNAVAILABLE)
        for text, rows in session.nodes.device_fit.unmatched(shape, view):
            yield Check(~rows, text, Reason.DEVICE_UNAVAILABLE)
    yield from later
    for name, row, amount in asked:
        yield Check(view.idle[row] >= amount, insufficient(name), Reason.INSUFFICIENT_RESOURCES)


def _class_checks(session: Session, view: NodeView, name: str, row: int, amount: int) -> Iterable[Check]:
    """A node has no such devices, or they are taken."""
    yield Check(view.allocatable[row] >= amount, no_devices(name), Reason.DEVICE_UNAVAILABLE)
    yield Check(view.idle[row] >= amount, devices_in_use(name), Reason.DEVICE_UNAVAILABLE)
