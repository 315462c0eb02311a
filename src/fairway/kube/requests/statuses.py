"""Requests that write what stands: conditions of pods, statuses of PodGroups, queues and classes.

They decide nothing and may be lost: each names the uid of its object, and one that is refused is made anew from the
newest facts by the next cycle that has some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition
from fairway.kube.http.exchange import MERGE_PATCH, STRATEGIC_PATCH, ApiRequest, Script, encoded, plain_ending
from fairway.kube.http.paths import FAIRWAY, VOLCANO, object_path, pod_path

KUBE_GROUPS = "scheduling.k8s.io/"
"""The API of Kubernetes' own PodGroups, in any version."""


class StatusWrite(NamedTuple):
    """The newest status of one object."""

    key: ObjectKey
    request: ApiRequest
    or_else: ApiRequest | None = None
    """What to send where the object's status is not a resource of its own, or the object is not as it was read."""
    after: int = 404
    """The answer after which that is sent."""

    def script(self) -> Script:
        answer = yield self.request
        if answer.status == self.after and self.or_else is not None:
            answer = yield self.or_else
        return plain_ending(answer)


UNSCHEDULABLE = "Unschedulable"
"""The reason that the cluster autoscaler reads."""
GATED = "SchedulingGated"
"""The reason of pods that more nodes would not help."""


def pod_waits(key: ObjectKey, uid: str, message: str, since: str, reason: str = UNSCHEDULABLE) -> StatusWrite:
    """PodScheduled=False."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    body = encoded({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
    return StatusWrite(key, ApiRequest("PATCH", f"{pod_path(key)}/status", body, STRATEGIC_PATCH))


def pod_condition(key: ObjectKey, uid: str, condition: Condition) -> StatusWrite:
    """One condition of a pod; the others stay as they are."""
    body = encoded({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
    return StatusWrite(key, ApiRequest("PATCH", f"{pod_path(key)}/status", body, STRATEGIC_PATCH))


def volcano_group(
    key: ObjectKey, uid: str, phase: str, counts: Mapping[str, int], conditions: Sequence[Condition]
) -> StatusWrite:
    """Volcano's own definition of PodGroups has no status subresource: there the object itself is patched."""
    status = {"phase": phase, **counts, "conditions": [_volcano_condition(one) for one in conditions]}
    path = object_path(VOLCANO, "podgroups", key)
    write = _merged(key, uid, path, status)
    return write._replace(or_else=write.request._replace(path=path))


def _volcano_condition(condition: Condition) -> dict[str, Any]:
    """With the field by which Volcano's scheduler tells its cycles apart; other readers want it to be there."""
    return {
        "type": condition.type,
        "status": condition.status,
        "transitionID": "fairway",
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }


def kube_group(key: ObjectKey, uid: str, version: str, condition: Condition) -> StatusWrite:
    """Of Kubernetes' own API: one condition, under the name that this version of it has."""
    body = {
        "type": "PodGroupScheduled" if version.endswith("/v1alpha2") else "PodGroupInitiallyScheduled",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    path = f"{object_path(version, 'podgroups', key)}/status"
    patch = encoded({"metadata": {"uid": uid}, "status": {"conditions": [body]}})
    return StatusWrite(key, ApiRequest("PATCH", path, patch, STRATEGIC_PATCH))


def queue_status(key: ObjectKey, uid: str, status: Mapping[str, Any]) -> StatusWrite:
    return _merged(key, uid, object_path(VOLCANO, "queues", key), status)


def class_status(key: ObjectKey, uid: str, allocatable: float, requested: float, selector: str) -> StatusWrite:
    status = {"allocatable": allocatable, "requested": requested, "selector": selector}
    return _merged(key, uid, object_path(FAIRWAY, "resourceclasses", key), status)


def _merged(key: ObjectKey, uid: str, path: str, status: Mapping[str, Any]) -> StatusWrite:
    body = encoded({"metadata": {"uid": uid}, "status": status})
    return StatusWrite(key, ApiRequest("PATCH", f"{path}/status", body, MERGE_PATCH))
