"""The output of `fairway classes`: tables for people, data for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fairway.cli.output import console, table

if TYPE_CHECKING:
    from fairway.devices.model.device import Device
    from fairway.devices.select.classes import CompiledClass
    from fairway.devices.select.selectors import MatchResult, TermResult
    from fairway.devices.track.report import ClassReport, DeviceUser, Selected


class FoundDevice(NamedTuple):
    """A device, whether the class selects it, and why it is unusable even so."""

    device: Device
    selected: bool
    unusable: str


def place(device: Device) -> str:
    """Its node and name, or its pool and name if several nodes reach it."""
    return f"{device.node or device.pool}/{device.name}"


# -- one pair ------------------------------------------------------------------------------------------------


def match_notes(known: CompiledClass, found: FoundDevice, result: MatchResult) -> list[str]:
    """Remarks besides the terms."""
    notes = [f"{warning.reason}: {warning.message}" for warning in known.matcher.warnings]
    device = found.device
    if known.nested:
        asked = ", ".join(f"{member.count} of {member.class_name}" for member in known.spec.includes)
        own = result.matched or not known.spec.resource_selector
        serve = "serve" if found.selected else "do not serve" if own and device.members else "were not requested"
        notes.append(f"members: {', '.join(device.members) or 'none'} {serve} {asked}")
    if found.selected and found.unusable:
        notes.append(f"not usable: {found.unusable}; pods that request it by class do not get it")
    return notes


def match_as_data(known: CompiledClass, found: FoundDevice, result: MatchResult) -> dict[str, Any]:
    return {
        "class": known.name,
        "node": found.device.node,
        "device": found.device.name,
        "matched": found.selected,
        "terms": [_term_as_data(term) for term in result.terms],
        "notes": match_notes(known, found, result),
    }


def _term_as_data(term: TermResult) -> dict[str, Any]:
    return {
        "matched": term.matched,
        "requirements": [
            {
                "key": found.requirement.key,
                "operator": found.requirement.operator,
                "values": list(found.requirement.values),
                "found": found.found,
                "matched": found.matched,
                "reason": found.reason,
            }
            for found in term.requirements
        ],
    }


# -- all classes ---------------------------------------------------------------------------------------------


def number(milli: int) -> int | float:
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


def report_as_data(report: ClassReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "allocatable": number(report.allocatable),
        "requested": number(report.requested),
        "devices": [_device_as_data(selected) for selected in report.devices],
        "nearMisses": [
            {"node": near.device.node, "device": near.device.name, "missed": near.missed} for near in report.near_misses
        ],
        "moreNearMisses": report.more_near_misses,
        "uncomparable": report.uncomparable,
        "faults": list(report.problems),
        "warnings": [f"spec.{warning} ({warning.reason})" for warning in report.warnings],
    }


def _device_as_data(selected: Selected) -> dict[str, Any]:
    device = selected.device
    return {
        "node": device.node,
        "driver": device.driver,
        "pool": device.pool,
        "device": device.name,
        "kind": device.kind,
        "quantity": selected.units,
        "usable": not selected.unusable,
        **({"unusable": selected.unusable} if selected.unusable else {}),
        "holders": [_holder_as_data(holder) for holder in selected.holders],
    }


def _holder_as_data(holder: DeviceUser) -> dict[str, Any]:
    through = {"through": holder.through} if holder.through else {}
    return {"name": holder.name, "quantity": number(holder.milli), **through}


def print_reports(reports: list[ClassReport]) -> None:
    out = console()
    if not reports:
        out.print("No resource classes.")
        return
    rows = table("class", "allocatable", "requested", "devices", numbers=("allocatable", "requested", "devices"))
    for report in reports:
        cells = (number(report.allocatable), number(report.requested), len(report.devices))
        rows.add_row(report.name, *map(str, cells))
    out.print(rows)
    for report in reports:
        out.print(f"\n{report.name}")
        _print_devices(report)
        for near in report.near_misses:
            out.print(f"  almost: {place(near.device)}: {near.missed}")
        if report.more_near_misses:
            out.print(f"  ... and {report.more_near_misses} more that almost match")
        for reason, count in report.uncomparable.items():
            out.print(
                f"  {reason}: {count} {'device has' if count == 1 else 'devices have'} values that cannot be compared"
            )
        for warning in report.warnings:
            out.print(f"  {warning.reason}: {warning.message}")
        for problem in report.problems:
            out.print(f"  error: {problem}")


def _print_devices(report: ClassReport) -> None:
    if not report.devices:
        console().print("  selects no device")
        return
    rows = table("  device", "kind", "units", "in use by", numbers=("units",))
    for selected in report.devices:
        unusable = [f"not usable: {selected.unusable}"] if selected.unusable else []
        who = ", ".join(map(_holder, selected.holders))
        held = "; ".join([*unusable, *([who] if who else [])])
        rows.add_row(f"  {place(selected.device)}", selected.device.kind, str(selected.units), held)
    console().print(rows)


def _holder(holder: DeviceUser) -> str:
    of = f" of {holder.through}" if holder.through else ""
    return f"{holder.name} ({number(holder.milli)}{of})"
