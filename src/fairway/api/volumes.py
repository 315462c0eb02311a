"""Persistent volumes, as far as they tie a pod to places."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.affinity import NodeSelector
from fairway.api.meta import ApiStruct, Count, ObjectMeta

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class VolumeNodeAffinity(ApiStruct, frozen=True):
    required: NodeSelector | None = None


class ClaimReference(ApiStruct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSIVolume(ApiStruct, frozen=True):
    driver: str


class PersistentVolumeSpec(ApiStruct, frozen=True):
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None


class VolumeStatus(ApiStruct, frozen=True):
    phase: str = "Pending"


class PersistentVolume(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """No class name means the default class; an empty one means no class at all."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyExpression(ApiStruct, frozen=True):
    key: str
    values: tuple[str, ...]


class TopologyTerm(ApiStruct, frozen=True):
    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: Literal["Immediate", "WaitForFirstConsumer"] = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.metadata.annotations.get(DEFAULT_CLASS) == "true"


class VolumeLimit(ApiStruct, frozen=True):
    count: Count | None = None


class CSIDriver(ApiStruct, frozen=True):
    name: str
    allocatable: VolumeLimit | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[CSIDriver, ...] = ()


class CSINode(ApiStruct, frozen=True):
    """What storage drivers say of the node of the same name: how many volumes it can attach."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)
