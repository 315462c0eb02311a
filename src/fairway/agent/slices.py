"""ResourceSlices of a pool: how devices are cut into objects, and what has to be written where the server has others.

A pool whose devices stay the same, slice by slice, keeps its generation, and only slices with a difference are written:
a device that turns unhealthy costs one request. When devices come or go all slices are written with the next
generation; readers use none of it before it is complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fairway.agent.inventory import DevicePool
from fairway.api.devices import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from fairway.api.meta import ObjectMeta, OwnerReference

MAX_GENERATION = 2**63 - 1
"""The next one is 1: slices of the highest are then others', and are deleted."""
PER_SLICE = 64
"""Devices; the API takes no more in one object once a device has a taint."""


class SliceWrites(NamedTuple):
    """In order: what is written with a new body, then what goes."""

    written: Sequence[ResourceSlice]
    deleted: Sequence[ResourceSlice]


def write_plan(
    node: OwnerReference, driver: str, pool: DevicePool | None, known: Sequence[ResourceSlice]
) -> SliceWrites:
    """From the slices of one pool that the server has to what it should have; None: there is no such pool any more."""
    if pool is None:
        return SliceWrites((), known)
    wanted = list(_wanted(node, driver, pool))
    there = {one.metadata.name: one for one in known}
    newest = max((one.spec.pool.generation for one in known), default=0)
    keeps = _same_devices(wanted, there, newest)
    generation = newest if keeps else newest % MAX_GENERATION + 1
    written = []
    for one in wanted:
        full = replace(one, spec=replace(one.spec, pool=replace(one.spec.pool, generation=generation)))
        before = there.get(one.metadata.name)
        if before is not None:
            meta = replace(full.metadata, resource_version=before.metadata.resource_version, uid=before.metadata.uid)
            full = replace(full, metadata=meta)
        if before is None or before.spec != full.spec:
            written.append(full)
    names = {one.metadata.name for one in wanted}
    return SliceWrites(written, [one for name, one in sorted(there.items()) if name not in names])


def _wanted(node: OwnerReference, driver: str, pool: DevicePool) -> Iterator[ResourceSlice]:
    devices = [device.published for device in pool.devices.values()]
    parts = [devices[at : at + PER_SLICE] for at in range(0, len(devices), PER_SLICE)] or [[]]
    for number, part in enumerate(parts):
        meta = ObjectMeta(name=_name(node.name, driver, pool.name, number), owner_references=(node,))
        about = ResourcePool(pool.name, 0, len(parts))
        yield ResourceSlice(ResourceSliceSpec(driver, about, node.name, devices=tuple(part)), meta)


def _name(node: str, driver: str, pool: str, number: int) -> str:
    """The same after each start: a slice that was written just before a crash is found again."""
    digest = hashlib.sha256(f"{node}\n{driver}\n{pool}".encode()).hexdigest()[:10]
    return f"{node[:150].rstrip('.-')}-{driver}-{digest}-{number}"


def _same_devices(wanted: Sequence[ResourceSlice], there: Mapping[str, ResourceSlice], newest: int) -> bool:
    current = {name: one for name, one in there.items() if one.spec.pool.generation == newest}
    if len(current) != len(wanted):
        return False
    for one in wanted:
        before = current.get(one.metadata.name)
        if before is None or _names(before.spec.devices) != _names(one.spec.devices):
            return False
        if before.spec.pool.resource_slice_count != len(wanted):
            return False
    return True


def _names(devices: Sequence[Device]) -> list[str]:
    return [device.name for device in devices]
