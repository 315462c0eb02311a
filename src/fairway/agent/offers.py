"""Devices as their source offers them: a plugin, or the agent's own look at the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway.api.devices import DeviceAttribute, DeviceCapacity


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """Plugins say an id, its health and NUMA nodes; what is found on the host has attributes and device files."""

    id: str
    healthy: bool = True
    numa: tuple[int, ...] = ()
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Device files that a container needs to use it."""
