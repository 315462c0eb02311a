"""`fairway classes`: what each class selects and who holds it; why a device does or does not match; export as CEL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured, table

if TYPE_CHECKING:
    from fairway.devices.book import DeviceBook
    from fairway.devices.classes import CompiledClass
    from fairway.devices.device import Device
    from fairway.devices.report import ClassReport, Selected
    from fairway.devices.selectors import MatchResult, TermResult

_FILES_HELP = "Manifests: a file, a folder, a glob, or - for standard input. May be given several times."


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  fairway classes -f cluster/
  fairway classes match --class nvidia.high.mem --device node-1/gpu-0 -f cluster/
  fairway classes export -f classes.yaml""",
)
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help=_FILES_HELP)
@output_option
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], output: str) -> None:
    """List resource classes: what is there, what is in use and by whom, and what almost matches."""
    if context.invoked_subcommand is not None:
        return
    if not files:
        raise click.UsageError("Missing option '-f' / '--file'.")
    from fairway.devices.report import class_reports

    book = _book(files)
    reports = class_reports(book)
    if output == "table":
        _print_reports(reports)
    else:
        print_structured({"resourceClasses": [_as_data(report) for report in reports]}, output)


@command.command(
    epilog="""\b
Examples:
  fairway classes match --class fast.nic --device eth0 -f cluster/
  fairway classes match --class fast.nic --device node-7/eth0 -f cluster/ -o json"""
)
@click.option("--class", "class_name", required=True, metavar="NAME", help="The class.")
@click.option("--device", required=True, metavar="NAME", help="The device, or NODE/DEVICE where several have the name.")
@inputs.files_option
@output_option
def match(class_name: str, device: str, files: tuple[str, ...], output: str) -> None:
    """Explain, term by term, whether a class selects a device."""
    book = _book(files)
    known = _class(book, class_name)
    selected, found = _device(book, class_name, device)
    result = known.matcher.match(found)
    if output != "table":
        print_structured(_match_as_data(known, found, result, selected), output)
        return
    click.echo(f"class {known.name} {'selects' if selected else 'does not select'} device {_place(found)}")
    for number, term in enumerate(result.terms, 1):
        click.echo(f"term {number}: {'matches' if term.matched else 'does not match'}")
        for requirement in term.requirements:
            click.echo(f"  {'yes' if requirement.matched else 'no ':3}  {requirement}")
    for note in _notes(known, found, result, selected):
        click.echo(note)


@command.command(
    epilog="""\b
Examples:
  fairway classes export -f classes.yaml | kubectl apply -f -"""
)
@click.option("--class", "class_name", metavar="NAME", help="Only this class.")
@inputs.files_option
@click.option("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
def export(class_name: str | None, files: tuple[str, ...], output: str) -> None:
    """Print each class as a DeviceClass that selects the same devices by a CEL expression."""
    from fairway.devices.cel import export as to_cel

    book = _book(files)
    classes = [known for known in book.classes if class_name in (None, known.name)]
    if class_name is not None:
        _class(book, class_name)
    documents = []
    for known in classes:
        exported = to_cel(known.spec)
        documents.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": known.name},
                "spec": {"selectors": [{"cel": {"expression": exported.expression}}]},
            }
        )
        for finding in exported.findings:
            click.echo(f"Warning: resourceclass {known.name}: spec.{finding} ({finding.reason})", err=True)
    if output == "json":
        print_structured({"apiVersion": "v1", "kind": "List", "items": documents}, output)
        return
    for place, document in enumerate(documents):
        click.echo("---\n" if place else "", nl=False)
        print_structured(document, "yaml")


def _book(files: tuple[str, ...]) -> DeviceBook:
    from fairway.devices.book import device_book

    book = device_book(inputs.read_state(files))
    for warning in book.warnings():
        click.echo(f"Warning: {warning}", err=True)
    return book


def _class(book: DeviceBook, name: str) -> CompiledClass:
    from fairway.errors import InputError

    known = book.classes.get(name)
    if known is None:
        names = ", ".join(found.name for found in book.classes) or "none"
        raise InputError(f"--class: {name} does not exist, expected one of: {names}")
    return known


def _device(book: DeviceBook, class_name: str, name: str) -> tuple[bool, Device]:
    """The one device that is meant, and whether the class selects it."""
    from fairway.devices.report import devices
    from fairway.errors import InputError

    found = [
        (class_name in node.selected[slot], device)
        for node, slot, device in devices(book)
        if name in (device.name, f"{device.node}/{device.name}", f"{device.node}/{device.pool}/{device.name}")
    ]
    if not found:
        raise InputError(f"--device: {name} does not exist, expected the name of a device, or NODE/DEVICE")
    if len(found) > 1:
        first = found[0][1]
        ways = (
            f"{first.node}/{first.name}"
            if len({d.node for _, d in found}) > 1
            else f"{first.node}/{first.pool}/{first.name}"
        )
        raise InputError(f"--device: {len(found)} devices are named {name}, expected one of them, for example {ways}")
    return found[0]


def _place(device: Device) -> str:
    return f"{device.node}/{device.name}"


def _notes(known: CompiledClass, device: Device, result: MatchResult, selected: bool) -> list[str]:
    notes = []
    if known.nested:
        asked = ", ".join(f"{member.count} of {member.class_name}" for member in known.spec.includes)
        own = result.matched or not known.spec.resource_selector
        serve = "serve" if selected else "do not serve" if own and device.members else "were not asked to serve"
        notes.append(f"members: {', '.join(device.members) or 'none'} {serve} {asked}")
    if not device.usable:
        why = "unhealthy" if not device.healthy else "tainted"
        notes.append(f"the device is {why}: it is not given to pods that ask by class")
    return notes


def _match_as_data(known: CompiledClass, device: Device, result: MatchResult, selected: bool) -> dict[str, Any]:
    return {
        "class": known.name,
        "node": device.node,
        "device": device.name,
        "matched": selected,
        "terms": [_term_as_data(term) for term in result.terms],
        "notes": _notes(known, device, result, selected),
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


def _number(milli: int) -> int | float:
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


def _as_data(report: ClassReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "allocatable": _number(report.allocatable),
        "requested": _number(report.requested),
        "devices": [_device_as_data(selected) for selected in report.devices],
        "nearMisses": [
            {"node": near.device.node, "device": near.device.name, "missed": near.missed} for near in report.near_misses
        ],
        "moreNearMisses": report.more_near_misses,
        "uncomparable": report.uncomparable,
        "faults": list(report.faults),
        "warnings": list(report.warnings),
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
        "usable": selected.usable,
        "holders": [{"name": holder.name, "quantity": _number(holder.milli)} for holder in selected.holders],
    }


def _print_reports(reports: list[ClassReport]) -> None:
    out = console()
    if not reports:
        out.print("No resource classes.")
        return
    rows = table("class", "allocatable", "requested", "devices", numbers=("allocatable", "requested", "devices"))
    for report in reports:
        cells = (_number(report.allocatable), _number(report.requested), len(report.devices))
        rows.add_row(report.name, *map(str, cells))
    out.print(rows)
    for report in reports:
        out.print(f"\n{report.name}")
        _print_devices(report)
        for near in report.near_misses:
            out.print(f"  almost: {_place(near.device)}: {near.missed}")
        if report.more_near_misses:
            out.print(f"  ... and {report.more_near_misses} more that almost match")
        for reason, count in report.uncomparable.items():
            out.print(f"  {reason}: {count} device(s) have values that cannot be compared")
        for fault in report.faults:
            out.print(f"  fault: {fault}")


def _print_devices(report: ClassReport) -> None:
    if not report.devices:
        console().print("  selects nothing")
        return
    rows = table("  device", "kind", "units", "held by", numbers=("units",))
    for selected in report.devices:
        who = ", ".join(f"{holder.name} ({_number(holder.milli)})" for holder in selected.holders)
        unusable = "" if selected.usable else "not usable; "
        rows.add_row(f"  {_place(selected.device)}", selected.device.kind, str(selected.units), f"{unusable}{who}")
    console().print(rows)
