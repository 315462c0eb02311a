"""The storage of a virtual cluster: what controllers and provisioners of a real one do about volumes.

    a volume names a claim                  the claim is bound to it, at once
    a node is selected for a claim          after a while a volume is provisioned for it, and bound;
                                            or the provisioner gives up and takes the selected node off again
    a claim of an Immediate class           the same, without a node
    a pod with ephemeral volumes            gets claims of its own, which go with it

A pod with unbound claims is bound when these are; the pods of a gang when those of all of them are. All of it follows
from the objects, so that a cluster that is taken up in mid-life continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api.core import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    ClaimReference,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
    VolumeStatus,
)
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from fairway.clock import SECOND, Micros
from fairway.drive import Bind
from fairway.scheduler.plan import VolumeChoice
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.scenario.model import TimingPart
from fairway.state.volumes import is_bound

ZONE = "topology.kubernetes.io/zone"
PATIENCE: Micros = 600 * SECOND
"""How long a pod waits for its volumes before it is placed again, as `--bind-volumes-timeout`."""
LEAST_FAILURE: Micros = SECOND
"""A provisioner that gives up takes at least so long: else it would be asked again in the same instant, for ever."""

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


class StorageHost(NamedTuple):
    """What the storage needs of its cluster."""

    objects: Mapping[ObjectKey, ApiObject]
    write: Callable[[ApiObject], None]
    erase: Callable[[ApiObject], None]
    release: Callable[[Sequence[Bind]], None]
    """Bind pods whose volumes are bound."""
    refuse: Callable[[Bind, str], None]


class VirtualStorage:
    """Binds and provisions the claims of a virtual cluster."""

    def __init__(self, cluster: StorageHost, loop: EventLoop, timing: TimingPart, dice: Random) -> None:
        self._cluster = cluster
        self._loop = loop
        self._timing = timing
        self._dice = dice
        self._provisioning: dict[ObjectKey, str] = {}
        """Claims that a provisioner works on, and for which node."""
        self._waiting: list[Sequence[Bind]] = []
        """Pods that are bound together, each list as a whole."""

    # -- controllers ------------------------------------------------------------------------------------------

    def written(self, thing: ApiObject) -> None:
        """An object is there, or is another now."""
        if isinstance(thing, Pod):
            if thing.spec.volumes and not thing.spec.node_name:
                self._make_claims(thing)
        elif isinstance(thing, PersistentVolume):
            self._bind_named(thing)
        elif isinstance(thing, PersistentVolumeClaim):
            self._claim_written(thing)

    def erased(self, thing: ApiObject) -> None:
        """An object is gone: the claims that were made for a pod go with it, and volumes that were provisioned."""
        if isinstance(thing, Pod) and thing.spec.volumes:
            for volume in thing.spec.volumes:
                claim = self._claim(thing.metadata.namespace, f"{thing.metadata.name}-{volume.name}")
                if volume.ephemeral is not None and claim is not None:
                    self._cluster.erase(claim)
        elif isinstance(thing, PersistentVolumeClaim):
            provisioned = self._cluster.objects.get((VOLUME, "", _volume_name(thing)))
            if provisioned is not None:
                self._cluster.erase(provisioned)

    def _make_claims(self, pod: Pod) -> None:
        owner = OwnerReference("Pod", pod.metadata.name, pod.metadata.uid, controller=True, api_version="v1")
        for volume in pod.spec.volumes:
            name = f"{pod.metadata.name}-{volume.name}"
            if volume.ephemeral is None or self._claim(pod.metadata.namespace, name) is not None:
                continue
            meta = ObjectMeta(name, pod.metadata.namespace, owner_references=(owner,))
            self._cluster.write(PersistentVolumeClaim(meta, volume.ephemeral.volume_claim_template.spec))

    def _claim_written(self, claim: PersistentVolumeClaim) -> None:
        key = (CLAIM, claim.metadata.namespace, claim.metadata.name)
        if claim.spec.volume_name:
            self._look()
            return
        named = [
            volume
            for kind_key, volume in self._cluster.objects.items()
            if kind_key[0] == VOLUME and isinstance(volume, PersistentVolume) and _names(volume, claim)
        ]
        if named:
            self._bind(claim, named[0])
            return
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        if self._provisioning.get(key) == node or not self._is_provisioned(claim, node):
            return
        self._provisioning[key] = node
        span = self._timing.provisioning.draw(self._dice)
        fails = bool(self._timing.provisioning_failures) and self._dice.random() < self._timing.provisioning_failures
        if fails:
            self._loop.plan(self._loop.now + max(span, LEAST_FAILURE), Rank.CHANGE, self._give_up, (key, node))
        elif span:
            self._loop.plan(self._loop.now + span, Rank.CHANGE, self._provision, (key, node))
        else:
            self._provision((key, node))

    def _is_provisioned(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """Whether it is a provisioner's turn: a node is selected, or the class does not wait for one."""
        name = claim.spec.storage_class_name
        found = self._cluster.objects.get(("StorageClass", "", name or ""))
        if not isinstance(found, StorageClass) or found.provisioner in ("", NO_PROVISIONER):
            return False
        return bool(node) or found.volume_binding_mode == "Immediate"

    def _provision(self, job: tuple[ObjectKey, str]) -> None:
        key, node = job
        claim = self._of_job(key, node)
        if claim is None:
            return
        spec = PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            volume_mode=claim.spec.volume_mode,
            storage_class_name=claim.spec.storage_class_name or "",
            claim_ref=ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid),
            node_affinity=self._affinity(node),
        )
        self._cluster.write(PersistentVolume(ObjectMeta(_volume_name(claim)), spec))

    def _give_up(self, job: tuple[ObjectKey, str]) -> None:
        key, node = job
        claim = self._of_job(key, node)
        if claim is not None:
            notes = {name: text for name, text in claim.metadata.annotations.items() if name != SELECTED_NODE}
            self._cluster.write(replace(claim, metadata=replace(claim.metadata, annotations=notes)))
            self._look()

    def _of_job(self, key: ObjectKey, node: str) -> PersistentVolumeClaim | None:
        """The claim, if the provisioner's work on it still counts."""
        if self._provisioning.get(key) != node:
            return None
        del self._provisioning[key]
        claim = self._cluster.objects.get(key)
        if not isinstance(claim, PersistentVolumeClaim) or claim.spec.volume_name:
            return None
        return claim if claim.metadata.annotations.get(SELECTED_NODE, "") == node else None

    def _affinity(self, name: str) -> VolumeNodeAffinity | None:
        """A provisioned volume is reached from the zone of its node; from everywhere where nodes have no zones."""
        node = self._cluster.objects.get(("Node", "", name))
        zone = node.metadata.labels.get(ZONE, "") if isinstance(node, Node) else ""
        if not zone:
            return None
        within = NodeSelectorRequirement(key=ZONE, operator="In", values=(zone,))
        return VolumeNodeAffinity(NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(within,)),)))

    def _bind_named(self, volume: PersistentVolume) -> None:
        named = volume.spec.claim_ref
        claim = None if named is None else self._claim(named.namespace, named.name)
        if claim is not None and not claim.spec.volume_name and _names(volume, claim):
            self._bind(claim, volume)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        meta = replace(claim.metadata, annotations={**claim.metadata.annotations, BIND_COMPLETED: "yes"})
        spec = replace(claim.spec, volume_name=volume.metadata.name)
        if volume.status.phase != "Bound":
            reference = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
            bound = replace(volume.spec, claim_ref=reference)
            self._cluster.write(replace(volume, spec=bound, status=VolumeStatus("Bound")))
        current = self._claim(claim.metadata.namespace, claim.metadata.name)
        if current is not None and not current.spec.volume_name:
            self._cluster.write(replace(claim, metadata=meta, spec=spec, status=VolumeStatus("Bound")))

    def _claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        found = self._cluster.objects.get((CLAIM, namespace, name))
        return found if isinstance(found, PersistentVolumeClaim) else None

    # -- pods that wait ---------------------------------------------------------------------------------------

    def hold(self, binds: Sequence[Bind]) -> bool:
        """Whether pods that are bound together have to wait; then they are bound, or refused, later."""
        if all(self._verdict(bind) == "" for bind in binds):
            return False
        self._waiting.append(binds)
        self._loop.plan(self._loop.now + PATIENCE, Rank.CHANGE, self._time_out, binds)
        self._look()
        return True

    def _time_out(self, binds: Sequence[Bind]) -> None:
        if any(waiting is binds for waiting in self._waiting):
            self._refuse(binds, f"binding volumes: timed out after {PATIENCE // SECOND} s")

    def _look(self) -> None:
        """Claims changed: pods may be bound by now, or have to wait again."""
        for binds in list(self._waiting):
            verdicts = [self._verdict(bind) for bind in binds]
            problem = next((why for why in verdicts if why), "")
            if problem:
                self._refuse(binds, problem)
            elif None not in verdicts:
                self._waiting = [waiting for waiting in self._waiting if waiting is not binds]
                self._cluster.release(binds)

    def _refuse(self, binds: Sequence[Bind], why: str) -> None:
        self._waiting = [waiting for waiting in self._waiting if waiting is not binds]
        for bind in binds:
            self._cluster.refuse(bind, why)

    def _verdict(self, bind: Bind) -> str | None:
        """ "" if all claims of a pod are bound; None while some are not; else what is wrong."""
        found = [self._claim_verdict(choice, bind.binding.node) for choice in bind.binding.volumes]
        return next((why for why in found if why), None if None in found else "")

    def _claim_verdict(self, choice: VolumeChoice, node: str) -> str | None:
        namespace, _, name = choice.claim.partition("/")
        claim = self._claim(namespace, name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" is gone'
        if is_bound(claim):
            return ""
        if choice.selected_node and claim.metadata.annotations.get(SELECTED_NODE) != node:
            return f'provisioning failed for PVC "{name}"'
        return None


def _names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    named = volume.spec.claim_ref
    return (
        named is not None
        and (named.namespace, named.name) == (claim.metadata.namespace, claim.metadata.name)
        and named.uid in ("", claim.metadata.uid)
    )


def _volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.namespace}-{claim.metadata.name}"
