"""What pods run on and in: nodes, namespaces with their quotas, and volumes that tie a pod to places."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import Amounts, ApiStruct, Condition, Count, LabelSelector, ObjectMeta, QuantityText, Scalars
from fairway.api.pods import FILESYSTEM, NodeSelector, PersistentVolumeClaimSpec, Taint


class NodeSpec(ApiStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    capacity: Amounts = msgspec.field(default_factory=dict)
    allocatable: Amounts | None = None
    conditions: tuple[Condition, ...] = ()


class Node(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def allocatable(self) -> dict[str, str]:
        """What pods may use. A node that does not state it offers its whole capacity, as the API server defaults it."""
        given = self.status.allocatable
        return self.status.capacity if given is None else given


NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"
"""The key in a quota's `spec.hard` that holds the weight, as raw text; the reader of the weight decides what is valid.
"""


class NamespaceStatus(ApiStruct, frozen=True):
    phase: str = "Active"


class Namespace(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class ResourceQuotaSpec(ApiStruct, frozen=True):
    hard: Scalars = msgspec.field(default_factory=dict)


class ResourceQuota(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)


DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""On a claim: its binding is complete. Whoever set `volumeName`, it is not bound before."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On a volume: its `claimRef` was not set by a user, and may be taken back."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""On a claim: the node for which its volume is to be provisioned."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeNodeAffinity(ApiStruct, frozen=True):
    required: NodeSelector | None = None


class ClaimReference(ApiStruct, frozen=True):
    """The claim that a volume belongs to. Without a uid it means any claim of the name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""


class CSIVolume(ApiStruct, frozen=True):
    driver: str
    volume_handle: str = ""


class PersistentVolumeSpec(ApiStruct, frozen=True):
    capacity: Amounts = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    volume_attributes_class_name: str = ""
    storage_class_name: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None


class VolumeStatus(ApiStruct, frozen=True):
    """An API server always states a phase; an object from a file that states none is taken as it is described."""

    phase: str = ""


class PersistentVolume(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


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


class CSIDriverSpec(ApiStruct, frozen=True):
    storage_capacity: bool = False


class CSIDriver(ApiStruct, frozen=True):
    """A storage driver. Only of one with `storageCapacity` the published capacities say where it can provision."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(ApiStruct, frozen=True):
    """What a driver can still provision of one class for the nodes of one topology; without a topology, for none."""

    storage_class_name: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    node_topology: LabelSelector | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class VolumeLimit(ApiStruct, frozen=True):
    count: Count | None = None


class NodeDriver(ApiStruct, frozen=True):
    name: str
    allocatable: VolumeLimit | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ApiStruct, frozen=True):
    """What storage drivers report about the node of the same name: how many volumes it can attach."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)
