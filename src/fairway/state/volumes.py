"""Volumes: where a pod's claims let it go.

A bound claim ties the pod to its volume's nodes. An unbound claim of a class that waits for its first consumer
ties it to the class's allowed topologies. A claim that does not exist, or waits to be bound, keeps the pod waiting.

`VolumeUse` counts what is in use: how many volumes of each CSI driver are attached to a node, and which claims a single
pod has for itself. A volume that several pods may use at once (ReadWriteMany, ReadOnlyMany) is not counted: it is
attached once, however many pods of a node have it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fairway.api.core import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Volume


class VolumeRequests(NamedTuple):
    """Selectors that the node must satisfy, all of them; or why no node will do."""

    key: bytes = b""
    selectors: tuple[NodeSelector, ...] = ()
    missing: str = ""
    exclusive: tuple[str, ...] = ()
    """Claims (`namespace/name`) that one pod may use at a time."""
    attached: tuple[tuple[str, int], ...] = ()
    """By CSI driver, how many volumes of the pod's own have to be attached to the node."""


NO_VOLUMES = VolumeRequests()

_ONE_POD = "ReadWriteOncePod"
_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class Volumes:
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

    def requests(self, pod: Pod) -> VolumeRequests:
        names = [_claim_of(pod, volume) for volume in pod.spec.volumes]
        names = [name for name in names if name]
        if not names:
            return NO_VOLUMES
        selectors: list[NodeSelector] = []
        exclusive: list[str] = []
        attached: dict[str, int] = {}
        for name in sorted(set(names)):
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is None:
                return _missing(f"persistentvolumeclaim {name} not found")
            problem = self._collect(claim, selectors)
            if problem:
                return _missing(problem)
            modes = claim.spec.access_modes
            if _ONE_POD in modes:
                exclusive.append(f"{pod.metadata.namespace}/{name}")
            driver = "" if _SHARED.intersection(modes) else self._driver_of(claim)
            if driver:
                attached[driver] = attached.get(driver, 0) + 1
        counts = tuple(sorted(attached.items()))
        key = msgspec.json.encode((selectors, exclusive, counts))
        return VolumeRequests(key, tuple(selectors), "", tuple(exclusive), counts)

    def users_of(self, thing: PersistentVolume | PersistentVolumeClaim | StorageClass) -> set[str] | None:
        """The claims (`namespace/name`) that a change of this may concern; None is any."""
        if isinstance(thing, PersistentVolumeClaim):
            return {f"{thing.metadata.namespace}/{thing.metadata.name}"}
        if isinstance(thing, StorageClass):
            return None
        name = thing.metadata.name
        return {f"{space}/{claim}" for (space, claim), known in self._claims.items() if known.spec.volume_name == name}

    def _driver_of(self, claim: PersistentVolumeClaim) -> str:
        if claim.spec.volume_name:
            csi = self._volumes[claim.spec.volume_name].spec.csi
            return "" if csi is None else csi.driver
        storage_class = self._class_of(claim)
        return "" if storage_class is None else storage_class.provisioner

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


def claims_of(pod: Pod) -> list[str]:
    """The claims (`namespace/name`) of a pod's volumes."""
    names = (_claim_of(pod, volume) for volume in pod.spec.volumes)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


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


def _missing(text: str) -> VolumeRequests:
    return VolumeRequests(key=text.encode(), missing=text)


ByRow = dict[int, int]


class VolumeUse:
    """Counts by row; limits by the name of the node, for a node may come later than what is said of it."""

    def __init__(self) -> None:
        self.attached: dict[str, ByRow] = {}
        """By driver: volumes of pods on the node."""
        self.holders: dict[str, ByRow] = {}
        """By claim (`namespace/name`) that one pod may use at a time: pods that do."""
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node: how many volumes can be attached."""

    def upsert(self, thing: CSINode) -> None:
        self.delete(thing)
        for driver in thing.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self.limits.setdefault(driver.name, {})[thing.metadata.name] = driver.allocatable.count

    def delete(self, thing: CSINode) -> None:
        for driver in list(self.limits):
            self.limits[driver].pop(thing.metadata.name, None)
            if not self.limits[driver]:
                del self.limits[driver]

    def place(self, volumes: VolumeRequests, row: int, by: int) -> None:
        """A pod with these volumes came to a node (by 1) or went (by -1)."""
        for driver, count in volumes.attached:
            _add(self.attached, driver, row, by * count)
        for claim in volumes.exclusive:
            _add(self.holders, claim, row, by)


def _add(counts: dict[str, ByRow], key: str, row: int, by: int) -> None:
    rows = counts.setdefault(key, {})
    rows[row] = rows.get(row, 0) + by
    if not rows[row]:
        del rows[row]
    if not rows:
        del counts[key]
