"""From the bytes of lists and watches to the objects that are kept: straight into the structs of `api`, without dicts.

**Decoding** (spec K1, K2). An object that does not fit its struct is read again with the allowances of Kubernetes (a
number in place of a quantity's text). If it still does not fit it is left out, and `UnreadableObject` says why. So is
an object that is nested too deeply, or that is not valid text.

**Parameters** of devices are JSON of any depth, which an API server does not check and nothing here reads: they are
only copied into the allocation. A value that is nested deeply enough cannot be decoded, compared or encoded: one user's
claim could stop the reading of all claims. So what is nested deeper than a driver can want is not kept. A claim with
such parameters is left out, unless it is allocated: its devices must not be given to another pod.

**Slimming** (spec K4). Pods come in few shapes and many copies. Everything that a template gives its pods (containers,
tolerations, labels, ...) is kept once; what remains of each pod is its names, its node and its status.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.devices import DeviceClass, DeviceConfiguration, ResourceClaim, ResourceClaimTemplate
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import ApiStruct, ObjectMeta, OwnerReference
from fairway.api.pods import Pod, PodSpec
from fairway.api.shape import Finding, fit, path_text
from fairway.errors import ApiError
from fairway.kube.reading.served import ServedKind
from fairway.state.annotations import MIN_AVAILABLE, noted
from fairway.state.membership import group_name

# -- parameters of devices ---------------------------------------------------------------------------------------------


MAX_DEPTH = 32
"""Levels of nested parameters."""
MAX_TEXT_DEPTH = 100
"""Levels of a list of objects with such parameters, with a margin: no field that is read is as deep."""
KINDS_WITH_PARAMETERS = (ResourceClaim, ResourceClaimTemplate, DeviceClass)

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def without_deep_values(text: bytes, max_depth: int = MAX_TEXT_DEPTH) -> bytes:
    """The JSON text with null in place of each value below `max_depth`. It does not recurse."""
    parts, kept, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        character = text[token.start() : token.start() + 1]
        if character in b"[{":
            depth += 1
            if depth == max_depth + 1:
                parts += [text[kept : token.start()], b"null"]
        elif character in b"]}":
            depth -= 1
            if depth == max_depth:
                kept = token.end()
    return b"".join([*parts, text[kept:]])


def with_bounded_parameters(thing: ApiObject) -> ApiObject | None:
    """The object, if its parameters are not nested too deeply; without them if it is an allocated claim; None if it
    cannot be used.
    """
    if isinstance(thing, ResourceClaim):
        allocation = thing.status.allocation
        requested = thing.spec.devices.config
        allocated = () if allocation is None else allocation.devices.config
        if not is_too_deep((*requested, *allocated)):
            return thing
        if allocation is None:
            return None
        devices = replace(allocation.devices, config=())
        status = replace(thing.status, allocation=replace(allocation, devices=devices))
        spec = replace(thing.spec, devices=replace(thing.spec.devices, config=()))
        return replace(thing, spec=spec, status=status)
    if isinstance(thing, ResourceClaimTemplate):
        return None if is_too_deep(thing.spec.spec.devices.config) else thing
    return None if isinstance(thing, DeviceClass) and is_too_deep(thing.spec.config) else thing


def is_too_deep(config: Iterable[DeviceConfiguration]) -> bool:
    level = [entry.opaque.parameters for entry in config if entry.opaque is not None]
    for _ in range(MAX_DEPTH + 1):
        nested = [value for value in level if isinstance(value, dict | list)]
        if not nested:
            return False
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
    return True


# -- decoding ----------------------------------------------------------------------------------------------------------


T = TypeVar("T")

INITIAL_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streamed list."""
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
    """The identity of an object, whatever else is wrong with it."""

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
    """Decodes the objects of one kind."""

    def __init__(self, served: ServedKind) -> None:
        self._kind = served.kind
        struct: Any = served.kind.struct
        self._line: msgspec.json.Decoder[_WatchLine[Any]] = msgspec.json.Decoder(_WatchLine[struct])
        self._page: msgspec.json.Decoder[_ListBody[Any]] = msgspec.json.Decoder(_ListBody[struct])
        group = served.api_version.rpartition("/")[0]
        self._is_checked = not group or group.endswith(".k8s.io") or group == "policy"
        """Whether the server's own code has validated the object; a custom resource is checked by its schema at most.
        """
        self._has_parameters = struct in KINDS_WITH_PARAMETERS
        self._is_plain = self._is_checked and self._kind.converted is None and not self._has_parameters

    def event(self, line: bytes) -> WatchEvent:
        """ApiError for an ERROR event and for a line that is not an event."""
        try:
            return self._event(line)
        except RecursionError:
            return self._event(without_deep_values(line))

    def page(self, body: bytes) -> Page:
        """ApiError for a body that is not a page of a list."""
        try:
            return self._read_page(body)
        except RecursionError:
            return self._read_page(without_deep_values(body))

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
            found = with_bounded_parameters(thing)
            if found is None:
                why = f"parameters of devices are nested deeper than {MAX_DEPTH} levels"
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


# -- slimming ----------------------------------------------------------------------------------------------------------


MAX_SHARED = 20_000
"""Maximum number of different parts that are kept; a cluster with more has few that repeat."""

_UNREAD = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")


def is_kept(thing: ApiObject, scheduler_names: Collection[str]) -> bool:
    """Whether an object is kept: finished pods are not, nor are pending pods of another scheduler.

    A succeeded pod still counts in its gang: otherwise a gang with some finished pods could never replace a lost one. A
    failed one counts in the status of its group, which would otherwise be Running for ever.
    """
    if not isinstance(thing, Pod):
        return True
    phase, ours = thing.status.phase, thing.spec.scheduler_name in scheduler_names
    if phase == "Failed":
        return ours and bool(group_name(thing))
    if phase == "Succeeded":
        return ours and bool(group_name(thing) or noted(thing.metadata, MIN_AVAILABLE))
    return ours or bool(thing.spec.node_name)


class Sharing:
    """Keeps equal parts of objects once. Parts are compared in encoded form."""

    def __init__(self) -> None:
        self._parts: dict[bytes | tuple[object, ...], object] = {}
        self._encoder = msgspec.msgpack.Encoder()

    def slim(self, thing: ApiObject) -> ApiObject:
        if isinstance(thing, Pod):
            return self._pod(thing)
        if isinstance(thing, Node):
            return replace(thing, metadata=self._metadata(thing.metadata))
        return thing

    def _pod(self, pod: Pod) -> Pod:
        """One new struct each for the pod, its metadata and its spec: each `replace` is paid for every pod."""
        return Pod(self._spec(pod.spec), self._metadata(pod.metadata), pod.status)

    def _spec(self, spec: PodSpec) -> PodSpec:
        """Everything is shared but the node's name. Volumes that no rule reads are dropped: their names are random in
        part.
        """
        node, volumes = spec.node_name, spec.volumes
        if volumes:
            claimed = tuple([volume for volume in volumes if volume.has_source])
            if len(claimed) != len(volumes):
                spec = replace(spec, volumes=claimed)
        if node:
            spec = replace(spec, node_name="")
        shared = self._shared(self._encoder.encode(spec), spec)
        return replace(shared, node_name=node) if node else shared

    def _metadata(self, meta: ObjectMeta) -> ObjectMeta:
        labels, notes, owners = meta.labels, meta.annotations, meta.owner_references
        if notes:
            if not notes.keys().isdisjoint(_UNREAD):
                notes = {name: text for name, text in notes.items() if name not in _UNREAD}
            notes = self._mapping(notes)
        return ObjectMeta(
            meta.name,
            self._text(meta.namespace),
            meta.uid,
            self._mapping(labels) if labels else labels,
            notes,
            meta.creation_timestamp,
            meta.deletion_timestamp,
            self._text(meta.generate_name),
            self._owners(owners) if owners else owners,
            meta.resource_version,
            meta.finalizers,
        )

    def _owners(self, owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
        return self._shared(("owners", *[(one.uid, one.kind, one.name, one.controller) for one in owners]), owners)

    def _mapping(self, texts: dict[str, str]) -> dict[str, str]:
        return self._shared(tuple(texts.items()), texts)

    def _text(self, text: str) -> str:
        return self._shared((text,), text) if text else text

    def _shared(self, key: bytes | tuple[object, ...], part: T) -> T:
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= MAX_SHARED:
                self._parts.clear()
            self._parts[key] = part
            return part
        return found  # type: ignore[return-value]
