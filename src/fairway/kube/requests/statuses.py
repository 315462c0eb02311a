"""Requests that describe and decide nothing: conditions of pods, statuses of PodGroups, queues and classes, and events.

They may be lost. A status names the uid of its object, and one that is refused is built again from the newest facts by
the next cycle that has some.

Events are written through `v1`, with the fields of `events.k8s.io/v1` next to the older ones (`firstTimestamp`,
`lastTimestamp`, `count`): under `events.k8s.io/v1` a server refuses the older ones, and many readers know nothing else,
Volcano's tools among them. Both APIs show the same events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition
from fairway.clock import SECOND, Micros, to_datetime
from fairway.kube.http.exchange import MERGE_PATCH, STRATEGIC_PATCH, ApiRequest, Script, encoded, plain_ending
from fairway.kube.http.paths import FAIRWAY, VOLCANO, event_path, object_path, pod_path
from fairway.kube.throttle import substance

# -- statuses ----------------------------------------------------------------------------------------------------------


KUBE_GROUPS = "scheduling.k8s.io/"
"""The API of Kubernetes' own PodGroups, in any version."""


class StatusWrite(NamedTuple):
    """The newest status of one object."""

    key: ObjectKey
    request: ApiRequest
    or_else: ApiRequest | None = None
    """Sent if the object has no status subresource, or is no longer as it was read."""
    after: int = 404
    """The answer after which it is sent."""

    def script(self) -> Script:
        answer = yield self.request
        if answer.status == self.after and self.or_else is not None:
            answer = yield self.or_else
        return plain_ending(answer)


UNSCHEDULABLE = "Unschedulable"
"""The reason that the cluster autoscaler reads."""
GATED = "SchedulingGated"
"""The reason for pods that more nodes would not help."""


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
    """One condition of a pod; the others stay."""
    body = encoded({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
    return StatusWrite(key, ApiRequest("PATCH", f"{pod_path(key)}/status", body, STRATEGIC_PATCH))


def volcano_group(
    key: ObjectKey, uid: str, phase: str, counts: Mapping[str, int], conditions: Sequence[Condition]
) -> StatusWrite:
    """Volcano's own definition of PodGroups has no status subresource: then the object itself is patched."""
    status = {"phase": phase, **counts, "conditions": [_volcano_condition(one) for one in conditions]}
    path = object_path(VOLCANO, "podgroups", key)
    write = _merged(key, uid, path, status)
    return write._replace(or_else=write.request._replace(path=path))


def _volcano_condition(condition: Condition) -> dict[str, Any]:
    """With the field by which Volcano's scheduler tells its cycles apart; other readers require it."""
    return {
        "type": condition.type,
        "status": condition.status,
        "transitionID": "fairway",
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }


def kube_group(key: ObjectKey, uid: str, version: str, condition: Condition) -> StatusWrite:
    """Kubernetes' own API: one condition, whose name depends on the version."""
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


# -- events ------------------------------------------------------------------------------------------------------------


CONTROLLER = "fairway.dev/scheduler"
MAX_NOTE = 1024
"""Characters of an event's text, a limit of the API."""
SERIES: Micros = 45 * 60 * SECOND
"""An event that is repeated within this time continues its series. A server keeps events for an hour by default."""
MAX_SERIES = 10_000


class Regarding(NamedTuple):
    """The object of an event."""

    version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def reference(self) -> dict[str, str]:
        named = {"apiVersion": self.version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {**named, "namespace": self.namespace}


class EventNote(NamedTuple):
    """One event, before it is written."""

    about: Regarding
    reason: str
    action: str
    note: str
    at: Micros
    warning: bool = False
    same_as: str = ""
    """Events of one object with the same value are a series; "": those whose texts differ in numbers only."""


@dataclass(slots=True)
class _EventSeries:
    name: str
    count: int
    last: Micros


class EventWrite(NamedTuple):
    key: ObjectKey
    request: ApiRequest

    def script(self) -> Script:
        answer = yield self.request
        return plain_ending(answer)


class EventMaker:
    """Turns notes into requests: a new event, or one more of a series. `token` returns unique parts of names."""

    def __init__(self, instance: str, token: Callable[[], str], controller: str = CONTROLLER) -> None:
        self._instance = instance
        self._controller = controller
        self._token = token
        self._series: OrderedDict[tuple[str, str, str], _EventSeries] = OrderedDict()
        self._kinds: dict[str, tuple[str, str, str]] = {}
        """By the name of the event, so that many failures at once are cheap: in a namespace that is being deleted."""

    def write(self, note: EventNote) -> EventWrite:
        kind = (note.about.uid, note.reason, note.same_as or substance(note.note))
        series = self._series.get(kind)
        if series is not None and note.at < series.last + SERIES:
            series.count += 1
            series.last = note.at
            self._series.move_to_end(kind)
            return self._again(note, series)
        name = f"{note.about.name[:200]}.{self._token()}"
        if series is not None:
            self._kinds.pop(series.name, None)
        self._series[kind] = _EventSeries(name, 1, note.at)
        self._kinds[name] = kind
        self._series.move_to_end(kind)
        while len(self._series) > MAX_SERIES:
            self._kinds.pop(self._series.popitem(last=False)[1].name, None)
        return self._first(note, name)

    def forget(self, key: ObjectKey) -> None:
        """An event was not written, or is gone: the next one starts a new series."""
        kind = self._kinds.pop(key[2], None)
        if kind is not None:
            self._series.pop(kind, None)

    def _first(self, note: EventNote, name: str) -> EventWrite:
        namespace = note.about.namespace
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro_time(note.at),
            "firstTimestamp": _time(note.at),
            "lastTimestamp": _time(note.at),
            "count": 1,
            "reportingComponent": self._controller,
            "reportingInstance": self._instance,
            "action": note.action,
            "reason": note.reason,
            "involvedObject": note.about.reference(),
            "message": note.note[:MAX_NOTE],
            "type": "Warning" if note.warning else "Normal",
        }
        return EventWrite(("Event", namespace, name), ApiRequest("POST", event_path(namespace), encoded(body)))

    def _again(self, note: EventNote, series: _EventSeries) -> EventWrite:
        """With the newest text, whose numbers may differ."""
        key = ("Event", note.about.namespace, series.name)
        body = {
            "series": {"count": series.count, "lastObservedTime": _micro_time(note.at)},
            "lastTimestamp": _time(note.at),
            "count": series.count,
            "message": note.note[:MAX_NOTE],
        }
        return EventWrite(key, ApiRequest("PATCH", event_path(key[1], key[2]), encoded(body), MERGE_PATCH))


def _time(at: Micros) -> str:
    return to_datetime(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(at: Micros) -> str:
    return to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
