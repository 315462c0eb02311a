"""Whether a job could not start even if it had the cluster to itself: then it does not wait, it needs a change.

The bounds are simple, and each is exact in what it says: they count nodes as if nothing ran there, and ignore whatever
could only make it harder (rules between pods, devices, domains, nodes that are not ready). So a job that they call
hopeless is hopeless; of some hopeless jobs they say nothing.

Why a job waits, from the final state of the cycle.

Counting at the moment of failure would give numbers that depend on what was remembered and what was tried; counted
once per template at the end, they are the same however the engine got there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.framework.job_run import JobRun, TaskRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.placement.kernel import PLAIN, Placing
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.topology.domains import Domains, domains_text
from fairway.scheduler.verdict import (
    NODE_AFFINITY_TEXT,
    NODE_SELECTOR_TEXT,
    RESERVED_TEXT,
    STAGE,
    UNTOLERATED,
    Reason,
    causes_text,
    devices_in_use,
    insufficient,
    no_devices,
)
from fairway.state.derived import DerivedValue
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import TaskState
from fairway.state.shapes import Shape
from fairway.state.tables import PODS
from fairway.state.waiting import GangTemplate

_TEMPORARY = f"{UNTOLERATED}node.kubernetes.io/"
"""Taints that come and go with the state of a node, which is not what keeps a job out for ever."""

_MANY = 1 << 50
"""How many pods that request nothing a node takes."""

_HALF = 25
"""Amounts of a node have at most 50 bits: in two halves, no sum over nodes overflows."""


def never_fits(session: Session, job: JobRun) -> str:
    """What a job that has not started needs and the cluster does not have; "" if it may fit."""
    if not session.nodes.snapshot.alive.any():
        return ""  # nodes are on their way: nothing is known of this cluster yet
    needed = max(1, job.minimum)
    if sum(run.left for run in job.runs) < needed:
        return ""  # it lacks pods (some may be gated, or placed): the others say nothing of the whole
    usable = {run.shape: _usable(session, run.shape) for run in job.runs}
    whole = session.nodes.snapshot.allocatable
    room = {shape: _counts(shape, whole, nodes) for shape, nodes in usable.items()}
    placeable = [run for run in job.runs if room[run.shape].any()]
    if sum(run.left for run in placeable) < needed:
        first = next((run.shape for run in job.runs if not room[run.shape].any()), None)
        # Without such a shape its other pods have places already, or reservations: nothing is known of these here.
        return "" if first is None else _too_large(session, first, usable[first])
    if text := _too_much(session, placeable, needed, np.logical_or.reduce([usable[run.shape] for run in placeable])):
        return text
    if len({run.shape for run in placeable}) == 1:
        most = _sum(room[placeable[0].shape])
        if most < needed:
            return f"needs {needed} pods at once; the empty nodes have capacity for {most}"
    return ""


def _usable(session: Session, shape: Shape) -> BoolColumn:
    """The nodes that its selectors, affinities and tolerations let a pod use, ready or not."""
    kernel = session.nodes.kernel
    view, nodes = kernel.view(), session.nodes.snapshot.alive.copy()
    for feasible in kernel.hooks.feasible_static:
        for check in feasible(shape, view):
            taint = check.text.startswith(UNTOLERATED) and not check.text.startswith(_TEMPORARY)
            if taint or check.text in (NODE_SELECTOR_TEXT, NODE_AFFINITY_TEXT):
                nodes &= check.passes
    return nodes


def _counts(shape: Shape, whole: NDArray[np.int64], nodes: BoolColumn) -> NDArray[np.int64]:
    """How many pods each empty node takes."""
    counts = np.where(nodes, _MANY, 0)
    for row, amount in shape.vector:
        if amount:
            np.minimum(counts, whole[row] // amount, out=counts)
    return counts


def _too_large(session: Session, shape: Shape, nodes: BoolColumn) -> str:
    names, whole = session.state.axis.names, session.nodes.snapshot.allocatable
    for name, row, amount in sorted((names[row], row, amount) for row, amount in shape.vector):
        most = int(whole[row].max(initial=0, where=nodes))
        if amount > most and row == PODS:
            return "no node that it may use accepts pods"
        if amount > most:
            where = "the largest node has" if _all(session, nodes) else "the largest node that it may use has"
            return f"a pod needs {_text(name, amount)} {name}; {where} {_text(name, most)}"
    return "a pod needs more than any single node has, although each resource alone is available on some node"


def _too_much(session: Session, runs: list[TaskRun], needed: int, nodes: BoolColumn) -> str:
    """The resource, first by name, of which its smallest pods together need more than all nodes have."""
    names, whole = session.state.axis.names, session.nodes.snapshot.allocatable
    rows = {row for run in runs for row, _ in run.shape.vector if row != PODS}
    for row in sorted(rows, key=lambda row: names[row]):
        need, left = 0, needed
        for amount, size in sorted((dict(run.shape.vector).get(row, 0), run.left) for run in runs):
            taken = min(size, left)
            need, left = need + amount * taken, left - taken
        have = _sum(np.where(nodes, whole[row], 0))
        if need > have:
            name = names[row]
            where = "the cluster has" if _all(session, nodes) else "the nodes it may use have"
            return f"needs {_text(name, need)} {name}; {where} {_text(name, have)}"
    return ""


def _all(session: Session, nodes: BoolColumn) -> bool:
    return bool(nodes[session.nodes.snapshot.alive].all())


def _sum(amounts: NDArray[np.int64]) -> int:
    return (int((amounts >> _HALF).sum()) << _HALF) + int((amounts & ((1 << _HALF) - 1)).sum())


def _text(name: str, amount: int) -> str:
    return str(format_amount(name, min(amount, INT64_MAX)))


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
    "its namespace has too many kinds of pending pods to explain all in one cycle; a later cycle explains this one",
)
"""Of a template whose reasons are yet to be worked out."""
_KEPT = 16384


class KeptReasons(
    DerivedValue,
    name="reasons",
    holds="the last reason of each template, for namespaces that have used up their scheduling budget",
    inputs=("earlier cycles",),
    saves="nothing: without it such a reason reads as not computed yet",
):
    """What was last found of templates, for cycles in which their namespace has cost enough."""

    def __init__(self) -> None:
        super().__init__()
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
    placing = session.nodes.beside_planned_starts(job, PLAIN)
    topology = job.job.topology
    if job.runs and topology is not None and topology.hard:
        why = _explain_domains(session, job, placing)
    else:
        why = _explain(session, job, placing) if job.runs else _explain_held(session, job, placing)
    if why.reason in _MAY_BE_HOPELESS and why.placed < why.needed and job.runs and not job.ready:
        never = never_fits(session, job)
        return why._replace(reason=Reason.NEVER_FITS, never=never) if never else why
    return why


_MAY_BE_HOPELESS = (Reason.INSUFFICIENT_RESOURCES, Reason.NODE_RESOURCE_RESERVED, Reason.GANG_NOT_READY)
"""Reasons that are about amounts: only of these it is said whether time can help."""


def _explain(session: Session, job: JobRun, placing: Placing) -> Why:
    statement = session.statement()
    needed = 1 if session.rules.job_ready(job) else max(1, job.minimum - job.ready, sum(_missing_roles(job).values()))
    before = job.ready
    stuck = _place(job, statement, needed, placing)
    placed = job.ready - before
    report = node_report(session, stuck.shape, placing)
    statement.rollback()
    reason = Reason.GANG_NOT_READY if placed else report.furthest
    if STAGE[reason] >= STAGE[Reason.INSUFFICIENT_RESOURCES] and _fits_after_release(session, job, needed, placing):
        reason = Reason.WAITING_FOR_RELEASE
    return Why(reason, report, placed, needed, stuck.place)


def _explain_domains(session: Session, job: JobRun, placing: Placing) -> Why:
    """A job that must be in one domain: how many pods the domain that takes most of them could take."""
    domains = Domains(session, job, placing)
    needed = 1 if session.rules.job_ready(job) else domains.needed
    found = domains.all()
    if domains.is_exact() and len(job.job.role_minimums) == 0:
        most = min(domains.largest(), needed)
    else:
        most = max((_taken_by(session, job, needed, placing.within(domain.mask)) for domain in found), default=0)
    last = next((run for run in job.runs if run.left), job.runs[-1])  # all may have a place and wait for evictions
    report = node_report(session, last.shape, placing)
    reason = Reason.GANG_NOT_READY if most else report.furthest
    return Why(reason, report, most, needed, 0, domains_text(domains, found, needed, most))


def _taken_by(session: Session, job: JobRun, needed: int, placing: Placing) -> int:
    statement, before = session.statement(), job.ready
    _place(job, statement, needed, placing)
    taken = job.ready - before
    statement.rollback()
    return taken


def _explain_held(session: Session, job: JobRun, placing: Placing) -> Why:
    """All that waits has a reservation somewhere: what is missing is the capacity of the first that has none yet."""
    reservations = [
        reservation for reservation in session.reservations.of(job) if reservation.state is not TaskState.ALLOCATED
    ]
    report = node_report(session, reservations[0].task.shape, placing)
    nominated = any(reservation.state is TaskState.PIPELINED for reservation in reservations)
    reason = Reason.WAITING_FOR_RELEASE if nominated else report.furthest
    return Why(reason, report, 0, len(reservations), -1)


class _Stuck(NamedTuple):
    shape: Shape
    place: int


def _place(job: JobRun, statement: Statement, needed: int, placing: Placing) -> _Stuck:
    """Place what can be placed, roles first; returns the first shape, and task, that found no node."""
    roles, stuck = _missing_roles(job), []
    for role, missing in roles.items():
        stuck += _place_some(job, statement, missing, role, placing)
    stuck += _place_some(job, statement, needed - sum(roles.values()), None, placing)
    if not stuck:
        last = next((run for run in job.runs if run.left), job.runs[-1])
        return _Stuck(last.shape, len(job.waiting) - 1)
    return stuck[0]


def _place_some(job: JobRun, statement: Statement, missing: int, role: str | None, placing: Placing) -> list[_Stuck]:
    """Place so many tasks (of a role), as far as there is free capacity; returns the first of each run that found no
    node.
    """
    place, stuck = 0, []
    for run in job.runs:
        count = min(missing, run.left) if role in (None, run.role) else 0
        done = statement.allocate(job, run, count, placing) if count > 0 else 0
        if done < count:
            stuck.append(_Stuck(run.shape, place + run.placed))
        missing -= done
        place += len(run.tasks)
    return stuck


def _missing_roles(job: JobRun) -> dict[str, int]:
    """By role: how many tasks its own minimum still lacks."""
    ready = job.role_ready or {}
    return {role: max(0, least - ready.get(role, 0)) for role, least in job.job.role_minimums}


def _fits_after_release(session: Session, job: JobRun, needed: int, placing: Placing) -> bool:
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
    _place(job, statement, needed, placing)
    fits = job.ready - before >= needed
    statement.rollback()
    return fits


def node_report(session: Session, shape: Shape, placing: Placing) -> NodeReport:
    """Every node once, under the first check that it fails."""
    snapshot = session.nodes.snapshot
    open_: BoolColumn = snapshot.alive.copy()
    total = int(open_.sum())
    causes: dict[str, int] = {}
    furthest = Reason.INSUFFICIENT_RESOURCES if not total else Reason.PREDICATE_FAILED
    for check in _checks(session, shape, placing):
        failed = open_ & ~check.passes
        count = int(failed.sum())
        if count:
            causes[check.text] = causes.get(check.text, 0) + count
            open_ &= check.passes
            if STAGE[check.reason] > STAGE[furthest]:
                furthest = check.reason
    ordered = dict(sorted(causes.items(), key=lambda cause: (-cause[1], cause[0])))
    return NodeReport(total, int(open_.sum()), ordered, furthest)


def _checks(session: Session, shape: Shape, placing: Placing) -> Iterable[Check]:
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
    caps = None if placing.caps is None else placing.caps(shape)
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
