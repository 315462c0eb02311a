"""Whether a job could not start even if it had the cluster to itself: then it does not wait, it needs a change.

The bounds are simple, and each is exact in what it says: they count nodes as if nothing ran there, and ignore whatever
could only make it harder (rules between pods, devices, domains, nodes that are not ready). So a job that they call
hopeless is hopeless; of some hopeless jobs they say nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.framework.job_run import JobRun, TaskRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.verdict import NODE_AFFINITY_TEXT, NODE_SELECTOR_TEXT, UNTOLERATED
from fairway.state.shapes import Shape
from fairway.state.tables import PODS

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
            return "no node that it may use takes any pod"
        if amount > most:
            where = "the largest node has" if _all(session, nodes) else "the largest node that it may use has"
            return f"a pod needs {_text(name, amount)} {name}; {where} {_text(name, most)}"
    return "a pod needs more than any one node has, though no single resource is too little everywhere"


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
