"""Every kind that is read: its API versions, its struct, where it lives and what is checked in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairway.api.core import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    StorageClass,
)
from fairway.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClass,
    ResourceSlice,
)
from fairway.api.fleet import (
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PlacementDecision,
)
from fairway.api.pods import Pod
from fairway.api.scheduling import (
    EvictionRecord,
    HyperNode,
    KubePodGroup,
    PluginPodGroup,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    Reservation,
)
from fairway.api.shape import Finding
from fairway.api.validation import objects, pods
from fairway.api.validation.labels import check_metadata

ApiObject = (
    Node
    | Pod
    | Namespace
    | ResourceQuota
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | PriorityClass
    | PodDisruptionBudget
    | Queue
    | PodGroup
    | HyperNode
    | Reservation
    | EvictionRecord
    | ResourceSlice
    | DeviceTaintRule
    | DeviceClass
    | ResourceClaim
    | ResourceClaimTemplate
    | ResourceClass
    | ManagedCluster
    | ManagedClusterSet
    | ManagedClusterSetBinding
    | Placement
    | PlacementDecision
    | AddOnPlacementScore
)

ObjectKey = tuple[str, str, str]
"""Kind, namespace (empty for cluster-wide kinds) and name: objects with the same key are the same object."""

DEFAULT_NAMESPACE = "default"

Check = Callable[[Any, list[Finding]], None]


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind. The first API version is the one that examples use."""

    name: str
    api_versions: tuple[str, ...]
    struct: type[msgspec.Struct]
    check: Check | None = None
    namespaced: bool = False
    name_is_label: bool = False
    api_version_optional: bool = False
    not_honoured: Mapping[str, str] = field(default_factory=dict)
    """Fields of `spec` that have no effect in Fairway, and what to use instead."""
    converted: Callable[[Any], ApiObject] | None = None
    """For other forms of a kind, which are converted to its struct."""

    @property
    def table_name(self) -> str:
        """Its name in the table of field names, which lists only the first kind of a name."""
        return self.name if _BY_NAME[self.name] is self else ""

    def settle(self, obj: ApiObject) -> list[Finding]:
        """Fills in the default namespace, and returns everything that is wrong with a freshly decoded object."""
        meta = obj.metadata
        if self.namespaced and not meta.namespace:
            msgspec.structs.force_setattr(meta, "namespace", DEFAULT_NAMESPACE)
        findings: list[Finding] = []
        check_metadata(meta, findings, namespaced=self.namespaced, name_is_label=self.name_is_label)
        if self.check is not None:
            self.check(obj, findings)
        return findings


def key(obj: ApiObject) -> ObjectKey:
    kind, meta = _BY_STRUCT[type(obj)], obj.metadata
    return kind.name, (meta.namespace or DEFAULT_NAMESPACE) if kind.namespaced else "", meta.name


def find(api_version: str, name: str) -> Kind | None:
    """The kind with this version and name, if it is one that is read."""
    return _BY_VERSION.get((api_version, name))


def versions_read(name: str) -> tuple[str, ...]:
    """The API versions in which a kind of this name is read; empty if it is not read at all."""
    return tuple(version for kind in (*KINDS, *OTHER_FORMS) if kind.name == name for version in kind.api_versions)


def _kinds() -> Iterator[Kind]:
    yield Kind("Node", ("v1",), Node, objects.check_node)
    yield Kind("Pod", ("v1",), Pod, pods.check_pod, namespaced=True)
    yield Kind("Namespace", ("v1",), Namespace, name_is_label=True)
    yield Kind("ResourceQuota", ("v1",), ResourceQuota, objects.check_resource_quota, namespaced=True)
    yield Kind("PersistentVolume", ("v1",), PersistentVolume, objects.check_persistent_volume)
    yield Kind(
        "PersistentVolumeClaim",
        ("v1",),
        PersistentVolumeClaim,
        objects.check_persistent_volume_claim,
        namespaced=True,
    )
    yield Kind("StorageClass", ("storage.k8s.io/v1",), StorageClass, objects.check_storage_class)
    yield Kind("CSINode", ("storage.k8s.io/v1",), CSINode)
    yield Kind("CSIDriver", ("storage.k8s.io/v1",), CSIDriver)
    yield Kind(
        "CSIStorageCapacity",
        ("storage.k8s.io/v1",),
        CSIStorageCapacity,
        objects.check_storage_capacity,
        namespaced=True,
    )
    yield from _scheduling_kinds()
    yield from _device_kinds()
    yield from _fleet_kinds()


def _scheduling_kinds() -> Iterator[Kind]:
    batch = ("scheduling.volcano.sh/v1beta1",)
    yield Kind("PriorityClass", ("scheduling.k8s.io/v1",), PriorityClass, objects.check_priority_class)
    yield Kind(
        "PodDisruptionBudget",
        ("policy/v1",),
        PodDisruptionBudget,
        objects.check_pod_disruption_budget,
        namespaced=True,
    )
    queue_fields = {
        "affinity": "node affinity of pods decides where they run",
        "dequeueStrategy": "jobs that do not fit never delay others, see the argument `blocked` of allocate",
        "extendClusters": "see fairway place for fleets",
        "type": "all queues are alike",
    }
    yield Kind("Queue", batch, Queue, objects.check_queue, not_honoured=queue_fields)
    group_fields = {
        "subGroupPolicy": "a job waits unless it starts with all of its pods and its own networkTopology implies theirs"
    }
    yield Kind("PodGroup", batch, PodGroup, objects.check_pod_group, namespaced=True, not_honoured=group_fields)
    yield Kind("HyperNode", ("topology.volcano.sh/v1alpha1",), HyperNode, objects.check_hyper_node)
    yield Kind("Reservation", ("fairway.dev/v1alpha1",), Reservation, objects.check_reservation, namespaced=True)
    yield Kind(
        "EvictionRecord",
        ("fairway.dev/v1alpha1",),
        EvictionRecord,
        objects.check_eviction_record,
        namespaced=True,
    )


def _device_kinds() -> Iterator[Kind]:
    dra = ("resource.k8s.io/v1",)
    yield Kind("ResourceSlice", dra, ResourceSlice, objects.check_resource_slice)
    yield Kind("DeviceTaintRule", ("resource.k8s.io/v1beta2",), DeviceTaintRule, objects.check_device_taint_rule)
    yield Kind("DeviceClass", dra, DeviceClass, objects.check_device_class)
    yield Kind("ResourceClaim", dra, ResourceClaim, objects.check_resource_claim, namespaced=True)
    yield Kind(
        "ResourceClaimTemplate",
        dra,
        ResourceClaimTemplate,
        objects.check_resource_claim_template,
        namespaced=True,
    )
    yield Kind(
        "ResourceClass",
        ("fairway.dev/v1alpha1",),
        ResourceClass,
        objects.check_resource_class,
        api_version_optional=True,
    )


def _fleet_kinds() -> Iterator[Kind]:
    group = "cluster.open-cluster-management.io"
    sets = (f"{group}/v1beta2", f"{group}/v1beta1", f"{group}/v1alpha1")
    placements = (f"{group}/v1beta1", f"{group}/v1alpha1")
    yield Kind("ManagedCluster", (f"{group}/v1",), ManagedCluster, objects.check_managed_cluster)
    yield Kind("ManagedClusterSet", sets, ManagedClusterSet, objects.check_managed_cluster_set)
    yield Kind(
        "ManagedClusterSetBinding",
        sets,
        ManagedClusterSetBinding,
        objects.check_managed_cluster_set_binding,
        namespaced=True,
    )
    yield Kind("Placement", placements, Placement, objects.check_placement, namespaced=True)
    yield Kind("PlacementDecision", placements, PlacementDecision, namespaced=True)
    yield Kind("AddOnPlacementScore", (f"{group}/v1alpha1",), AddOnPlacementScore, namespaced=True)


def _other_forms() -> Iterator[Kind]:
    kube = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2")
    yield Kind(
        "PodGroup", kube, KubePodGroup, objects.check_kube_pod_group, namespaced=True, converted=KubePodGroup.converted
    )
    yield Kind(
        "PodGroup",
        ("scheduling.x-k8s.io/v1alpha1",),
        PluginPodGroup,
        objects.check_plugin_pod_group,
        namespaced=True,
        not_honoured={"scheduleTimeoutSeconds": "a gang waits until it fits"},
        converted=PluginPodGroup.converted,
    )


KINDS: tuple[Kind, ...] = tuple(_kinds())
OTHER_FORMS: tuple[Kind, ...] = tuple(_other_forms())
_BY_NAME = {kind.name: kind for kind in reversed(KINDS)}
_BY_STRUCT = {kind.struct: kind for kind in KINDS}
_BY_VERSION = {(version, kind.name): kind for kind in (*KINDS, *OTHER_FORMS) for version in kind.api_versions} | {
    ("", kind.name): kind for kind in KINDS if kind.api_version_optional
}
