"""Holds: room on a node that a waiting task has a claim to, as its job's own object carries it.

A reservation is in the annotation `fairway.dev/reservations` of the PodGroup, or of the lone pod; a nomination is in
the pod's `status.nominatedNodeName`. Both are read back after a restart. What cannot be read is no hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairway.api.pods import Pod
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.state.annotations import NOMINATED_SINCE, RESERVATIONS
from fairway.state.tasks import TaskState

MAX_RECORDS = 10_000
STATES = {"reserved": TaskState.RESERVED, "allocated": TaskState.ALLOCATED}


class HoldRecord(NamedTuple):
    """A claim to room on a node. `since` None means that nobody wrote down when it began."""

    node: str
    state: TaskState
    since: Micros | None


class _Reservation(msgspec.Struct):
    pod: str
    node: str
    state: str
    since: str = ""


def read_reservations(annotations: Mapping[str, str], namespace: str) -> dict[str, HoldRecord]:
    """The reservations of a job, by the key of the pod."""
    found: dict[str, HoldRecord] = {}
    for item in (_decoded(annotations.get(RESERVATIONS, "")) or [])[:MAX_RECORDS]:
        if _is_whole(item):
            key = item.pod if "/" in item.pod else f"{namespace}/{item.pod}"
            found[key] = HoldRecord(item.node, STATES[item.state], _time(item.since))
    return found


def are_reservations(text: str) -> bool:
    """Whether all that a text says can be read. No text at all is no reservation."""
    items = _decoded(text)
    return items is not None and all(map(_is_whole, items))


def _decoded(text: str) -> list[_Reservation] | None:
    if not text:
        return []
    try:
        return msgspec.json.decode(text, type=list[_Reservation])
    except msgspec.DecodeError:
        return None


def _is_whole(item: _Reservation) -> bool:
    return item.state in STATES and bool(item.pod and item.node)


def read_nomination(pod: Pod) -> HoldRecord | None:
    node = pod.status.nominated_node_name
    if not node:
        return None
    return HoldRecord(node, TaskState.PIPELINED, _time(pod.metadata.annotations.get(NOMINATED_SINCE, "")))


def _time(text: str) -> Micros | None:
    try:
        return parse_rfc3339(text)
    except InputError:
        return None
