"""Events: a new one, or one more of a series.

They are written through `v1`, with the fields of `events.k8s.io/v1` beside the older ones (`firstTimestamp`,
`lastTimestamp`, `count`): under `events.k8s.io/v1` a server refuses the older ones, and many readers know nothing else,
Volcano's tools among them. Both APIs show the same events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.clock import SECOND, Micros, to_datetime
from fairway.kube.http.exchange import MERGE_PATCH, ApiRequest, Script, encoded, plain_ending
from fairway.kube.http.paths import event_path
from fairway.kube.throttle import substance

CONTROLLER = "fairway.dev/scheduler"
MAX_NOTE = 1024
"""Characters, by the API."""
SERIES: Micros = 45 * 60 * SECOND
"""An event that comes again within this time is the same one. A server keeps events for an hour by default."""
MAX_SERIES = 10_000


class Regarding(NamedTuple):
    """What an event is about."""

    version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def reference(self) -> dict[str, str]:
        found = {"apiVersion": self.version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {**found, "namespace": self.namespace}


class EventNote(NamedTuple):
    """One event, before it is written."""

    about: Regarding
    reason: str
    action: str
    note: str
    at: Micros
    warning: bool = False
    same_as: str = ""
    """Events of one object that have this in common are a series; "": those whose text differs in numbers only."""


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
    """Turns notes into requests: a new event, or one more of a series. `token` makes names that no other has."""

    def __init__(self, instance: str, token: Callable[[], str], controller: str = CONTROLLER) -> None:
        self._instance = instance
        self._controller = controller
        self._token = token
        self._known: OrderedDict[tuple[str, str, str], _EventSeries] = OrderedDict()
        self._kinds: dict[str, tuple[str, str, str]] = {}
        """By the name of the event: many may fail at once, in a namespace that is being deleted."""

    def write(self, note: EventNote) -> EventWrite:
        kind = (note.about.uid, note.reason, note.same_as or substance(note.note))
        series = self._known.get(kind)
        if series is not None and note.at < series.last + SERIES:
            series.count += 1
            series.last = note.at
            self._known.move_to_end(kind)
            return self._again(note, series)
        name = f"{note.about.name[:200]}.{self._token()}"
        if series is not None:
            self._kinds.pop(series.name, None)
        self._known[kind] = _EventSeries(name, 1, note.at)
        self._kinds[name] = kind
        self._known.move_to_end(kind)
        while len(self._known) > MAX_SERIES:
            self._kinds.pop(self._known.popitem(last=False)[1].name, None)
        return self._first(note, name)

    def forget(self, key: ObjectKey) -> None:
        """An event was not written, or is gone: the next one is a new one."""
        kind = self._kinds.pop(key[2], None)
        if kind is not None:
            self._known.pop(kind, None)

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
        """With the newest text: it may have other numbers."""
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
