"""The extension points: one small protocol each. A plugin implements those it needs.

Plugins see arrays, not one node at a time. `nodes` is a `NodeView`: some or all nodes, perhaps as they would be with
tasks added. A column that a plugin returns has one entry per node of the view, and an entry must depend on that node
alone, by element-wise arithmetic: the same node seen alone and among others must give the same bits.

What happens when a plugin raises, or returns a wrong shape, NaN or a giant, is said in `guard.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.shapes import Shape
from fairway.state.tasks import Task

if TYPE_CHECKING:
    from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
    from fairway.scheduler.framework.job_run import JobRun
    from fairway.scheduler.framework.session import Session
    from fairway.scheduler.placement.node_view import NodeView

FloatColumn = NDArray[np.float64]
Key = Any
"""Anything sortable; small first. All keys of one hook must be comparable with each other."""


class KeyText(NamedTuple):
    """A part of a key for people. Built-in plugins say these of their keys (`queue_key_texts` and so on): the values of
    all parts, in order, compare as the key does.
    """

    key: str
    value: Any
    text: str


class Check(NamedTuple):
    """One test of a filter: where it passes, and what to say of the nodes where it does not."""

    passes: BoolColumn
    text: str
    reason: Reason = Reason.PREDICATE_FAILED


@runtime_checkable
class Opens(Protocol):
    """Called when a cycle begins, before any other hook."""

    def open(self, session: Session) -> None: ...


class OrdersQueues(Protocol):
    """Which queue goes next. Asked whenever the queue's standing has changed."""

    def queue_key(self, queue: QueueAccount) -> Key: ...


class OrdersNamespaces(Protocol):
    """Which namespace of a queue goes next. Asked whenever what it holds in the queue has changed."""

    def namespace_key(self, account: NamespaceAccount) -> Key: ...


class OrdersJobs(Protocol):
    """Which job of a namespace goes next. Asked when the job enters, and after each of its steps."""

    def job_key(self, job: JobRun) -> Key: ...


class OrdersTasks(Protocol):
    """Which task of a job goes first. Asked once per job and cycle; ties fall by name."""

    def task_key(self, task: Task) -> Key: ...


class Overused(Protocol):
    """True keeps the queue from taking more within its share; one such answer suffices."""

    def overused(self, queue: QueueAccount) -> bool: ...


class Allocatable(Protocol):
    """How many of `count` like tasks the queue may take now; the least answer counts."""

    def allocatable(self, queue: QueueAccount, shape: Shape, count: int) -> int: ...


class Enqueueable(Protocol):
    """Whether a group may enter; all must allow."""

    def enqueueable(self, job: JobRun) -> Verdict: ...


class ValidatesJobs(Protocol):
    """Whether a job makes sense at all (enough pods); all must allow."""

    def job_valid(self, job: JobRun) -> Verdict: ...


class ReadiesJobs(Protocol):
    """Whether what a job has placed is enough to keep; all must agree."""

    def job_ready(self, job: JobRun) -> bool: ...


class PipelinesJobs(Protocol):
    """Whether others may be evicted for a job, given what it would have then (`job.ready` counts the room that they
    would leave); all must agree.
    """

    def job_pipelined(self, job: JobRun) -> bool: ...


class Filters(Protocol):
    """Where a shape may go, as things stand on the nodes. All checks must pass; they are asked again for a node
    when its amounts change.
    """

    def feasible(self, shape: Shape, nodes: NodeView) -> Iterable[Check]: ...


class FiltersByLabels(Protocol):
    """Like `feasible`, for answers that follow from labels, taints, readiness and size of the node only: they are
    kept until one of these changes. Switched off by the same flag.
    """

    def feasible_static(self, shape: Shape, nodes: NodeView) -> Iterable[Check]: ...


class LimitsNodes(Protocol):
    """How many like tasks a node can take at most, whatever its room; None if that does not limit."""

    def limit(self, shape: Shape, nodes: NodeView) -> IntColumn | None: ...


class Scores(Protocol):
    """How good each node is, usually 0 to 100 times a weight, larger is better; all scores are added up.

    `trend` may say how the score of a node moves as the node fills: 1 only up, -1 only down, 0 not at all. It lets
    many like tasks be placed at once; a wrong trend gives wrong placements, no trend is always right.
    """

    trend: int | None

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn: ...


class ScoresByLabels(Protocol):
    """Like `score`, for what follows from labels and taints of the node only. None means no opinion."""

    def score_static(self, shape: Shape, nodes: NodeView) -> FloatColumn | None: ...


class LooksAround(Protocol):
    """Whether placing one task of this shape may change what *other* nodes mean to it (zones, spreading).

    Such shapes are placed one task at a time, with all nodes looked at again.
    """

    def looks_around(self, shape: Shape) -> bool: ...


class ScoresReserves(Protocol):
    """How good each node is to be reserved, larger is better; all are added up. Only the best are used."""

    def reserve_score(self, shape: Shape, nodes: NodeView) -> FloatColumn: ...


class Protects(Protocol):
    """Which of the candidates may be evicted for the claimant; what one plugin protects is safe from all."""

    def preemptable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]: ...


class ProtectsAcrossQueues(Protocol):
    """The same for reclaim."""

    def reclaimable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]: ...


class Accounts(Protocol):
    """Told of every change to what a job holds; `count` is negative when it is given up."""

    def on_allocate(self, job: JobRun, shape: Shape, count: int) -> None: ...
