"""Volumes: what a pod's claims ask of a node, and what is in use.

A bound claim ties its pod to the nodes that reach the volume. A claim that waits for its first consumer leaves the
choice to the scheduler: a volume that is there and matches, or a node for which one is provisioned. Any other claim
keeps its pod waiting.

`VolumeRequests` is the part of this that belongs to a pod's shape. Pods of one shape are placed as one, so a claim
appears in it by what it requests and not by its name: a thousand pods with a claim each are one shape. Only where it
matters which claim it is (several pods use it, or a volume is pre-bound to it) the shape has its name.

`VolumeUse` counts what is in use: volumes attached to nodes, by driver; claims that a single pod may use; disks that
pods name directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from fairway.api.core import (
    BIND_COMPLETED,
    LEGACY_CLASS,
    NO_PROVISIONER,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Volume
from fairway.errors import QuantityError
from fairway.resources.columns import IntColumn
from fairway.resources.quantity import parse_amount
from fairway.state.derived import Log
from fairway.state.labels import term_holds

K = TypeVar("K", str, tuple[str, bool])

VolumeFact = PersistentVolume | PersistentVolumeClaim | StorageClass | CSIStorageCapacity | CSIDriver

_ONE_POD = "ReadWriteOncePod"
_AVAILABLE = ("", "Available")

UNBOUND_IMMEDIATE_TEXT = "pod has unbound immediate PersistentVolumeClaims"
NO_SUCH_VOLUME_TEXT = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels by which a volume says where it is. A volume in several zones has their names with `__` between them."""


class UnboundClaim(NamedTuple):
    """An unbound claim that the scheduler decides about. Ordered by size: the smallest is served first."""

    size: int
    storage_class: str
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    attributes_class: str = ""
    selector: bytes = b""
    """As JSON: labels that a volume must have."""
    node: str = ""
    """The node that was selected for it already."""
    volume: str = ""
    """The volume that is pre-bound to it."""
    shared: str = ""
    """The claim (`namespace/name`), if several pods use it: the first to be placed decides for all of them."""

    @property
    def template(self) -> UnboundClaim:
        """What any volume has to offer, whichever claim it is."""
        return self._replace(node="", volume="", shared="") if self.node or self.volume or self.shared else self


Zone = tuple[str, tuple[str, ...]]
"""A label of nodes, and the values that will do."""
Disk = tuple[str, bool]
"""A disk that a pod names directly, and whether it only reads it."""


class VolumeRequests(NamedTuple):
    """What all volumes of a pod ask of a node; or why no node will do."""

    key: bytes = b""
    selectors: tuple[NodeSelector, ...] = ()
    """Of bound volumes: the node must satisfy all of them."""
    zones: tuple[Zone, ...] = ()
    """Of bound volumes that say by labels where they are."""
    missing: str = ""
    exclusive: tuple[str, ...] = ()
    """Claims (`namespace/name`) that one pod may use at a time."""
    attached: tuple[tuple[str, int], ...] = ()
    """By CSI driver, how many volumes of the pod's own have to be attached to the node."""
    shared: tuple[tuple[str, str], ...] = ()
    """Volumes that other pods use too, each with its driver: on a node they are attached once."""
    disks: tuple[Disk, ...] = ()
    unbound: tuple[UnboundClaim, ...] = ()
    """Claims that a volume or a provisioner has to be found for, the smallest first."""

    @property
    def is_counted(self) -> bool:
        """Whether a pod with them changes what is left for others on its node, or anywhere."""
        return bool(self.attached or self.exclusive or self.shared or self.disks)


NO_VOLUMES = VolumeRequests()


class Volumes:
    """Volumes, claims, classes and capacities, and which pods use which claims."""

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self._drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        """By class."""
        self._claimed_by: dict[str, dict[str, None]] = {}
        """By claim (`namespace/name`): volumes whose `claimRef` names it."""
        self._volume_users: dict[str, dict[str, None]] = {}
        """By volume: claims whose `volumeName` names it."""
        self._available: dict[str, dict[str, PersistentVolume]] = {}
        """By class: volumes that any matching claim may have."""
        self.provisioning: dict[str, tuple[str, int, str]] = {}
        """Claims that wait for a provisioner: class, size, selected node."""
        self._pods: dict[str, dict[str, None]] = {}
        """By claim: the pods that use it and have not ended."""
        self.changed: Log[PersistentVolume] = Log()
        """Volumes that became available or ceased to be."""
        self.generation = 0
        """Of classes, capacities and drivers, and of claims that wait for a provisioner."""

    # -- objects ----------------------------------------------------------------------------------------------

    def upsert(self, fact: VolumeFact) -> None:
        self.delete(fact)
        match fact:
            case PersistentVolume():
                self._volumes[fact.metadata.name] = fact
                if fact.spec.claim_ref is not None:
                    named = f"{fact.spec.claim_ref.namespace}/{fact.spec.claim_ref.name}"
                    self._claimed_by.setdefault(named, {})[fact.metadata.name] = None
                elif is_available(fact):
                    self._available.setdefault(class_of_volume(fact), {})[fact.metadata.name] = fact
                    self.changed.add(fact)
            case PersistentVolumeClaim():
                self._claims[fact.metadata.namespace, fact.metadata.name] = fact
                if fact.spec.volume_name:
                    self._volume_users.setdefault(fact.spec.volume_name, {})[claim_key(fact)] = None
                elif SELECTED_NODE in fact.metadata.annotations:
                    request = (self.class_name(fact), _size(fact), fact.metadata.annotations[SELECTED_NODE])
                    self.provisioning[claim_key(fact)] = request
                    self._note_provisioning(request[0])
            case StorageClass():
                self.classes[fact.metadata.name] = fact
                self.generation += 1
            case CSIStorageCapacity():
                key = (fact.metadata.namespace, fact.metadata.name)
                self.capacities.setdefault(fact.storage_class_name, {})[key] = fact
                self.generation += 1
            case CSIDriver():
                self._drivers[fact.metadata.name] = fact
                self.generation += 1

    def delete(self, fact: VolumeFact) -> None:
        match fact:
            case PersistentVolume():
                self._delete_volume(self._volumes.pop(fact.metadata.name, None))
            case PersistentVolumeClaim():
                known = self._claims.pop((fact.metadata.namespace, fact.metadata.name), None)
                if known is not None and known.spec.volume_name:
                    _discard(self._volume_users, known.spec.volume_name, claim_key(known))
                request = self.provisioning.pop(claim_key(fact), None)
                if request is not None:
                    self._note_provisioning(request[0])
            case StorageClass():
                self.generation += self.classes.pop(fact.metadata.name, None) is not None
            case CSIStorageCapacity():
                for class_name, known_capacities in list(self.capacities.items()):
                    if known_capacities.pop((fact.metadata.namespace, fact.metadata.name), None) is not None:
                        self.generation += 1
                    if not known_capacities:
                        del self.capacities[class_name]
            case CSIDriver():
                self.generation += self._drivers.pop(fact.metadata.name, None) is not None

    def _note_provisioning(self, class_name: str) -> None:
        """What is being provisioned counts only where the driver says how much it has: elsewhere claims that come and
        go by the thousand change nothing for others.
        """
        storage_class = self.classes.get(class_name)
        self.generation += storage_class is not None and self.publishes_capacity(storage_class.provisioner)

    def _delete_volume(self, known: PersistentVolume | None) -> None:
        if known is None:
            return
        if known.spec.claim_ref is not None:
            named = f"{known.spec.claim_ref.namespace}/{known.spec.claim_ref.name}"
            _discard(self._claimed_by, named, known.metadata.name)
        available = self._available.get(class_of_volume(known), {})
        if available.pop(known.metadata.name, None) is not None:
            self.changed.add(known)
            if not available:
                del self._available[class_of_volume(known)]

    def users_of(self, fact: VolumeFact) -> set[str] | None:
        """The claims (`namespace/name`) that a change of this may concern; None is any."""
        match fact:
            case PersistentVolumeClaim():
                return {claim_key(fact)}
            case PersistentVolume():
                named = fact.spec.claim_ref
                users = set(self._volume_users.get(fact.metadata.name, ()))
                known = self._volumes.get(fact.metadata.name)
                for reference in (named, None if known is None else known.spec.claim_ref):
                    if reference is not None:
                        users.add(f"{reference.namespace}/{reference.name}")
                return users
            case StorageClass():
                return None
            case _:
                return set()

    # -- pods that use claims -----------------------------------------------------------------------------------

    def enter(self, pod: str, claims: Iterable[str]) -> set[str]:
        """A pod uses claims from now on; returns the other pods that are no longer the only users of one."""
        others: set[str] = set()
        for claim in claims:
            users = self._pods.setdefault(claim, {})
            if len(users) == 1:
                others.update(users)
            users[pod] = None
        others.discard(pod)
        return others

    def leave(self, pod: str, claims: Iterable[str]) -> set[str]:
        """A pod is gone; returns those that are the only users of a claim now."""
        left: set[str] = set()
        for claim in claims:
            _discard(self._pods, claim, pod)
            users = self._pods.get(claim, {})
            if len(users) == 1:
                left.update(users)
        return left

    def pods_with(self, claim: str) -> Collection[str]:
        return self._pods.get(claim, {}).keys()

    # -- what is there --------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        namespace, _, name = key.partition("/")
        return self._claims.get((namespace, name))

    def available(self, class_name: str) -> Collection[PersistentVolume]:
        """Volumes of a class that no claim has."""
        return self._available.get(class_name, {}).values()

    def is_available(self, volume: PersistentVolume) -> bool:
        return volume.metadata.name in self._available.get(class_of_volume(volume), {})

    def publishes_capacity(self, provisioner: str) -> bool:
        """Whether the driver says where, and how much, it can provision."""
        driver = self._drivers.get(provisioner)
        return driver is not None and driver.spec.storage_capacity

    # -- what pods ask for ----------------------------------------------------------------------------------------

    def requests(self, pod: Pod) -> VolumeRequests:
        """Of a pod that is on a node already only what it uses there, as far as that is known."""
        claims: dict[str, PersistentVolumeClaim] = {}
        is_placed = bool(pod.spec.node_name)
        for volume in pod.spec.volumes:
            name = _claim_of(pod, volume)
            if not name:
                continue
            claim = self._claims.get((pod.metadata.namespace, name))
            problem = _unusable(pod, volume, name, claim)
            if problem and not is_placed:
                return _missing(problem)
            if claim is not None and not problem:
                claims[name] = claim
        disks = tuple(sorted({disk for volume in pod.spec.volumes for disk in _disks_of(volume)}))
        if not claims and not disks:
            return NO_VOLUMES
        found = _Collected(_pod_key(pod))
        for name in sorted(claims):
            problem = self._collect(claims[name], found)
            if problem and not is_placed:
                return _missing(problem)
        if is_placed:
            found.unbound.clear()
        return found.requests(disks)

    def unbound(self, pod: Pod) -> list[str]:
        """The claims (`namespace/name`) that `VolumeRequests.unbound` of the pod stands for, in its order."""
        found: dict[str, PersistentVolumeClaim] = {}
        for volume in pod.spec.volumes:
            name = _claim_of(pod, volume)
            claim = self._claims.get((pod.metadata.namespace, name)) if name else None
            if claim is not None and not claim.spec.volume_name:
                found[claim_key(claim)] = claim
        if len(found) == 1:  # as most pods have it: then there is no order to find
            return list(found)
        own = _pod_key(pod)
        ordered = sorted((self._request(claim, self._is_shared(key, own)), key) for key, claim in found.items())
        return [key for _, key in ordered]

    def _collect(self, claim: PersistentVolumeClaim, found: _Collected) -> str:
        """Add what the claim asks of a node; a text says why it can ask nothing yet."""
        key = claim_key(claim)
        is_shared = self._is_shared(key, found.pod)
        if _ONE_POD in claim.spec.access_modes:
            found.exclusive.append(key)
        if claim.spec.volume_name:
            if not is_bound(claim):
                return UNBOUND_IMMEDIATE_TEXT
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return NO_SUCH_VOLUME_TEXT
            found.add_volume(volume, is_shared)
            return ""
        storage_class = self.classes.get(self.class_name(claim))
        if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return UNBOUND_IMMEDIATE_TEXT
        request = self._request(claim, is_shared)
        found.unbound.append(request)
        driver = storage_class.provisioner
        if driver and driver != NO_PROVISIONER:
            found.attach(driver, f"{driver}/{key}", is_shared)
        return ""

    def _request(self, claim: PersistentVolumeClaim, is_shared: bool) -> UnboundClaim:
        spec, key = claim.spec, claim_key(claim)
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        return UnboundClaim(
            _size(claim),
            self.class_name(claim),
            tuple(sorted(set(spec.access_modes))),
            spec.volume_mode,
            spec.volume_attributes_class_name,
            b"" if spec.selector is None else msgspec.json.encode(spec.selector, order="deterministic"),
            node,
            "" if node else self._pre_bound(claim),
            key if is_shared and not node else "",
        )

    def _pre_bound(self, claim: PersistentVolumeClaim) -> str:
        """The volume that names the claim and is large enough for it; "" if there is none."""
        names = sorted(self._claimed_by.get(claim_key(claim), ()))
        for name in names:
            volume = self._volumes[name]
            reference = volume.spec.claim_ref
            assert reference is not None
            if reference.uid in ("", claim.metadata.uid) and _can_hold(volume, claim):
                return name
        return ""

    def _is_shared(self, key: str, pod: str) -> bool:
        users = self._pods.get(key, {})
        return len(users) > 1 or (len(users) == 1 and pod not in users)

    def class_name(self, claim: PersistentVolumeClaim) -> str:
        legacy = claim.metadata.annotations.get(LEGACY_CLASS)
        if legacy is not None:
            return legacy
        name = claim.spec.storage_class_name
        if name is not None:
            return name
        defaults = sorted(n for n, storage_class in self.classes.items() if storage_class.is_default)
        return defaults[0] if defaults else ""


class _Collected:
    """What the claims of one pod ask for, so far."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.selectors: list[NodeSelector] = []
        self.zones: list[Zone] = []
        self.exclusive: list[str] = []
        self.unbound: list[UnboundClaim] = []
        self._attached: dict[str, int] = {}
        self._shared: list[tuple[str, str]] = []

    def add_volume(self, volume: PersistentVolume, is_shared: bool) -> None:
        if volume.spec.node_affinity and volume.spec.node_affinity.required:
            self.selectors.append(volume.spec.node_affinity.required)
        self.zones += zones_of(volume)
        csi = volume.spec.csi
        if csi is not None:
            self.attach(csi.driver, f"{csi.driver}/{csi.volume_handle or volume.metadata.name}", is_shared)

    def attach(self, driver: str, volume: str, is_shared: bool) -> None:
        if is_shared:
            self._shared.append((volume, driver))
        else:
            self._attached[driver] = self._attached.get(driver, 0) + 1

    def requests(self, disks: tuple[Disk, ...]) -> VolumeRequests:
        attached, shared = tuple(sorted(self._attached.items())), tuple(sorted(set(self._shared)))
        unbound, exclusive = tuple(sorted(self.unbound)), tuple(self.exclusive)
        parts = (self.selectors, self.zones, exclusive, attached, shared, disks, unbound)
        key = msgspec.json.encode(parts)
        return VolumeRequests(
            key, tuple(self.selectors), tuple(self.zones), "", exclusive, attached, shared, disks, unbound
        )


def claim_key(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _pod_key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def claims_of(pod: Pod) -> list[str]:
    """The claims (`namespace/name`) of a pod's volumes."""
    names = (_claim_of(pod, volume) for volume in pod.spec.volumes)
    return list(dict.fromkeys(f"{pod.metadata.namespace}/{name}" for name in names if name))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding is complete. A claim may name a volume, or be named by one, long before."""
    done = BIND_COMPLETED in claim.metadata.annotations or claim.status.phase in ("", "Bound")
    return bool(claim.spec.volume_name) and done


def is_available(volume: PersistentVolume) -> bool:
    """Whether any claim that it matches may have it."""
    free = volume.spec.claim_ref is None and volume.status.phase in _AVAILABLE
    return free and volume.metadata.deletion_timestamp is None


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(LEGACY_CLASS, volume.spec.storage_class_name)


def capacity_of(volume: PersistentVolume) -> int:
    return _amount(volume.spec.capacity.get("storage"))


def matches_request(volume: PersistentVolume, request: UnboundClaim) -> bool:
    """Whether a volume has what a claim asks for, but for the class, and wherever it is."""
    spec = volume.spec
    return (
        capacity_of(volume) >= request.size
        and spec.volume_mode == request.volume_mode
        and spec.volume_attributes_class_name == request.attributes_class
        and set(request.access_modes) <= set(spec.access_modes)
    )


def zones_of(volume: PersistentVolume) -> list[Zone]:
    """Where a volume says that it is, by labels. A label with an empty part says nothing."""
    found = []
    for label in ZONE_LABELS:
        values = [value.strip() for value in volume.metadata.labels.get(label, "").split("__")]
        if all(values):
            found.append((label, tuple(sorted(set(values)))))
    return found


def reaches(volume: PersistentVolume, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the node affinity of a volume lets a node use it."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(term_holds(term, node, labels) for term in affinity.required.node_selector_terms)


def topologies(storage_class: StorageClass) -> NodeSelector | None:
    """Where volumes of a class may be provisioned; None for everywhere."""
    if not storage_class.allowed_topologies:
        return None
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


def largest_volume(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can be provisioned; -1 if that is not known."""
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return -1 if text is None else _amount(text)


def total_capacity(capacity: CSIStorageCapacity) -> int | None:
    """How much can be provisioned in all, as far as that is known."""
    return None if capacity.capacity is None else _amount(capacity.capacity)


def _unusable(pod: Pod, volume: Volume, name: str, claim: PersistentVolumeClaim | None) -> str:
    """Why a claim cannot be used, whatever its volume; in the words of kube-scheduler."""
    if claim is None:
        if volume.ephemeral is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if volume.ephemeral is not None and not _is_owned(claim, pod):
        namespace = pod.metadata.namespace
        return f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name} (pod is not owner)"
    return ""


def _is_owned(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    return any(
        owner.controller is True and owner.uid == pod.metadata.uid and owner.name == pod.metadata.name
        for owner in claim.metadata.owner_references
    )


def _can_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Of a volume that names the claim only this is asked: whoever pre-bound it knows the rest."""
    spec = volume.spec
    return (
        capacity_of(volume) >= _size(claim)
        and spec.volume_mode == claim.spec.volume_mode
        and spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )


def _claim_of(pod: Pod, volume: Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _disks_of(volume: Volume) -> Iterator[Disk]:
    """Disks that only one pod of a node may use, unless all only read them. Of an Amazon disk not even that."""
    if volume.gce_persistent_disk is not None:
        yield f"gce/{volume.gce_persistent_disk.pd_name}", volume.gce_persistent_disk.read_only
    if volume.aws_elastic_block_store is not None:
        yield f"aws/{volume.aws_elastic_block_store.volume_id}", False
    if volume.iscsi is not None:
        yield f"iscsi/{volume.iscsi.iqn}", volume.iscsi.read_only
    if volume.rbd is not None:
        for monitor in volume.rbd.monitors:
            yield f"rbd/{monitor}/{volume.rbd.pool}/{volume.rbd.image}", volume.rbd.read_only


def _size(claim: PersistentVolumeClaim) -> int:
    return _amount(claim.spec.resources.requests.get("storage"))


def _amount(text: str | None) -> int:
    """Bytes. What cannot be read was reported when the object was."""
    try:
        return 0 if text is None else parse_amount("storage", text)
    except QuantityError:
        return 0


def _missing(text: str) -> VolumeRequests:
    return VolumeRequests(key=text.encode(), missing=text)


def _discard(index: dict[str, dict[str, None]], key: str, entry: str) -> None:
    entries = index.get(key)
    if entries is not None:
        entries.pop(entry, None)
        if not entries:
            del index[key]


# -- what is in use ---------------------------------------------------------------------------------------------------

ByRow = dict[int, int]
NO_LIMIT = 1 << 40


class VolumeUse:
    """Counts by row; limits by the name of the node, for a node may come later than what is said of it."""

    def __init__(self) -> None:
        self.attached: dict[str, ByRow] = {}
        """By driver: volumes that are attached because of pods on the node."""
        self.users: dict[str, ByRow] = {}
        """By volume that several pods use: pods on the node that do."""
        self.holders: dict[str, ByRow] = {}
        """By claim (`namespace/name`) that one pod may use at a time: pods that do."""
        self.disks: dict[Disk, ByRow] = {}
        """By disk, and whether it is only read: pods that use it."""
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node: how many volumes can be attached."""
        self.generation = 0
        """Of the set of drivers that have limits."""
        self._slots: dict[str, tuple[int, IntColumn]] = {}
        """By driver, what can still be attached to each row, and for which generation of the nodes that was made."""

    def upsert(self, fact: CSINode) -> None:
        drivers = set(self.limits)
        self._forget(fact)
        for driver in fact.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self.limits.setdefault(driver.name, {})[fact.metadata.name] = driver.allocatable.count
                self._slots.pop(driver.name, None)
        self.generation += drivers != set(self.limits)

    def delete(self, fact: CSINode) -> None:
        drivers = set(self.limits)
        self._forget(fact)
        self.generation += drivers != set(self.limits)

    def _forget(self, fact: CSINode) -> None:
        for driver in list(self.limits):
            if self.limits[driver].pop(fact.metadata.name, None) is not None:
                self._slots.pop(driver, None)
            if not self.limits[driver]:
                del self.limits[driver]

    def slots(self, driver: str, rows: dict[str, int], size: int, generation: int) -> IntColumn | None:
        """By row, how many more volumes of a driver can be attached; None if no node has a limit. Not to be written."""
        limits = self.limits.get(driver)
        if not limits:
            return None
        known = self._slots.get(driver)
        if known is not None and known[0] == generation and len(known[1]) == size:
            return known[1]
        slots = np.full(size, NO_LIMIT, dtype=np.int64)
        for name, limit in limits.items():
            row = rows.get(name, size)
            if row < size:
                slots[row] = limit
        for row, count in self.attached.get(driver, {}).items():
            if row < size:
                slots[row] -= count
        self._slots[driver] = generation, slots
        return slots

    def place(self, volumes: VolumeRequests, row: int, by: int) -> None:
        """A pod with these volumes came to a node (by 1) or went (by -1)."""
        for driver, count in volumes.attached:
            self._attach(driver, row, by * count)
        for volume, driver in volumes.shared:
            users = add(self.users, volume, row, by)
            if users == (1 if by > 0 else 0):
                self._attach(driver, row, by)
        for claim in volumes.exclusive:
            add(self.holders, claim, row, by)
        for disk in volumes.disks:
            add(self.disks, disk, row, by)

    def _attach(self, driver: str, row: int, by: int) -> None:
        add(self.attached, driver, row, by)
        known = self._slots.get(driver)
        if known is not None and row < len(known[1]):
            known[1][row] -= by


def add(counts: dict[K, ByRow], key: K, row: int, by: int) -> int:
    """Count something on a row; returns how many there are then."""
    rows = counts.setdefault(key, {})
    number = rows[row] = rows.get(row, 0) + by
    if not number:
        del rows[row]
        if not rows:
            del counts[key]
    return number
