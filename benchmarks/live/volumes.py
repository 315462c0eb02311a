"""What claims cost: pods with a claim each against pods without, on 10,000 nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.live.scene import Scene, group, node, pod, report
from benchmarks.timing import medians, quiet
from fairway.api.core import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeSpec,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeLimit,
    VolumeNodeAffinity,
)
from fairway.api.kinds import ApiObject
from fairway.api.meta import LabelSelector, ObjectMeta
from fairway.api.pods import (
    ClaimVolume,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimSpec,
    Volume,
    VolumeResources,
)

NODES, PODS, GANG = 10_000, 2_000, 10
WANTED = 1.5
LATE: Any = "WaitForFirstConsumer"
HOST = "kubernetes.io/hostname"
DRIVER = "disk.example.com"
RWO = ("ReadWriteOnce",)


def volumes() -> None:
    """One cycle that binds all pods, single or in gangs, as a ratio to the same pods without claims."""
    kinds = {"provisioned": _provisioned, "with attach limits": _limited, "with capacity": _published, "local": _local}
    for title, gang in (("single pods", 1), (f"gangs of {GANG}", GANG)):
        scenes = [Scene(_objects(gang, claims=False), reasons=False)]
        scenes += [Scene([*_objects(gang, claims=True), *kind()], reasons=False) for kind in kinds.values()]
        with quiet():
            without, *found = medians([scene.cycle for scene in scenes], 5)
        for kind, took in zip(kinds, found, strict=True):
            report(f"{title}, a claim each, {kind}, against none ({without * 1e3:.0f} ms)", took / without, WANTED)


def _objects(gang: int, *, claims: bool) -> Iterator[ApiObject]:
    yield from (node(index) for index in range(NODES))
    for index in range(PODS):
        name, job = f"pod-{index:05}", f"job-{index // gang:05}" if gang > 1 else ""
        if gang > 1 and index % gang == 0:
            yield group(job, gang)
        more: dict[str, Any] = {}
        if claims:
            more["volumes"] = (Volume(name="data", persistent_volume_claim=ClaimVolume(claim_name=name)),)
            spec = PersistentVolumeClaimSpec(
                storage_class_name="disk", access_modes=RWO, resources=VolumeResources({"storage": "1Gi"})
            )
            yield PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="team"), spec=spec)
        yield pod(name, group=job, **more)


def _class(provisioner: str = DRIVER) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="disk"), provisioner=provisioner, volume_binding_mode=LATE)


def _provisioned() -> Iterator[ApiObject]:
    yield _class()


def _limited() -> Iterator[ApiObject]:
    yield _class()
    drivers = (NodeDriver(DRIVER, VolumeLimit(25)),)
    for index in range(NODES):
        yield CSINode(metadata=ObjectMeta(name=f"node-{index:05}"), spec=CSINodeSpec(drivers))


def _published() -> Iterator[ApiObject]:
    yield _class()
    yield CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=CSIDriverSpec(storage_capacity=True))
    for index in range(NODES // 10):
        name = f"node-{index:05}"
        yield CSIStorageCapacity(
            "disk",
            metadata=ObjectMeta(name=name, namespace="team"),
            node_topology=LabelSelector(match_labels={HOST: name}),
            capacity="20Gi",
        )


def _local() -> Iterator[ApiObject]:
    yield _class("kubernetes.io/no-provisioner")
    for index in range(NODES):
        name = f"node-{index:05}"
        term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=HOST, operator="In", values=(name,)),))
        spec = PersistentVolumeSpec(
            capacity={"storage": "10Gi"},
            access_modes=RWO,
            storage_class_name="disk",
            node_affinity=VolumeNodeAffinity(NodeSelector(node_selector_terms=(term,))),
        )
        yield PersistentVolume(metadata=ObjectMeta(name=f"pv-{index:05}"), spec=spec)
