"""What is kept of an object: what some rule or view reads, once for all objects that are alike (spec K4).

Pods come in few shapes and many copies. All that a template gives its pods (containers, tolerations, labels, ...) is
kept once; what remains of a pod is its names, its node and its status.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import Pod, PodSpec
from fairway.state.annotations import MIN_AVAILABLE, noted
from fairway.state.membership import group_name

MAX_SHARED = 20_000
"""Different parts that are remembered; a cluster with more has few that repeat."""

_UNREAD = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")

T = TypeVar("T")


def is_kept(thing: ApiObject, scheduler_names: Collection[str]) -> bool:
    """Whether an object counts at all: finished pods do not, nor do those that wait for another scheduler.

    A pod that succeeded still counts in its own gang: else a gang of which some have finished could never replace one
    that was lost. One that failed counts in the status of its group, which would say Running for ever.
    """
    if not isinstance(thing, Pod):
        return True
    phase, ours = thing.status.phase, thing.spec.scheduler_name in scheduler_names
    if phase == "Failed":
        return ours and bool(group_name(thing))
    if phase == "Succeeded":
        return ours and bool(group_name(thing) or noted(thing.metadata, MIN_AVAILABLE))
    return ours or bool(thing.spec.node_name)


class Sharing:
    """Equal parts of objects, each kept once. Parts are told apart by what they look like encoded."""

    def __init__(self) -> None:
        self._parts: dict[bytes | tuple[object, ...], object] = {}
        self._encoder = msgspec.msgpack.Encoder()

    def slim(self, thing: ApiObject) -> ApiObject:
        if isinstance(thing, Pod):
            return self._pod(thing)
        if isinstance(thing, Node):
            return replace(thing, metadata=self._metadata(thing.metadata))
        return thing

    def _pod(self, pod: Pod) -> Pod:
        """One new struct each for the pod, its metadata and its spec: every `replace` counts here."""
        return Pod(self._spec(pod.spec), self._metadata(pod.metadata), pod.status)

    def _spec(self, spec: PodSpec) -> PodSpec:
        """As shared as can be: all but the node's name, and the names of volumes, which are random in part."""
        node, volumes = spec.node_name, spec.volumes
        if volumes:
            claimed = tuple([volume for volume in volumes if volume.has_source])
            if len(claimed) != len(volumes):
                spec = replace(spec, volumes=claimed)
        if node:
            spec = replace(spec, node_name="")
        shared = self._shared(self._encoder.encode(spec), spec)
        return replace(shared, node_name=node) if node else shared

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        labels, notes, owners = meta.labels, meta.annotations, meta.owner_references
        if notes:
            if not notes.keys().isdisjoint(_UNREAD):
                notes = {name: text for name, text in notes.items() if name not in _UNREAD}
            notes = self._mapping(notes)
        return ObjectMeta(
            meta.name,
            self._text(meta.namespace),
            meta.uid,
            self._mapping(labels) if labels else labels,
            notes,
            meta.creation_timestamp,
            meta.deletion_timestamp,
            self._text(meta.generate_name),
            self._owners(owners) if owners else owners,
            meta.resource_version,
            meta.finalizers,
        )

    def _owners(self, owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
        return self._shared(("owners", *[(one.uid, one.kind, one.name, one.controller) for one in owners]), owners)

    def _mapping(self, texts: dict[str, str]) -> dict[str, str]:
        return self._shared(tuple(texts.items()), texts)

    def _text(self, text: str) -> str:
        return self._shared((text,), text) if text else text

    def _shared(self, key: bytes | tuple[object, ...], part: T) -> T:
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= MAX_SHARED:
                self._parts.clear()
            self._parts[key] = part
            return part
        return found  # type: ignore[return-value]
