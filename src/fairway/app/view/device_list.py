"""Device classes, devices, and which pods have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from fairway.app.view.mirror import Mirror
from fairway.app.view.models.nodes import DeviceClassUse, DevicesPage, NodeDevice
from fairway.clock import format_rfc3339
from fairway.devices.model.device import Device
from fairway.devices.select.classes import CompiledClass
from fairway.devices.track.ledger import device_ledger
from fairway.devices.track.node import NodeDevices
from fairway.devices.track.report import devices, holders, unusable_because

MILLI = 1000


def devices_page(
    mirror: Mirror,
    *,
    class_name: str,
    node: str,
    kind: str,
    holder: str,
    offset: int,
    limit: int,
    sees: Callable[[str], bool],
) -> DevicesPage:
    """Devices are looked for by the names of pods only that `sees` takes."""
    ledger = device_ledger(mirror.state)
    found: list[tuple[NodeDevices, int, Device]] = []
    for on, slot, device in devices(ledger, node or None):
        if kind and device.kind != kind:
            continue
        if class_name and class_name not in on.selected[slot]:
            continue
        if holder and not any(holder in user.name and sees(user.name) for user in holders(on, device)):
            continue
        found.append((on, slot, device))
    return DevicesPage(
        revision=mirror.revision,
        now=format_rfc3339(mirror.now),
        classes=[_class(mirror, known) for known in ledger.classes],
        total=len(found),
        devices=[_device(*entry) for entry in found[offset : offset + limit]],
    )


def devices_on(mirror: Mirror, node: str) -> list[NodeDevice]:
    """All devices of a node."""
    return [_device(*entry) for entry in devices(device_ledger(mirror.state), node)]


def has_devices(mirror: Mirror) -> bool:
    ledger = device_ledger(mirror.state)
    found: Iterator[object] = devices(ledger)
    return any(True for _ in ledger.classes) or any(True for _ in islice(found, 1))


def _class(mirror: Mirror, known: CompiledClass) -> DeviceClassUse:
    standing = device_ledger(mirror.state).standing(known.name)
    return DeviceClassUse(
        name=known.name,
        allocatable=standing.allocatable / MILLI,
        requested=standing.requested / MILLI,
        selector=_selector(known),
        problems=list(known.problems),
    )


def _selector(known: CompiledClass) -> str:
    """One of the terms must match; all parts of a term must."""
    terms = [
        " and ".join(f"{one.key} {one.operator} {', '.join(one.values)}".strip() for one in term.match_expressions)
        for term in known.spec.resource_selector
    ]
    parts = [" or ".join(terms)] if terms else []
    parts += [f"a group with {member.count} of {member.class_name}" for member in known.spec.includes]
    return "; ".join(parts)


def _device(node: NodeDevices, slot: int, device: Device) -> NodeDevice:
    users = holders(node, device)
    classes = sorted(node.selected[slot])
    amounts: dict[str, float] = {}
    for user in users:
        amounts[user.name] = amounts.get(user.name, 0.0) + user.milli / MILLI
    own = sum(user.milli for user in users if not user.through) / MILLI
    return NodeDevice(
        node=device.node,
        device=device.name,
        kind=device.kind,
        quantity=device.quantity,
        used=own,
        classes=classes,
        holders=amounts,
        attributes={name: value.text for name, value in sorted(device.attributes.items())},
        unusable=unusable_because(node, slot, classes[0]) if classes else "",
    )
