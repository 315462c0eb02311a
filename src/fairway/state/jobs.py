"""Jobs (a PodGroup with its pods, the pods of one controller, or a pod alone) and their tasks, one for each pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from sys import intern
from typing import NamedTuple

from fairway.api.meta import OwnerReference
from fairway.api.pods import Pod
from fairway.api.scheduling import JobKind
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import IllegalMoveError, InputError
from fairway.resources.columns import Vector
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.membership import NO_HINTS, PodHints, PodRank
from fairway.state.shapes import Shape
from fairway.state.topology import TopologyRequest

NOWHERE = -1
"""The node row of a task that is on no node."""


# How a task moves from state to state. `LEGAL_MOVES` below is this drawing, `TaskLedger.enter` enforces it.
#
#     GATED <----------> PENDING          scheduling gates, or a group that holds its pods
#                         |   ^
#              reserved,  |   |  released, timed out, or the capacity went elsewhere
#              nominated  v   |
#          RESERVED <-> PIPELINED <-> ALLOCATED        all of WAITING: any of the four may become any other
#                         |
#                   bound |  ^ the bind was refused (BOUND -> PENDING only)
#                         v  |
#                       BOUND -------> RUNNING <------> UNKNOWN      UNKNOWN: its node does not answer
#                         |               |                |
#                         +-------+-------+----------------+
#                                 v
#                             RELEASING ----> SUCCEEDED, FAILED      these two also without RELEASING; nothing follows
#
# From PENDING a pod may also be seen RUNNING or UNKNOWN at once: a watch shows the latest state, not each one. A pod
# that is deleted while it waits (RELEASING, FAILED) was never on a node.
#
# Only moves of one `Task` are held against the table, because those are Fairway's own doing. An object may say
# anything: a pod whose news fits no legal move is read anew, as another `Task` with a history of its own.


class TaskState(IntEnum):
    """The state of a pod, as the scheduler counts it."""

    PENDING = 0
    """Waits, and has no claim to a node."""
    ALLOCATED = 1
    """Waits for its gang, with capacity of its own on a node."""
    PIPELINED = 2
    """Nominated: waits for the capacity of pods that are evicted for it."""
    RESERVED = 3
    """Waits on a reserved node for pods there to end."""
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    """Terminating: uses its node, and no longer counts for its queue."""
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9
    """On a node that does not answer."""
    GATED = 10
    """May not be scheduled yet."""


_S = TaskState

_ENDS = frozenset({_S.RELEASING, _S.SUCCEEDED, _S.FAILED})
_WAITS = frozenset({_S.PENDING, _S.ALLOCATED, _S.PIPELINED, _S.RESERVED})
_LEAVES_WAITING = _ENDS | {_S.BOUND, _S.GATED}

LEGAL_MOVES: Mapping[TaskState, frozenset[TaskState]] = {
    _S.GATED: frozenset({_S.PENDING, _S.RELEASING, _S.FAILED}),
    _S.PENDING: (_WAITS | _LEAVES_WAITING | {_S.RUNNING, _S.UNKNOWN}) - {_S.PENDING},
    _S.RESERVED: (_WAITS | _LEAVES_WAITING) - {_S.RESERVED},
    _S.PIPELINED: (_WAITS | _LEAVES_WAITING) - {_S.PIPELINED},
    _S.ALLOCATED: (_WAITS | _LEAVES_WAITING) - {_S.ALLOCATED},
    _S.BOUND: _ENDS | {_S.PENDING, _S.RUNNING, _S.UNKNOWN},
    _S.RUNNING: _ENDS | {_S.UNKNOWN},
    _S.UNKNOWN: _ENDS | {_S.RUNNING},
    _S.RELEASING: frozenset({_S.SUCCEEDED, _S.FAILED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
}
"""Where a task may go from each state. Staying is no move."""

History = tuple[TaskState, ...]

_HISTORY_LENGTH = 6
_histories: dict[tuple[History, TaskState], History] = {}
"""One tuple for all tasks of the same history: there are few, and millions of tasks."""


def next_history(key: str, history: History, state: TaskState) -> History:
    """The history of a task that moves to a state: its last few states. An illegal move raises, with all of them."""
    if history and state not in LEGAL_MOVES[history[-1]]:
        raise IllegalMoveError(key, [before.name for before in history], state.name)
    longer = _histories.get((history, state))
    if longer is None:
        longer = _histories[history, state] = (*history, state)[-_HISTORY_LENGTH:]
    return longer


ON_NODE = frozenset({_S.ALLOCATED, _S.BOUND, _S.RUNNING, _S.RELEASING, _S.UNKNOWN})
"""States that take capacity on their node."""

ACCOUNTED = frozenset({_S.ALLOCATED, _S.PIPELINED, _S.RESERVED, _S.BOUND, _S.RUNNING, _S.UNKNOWN})
"""States that count as allocated to queue, namespace and job. Releasing pods count on their node only."""

READY = frozenset({_S.ALLOCATED, _S.BOUND, _S.RUNNING, _S.SUCCEEDED})
"""States that count towards a gang's minimum."""

STARTED = ACCOUNTED | READY
"""States that set a job apart from those of its kind that have nothing yet."""

WAITING = _WAITS
"""States of a pod that has no binding yet: a new cycle decides about it again."""

RESERVATION_STATES = WAITING - {_S.PENDING}
"""States of a waiting pod that has a reservation on a node."""

FINISHED = frozenset({_S.SUCCEEDED, _S.FAILED})

LOST = frozenset({_S.FAILED, _S.RELEASING, _S.GATED})
"""States of a pod that can not, or not yet, make up its gang."""


class ReservationRecord(NamedTuple):
    """A claim to free capacity on a node. `since` None means that its beginning was not written down."""

    node: str
    state: TaskState
    since: Micros | None


def read_nomination(pod: Pod) -> ReservationRecord | None:
    node = pod.status.nominated_node_name
    if not node:
        return None
    return ReservationRecord(node, TaskState.PIPELINED, _time(pod.metadata.annotations.get(NOMINATED_SINCE, "")))


def _time(text: str) -> Micros | None:
    try:
        return parse_rfc3339(text)
    except InputError:
        return None


class PlannedRecord(NamedTuple):
    """When a job is planned to start and, by pod, on which node."""

    start: Micros
    hard: bool
    nodes: dict[str, str]
    since: Micros | None = None
    """When it was planned, or last moved."""
    runs: int | None = None
    """On one job of all: how many pods were on nodes when planned starts were last looked at. Where there are fewer
    now, runs have ended since, and planned starts are compressed."""


class OverrunRecord(NamedTuple):
    """A job was evicted because it outlived its expected run time."""

    after: tuple[str, str] | None
    """Kind and key of the job that it was evicted for, as long as that one has not started."""


LAST = 1 << 62
"""The creation time, for ordering, of what does not say when it was created."""

JobOrder = tuple[Micros, str, bool]
"""No two jobs have the same."""


class Traits(NamedTuple):
    """What decides how a task may be treated, apart from where it fits. Equal ones are shared by tasks."""

    role: str = ""
    preemptable: bool = True
    preempts: bool = True
    priority_class: str = ""
    explicit_priority: bool = False
    runtime: Micros | None = None
    deadline: Micros | None = None
    cooldown: Micros = 0
    """For so long after its start it is no victim."""


class Task:
    """One pod. Slots and shared parts keep a running one small."""

    __slots__ = (
        "created",
        "hints",
        "history",
        "job",
        "key",
        "labels",
        "matched",
        "node",
        "priority",
        "rank",
        "record",
        "shape",
        "source",
        "started",
        "state",
        "traits",
    )

    def __init__(
        self,
        key: str,
        job: Job,
        shape: Shape,
        *,
        priority: int,
        created: Micros | None,
        traits: Traits,
        labels: dict[str, str],
        source: Pod,
    ) -> None:
        self.key = key
        self.source = source
        """The pod as it was read last."""
        self.job = job
        self.shape = shape
        self.priority = priority
        self.created = created
        self.started: Micros | None = None
        self.traits = traits
        self.labels = labels
        self.matched: tuple[int, ...] = ()
        self.record: tuple[tuple[str, str], ...] = ()
        """The annotations that say which devices it was given."""
        self.hints: PodHints = NO_HINTS
        """What it says for its job."""
        self.rank: PodRank | None = None
        """Its order among the pods of its job, if it carries an index."""
        self.state = TaskState.PENDING
        self.history: History = ()
        """Its last states, the present one at the end; nothing until it is first counted in."""
        self.node = NOWHERE

    def become(self, state: TaskState) -> None:
        """Move to a state, or begin there: a scheduler that starts meets pods in all of them."""
        if state is not self.state or not self.history:
            self.history = next_history(self.key, self.history, state)
            self.state = state

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.state.name} node={self.node}>"


class Job:
    """What is placed whole or not at all: `minimum` tasks, and of each role its own minimum.

    A pod without a group is a job of one that has the pod's key. Pods of one controller are an `implicit` job: what
    they say makes it. A group that pods name and that has no object yet is a job without `group`: it waits.
    """

    __slots__ = (
        "alone",
        "annotations",
        "broken",
        "broken_at",
        "created",
        "evict_whole",
        "gated",
        "group",
        "held",
        "hints",
        "implicit",
        "key",
        "last_ready",
        "minimum",
        "minimum_resources",
        "named_queue",
        "namespace",
        "overrun",
        "own_priority",
        "own_topology",
        "owner",
        "pending",
        "phase",
        "planned",
        "priority",
        "priority_class",
        "queue",
        "ready",
        "reservations",
        "role_minimums",
        "tasks",
        "topology",
        "uid",
    )

    def __init__(self, key: str, namespace: str, queue: str, *, alone: bool = False, implicit: bool = False) -> None:
        self.key = key
        self.uid = ""
        self.alone = alone
        self.implicit = implicit
        self.namespace = intern(namespace)
        self.queue = intern(queue)
        self.named_queue = ""
        """The queue that its group names; "" leaves it to the pods and the namespace."""
        self.hints: dict[PodHints, int] = {}
        """What its pods say for it, and how many say so."""
        self.group = False
        self.minimum = 1
        self.minimum_resources: Vector | None = None
        self.role_minimums: tuple[tuple[str, int], ...] = ()
        self.priority = 0
        self.priority_class = ""
        self.created: Micros | None = None
        self.phase = ""
        self.annotations: dict[str, str] | None = None
        self.reservations: dict[str, ReservationRecord] | None = None
        self.planned: PlannedRecord | None = None
        """Its planned start, as backfill carries it."""
        self.overrun: OverrunRecord | None = None
        """If it was evicted because it outlived its expected run time."""
        self.owner: OwnerReference | None = None
        """The controller of its group, which outlives it."""
        self.last_ready: Micros | None = None
        self.broken = False
        """Whether it is a gang that has started and has fewer pods than its minimum by now."""
        self.broken_at: Micros | None = None
        """When its group's condition `Scheduled` turned False, if it did."""
        self.tasks: list[Task] = []
        self.ready = 0
        self.pending = 0
        self.gated = 0
        self.held = False
        """Whether its group says that none of its pods may be placed."""
        self.topology: TopologyRequest | None = None
        """Where its pods must be, or should be, in relation to each other."""
        self.own_topology: TopologyRequest | None = None
        """What its group asks for; None leaves it to the pods."""
        self.own_priority: int | None = None
        """The priority that its group states as a number."""
        self.evict_whole = False
        """Whether its pods are evicted together, those above the minimum too."""

    @property
    def is_made(self) -> bool:
        """Whether an object says what it needs: its group's, its pods', or that of the pod that it is."""
        return self.group or self.alone or self.implicit

    @property
    def kind(self) -> JobKind:
        """What the job's own object is: a lone pod and a group may have the same key."""
        return "Pod" if self.alone else "Controller" if self.implicit else "PodGroup"

    @property
    def identity(self) -> str:
        """What no other job is called."""
        return f"{self.kind} {self.key}"

    @property
    def order(self) -> JobOrder:
        """The tie rule: creation, then namespace/name, and of two of one name the group before the lone pod."""
        return (LAST if self.created is None else self.created, self.key, self.alone)

    @property
    def waits_since(self) -> Micros | None:
        """When its wait began: at creation, or when it was last ready. None if that is not known."""
        if self.created is None or self.last_ready is None:
            return self.created if self.last_ready is None else self.last_ready
        return max(self.created, self.last_ready)

    def waiting(self) -> list[Task]:
        """The tasks without a place, in task order: priority, then name."""
        tasks = [task for task in self.tasks if task.state is TaskState.PENDING]
        return tasks if len(tasks) <= 1 else _in_order(tasks)

    def reserved_tasks(self) -> list[Task]:
        """The tasks with a reservation somewhere, in task order."""
        return _in_order([task for task in self.tasks if task.state in RESERVATION_STATES])

    def has_started(self) -> bool:
        """Whether some task runs, ran, or has a reservation."""
        return bool([task for task in self.tasks if task.state in STARTED])

    def members(self) -> int:
        """Pods that can make up the gang: all but the failed, the terminating and the gated."""
        return len([task for task in self.tasks if task.state not in LOST])

    def members_by_role(self) -> dict[str, int]:
        return _by_role(task for task in self.tasks if task.state not in LOST)

    def ready_by_role(self) -> dict[str, int]:
        return _by_role(task for task in self.tasks if task.state in READY)

    def __repr__(self) -> str:
        return f"<Job {self.key} {self.ready}/{self.minimum} ready, {self.pending} pending>"


def _in_order(tasks: list[Task]) -> list[Task]:
    if len(tasks) > 1:
        tasks.sort(key=lambda task: (-task.priority, task.key))
    return tasks


def _by_role(tasks: Iterable[Task]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.traits.role] = counts.get(task.traits.role, 0) + 1
    return counts


_CLAIM_NOTHING = ACCOUNTED | {TaskState.SUCCEEDED, TaskState.GATED}


def unallocated(job: Job) -> Vector:
    """What of a group's `minResources` is neither allocated nor was used by pods that succeeded. Pods with scheduling
    gates claim nothing: nobody knows when they may start.
    """
    left = dict(job.minimum_resources or ())
    for task in job.tasks:
        if task.state in _CLAIM_NOTHING:
            for row, amount in task.shape.vector:
                if row in left:
                    left[row] -= amount
    return tuple((row, amount) for row, amount in left.items() if amount > 0)


def is_valid(job: Job) -> bool:
    """Whether the job has an object, and it has the members that its minimum, and each role's, asks for."""
    if not (job.alone or job.group or job.implicit):
        return False
    members = 0
    for task in job.tasks:
        if task.state not in LOST:
            members += 1
    if members < job.minimum:
        return False
    if not job.role_minimums:
        return True
    by_role = job.members_by_role()
    return all(by_role.get(role, 0) >= least for role, least in job.role_minimums)


RUNS = frozenset({_S.BOUND, _S.RUNNING})
"""States of a pod that works, or is about to, if its gang is whole."""


def is_broken(job: Job) -> bool:
    """Whether a gang has pods on nodes, but fewer than it needs: gangs are placed whole, so it has lost some."""
    if job.alone or not any(task.state in RUNS for task in job.tasks):
        return False
    if job.ready < job.minimum:
        return True
    if not job.role_minimums:
        return False
    by_role = job.ready_by_role()
    return any(by_role.get(role, 0) < least for role, least in job.role_minimums)
