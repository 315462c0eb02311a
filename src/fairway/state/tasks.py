"""Tasks (one per pod), and the states they go through. A pod's own object says its state; nothing moves it but that.

                         +--> Reserved --+            (reserve: no free capacity yet)
                         |       |       |
                         |       v       v
    Pending --------> Allocated -----> Bound --> Running --> Succeeded | Failed
          |              ^               |          |
          +--> Pipelined +               +----------+--> Releasing --> (gone)

`Allocated` keeps capacity until its gang is ready; `Pipelined` waits on a node for capacity that is being released;
`Reserved` waits on a node for capacity that is not even being released. `Unknown` is what an unreachable node's
pods report: they keep their capacity. `Gated` pods have scheduling gates and wait until these are removed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from fairway.clock import Micros
from fairway.state.membership import NOTHING_SAID, PodSays

if TYPE_CHECKING:
    from fairway.state.jobs import Job
    from fairway.state.shapes import Shape

NOWHERE = -1
"""The node row of a task that is on no node."""


class TaskState(IntEnum):
    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    RESERVED = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9
    GATED = 10


_S = TaskState

ON_NODE = frozenset({_S.ALLOCATED, _S.BOUND, _S.RUNNING, _S.RELEASING, _S.UNKNOWN})
"""States that take room on their node."""

ACCOUNTED = frozenset({_S.ALLOCATED, _S.PIPELINED, _S.RESERVED, _S.BOUND, _S.RUNNING, _S.UNKNOWN})
"""States that count as held by queue, namespace and job. Releasing pods count on their node only."""

READY = frozenset({_S.ALLOCATED, _S.BOUND, _S.RUNNING, _S.SUCCEEDED})
"""States that count towards a gang's minimum."""

STARTED = ACCOUNTED | READY
"""States that set a job apart from those of its kind that have nothing yet."""

WAITING = frozenset({_S.PENDING, _S.PIPELINED, _S.RESERVED, _S.ALLOCATED})
"""States of a pod that has no binding yet: a new cycle decides about it again."""

RESERVATION_STATES = WAITING - {_S.PENDING}
"""States of a waiting pod that has a claim to room on a node."""

FINISHED = frozenset({_S.SUCCEEDED, _S.FAILED})

LOST = frozenset({_S.FAILED, _S.RELEASING, _S.GATED})
"""States of a pod that can not, or not yet, make up its gang."""


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
        "job",
        "key",
        "labels",
        "matched",
        "node",
        "priority",
        "record",
        "says",
        "shape",
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
    ) -> None:
        self.key = key
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
        self.says: PodSays = NOTHING_SAID
        """What it says for its job."""
        self.state = TaskState.PENDING
        self.node = NOWHERE

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.state.name} node={self.node}>"
