"""Where there is no DRA: the devices as the annotation `fairway.dev/devices` of the node, and their number as capacity.

A kubelet of such a cluster knows nothing of the choice; the scheduler records it on the pod. Capacities count healthy
devices only: the kubelet makes what can be allocated from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from fairway.agent.inventory import DevicePool, PoolDevice
from fairway.agent.publishing import NodeObject, Pools
from fairway.api.devices import DeviceAttribute
from fairway.devices.model.device import ANNOTATION
from fairway.errors import ApiError
from fairway.kube.http import MERGE_PATCH, ApiClient

RESOURCES = "fairway.dev/device-resources"
"""The resources whose capacity was written here, so that the next process can take them back."""
MAX_ANNOTATION = 200 << 10
"""Bytes; all annotations of an object may have 256 KiB."""


class _EarlierEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """As it is written here."""

    name: str
    kind: str
    attributes: dict[str, str | int | bool]
    members: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    resource: str | msgspec.UnsetType = msgspec.UNSET
    healthy: bool | msgspec.UnsetType = msgspec.UNSET


class AnnotationPublisher:
    """Writes only where the node says something else."""

    def __init__(self, client: ApiClient, node: str) -> None:
        self._client = client
        self._path = f"/api/v1/nodes/{node}"
        self._said: tuple[str, str] | None = None
        self._counts: dict[str, str] | None = None
        self.keep_unknown = True

    def forget(self) -> None:
        self._said, self._counts = None, None

    async def publish(self, pools: Pools) -> int:
        counts = {pool.resource: str(_healthy(pool)) for pool in pools.values() if "/" in pool.resource}
        if self._said is None:
            now = (await self._client.read(self._path, NodeObject)).metadata.annotations
            self._said = now.get(ANNOTATION, ""), now.get(RESOURCES, "")
        gone = {name: None for name in self._said[1].split(",") if name and name not in counts}
        earlier = _read_entries(self._said[0]) if gone and self.keep_unknown else []
        text = annotation_text(pools, earlier, gone)
        names = ",".join(sorted([*counts, *(gone if self.keep_unknown else ())]))
        if self.keep_unknown:
            gone = {}
        count = 0
        if counts != self._counts or gone:
            await self._patch("/status", {"status": {"capacity": {**gone, **counts}}})
            count += 1
        if self._said != (text, names):
            await self._patch("", {"metadata": {"annotations": {ANNOTATION: text, RESOURCES: names}}})
            count += 1
        self._said, self._counts = (text, names), counts
        return count

    async def _patch(self, part: str, body: dict[str, Any]) -> None:
        await self._client.request("PATCH", self._path + part, body, content_type=MERGE_PATCH)


def annotation_text(pools: Pools, earlier: Sequence[dict[str, Any]] = (), missed: Collection[str] = ()) -> str:
    """With the `earlier` entries of resources that are missed: their plugins may still be on their way. ApiError where
    it is longer than an annotation may be: what is on the node stays.
    """
    before = {entry["name"] for entry in earlier}
    entries = [entry for pool in pools.values() for entry in _entries(pool, pools, before)]
    taken = {entry["name"] for entry in entries}
    entries += [entry for entry in _of_resources(earlier, missed) if entry["name"] not in taken]
    text = msgspec.json.encode(entries).decode()
    if len(text) > MAX_ANNOTATION:
        raise ApiError(0, "TooLarge", f"{len(entries)} devices need {len(text)} bytes, expected {MAX_ANNOTATION}")
    return text


def _read_entries(text: str) -> list[dict[str, Any]]:
    """What an earlier process wrote; nothing if that cannot be read."""
    try:
        found = msgspec.json.decode(text, type=list[_EarlierEntry])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [msgspec.to_builtins(entry) for entry in found]


def _of_resources(entries: Sequence[dict[str, Any]], resources: Collection[str]) -> list[dict[str, Any]]:
    """The devices of some resources, and the groups of them."""
    own = [one for one in entries if "members" not in one and one.get("resource", one.get("kind")) in resources]
    names = {entry["name"] for entry in own}
    return own + [one for one in entries if "members" in one and names.issuperset(one["members"])]


def _entries(pool: DevicePool, pools: Pools, before: Collection[str]) -> Iterator[dict[str, Any]]:
    names = {
        device.ids[0]: _entry_name(pool, name, pools, before)
        for name, device in pool.devices.items()
        if _is_one(device)
    }
    for name, device in pool.devices.items():
        attributes = {key: _plain(value) for key, value in device.published.attributes.items() if not _is_own(key)}
        attributes |= {key: one.value for key, one in device.published.capacity.items()}
        entry: dict[str, Any] = {
            "name": _entry_name(pool, name, pools, before),
            "kind": _kind(device),
            "attributes": attributes,
        }
        if not _is_one(device):
            entry["members"] = [names[one] for one in device.ids]
        elif "/" in pool.resource and entry["kind"] != pool.resource:
            entry["resource"] = pool.resource
        if not device.healthy:
            entry["healthy"] = False
        yield entry


def _entry_name(pool: DevicePool, name: str, pools: Pools, before: Collection[str]) -> str:
    """Names are unique on a node: one that two pools have is written with its resource. So is one that had been written
    so `before`, while the other pool may still come back: pods are recorded under these names.
    """
    long = f"{pool.resource.replace('/', '.')}.{name}"
    twice = long in before or sum(name in other.devices for other in pools.values()) > 1
    return long if twice else name


def _is_one(device: PoolDevice) -> bool:
    return "members" not in device.published.attributes


def _is_own(key: str) -> bool:
    return key in ("kind", "healthy") or key.startswith("members")


def _kind(device: PoolDevice) -> str:
    return device.published.attributes["kind"].string_value or ""


def _plain(value: DeviceAttribute) -> str | int | bool:
    for found in (value.int_value, value.bool_value, value.string_value, value.version_value):
        if found is not None:
            return found
    return ""


def _healthy(pool: DevicePool) -> int:
    """Groups are not counted: their members are."""
    return sum(device.healthy for device in pool.devices.values() if _is_one(device))
