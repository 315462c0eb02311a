"""Holds: free capacity on a node that a waiting task has a claim to, as objects carry it.

A reservation is in the job's `Reservation` (see `reservations`); a nomination is in the pod's
`status.nominatedNodeName`. Both are read back after a restart.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.pods import Pod
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.tasks import TaskState


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
