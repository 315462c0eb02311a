"""What happens to pods and nodes on a virtual cluster, as new objects: the old ones are never changed."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.meta import Condition, OwnerReference
from fairway.api.pods import Pod, PodStatus
from fairway.api.scheduling import PodGroup
from fairway.clock import Micros, to_datetime
from fairway.drive.objects import unrecorded
from fairway.state.annotations import NOMINATED_SINCE

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


VIRTUAL_OWNER = "VirtualJob"
"""The kind that stands for what recreates a lone pod on a virtual cluster."""


def owned(pod: Pod) -> Pod:
    """The pod with an owner of its own, which stays the same when the pod is recreated."""
    meta = pod.metadata
    uid = f"{VIRTUAL_OWNER}/{meta.namespace}/{meta.name}"
    owner = OwnerReference(kind=VIRTUAL_OWNER, name=meta.name, uid=uid, controller=True)
    return replace(pod, metadata=replace(meta, owner_references=(*meta.owner_references, owner)))


def virtual_owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.kind == VIRTUAL_OWNER), None)


def running(pod: Pod, at: Micros) -> Pod:
    """A pod on its node, from when its containers started."""
    return replace(pod, status=replace(pod.status, phase="Running", start_time=to_datetime(at)))


def succeeded(pod: Pod, ended: Micros) -> Pod:
    over = Condition(type="Ready", status="False", reason="PodCompleted", last_transition_time=to_datetime(ended))
    return replace(pod, status=replace(pod.status, phase="Succeeded", conditions=(*pod.status.conditions, over)))


def recreated(pod: Pod, at: Micros) -> Pod:
    """The pod that a controller makes in the place of one that is gone: it has neither node nor devices yet."""
    notes = unrecorded(pod)
    notes.pop(NOMINATED_SINCE, None)
    meta = replace(
        pod.metadata,
        uid=uid_at(pod.metadata.namespace, pod.metadata.name, at),
        creation_timestamp=to_datetime(at),
        deletion_timestamp=None,
        annotations=notes,
    )
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=PodStatus())


def is_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def not_ready(node: Node) -> Node:
    conditions = (Condition(type="Ready", status="False", reason="Failed"),)
    return replace(node, status=replace(node.status, conditions=conditions))


def cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))
