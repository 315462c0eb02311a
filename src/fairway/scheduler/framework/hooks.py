"""The extension points: one small protocol each. A plugin implements those it needs.

Built-in plugins inherit from the protocols of their hooks, so mypy rejects a method whose signature is not the hook's.
External plugins may do the same; only the names of their methods count.

Plugins see arrays, not one node at a time. `nodes` is a `NodeView`: some or all nodes, perhaps as they would be with
tasks added. A column that a plugin returns has one entry per node of the view, and an entry must depend on that node
alone, by element-wise arithmetic: the same node seen alone and among others must give the same bits.

How answers combine, which flag of a policy switches a hook off and what a failure does is said in the one table of
hooks, `fairway/api/hooks.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fairway.devices.match.free_slots import FreeSlots
from fairway.devices.track.node import NodeDevices
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.devices.requests import PreparedRequest
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement.node_view import Check as Check
from fairway.scheduler.placement.node_view import FloatColumn as FloatColumn
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import Verdict
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Task
from fairway.state.queues import Amounts
from fairway.state.shapes import Shape

Key = Any
"""Anything sortable; small first. All keys of one hook must be comparable with each other."""


class KeyText(NamedTuple):
    """A part of a key for people. The values of all parts, in order, compare as the key does."""

    key: str
    value: Any
    text: str


class OrderedBy(Enum):
    """What an order compares besides age: jobs that wait may overtake each other by it."""

    PRIORITY = "priority"
    SHARE = "share"


class EntitledBy(Enum):
    """By what a job may take the place of another in its queue: a step of the one comparison (see `entitlement`)."""

    PRIORITY = "priority"
    SHARE = "share"
    PRIORITY_FIRST = "priority before shares"


@runtime_checkable
class Opens(Protocol):
    """Called when a cycle begins, before any other hook."""

    def open(self, session: SessionView) -> None: ...


class OrdersQueues(Protocol):
    """Which queue goes next. Asked whenever the queue's standing has changed."""

    def queue_key(self, queue: QueueAccount) -> Key: ...


class OrdersNamespaces(Protocol):
    """Which namespace of a queue goes next. Asked whenever what it has in the queue has changed."""

    def namespace_key(self, account: NamespaceAccount) -> Key: ...


class OrdersJobs(Protocol):
    """Which job of a namespace goes next. Asked when the job enters, and after each of its steps."""

    def job_key(self, job: JobRun) -> Key: ...


class OrdersTasks(Protocol):
    """Which task of a job goes first. Asked once per job and cycle; ties fall by name."""

    def task_key(self, task: Task) -> Key: ...


class TellsQueueKeys(Protocol):
    """A queue's key in readable parts."""

    def queue_key_texts(self, queue: QueueAccount) -> Iterable[KeyText]: ...


class TellsNamespaceKeys(Protocol):
    """A namespace's key in readable parts."""

    def namespace_key_texts(self, account: NamespaceAccount) -> Iterable[KeyText]: ...


class TellsJobKeys(Protocol):
    """A job's key in readable parts."""

    def job_key_texts(self, job: JobRun) -> Iterable[KeyText]: ...


class TellsOrder(Protocol):
    """What the keys of queues, namespaces and jobs compare. Of a plugin that orders and does not tell, anything is
    assumed: planned starts are then soft.
    """

    def ordered_by(self) -> Iterable[OrderedBy]: ...


class Overused(Protocol):
    """True keeps the queue from taking more within its share; one such answer suffices."""

    def overused(self, queue: QueueAccount) -> bool: ...


class Allocatable(Protocol):
    """How many of `count` like tasks the queue may take now; the least answer counts. With `lending` idle capacity is
    lent, and what the queue deserves is no limit. An external plugin may leave that argument out.
    """

    def allocatable(self, queue: QueueAccount, shape: Shape, count: int, lending: bool) -> int: ...


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
    """Whether others may be evicted for a job, given what it would have then (`job.ready` counts the capacity that they
    would leave); all must agree.
    """

    def job_pipelined(self, job: JobRun) -> bool: ...


class Deserves(Protocol):
    """What each queue deserves, one amount for each resource of the axis; `UNLIMITED` where that does not limit. Asked
    once per cycle, after jobs were let in and before anything is placed.
    """

    def deserved(self) -> Mapping[str, Sequence[int]]: ...


class Lends(Protocol):
    """Whether idle capacity goes to other queues than those that deserve it."""

    def lends(self) -> bool: ...


class TellsLimits(Protocol):
    """Which limit of its queue keeps a job from its next step, as things stand; `YES` if none."""

    def not_allowed(self, job: JobRun) -> Verdict: ...


class LeavesGuarantees(Protocol):
    """Whether a queue that sets aside so much more, by row, leaves to the others what they are guaranteed."""

    def leaves_guarantees(self, queue: QueueAccount, need: Mapping[int, int]) -> bool: ...


class TellsWhatIsOwed(Protocol):
    """By row, of what queues other than this are guaranteed: what they have, and what they still request. What is only
    reserved for them, by name of queue, they do not have yet.
    """

    def owed(self, queue: QueueAccount, reserved: Mapping[str, Amounts]) -> Mapping[int, tuple[int, int]]: ...


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
    """How many like tasks a node can take at most, whatever its capacity; None if that does not limit."""

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


class RestsOn(Protocol):
    """What the plugin's answers about nodes rest on besides the shape and the node: columns are kept from cycle to
    cycle while it stays the same. Asked before `open`.
    """

    def basis(self, state: ClusterState) -> Hashable: ...


class AssignsDevices(Protocol):
    """The strategies by which devices are chosen; where no plugin has any, no pod gets devices. Asked before `open`."""

    def device_strategies(self) -> tuple[str, ...]: ...


class ChoosesDevices(Protocol):
    """The slot of the device of which a pod takes a part, where it requests no more than that; None if none serves. The
    pod's other resources are taken already.
    """

    def choose_device(self, request: PreparedRequest, row: int, node: NodeDevices, free: FreeSlots) -> int | None: ...


class ScoresReserves(Protocol):
    """How good each node is to be reserved, larger is better; all are added up. Only the best are used."""

    def reserve_score(self, shape: Shape, nodes: NodeView) -> FloatColumn: ...


class Protects(Protocol):
    """Which of the candidates may be evicted for the claimant; what one plugin protects is safe from all."""

    def preemptable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]: ...


class ProtectsAcrossQueues(Protocol):
    """The same for reclaim."""

    def reclaimable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]: ...


class Victims(Protocol):
    """What could be evicted, in units that are evicted whole: surplus pods and gangs. Columns may be longer than the
    list of units; entries of units that are gone (None) mean nothing.
    """

    @property
    def units(self) -> Sequence[Any]: ...
    @property
    def system(self) -> BoolColumn: ...
    @property
    def priority(self) -> IntColumn: ...


class ProtectsUnits(Protocol):
    """Like `preemptable`, for what does not depend on the claimant: asked of all units at once."""

    def preemptable_units(self, index: Victims) -> BoolColumn: ...


class ProtectsUnitsAcrossQueues(Protocol):
    """The same for reclaim."""

    def reclaimable_units(self, index: Victims) -> BoolColumn: ...


class Entitles(Protocol):
    """By what a job may take the place of another in its queue; each plugin adds its part."""

    def entitled_by(self) -> Iterable[EntitledBy]: ...


class Accounts(Protocol):
    """Told of every change to what a job has; `count` is negative when it is given up."""

    def on_allocate(self, job: JobRun, shape: Shape, count: int) -> None: ...
