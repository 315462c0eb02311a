"""Volumes: where a pod's claims let it go.

A bound claim ties the pod to its volume's nodes. An unbound claim of a class that waits for its first consumer
ties it to the class's allowed topologies. A claim that does not exist, or waits to be bound, keeps the pod waiting.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fairway.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from fairway.api.pods import Pod, Volume
from fairway.api.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass


class VolumeNeeds(NamedTuple):
    """Selectors that the node must satisfy, all of them; or why no node will do."""

    key: bytes = b""
    selectors: tuple[NodeSelector, ...] = ()
    missing: str = ""


NO_VOLUMES = VolumeNeeds()


class VolumeBook:
    """The volumes, claims and classes known."""

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._classes: dict[str, StorageClass] = {}

    def upsert(self, thing: PersistentVolume | PersistentVolumeClaim | StorageClass) -> None:
        match thing:
            case PersistentVolume():
                self._volumes[thing.metadata.name] = thing
            case PersistentVolumeClaim():
                self._claims[thing.metadata.namespace, thing.metadata.name] = thing
            case StorageClass():
                self._classes[thing.metadata.name] = thing

    def delete(self, thing: PersistentVolume | PersistentVolumeClaim | StorageClass) -> None:
        match thing:
            case PersistentVolume():
                self._volumes.pop(thing.metadata.name, None)
            case PersistentVolumeClaim():
                self._claims.pop((thing.metadata.namespace, thing.metadata.name), None)
            case StorageClass():
                self._classes.pop(thing.metadata.name, None)

    def needs(self, pod: Pod) -> VolumeNeeds:
        names = [_claim_of(pod, volume) for volume in pod.spec.volumes]
        names = [name for name in names if name]
        if not names:
            return NO_VOLUMES
        selectors: list[NodeSelector] = []
        for name in sorted(names):
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is None:
                return _missing(f"persistentvolumeclaim {name} not found")
            problem = self._collect(claim, selectors)
            if problem:
                return _missing(problem)
        return VolumeNeeds(msgspec.json.encode(selectors), tuple(selectors))

    def _collect(self, claim: PersistentVolumeClaim, selectors: list[NodeSelector]) -> str:
        """Add what the claim asks of a node; a text says why it can ask nothing yet."""
        name = claim.metadata.name
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return f"persistentvolume {claim.spec.volume_name} of claim {name} not found"
            if volume.spec.node_affinity and volume.spec.node_affinity.required:
                selectors.append(volume.spec.node_affinity.required)
            return ""
        storage_class = self._class_of(claim)
        if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return f"persistentvolumeclaim {name} is not bound"
        if storage_class.allowed_topologies:
            selectors.append(_topologies(storage_class))
        return ""

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name = claim.spec.storage_class_name
        if name is not None:
            return self._classes.get(name)
        defaults = sorted(n for n, storage_class in self._classes.items() if storage_class.is_default)
        return self._classes[defaults[0]] if defaults else None


def _claim_of(pod: Pod, volume: Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _topologies(storage_class: StorageClass) -> NodeSelector:
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=e.key, operator="In", values=e.values)
                    for e in term.match_label_expressions
                )
            )
            for term in storage_class.allowed_topologies
        )
    )


def _missing(text: str) -> VolumeNeeds:
    return VolumeNeeds(key=text.encode(), missing=text)
