"""`Feed`: passes deliveries of reflectors to the loop, on its thread, and reports when all kinds were listed (spec K3).

PodGroups come from three APIs and are one kind to the scheduler. If two have the same name, that of the API that comes
first among the kinds counts; when it is deleted, the other one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from fairway.api import kinds
from fairway.api.kinds import ApiObject, Kind, ObjectKey
from fairway.api.meta import is_older
from fairway.kube.reading.reflector import Delivery, Gone


class ObjectLookup(Protocol):
    """Finds the last version of an object by its key, as `ObjectStore` does."""

    def get(self, key: ObjectKey) -> ApiObject | None: ...


class ObjectSink(Protocol):
    """Receives what was read, as a loop does."""

    def seen(self, thing: ApiObject) -> None: ...

    def gone(self, thing: ApiObject) -> None: ...

    def listed(self, kind: str, things: Iterable[ApiObject], version: str = "") -> None: ...


class Feed:
    """Used on the loop's thread only."""

    def __init__(
        self,
        wanted: Iterable[Kind],
        sink: ObjectSink,
        objects: ObjectLookup,
        on_complete: Callable[[], None] = lambda: None,
        group_versions: dict[ObjectKey, str] | None = None,
    ) -> None:
        self._sink = sink
        self._objects = objects
        self._on_complete = on_complete
        self._order = list(wanted)
        self._awaited = set(self._order)
        names = [kind.name for kind in self._order]
        self._sources: dict[Kind, dict[ObjectKey, ApiObject]] = {
            kind: {} for kind in self._order if names.count(kind.name) > 1
        }
        """The objects of each API, only for kinds that several APIs have."""
        self.group_versions: dict[ObjectKey, str] = {} if group_versions is None else group_versions
        """The API version of the objects of such kinds. Other threads may read it."""

    @property
    def awaited(self) -> list[str]:
        """The kinds that are not listed yet, as `kind (version)`."""
        return [f"{kind.name} ({kind.api_versions[0]})" for kind in self._order if kind in self._awaited]

    def await_lists(self) -> None:
        """All kinds will be listed again; `on_complete` is called when they are."""
        self._awaited = set(self._order)

    def take(self, delivery: Delivery) -> None:
        kind = delivery.kind
        if delivery.is_part:
            self._take_part(delivery)
        elif kind in self._sources:
            self._take_shared(delivery)
        elif delivery.is_list:
            things = [item for item in delivery.items if not isinstance(item, Gone)]
            self._sink.listed(kind.name, things, delivery.version)
        else:
            for item in delivery.items:
                if isinstance(item, Gone):
                    self._gone(item)
                else:
                    self._sink.seen(item)
        if delivery.is_list and kind in self._awaited:
            self._awaited.discard(kind)
            if not self._awaited:
                self._on_complete()

    def _take_part(self, delivery: Delivery) -> None:
        """While the last kind is still being listed, nearly always pods, the loop takes in what has arrived: otherwise
        it would be idle until then and behind afterwards. Earlier parts wait: pods depend on the other kinds.
        """
        if self._awaited == {delivery.kind} and delivery.kind not in self._sources:
            for item in delivery.items:
                if not isinstance(item, Gone):
                    self._sink.seen(item)

    def _gone(self, item: Gone) -> None:
        last = item.last
        thing = self._objects.get(last) if isinstance(last, tuple) else last
        if thing is not None:
            self._sink.gone(thing)

    # -- kinds of several APIs ---------------------------------------------------------------------------------

    def _take_shared(self, delivery: Delivery) -> None:
        own = self._sources[delivery.kind]
        if delivery.is_list:
            there = {kinds.key(item) for item in delivery.items if not isinstance(item, Gone)}
            for key in [key for key in own if key not in there]:
                self._forget(delivery.kind, key, own[key])
        for item in delivery.items:
            if delivery.is_list and not isinstance(item, Gone):
                self._take_back(delivery.kind, item)
            if isinstance(item, Gone):
                last = item.last
                key = last if isinstance(last, tuple) else kinds.key(last)
                if key in own:
                    self._forget(delivery.kind, key, own[key] if isinstance(last, tuple) else last)
            else:
                self._add(delivery, item)

    def _take_back(self, kind: Kind, thing: ApiObject) -> None:
        """A list with an older version than was seen is that of a server restored from a backup: it counts."""
        key = kinds.key(thing)
        known = self._sources[kind].get(key)
        if known is not None and is_older(thing.metadata.resource_version, known.metadata.resource_version):
            self._forget(kind, key, known)

    def _add(self, delivery: Delivery, thing: ApiObject) -> None:
        key = kinds.key(thing)
        before = self._counting(delivery.kind.name, key)
        self._sources[delivery.kind][key] = thing
        if self._counting(delivery.kind.name, key) is delivery.kind:
            if before is not None and before is not delivery.kind:
                self._sink.gone(self._sources[before][key])
            self.group_versions[key] = delivery.api_version
            self._sink.seen(thing)

    def _forget(self, kind: Kind, key: ObjectKey, last: ApiObject) -> None:
        counted = self._counting(kind.name, key) is kind
        del self._sources[kind][key]
        if not counted:
            return
        self.group_versions.pop(key, None)
        self._sink.gone(last)
        other = self._counting(kind.name, key)
        if other is not None:
            self._sink.seen(self._sources[other][key])

    def _counting(self, name: str, key: ObjectKey) -> Kind | None:
        """The API whose object of this key counts."""
        return next((kind for kind, own in self._sources.items() if kind.name == name and key in own), None)
