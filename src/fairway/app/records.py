"""Records kept besides objects (events, finished jobs, later jobs), and objects as JSON without free text."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from fairway.api.kinds import KINDS, ApiObject
from fairway.clock import Micros
from fairway.errors import InputError

Instant = Annotated[Micros, msgspec.Meta(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]
"""A time that can be written as a date: from the year 1 to 9999."""

_KINDS = {kind.struct: kind for kind in KINDS}
_STRUCTS = {(version, kind.name): kind.struct for kind in KINDS for version in kind.api_versions}

_DOMAINS = ("fairway.dev", "volcano.sh", "k8s.io", "kubernetes.io", "x-k8s.io")
_FREE_TEXT = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations are free text that may contain anything: only those of known APIs are shown and kept."""


class SandboxEvent(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Something that happened in a cluster."""

    at: Instant
    kind: str
    """submitted, placed, evicted, lost, finished, deleted, reserved, released, changed."""
    text: str
    job: str = ""
    pods: dict[str, str] = {}
    """The pods concerned, with their nodes."""


class FinishedJob(msgspec.Struct, rename="camel", frozen=True):
    """A job that has finished."""

    job: Annotated[str, msgspec.Meta(pattern="/")]
    queue: str
    namespace: str
    pods: int
    submitted: Instant
    started: Instant
    ended: Instant


class LaterJob(NamedTuple):
    """The objects of a job that will be submitted later."""

    at: Micros
    objects: list[msgspec.Raw]
    number: int
    """Identifies the job until it is submitted."""


class _NamedRecord(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str = ""


def written(thing: ApiObject) -> msgspec.Raw:
    """An object as a manifest, including kind and version."""
    kind = _KINDS[type(thing)]
    head = {"apiVersion": kind.api_versions[0], "kind": kind.name}
    return msgspec.Raw(msgspec.json.encode(head | msgspec.to_builtins(thing)))


def read(raw: bytes | msgspec.Raw) -> ApiObject:
    """An object written by `written`; InputError if it cannot be read."""
    try:
        head = msgspec.json.decode(raw, type=_NamedRecord)
        return cast(ApiObject, msgspec.json.decode(raw, type=_STRUCTS[head.api_version, head.kind]))
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise InputError(f"cannot read an object of a later job: {error}") from None


def without_free_text(thing: ApiObject) -> ApiObject:
    """The object with only those annotations that scheduling may read."""
    notes = thing.metadata.annotations
    if not notes:
        return thing
    kept = {name: text for name, text in notes.items() if _is_known(name)}
    if len(kept) == len(notes):
        return thing
    stripped: ApiObject = replace(thing, metadata=replace(thing.metadata, annotations=kept))
    return stripped


@lru_cache(maxsize=4096)
def _is_known(name: str) -> bool:
    domain = name.partition("/")[0] if "/" in name else ""
    return name not in _FREE_TEXT and any(domain == each or domain.endswith(f".{each}") for each in _DOMAINS)
