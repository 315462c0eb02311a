"""What an operator says about devices that their plugins do not say: a file of `kind: DeviceMapping`.

    apiVersion: fairway.dev/v1alpha1
    kind: DeviceMapping
    resources:
      - resource: example.com/gpu
        kind: gpu                               # default: the name of the resource
        attributes: {model: a100, driverVersion: {version: 535.1.0}}
        capacity: {memory: 40Gi}
        labels: {zone: topology.kubernetes.io/zone}   # attribute: label of the node
        devices:
          - ids: ["GPU-1*"]                     # patterns; the last entry that matches wins, value by value
            attributes: {model: h100}
        groups:
          - name: pair-0                        # one device that consists of others
            members: [GPU-10, GPU-11]
            attributes: {nvlink: true}

The file is checked as a whole: what an API server would refuse is refused here, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from fairway.api.devices import DeviceAttribute, DeviceCapacity
from fairway.api.hand_written import read_configuration
from fairway.errors import InputError, QuantityError
from fairway.resources.quantity import parse_quantity

API_VERSION = "fairway.dev/v1alpha1"
KIND = "DeviceMapping"
MAX_TEXT = 64
"""Bytes of a text or version attribute, a limit of the API."""
MAX_NAMED = 20
"""Attributes and capacities that one device may get from the file; the API takes 32 with those of the agent."""

_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


class MappedVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str


Mapped = int | bool | str | MappedVersion


class MappedFacts(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """What is said about some devices."""

    attributes: dict[str, Mapped] = {}
    capacity: dict[str, str | int] = {}
    labels: dict[str, str] = {}


class MappedDevices(MappedFacts, frozen=True, kw_only=True):
    ids: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class MappedGroup(MappedFacts, frozen=True, kw_only=True):
    """One device that consists of others: a claim on it is one on them."""

    name: str
    members: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=32)]


class MappedResource(MappedFacts, frozen=True, kw_only=True):
    resource: str
    kind: str = ""
    devices: tuple[MappedDevices, ...] = ()
    groups: tuple[MappedGroup, ...] = ()


class _MappingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resources: tuple[MappedResource, ...] = ()


Attributes = dict[str, DeviceAttribute]
Capacities = dict[str, DeviceCapacity]


class DeviceMapping:
    """What the file says, asked device by device. Without a file it says nothing."""

    def __init__(self, resources: Iterable[MappedResource] = ()) -> None:
        self._resources = {one.resource: one for one in resources}

    def kind(self, resource: str) -> str:
        """A text attribute: a resource of a very long name goes by its last part."""
        found = self._resources.get(resource)
        name = resource if len(resource) <= MAX_TEXT else resource.rpartition("/")[2]
        return (found.kind if found is not None else "") or name

    def groups(self, resource: str) -> tuple[MappedGroup, ...]:
        found = self._resources.get(resource)
        return () if found is None else found.groups

    def facts(self, resource: str, one: str, labels: Mapping[str, str]) -> tuple[Attributes, Capacities]:
        """Of the device with this id, on a node with these labels."""
        found = self._resources.get(resource)
        if found is None:
            return {}, {}
        matching = [entry for entry in found.devices if any(fnmatchcase(one, pattern) for pattern in entry.ids)]
        return merged_facts([found, *matching], labels)


def merged_facts(facts: Iterable[MappedFacts], labels: Mapping[str, str]) -> tuple[Attributes, Capacities]:
    """Later ones win; a label wins over what the same entry says, and says nothing where the node has none."""
    attributes: Attributes = {}
    capacity: Capacities = {}
    for entry in facts:
        attributes |= {name: typed(value) for name, value in entry.attributes.items()}
        capacity |= {name: DeviceCapacity(str(value)) for name, value in entry.capacity.items()}
        for name, label in entry.labels.items():
            text = labels.get(label, "")
            if fits_text(text):
                attributes[name] = typed(_read(text))
    return attributes, capacity


def fits_text(text: str) -> bool:
    """Whether an attribute may say it. The server counts bytes."""
    return 0 < len(text.encode("utf-8", "replace")) <= MAX_TEXT


def typed(value: Mapped) -> DeviceAttribute:
    match value:
        case bool():
            return DeviceAttribute(bool_value=value)
        case int():
            return DeviceAttribute(int_value=value)
        case str():
            return DeviceAttribute(string_value=value)
    return DeviceAttribute(version_value=value.version)


def _read(text: str) -> Mapped:
    """A label is text: what looks like true or false, a whole number or a version is one."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return MappedVersion(text) if _SEMVER.fullmatch(text) else text


# -- the file ----------------------------------------------------------------------------------------------------


def read_mapping(path: Path) -> DeviceMapping:
    """InputError says what is wrong, and where."""
    resources = read_configuration(path, API_VERSION, KIND).as_struct(_MappingFile).resources
    for wrong in _problems(resources):
        raise InputError(f"{path}: {wrong}")
    return DeviceMapping(resources)


def _problems(resources: tuple[MappedResource, ...]) -> Iterable[str]:
    seen: set[str] = set()
    for one in resources:
        where = f"resource {one.resource!r}"
        if one.resource in seen:
            yield f"{where} is listed twice"
        seen.add(one.resource)
        if one.kind and not fits_text(one.kind):
            yield f"{where}: kind has {len(one.kind.encode())} bytes, expected at most {MAX_TEXT}"
        yield from _fact_problems(where, one, one)
        for entry in one.devices:
            yield from _fact_problems(f"{where}: devices {', '.join(entry.ids)}", one, entry)
        names = [group.name for group in one.groups]
        for group in one.groups:
            place = f"{where}: group {group.name!r}"
            if not _LABEL.fullmatch(group.name) or names.count(group.name) > 1:
                yield f"{place}: expected a name of lower case letters, digits and -, used once"
            if len(set(group.members)) < len(group.members):
                yield f"{place} has a member twice"
            yield from _fact_problems(place, one, group)


def _fact_problems(where: str, base: MappedFacts, facts: MappedFacts) -> Iterable[str]:
    for name in (*facts.attributes, *facts.capacity, *facts.labels):
        if not _NAME.fullmatch(name):
            yield f"{where}: {name!r} is not a name of an attribute, expected letters, digits and _, at most 32"
    for name, value in facts.attributes.items():
        yield from _value_problems(f"{where}: attribute {name}", value)
    for name, amount in facts.capacity.items():
        try:
            parse_quantity(str(amount))
        except QuantityError as error:
            yield f"{where}: capacity {name}: {error}"
    named = {*base.attributes, *base.labels, *facts.attributes, *facts.labels}
    count = len(named) + len({*base.capacity, *facts.capacity})
    if count > MAX_NAMED:
        yield f"{where}: {count} attributes and capacities, expected at most {MAX_NAMED}"


def _value_problems(where: str, value: Mapped) -> Iterable[str]:
    match value:
        case MappedVersion(version):
            if not _SEMVER.fullmatch(version) or len(version) > MAX_TEXT:
                yield f"{where}: {version!r} is not a version, expected three numbers as in 1.2.3"
        case str() if not fits_text(value):
            yield f"{where}: has {len(value.encode())} bytes, expected 1 to {MAX_TEXT}"
        case bool():
            pass
        case int() if not -(2**63) <= value < 2**63:
            yield f"{where}: {value} does not fit into 64 bits"
