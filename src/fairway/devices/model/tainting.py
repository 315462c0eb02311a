"""Taints that an administrator adds by rules to devices as drivers publish them, and what the taints of members mean.

A rule (`DeviceTaintRule`) names devices by driver, pool and name; what it does not name is any. A group is as sick as
its members: a pair of which one device is tainted is not to be had without tolerating that taint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from fairway.api.devices import DeviceTaint, DeviceTaintRule, DeviceTaintSelector
from fairway.devices.model.device import Device


class TaintRules:
    """The rules by name; they count in the order of their names."""

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}

    def put(self, name: str, rule: DeviceTaintRule | None) -> list[DeviceTaintSelector]:
        """Take a rule in, or forget it; returns the selectors of the devices for which that may matter."""
        before = self._rules.pop(name, None)
        if rule is not None:
            self._rules[name] = rule
        selectors = (one.spec.device_selector for one in (before, rule) if one is not None)
        return [selector for selector in selectors if selector is not None]

    def tainted(self, devices: tuple[Device, ...], driver: str, pool: str) -> tuple[Device, ...]:
        """The devices of a pool with the taints of all rules that mean them."""
        by_name: dict[str | None, list[DeviceTaint]] = {}
        for name in sorted(self._rules):
            spec = self._rules[name].spec
            if spec.device_selector is not None and means_pool(spec.device_selector, driver, pool):
                by_name.setdefault(spec.device_selector.device, []).append(spec.taint)
        if not by_name:
            return devices
        for_all = by_name.get(None, [])
        return tuple(_with(device, (*for_all, *by_name.get(device.name, ()))) for device in devices)


def means_pool(selector: DeviceTaintSelector, driver: str, pool: str) -> bool:
    """Whether a rule may mean devices of a pool."""
    return selector.driver in (None, driver) and selector.pool in (None, pool)


def with_members(devices: Iterable[Device]) -> Iterator[Device]:
    """The devices of a node, groups with the taints and the health of the devices that they are made of."""
    known = list(devices)
    if not any(device.members for device in known) or not any(_is_sick(device) for device in known):
        yield from known
        return
    by_name: dict[tuple[str, str, str], Device] = {(one.driver, one.pool, one.name): one for one in known}
    for device in known:
        parts = [part for part in _parts(device, by_name) if _is_sick(part)]
        taints = dict.fromkeys(taint for part in parts for taint in part.taints if taint not in device.taints)
        yield replace(_with(device, taints), healthy=all(one.healthy for one in (device, *parts))) if parts else device


def _is_sick(device: Device) -> bool:
    return bool(device.taints) or not device.healthy


def _parts(group: Device, by_name: Mapping[tuple[str, str, str], Device]) -> list[Device]:
    """All devices below a group, through groups of groups; one that contains itself ends here."""
    found: dict[str, Device] = {}
    ahead = list(group.members)
    while ahead:
        name = ahead.pop()
        part = by_name.get((group.driver, group.pool, name))
        if part is not None and name not in found:
            found[name] = part
            ahead += part.members
    return [found[name] for name in sorted(found)]


def _with(device: Device, taints: Iterable[DeviceTaint]) -> Device:
    more = tuple(taints)
    return replace(device, taints=(*device.taints, *more)) if more else device
