"""From the bytes of lists and watches to objects: straight into the structs of `api`, without dicts (spec K1).

An object that does not fit its struct is looked at once more with the allowances that Kubernetes makes (a number where
a quantity's text is meant). If it still does not fit it is left out, and `UnreadableObject` says why (spec K2).
So is an object that is nested too deep, or has bytes in it that are no text.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import ApiStruct, ObjectMeta
from fairway.api.shape import Finding, fit, path_text
from fairway.errors import ApiError
from fairway.kube.reading import parameters
from fairway.kube.reading.served import ServedKind

T = TypeVar("T")

INITIAL_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark after the last object of a list by streaming."""
BOOKMARK, DELETED, ERROR = "BOOKMARK", "DELETED", "ERROR"

_CANNOT_READ = (msgspec.DecodeError, UnicodeDecodeError)


class UnreadableObject(NamedTuple):
    """An object that is left out, and why."""

    key: ObjectKey
    uid: str
    why: str


class WatchEvent(NamedTuple):
    """One line of a watch. `thing` is None for bookmarks, and for an object that is left out."""

    type: str
    thing: ApiObject | None
    version: str
    unreadable: UnreadableObject | None = None
    ends_list: bool = False


class Page(NamedTuple):
    """One page of a list."""

    things: list[ApiObject]
    unreadable: list[UnreadableObject]
    version: str
    more: str
    """The token for the next page; "" if this was the last."""


class _WatchLine(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _ListMeta(ApiStruct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _ListBody(msgspec.Struct, Generic[T]):
    kind: str
    metadata: _ListMeta
    items: list[T] | None = None


class _HeadMeta(ApiStruct, frozen=True):
    """What tells objects apart, whatever else is wrong with them."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: Any = None


class _Head(ApiStruct, frozen=True):
    metadata: _HeadMeta = msgspec.field(default_factory=_HeadMeta)


class _ErrorObject(ApiStruct, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


_RAW_LINE: msgspec.json.Decoder[_WatchLine[msgspec.Raw]] = msgspec.json.Decoder(_WatchLine[msgspec.Raw])
_RAW_ITEMS: msgspec.json.Decoder[_ListBody[msgspec.Raw]] = msgspec.json.Decoder(_ListBody[msgspec.Raw])
_HEAD = msgspec.json.Decoder(_Head)
_PROBLEM = msgspec.json.Decoder(_ErrorObject)


class ObjectDecoder:
    """Reads one kind."""

    def __init__(self, served: ServedKind) -> None:
        self._kind = served.kind
        struct: Any = served.kind.struct
        self._line: msgspec.json.Decoder[_WatchLine[Any]] = msgspec.json.Decoder(_WatchLine[struct])
        self._page: msgspec.json.Decoder[_ListBody[Any]] = msgspec.json.Decoder(_ListBody[struct])
        group = served.api_version.rpartition("/")[0]
        self._is_checked = not group or group.endswith(".k8s.io") or group == "policy"
        """Whether the server's own code has validated the object; of a custom resource it knows the schema at most."""
        self._has_parameters = struct in parameters.KINDS
        self._is_plain = self._is_checked and self._kind.converted is None and not self._has_parameters

    def event(self, line: bytes) -> WatchEvent:
        """ApiError for an ERROR event and for a line that is not one."""
        try:
            return self._event(line)
        except RecursionError:
            return self._event(parameters.cut(line))

    def page(self, body: bytes) -> Page:
        """ApiError for what is not a page of a list."""
        try:
            return self._read_page(body)
        except RecursionError:
            return self._read_page(parameters.cut(body))

    def _event(self, line: bytes) -> WatchEvent:
        try:
            read = self._line.decode(line)
        except _CANNOT_READ:
            return self._odd_event(line)
        if read.type == ERROR:
            raise _problem(line)
        thing = read.object
        version = thing.metadata.resource_version
        if read.type == BOOKMARK:
            return WatchEvent(BOOKMARK, None, version, None, INITIAL_END in thing.metadata.annotations)
        found = thing if self._is_plain else self._settled(thing)
        if isinstance(found, UnreadableObject):
            return WatchEvent(read.type, None, version, found)
        return WatchEvent(read.type, found, version)

    def _odd_event(self, line: bytes) -> WatchEvent:
        """A bookmark of a kind with required fields, an error, or an object that does not fit."""
        try:
            read = _RAW_LINE.decode(line)
        except _CANNOT_READ as error:
            raise ApiError(200, "Unreadable", f"not a line of a watch: {error}") from None
        if read.type == ERROR:
            raise _problem(line)
        head = _head(read.object)
        version = head.metadata.resource_version
        if read.type == BOOKMARK:
            return WatchEvent(BOOKMARK, None, version, None, INITIAL_END in (head.metadata.annotations or ()))
        found = self._fitted(read.object)
        if isinstance(found, UnreadableObject):
            return WatchEvent(read.type, None, version, found)
        return WatchEvent(read.type, found, version)

    def _read_page(self, body: bytes) -> Page:
        try:
            read = self._page.decode(body)
            found = [self._settled(thing) for thing in read.items or ()]
        except _CANNOT_READ:
            try:
                read = _RAW_ITEMS.decode(body)
            except _CANNOT_READ as error:
                raise ApiError(200, "Unreadable", f"not a list: {error}") from None
            found = [self._fitted(raw) for raw in read.items or ()]
        if read.kind != f"{self._kind.name}List" or not read.metadata.resource_version:
            raise ApiError(
                200, "Unreadable", f"not a list of {self._kind.name} objects: its kind is {read.kind[:40]!r}"
            )
        things = [thing for thing in found if not isinstance(thing, UnreadableObject)]
        unreadable = [thing for thing in found if isinstance(thing, UnreadableObject)]
        return Page(things, unreadable, read.metadata.resource_version, read.metadata.continue_)

    def _fitted(self, raw: msgspec.Raw) -> ApiObject | UnreadableObject:
        try:
            thing, findings = fit(msgspec.json.decode(raw), self._kind.struct)
        except _CANNOT_READ as error:
            meta = _head(raw).metadata
            return UnreadableObject(self._key(meta), meta.uid, str(error))
        if findings:
            meta = _head(raw).metadata
            return UnreadableObject(self._key(meta), meta.uid, _why(findings))
        return self._settled(cast(ApiObject, thing))

    def _settled(self, thing: Any) -> ApiObject | UnreadableObject:
        if not self._is_checked:
            findings = self._kind.settle(thing)
            if findings:
                return UnreadableObject(self._key(thing.metadata), thing.metadata.uid, _why(findings))
        if self._has_parameters:
            found = parameters.bounded(thing)
            if found is None:
                why = f"parameters of devices are nested deeper than {parameters.DEEPEST} levels"
                return UnreadableObject(self._key(thing.metadata), thing.metadata.uid, why)
            return found
        return thing if self._kind.converted is None else self._kind.converted(thing)

    def _key(self, meta: ObjectMeta | _HeadMeta) -> ObjectKey:
        return self._kind.name, meta.namespace, meta.name


def _head(raw: msgspec.Raw) -> _Head:
    try:
        return _HEAD.decode(raw)
    except _CANNOT_READ:
        return _Head()


def _why(findings: list[Finding]) -> str:
    return "; ".join(f"{path_text(path)}: {message}" for path, message in findings[:3])


def _problem(line: bytes) -> ApiError:
    try:
        found = _PROBLEM.decode(_RAW_LINE.decode(line).object)
    except _CANNOT_READ:
        found = _ErrorObject()
    return ApiError(found.code or 500, found.reason or "Error", found.message or "the watch ended with an error")
