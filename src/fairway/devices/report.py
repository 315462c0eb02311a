"""What there is to say about classes: what each selects, who holds it, and what keeps others from being selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from fairway.devices.book import DeviceBook
from fairway.devices.classes import CompiledClass
from fairway.devices.device import Device
from fairway.devices.node import NodeDevices, portion_milli
from fairway.devices.selectors import MatchResult
from fairway.devices.values import FAULTS

MOST_NEAR_MISSES = 20
"""Shown for a class; of the rest only the number."""


class Holder(NamedTuple):
    """A pod (or a claim) and how much it holds, in thousandths of a unit."""

    name: str
    milli: int


class Selected(NamedTuple):
    """A device that a class selects, how many units it has and who holds them. One that is not `usable` is unhealthy
    or tainted, or its name does not fit the record.
    """

    device: Device
    units: int
    usable: bool
    holders: tuple[Holder, ...]


class NearMiss(NamedTuple):
    """A device that all but one requirement of a term would select."""

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
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


def class_reports(book: DeviceBook) -> list[ClassReport]:
    """All classes, by name. The book must be up to date."""
    return [_report(book, known) for known in book.classes]


def devices(book: DeviceBook) -> Iterator[tuple[NodeDevices, int, Device]]:
    """Every device with its node and first slot, by node and in stable order."""
    for node in sorted(book.nodes.values(), key=lambda node: node.inventory.slots[0].device.node):
        seen: set[tuple[str, str, str]] = set()
        for slot, facts in enumerate(node.inventory.slots):
            device = facts.device
            if (key := (device.driver, device.pool, device.name)) not in seen:
                seen.add(key)
                yield node, slot, device


def match(known: CompiledClass, device: Device) -> MatchResult:
    """How the class's own selectors meet a device."""
    return known.matcher.match(device)


def _report(book: DeviceBook, known: CompiledClass) -> ClassReport:
    standing = book.standing(known.name)
    selected: list[Selected] = []
    near: list[NearMiss] = []
    faults: Counter[str] = Counter()
    for node, slot, device in devices(book):
        result = known.matcher.match(device)
        faults.update(result.faults)
        if known.name in node.selected[slot]:
            usable = known.name in node.takes[slot]
            selected.append(Selected(device, device.quantity, usable, holders(node, device)))
        elif (missed := _near(known, result)) is not None:
            near.append(NearMiss(device, missed))
    return ClassReport(
        known.name,
        standing.allocatable,
        standing.requested,
        tuple(selected),
        tuple(near[:MOST_NEAR_MISSES]),
        max(0, len(near) - MOST_NEAR_MISSES),
        {reason: faults[reason] for reason in FAULTS if faults[reason]},
        known.faults,
        tuple(f"spec.{warning}" for warning in known.matcher.warnings),
    )


def holders(node: NodeDevices, device: Device) -> tuple[Holder, ...]:
    """Who holds how much of a device."""
    amounts: Counter[str] = Counter()
    for holding in node.holdings:
        facts = node.inventory.slots[holding.slot]
        if facts.device is device:
            amounts[holding.holder] += portion_milli(facts, holding.portion)
    return tuple(Holder(name, amounts[name]) for name in sorted(amounts))


def _near(known: CompiledClass, result: MatchResult) -> str | None:
    """What the one requirement says that the device does not meet; None if it is not that near."""
    if result.matched:
        return "its members do not serve what the class includes" if known.nested else None
    term = result.nearest()
    if term is None or len(term.missed) != 1 or len(term.requirements) < 2:
        return None
    return str(term.missed[0])
