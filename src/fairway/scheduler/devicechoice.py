"""What a plan says of devices: which ones a binding names, how they are recorded, and how the classes stand."""

from __future__ import annotations

from typing import NamedTuple

from fairway.devices.node import Holding, NodeDevices, portion_milli
from fairway.devices.record import Entry, written
from fairway.devices.room import WHOLE
from fairway.resources.quantity import Quantity
from fairway.scheduler.plan import ClassStanding, DeviceChoice
from fairway.scheduler.session import Session
from fairway.state.tasks import Task


class Choices(NamedTuple):
    """The devices of one binding, and the annotations that record those asked for by class."""

    devices: tuple[DeviceChoice, ...]
    annotations: dict[str, str]


NO_CHOICES = Choices((), {})


def choices(session: Session) -> dict[Task, Choices]:
    """For every bound task that was given devices, written down now: the session's rooms do not last."""
    found: dict[Task, Choices] = {}
    for _, tasks, rows in session.bindings:
        if tasks and session.devices.minds(tasks[0].shape):
            for task, row in zip(tasks, rows, strict=True):
                session.devices.check_served(task)
                node = session.devices.book.nodes.get(row)
                if node is not None:
                    found[task] = _choices(session, task, node)
    return found


def _choices(session: Session, task: Task, node: NodeDevices) -> Choices:
    named = [holding for holding in session.devices.of(task) if not holding.plain]
    devices = tuple(_choice(node, holding) for holding in sorted(named, key=lambda h: (h.label, h.claim, h.slot)))
    entries = [
        Entry(holding.label, node.record_name(holding.slot), _milli(node, holding))
        for holding in named
        if not holding.claim
    ]
    return Choices(devices, written(entries))


def _choice(node: NodeDevices, holding: Holding) -> DeviceChoice:
    device = node.inventory.slots[holding.slot].device
    claimed = bool(holding.claim)
    return DeviceChoice(
        class_=holding.label,
        device=device.name if claimed else node.record_name(holding.slot),
        quantity=units(_milli(node, holding)),
        claim=holding.claim,
        request=holding.request,
        driver=device.driver if claimed else "",
        pool=device.pool if claimed else "",
        consumed=_consumed(node, holding) if claimed else {},
    )


def _consumed(node: NodeDevices, holding: Holding) -> dict[str, str]:
    """What a claim takes of a shared device's capacity."""
    names = (name for name, _ in node.inventory.slots[holding.slot].capacity)
    return {name: str(Quantity(part)) for name, part in zip(names, holding.portion.capacity, strict=False)}


def _milli(node: NodeDevices, holding: Holding) -> int:
    return portion_milli(node.inventory.slots[holding.slot], holding.portion)


def units(milli: int) -> int | float:
    """Thousandths as a number of units; whole ones are whole numbers."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


def class_standings(session: Session) -> list[ClassStanding]:
    """All classes by name, as they stand after the plan."""
    standings = session.devices.standings()
    found = []
    for known in session.devices.book.classes:
        standing = standings.get(known.name)
        allocatable, requested = (standing.allocatable, standing.requested) if standing else (0, 0)
        found.append(ClassStanding(known.name, units(allocatable), units(requested)))
    return found
