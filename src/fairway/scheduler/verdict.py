"""Verdicts and reasons: "does not fit" is a value, never an exception and never a log line.

`Reason` is the one table of reasons. Its order is the order in which a job meets them on its way to a node: the
reason a job waits for is the stage that stops it, and of several nodes the one that came furthest speaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from fairway.state.annotations import HOLD


class Reason(StrEnum):
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    SCHEDULING_GATED = "SchedulingGated"
    TOPOLOGY_NOT_SUPPORTED = "TopologyNotSupported"
    GANG_TOO_FEW_PODS = "GangTooFewPods"
    NOT_ENQUEUED = "NotEnqueued"
    QUEUE_CAPABILITY = "QueueCapability"
    QUEUE_OVERUSED = "QueueOverused"
    BLOCKED = "Blocked"
    SCHEDULING_BUDGET = "SchedulingBudget"
    NEVER_FITS = "NeverFits"
    CLASS_NOT_FOUND = "ClassNotFound"
    PREDICATE_FAILED = "PredicateFailed"
    DEVICE_UNAVAILABLE = "DeviceUnavailable"
    NODE_RESOURCE_RESERVED = "NodeResourceReserved"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    WAITING_FOR_RELEASE = "WaitingForRelease"
    GANG_NOT_READY = "GangNotReady"
    PREEMPTION_LIMITED = "PreemptionLimited"
    PLUGIN_FAILED = "PluginFailed"


STAGE: dict[Reason, int] = {reason: stage for stage, reason in enumerate(Reason)}
"""How far along the way a reason stands."""

RESERVED_TEXT = "node(s) resource was(were) reserved"
UNSCHEDULABLE_TEXT = "unschedulable"
NOT_READY_TEXT = "node(s) were not ready"
NODE_SELECTOR_TEXT = "node selector"
NODE_AFFINITY_TEXT = "node affinity"
VOLUME_TEXT = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_ZONE_TEXT = "node(s) had no available volume zone"
NO_VOLUME_TEXT = "node(s) didn't find available persistent volumes to bind"
NO_STORAGE_TEXT = "node(s) did not have enough free storage"
ATTACH_LIMIT_TEXT = "node(s) exceed max volume count"
DISK_TEXT = "node(s) had no available disk"
PORTS_TEXT = "host ports taken"
POD_AFFINITY_TEXT = "pod affinity"
POD_ANTI_AFFINITY_TEXT = "pod anti-affinity"
EXISTING_ANTI_AFFINITY_TEXT = "anti-affinity of pods already there"
CLAIM_IN_USE_TEXT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
SPREAD_TEXT = "topology spread"
DEVICES_TEXT = "devices that cannot serve all of it together"


def no_devices(class_name: str) -> str:
    return f"no devices of class {class_name}"


_NONE_SELECTED = "no device that request "


def no_device_selected(request: str, error: str = "") -> str:
    """`error` is what the request's expression says went wrong with a device there."""
    return f"{_NONE_SELECTED}{request} selects" + (f" (CEL: {error})" if error else "")


def devices_in_use(class_name: str) -> str:
    return f"devices of class {class_name} in use"


def insufficient(resource: str) -> str:
    return f"insufficient {resource}"


UNTOLERATED = "untolerated taint "


def untolerated(key: str, value: str) -> str:
    return f"{UNTOLERATED}{key}={value}" if value else f"{UNTOLERATED}{key}"


_SENTENCES: dict[str, tuple[str, str]] = {
    RESERVED_TEXT: ("is reserved", "are reserved"),
    UNSCHEDULABLE_TEXT: ("is unschedulable", "are unschedulable"),
    NOT_READY_TEXT: ("is not ready", "are not ready"),
    NODE_SELECTOR_TEXT: ("didn't match the pod's node affinity/selector",) * 2,
    NODE_AFFINITY_TEXT: ("didn't match the pod's node affinity/selector",) * 2,
    PORTS_TEXT: ("has the requested host ports in use", "have the requested host ports in use"),
    POD_AFFINITY_TEXT: ("didn't match the pod's affinity rules",) * 2,
    POD_ANTI_AFFINITY_TEXT: ("didn't match the pod's anti-affinity rules",) * 2,
    EXISTING_ANTI_AFFINITY_TEXT: ("didn't match the anti-affinity rules of pods already there",) * 2,
    SPREAD_TEXT: ("didn't match the pod's topology spread constraints",) * 2,
    DEVICES_TEXT: (
        "has devices that cannot serve the whole request together",
        "have devices that cannot serve the whole request together",
    ),
}
"""Causes that are said of nodes as a predicate, of one and of several; the others read well after a number."""


def causes_text(causes: Mapping[str, int]) -> str:
    """`3 insufficient cpu, 1 node is reserved`: the counts per cause as part of a sentence.

    The causes themselves are keys of the plan's JSON and stay as they are; what a person reads is this.
    """
    counts: dict[str, int] = {}
    for cause, count in causes.items():
        one, many = _SENTENCES.get(cause, ("", ""))
        said = many if one else cause
        counts[said] = counts.get(said, 0) + count
    singular = {many: one for one, many in _SENTENCES.values()}
    return ", ".join(_counted(said, count, singular.get(said)) for said, count in counts.items())


def _counted(said: str, count: int, singular: str | None) -> str:
    if said.startswith(_NONE_SELECTED):
        return f"1 node has {said}" if count == 1 else f"{count} nodes have {said}"
    if singular is None:
        return f"{count} {said}"
    return f"1 node {singular}" if count == 1 else f"{count} nodes {said}"


def gated(pods: int, gates: Iterable[str]) -> str:
    """What is said of pods with scheduling gates."""
    found = set(gates)
    if found == {HOLD}:
        return f"{'1 pod is' if pods == 1 else f'{pods} pods are'} held (annotation {HOLD})"
    names = ", ".join(sorted(found))
    return f"1 pod has scheduling gates: {names}" if pods == 1 else f"{pods} pods have scheduling gates: {names}"


def held_by_group(group: str) -> str:
    return f"it is held (annotation {HOLD} of PodGroup {group})"


class Verdict(NamedTuple):
    """An answer of a plugin, with why."""

    ok: bool
    reason: Reason | None = None
    plugin: str = ""
    detail: str = ""


YES = Verdict(True)

QUEUE_LIMITED = Verdict(False, Reason.QUEUE_OVERUSED)
"""A limit of its queue stopped the job; which one, and by how much, is worked out when the plan is complete, so that
the numbers are those of the plan.
"""
