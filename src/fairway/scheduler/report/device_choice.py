"""What a plan says of devices: which ones a binding names, how they are recorded, and how the classes stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairway.devices.model.device import WHOLE
from fairway.devices.track.columns import NONE, add_up, moved
from fairway.devices.track.node import ClassUse, NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.record import DeviceUse, written
from fairway.resources.quantity import Format, Quantity
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.plan import ClassStanding, DeviceChoice
from fairway.state.jobs import Task


class Choices(NamedTuple):
    """The devices of one binding, and the annotations that record those asked for by class."""

    devices: tuple[DeviceChoice, ...]
    annotations: dict[str, str]


NO_CHOICES = Choices((), {})


def given(
    devices: DeviceAssignments, decisions: Decisions
) -> dict[Task, tuple[NodeDevices, tuple[SlotAllocation, ...]]]:
    """What every bound task was given, written down now: the session does not last."""
    found: dict[Task, tuple[NodeDevices, tuple[SlotAllocation, ...]]] = {}
    nodes = devices.ledger.nodes
    for _, tasks, rows in decisions.bindings:
        if tasks and devices.uses_devices(tasks[0].shape):
            for task, row in zip(tasks, rows, strict=True):
                devices.check_served(task)
                if row in nodes:
                    found[task] = (nodes[row], devices.of(task))
    return found


def choices(node: NodeDevices, allocations: Iterable[SlotAllocation]) -> Choices:
    named = [allocation for allocation in allocations if not allocation.plain]
    devices = tuple(_choice(node, allocation) for allocation in sorted(named, key=lambda h: (h.label, h.claim, h.slot)))
    entries = [
        DeviceUse(allocation.label, node.record_name(allocation.slot), _milli(node, allocation))
        for allocation in named
        if not allocation.claim and allocation.label not in node.extended
    ]
    return Choices(devices, written(entries))


def _choice(node: NodeDevices, allocation: SlotAllocation) -> DeviceChoice:
    device = node.inventory.slots[allocation.slot].device
    serving = node.extended.get(allocation.label, "")
    claimed = bool(allocation.claim or serving)
    return DeviceChoice(
        class_=serving or allocation.label,
        device=device.name if claimed else node.record_name(allocation.slot),
        quantity=units(_milli(node, allocation)),
        claim=allocation.claim,
        request=allocation.request,
        driver=device.driver,
        pool=device.pool,
        consumed=_consumed(node, allocation) if claimed or _is_shared(node, allocation) else {},
        admin_access=allocation.portion.looks,
        resource=allocation.label if serving else "",
        shared=_is_shared(node, allocation),
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
    )


def _consumed(node: NodeDevices, allocation: SlotAllocation) -> dict[str, str]:
    """What is taken of a shared device's capacity: the parts that were claimed, or all of it with a whole unit."""
    facts = node.inventory.slots[allocation.slot]
    parts = [total for _, total in facts.capacity] if allocation.portion.units else allocation.portion.capacity
    if not facts.shareable:
        parts = allocation.portion.capacity
    return {name: _shorter(part) for (name, _), part in zip(facts.capacity, parts, strict=False)}


def _is_shared(node: NodeDevices, allocation: SlotAllocation) -> bool:
    facts = node.inventory.slots[allocation.slot]
    return facts.shareable and bool(facts.device.driver) and not allocation.portion.looks


def _shorter(nanos: int) -> str:
    return min(str(Quantity(nanos, Format.BINARY_SI)), str(Quantity(nanos)), key=len)


def _milli(node: NodeDevices, allocation: SlotAllocation) -> int:
    return portion_milli(node.inventory.slots[allocation.slot], allocation.portion)


def units(milli: int) -> int | float:
    """Thousandths as a number of units; whole ones are whole numbers."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


def class_standings(devices: DeviceAssignments) -> list[ClassStanding]:
    """All classes by name, as they stand after the plan."""
    names = [known.name for known in devices.ledger.classes]
    if not names:
        return []
    more: dict[frozenset[str], ClassUse] = {}
    for node, was, is_now in devices.changed():
        for sign, tally in ((-1, node.tally(was)), (1, node.tally(is_now))):
            for classes, standing in tally.items():
                more[classes] = moved(more.get(classes, NONE), standing, sign)
    found = add_up(devices.ledger.columns.copy_of_sums(), more)
    return [_standing(name, found.get(name, NONE)) for name in names]


def _standing(name: str, standing: ClassUse) -> ClassStanding:
    return ClassStanding(name, units(standing.allocatable), units(standing.requested))
