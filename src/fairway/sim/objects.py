"""The changes that a cluster makes to pods and nodes, as new objects: the old ones are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.nodes import Node
from fairway.api.pods import Pod, PodStatus
from fairway.api.scheduling import PodGroup
from fairway.clock import Micros, format_rfc3339, to_datetime
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.asks import RECORD_PREFIX

__all__ = [
    "Node",
    "annotated",
    "cordoned",
    "identified",
    "leaving",
    "made_anew",
    "nominated",
    "not_ready",
    "running",
    "succeeded",
    "uid_at",
]

T = TypeVar("T", bound=Pod | PodGroup)


def uid_at(namespace: str, name: str, at: Micros) -> str:
    """The uid that a virtual cluster gives an object that is created at a time."""
    return f"{namespace}/{name}@{at}"


def identified(thing: T, at: Micros) -> T:
    """The object with a uid: one that has none was created at this time."""
    meta = thing.metadata
    if meta.uid:
        return thing
    return replace(thing, metadata=replace(meta, uid=uid_at(meta.namespace, meta.name, at)))


def running(pod: Pod, node: str, at: Micros) -> Pod:
    status = PodStatus(
        phase="Running", start_time=to_datetime(at), resource_claim_statuses=pod.status.resource_claim_statuses
    )
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def succeeded(pod: Pod, node: str, began: Micros, ended: Micros) -> Pod:
    over = Condition(type="Ready", status="False", reason="PodCompleted", last_transition_time=to_datetime(ended))
    status = PodStatus(phase="Succeeded", start_time=to_datetime(began), conditions=(over,))
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def leaving(pod: Pod, node: str, until: Micros) -> Pod:
    """Told to go: as in Kubernetes, the time of its deletion is the end of its grace period."""
    meta = replace(pod.metadata, deletion_timestamp=to_datetime(until))
    status = PodStatus(phase="Running", resource_claim_statuses=pod.status.resource_claim_statuses)
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node), status=status)


def made_anew(pod: Pod, at: Micros) -> Pod:
    """The pod that a controller makes in the place of one that is gone: it has no devices yet."""
    meta = replace(
        pod.metadata,
        uid=uid_at(pod.metadata.namespace, pod.metadata.name, at),
        creation_timestamp=to_datetime(at),
        annotations=_unrecorded(pod.metadata.annotations),
    )
    return replace(pod, metadata=meta, status=PodStatus())


def nominated(pod: Pod, node: str, at: Micros) -> Pod:
    """The node is to be this pod's; "" takes it back."""
    notes = {name: text for name, text in pod.metadata.annotations.items() if name != NOMINATED_SINCE}
    if node:
        notes[NOMINATED_SINCE] = format_rfc3339(at)
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        status=replace(pod.status, nominated_node_name=node),
    )


def annotated(pod: Pod, notes: Mapping[str, str]) -> Pod:
    """The pod with what a binding says of it; what was recorded before of its devices no longer holds."""
    own = _unrecorded(pod.metadata.annotations)
    return replace(pod, metadata=replace(pod.metadata, annotations={**own, **notes}))


def _unrecorded(notes: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in notes.items() if not name.startswith(RECORD_PREFIX)}


def not_ready(node: Node) -> Node:
    conditions = (Condition(type="Ready", status="False", reason="Failed"),)
    return replace(node, status=replace(node.status, conditions=conditions))


def cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))
