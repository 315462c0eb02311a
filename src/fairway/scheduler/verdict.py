"""Verdicts and reasons: "does not fit" is a value, never an exception and never a log line.

`Reason` is the one table of reasons. Its order is the order in which a job meets them on its way to a node: the
reason a job waits for is the stage that stops it, and of several nodes the one that came furthest speaks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    GANG_TOO_FEW_PODS = "GangTooFewPods"
    NOT_ENQUEUED = "NotEnqueued"
    QUEUE_CAPABILITY = "QueueCapability"
    QUEUE_OVERUSED = "QueueOverused"
    CLASS_NOT_FOUND = "ClassNotFound"
    PREDICATE_FAILED = "PredicateFailed"
    DEVICE_UNAVAILABLE = "DeviceUnavailable"
    ANNOTATION_TOO_LONG = "AnnotationTooLong"
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
VOLUME_TEXT = "volume node affinity"
PORTS_TEXT = "host ports taken"
POD_AFFINITY_TEXT = "pod affinity"
POD_ANTI_AFFINITY_TEXT = "pod anti-affinity"
EXISTING_ANTI_AFFINITY_TEXT = "anti-affinity of pods already there"
SPREAD_TEXT = "topology spread"
DEVICES_TEXT = "devices that cannot serve all of it together"
TOO_LONG_TEXT = "devices whose names are too long to be recorded"


def no_devices(class_name: str) -> str:
    return f"no devices of class {class_name}"


def devices_in_use(class_name: str) -> str:
    return f"devices of class {class_name} in use"


def insufficient(resource: str) -> str:
    return f"insufficient {resource}"


def untolerated(key: str, value: str) -> str:
    return f"untolerated taint {key}={value}" if value else f"untolerated taint {key}"


class Verdict(NamedTuple):
    """An answer of a plugin, with why."""

    ok: bool
    reason: Reason | None = None
    plugin: str = ""
    detail: str = ""


YES = Verdict(True)
