"""The states that tasks (one per pod) go through. A pod's own object says its state; nothing else changes it.

                         +--> Reserved --+            (reserve: no free capacity yet)
                         |       |       |
                         |       v       v
    Pending --------> Allocated -----> Bound --> Running --> Succeeded | Failed
          |              ^               |          |
          +--> Pipelined +               +----------+--> Releasing --> (gone)

`Allocated` keeps capacity until its gang is ready; `Pipelined` waits on a node for capacity that is being released;
`Reserved` waits on a node for capacity that is not even being released. `Unknown` is what an unreachable node's
pods report: they keep their capacity. `Gated` pods have scheduling gates and wait until these are removed.

Besides, what objects record of a waiting job between cycles: reservations, nominations and planned starts.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from fairway.api.pods import Pod
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.state.annotations import NOMINATED_SINCE

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
"""States that take capacity on their node."""

ACCOUNTED = frozenset({_S.ALLOCATED, _S.PIPELINED, _S.RESERVED, _S.BOUND, _S.RUNNING, _S.UNKNOWN})
"""States that count as allocated to queue, namespace and job. Releasing pods count on their node only."""

READY = frozenset({_S.ALLOCATED, _S.BOUND, _S.RUNNING, _S.SUCCEEDED})
"""States that count towards a gang's minimum."""

STARTED = ACCOUNTED | READY
"""States that set a job apart from those of its kind that have nothing yet."""

WAITING = frozenset({_S.PENDING, _S.PIPELINED, _S.RESERVED, _S.ALLOCATED})
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
