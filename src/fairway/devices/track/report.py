"""What there is to say about classes: what each selects, which pods have it, and why other devices are not selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fairway.devices.model.device import BLOCKING, IDENTITY, Device
from fairway.devices.model.inventory import Slot
from fairway.devices.model.values import PROBLEMS
from fairway.devices.select.classes import CompiledClass
from fairway.devices.select.selectors import Finding, MatchResult, TermResult
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import NodeDevices, portion_milli

MAX_NEAR_MISSES = 20
"""Near misses shown for a class; of the rest only the number."""


class DeviceUser(NamedTuple):
    """A pod (or a claim) and how much it has, in thousandths of a unit: of the device itself, or `through` another
    device that shares its hardware (its group, or a member of the group).
    """

    name: str
    milli: int
    through: str = ""


class Selected(NamedTuple):
    """A device that a class selects, its units, and the pods that have them. `unusable` is why it cannot serve the
    class, "" if it can.
    """

    device: Device
    units: int
    unusable: str
    holders: tuple[DeviceUser, ...]


class NearMiss(NamedTuple):
    """A device that fails only one requirement of a term."""

    device: Device
    missed: str


class ClassReport(NamedTuple):
    """Everything about one class. `uncomparable` counts devices with values that could not be compared, by reason."""

    name: str
    allocatable: int
    requested: int
    devices: tuple[Selected, ...]
    near_misses: tuple[NearMiss, ...]
    more_near_misses: int
    uncomparable: dict[str, int]
    problems: tuple[str, ...]
    warnings: tuple[Finding, ...]


def class_reports(ledger: DeviceLedger) -> list[ClassReport]:
    """All classes, by name. The ledger must be up to date."""
    return [_report(ledger, known) for known in ledger.classes]


def devices(ledger: DeviceLedger, only: str | None = None) -> Iterator[tuple[NodeDevices, int, Device]]:
    """Every device, or those of one node, with its node and first slot, by node and in stable order. In a list of all
    devices, those that several nodes reach appear once.
    """
    for name, node in ledger.nodes_by_name().items():
        if only not in (None, name):
            continue
        seen: set[tuple[str, str, str]] = set()
        for slot, facts in enumerate(node.inventory.slots):
            device = facts.device
            if not device.reachable or (slot in node.counted_elsewhere and only is None):
                continue
            if (key := (device.driver, device.pool, device.name)) not in seen:
                seen.add(key)
                yield node, slot, device


def match(known: CompiledClass, device: Device) -> MatchResult:
    """The result of the class's own selectors for a device."""
    return known.matcher.match(device)


def _report(ledger: DeviceLedger, known: CompiledClass) -> ClassReport:
    standing = ledger.standing(known.name)
    selected: list[Selected] = []
    near: list[NearMiss] = []
    problems: Counter[str] = Counter()
    for node, slot, device in devices(ledger):
        result = known.matcher.match(device)
        problems.update(result.problems)
        if known.name in node.selected[slot]:
            why = unusable_because(node, slot, known.name)
            selected.append(Selected(device, device.quantity, why, holders(node, device)))
        elif (missed := _near(known, result)) is not None:
            near.append(NearMiss(device, missed))
    return ClassReport(
        known.name,
        standing.allocatable,
        standing.requested,
        tuple(selected),
        tuple(near[:MAX_NEAR_MISSES]),
        max(0, len(near) - MAX_NEAR_MISSES),
        {reason: problems[reason] for reason in PROBLEMS if problems[reason]},
        known.problems,
        known.matcher.warnings,
    )


def holders(node: NodeDevices, device: Device) -> tuple[DeviceUser, ...]:
    """Which pods have how much of a device, or of what shares its hardware."""
    slots = node.inventory.slots
    hardware = {leaf for facts in slots if facts.device is device for leaf in facts.leaves}
    amounts: Counter[tuple[str, str]] = Counter()
    for allocation in node.allocations:
        facts = slots[allocation.slot]
        if facts.device is device:
            amounts[allocation.holder, ""] += portion_milli(facts, allocation.portion)
        elif not hardware.isdisjoint(facts.leaves):
            amounts[allocation.holder, facts.device.name] += portion_milli(facts, allocation.portion)
    return tuple(DeviceUser(name, amounts[name, through], through) for name, through in sorted(amounts))


def unusable_because(node: NodeDevices, slot: int, class_name: str) -> str:
    """Why requests by a class cannot get a device that it selects; "" if they can."""
    facts = node.inventory.slots[slot]
    device = facts.device
    if not device.healthy:
        return "unhealthy"
    if not device.usable:
        return "tainted " + ", ".join(taint.key for taint in device.taints if taint.effect in BLOCKING)
    return "" if facts.quantity else _nothing_there(facts)


def _nothing_there(facts: Slot) -> str:
    return "members are missing" if facts.group and not facts.leaves else "no units"


def _near(known: CompiledClass, result: MatchResult) -> str | None:
    """The one requirement that the device does not meet, in words; None if there is more than one."""
    if result.matched:
        return "its members do not serve what the class includes" if known.nested else None
    near = (term.missed[0] for term in result.terms if len(term.missed) == 1 and _is_close(term))
    return next(map(str, near), None)


def _is_close(term: TermResult) -> bool:
    """Whether missing a term by one requirement is informative: other requirements are met, or it is about a value that
    the device has. Every NIC misses "Kind is gpu".
    """
    missed = term.missed[0]
    return len(term.requirements) > 1 or (missed.found is not None and missed.requirement.key not in IDENTITY)
