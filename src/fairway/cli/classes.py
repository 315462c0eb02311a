"""`fairway classes`: the devices and pods of each class, whether a class selects a device, and export to CEL.

`export --apply` publishes classes as DeviceClasses of the cluster, once or continuously.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.invocation import Options
from fairway.cli.output import console, echo, output_option, print_structured, table, warn

if TYPE_CHECKING:
    from fairway.cli.classes_view import FoundDevice
    from fairway.devices.model.device import Device
    from fairway.devices.select.classes import CompiledClass
    from fairway.devices.track.ledger import DeviceLedger
    from fairway.kube.class_export import PublishedClass

_MANY = 20
"""Maximum number of names to list if none is similar to the given one."""
EVERY = 10.0
"""Seconds between two rounds of `--watch`."""


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  fairway classes -f cluster/
  fairway classes match --class nvidia.high.mem --device n1/gpu-0 -f cluster/
  fairway classes export -f classes.yaml""",
)
@inputs.cluster_or_files_of_group_option
@inputs.strict_option
@inputs.skip_invalid_option
@output_option
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], output: str) -> None:
    """List resource classes with their devices, the pods using them, and near-matching devices."""
    if context.invoked_subcommand is not None:
        return
    from fairway.cli.classes_view import print_reports, report_as_data
    from fairway.devices.track.report import class_reports

    ledger = _ledger(inputs.required_files(files))
    reports = class_reports(ledger)
    if output == "table":
        print_reports(reports)
    else:
        print_structured({"resourceClasses": [report_as_data(report) for report in reports]}, output)


@command.command(
    epilog="""\b
Examples:
  fairway classes match --class fast.nic --device eth0 -f cluster/
  fairway classes match --class fast.nic --device eth0 --node n7 -f cluster/"""
)
@click.option("--class", "class_name", required=True, metavar="NAME", help="Name of the class.")
@click.option(
    "--device",
    required=True,
    metavar="NAME",
    help="Name of the device, or NODE/DEVICE if several devices share the name.",
)
@click.option("--node", metavar="NAME", help="Node of the device.")
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@output_option
def match(class_name: str, device: str, node: str | None, files: tuple[str, ...], output: str) -> None:
    """Explain whether a class selects a device, term by term."""
    from fairway.cli.classes_view import match_as_data, match_notes, place

    ledger = _ledger(files)
    known = find_class(ledger, class_name)
    found = find_device(ledger, class_name, device, node)
    result = known.matcher.match(found.device)
    if output != "table":
        print_structured(match_as_data(known, found, result), output)
        return
    echo(f"class {known.name} {'selects' if found.selected else 'does not select'} device {place(found.device)}")
    for number, term in enumerate(result.terms, 1):
        echo(f"term {number}: {'matches' if term.matched else 'does not match'}")
        for requirement in term.requirements:
            echo(f"  {'yes' if requirement.matched else 'no ':3}  {requirement}")
    for note in match_notes(known, found, result):
        echo(note)


@command.command(
    short_help="Print or publish classes as Kubernetes DeviceClasses.",
    epilog="""\b
Examples:
  fairway classes export -f classes.yaml | kubectl apply -f -
  fairway classes export --context prod --apply
  fairway classes export --context prod --apply --watch""",
)
@click.option("--class", "class_name", metavar="NAME", help="Export only this class.")
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "yaml", "json")),
    help="Output format. Defaults to yaml, or to table with --apply.",
)
@click.option("--apply", "publishes", is_flag=True, help="Create, update and delete DeviceClasses in the cluster.")
@click.option("--watch", is_flag=True, help="With --apply: keep the DeviceClasses up to date until interrupted.")
def export(class_name: str | None, files: tuple[str, ...], output: str | None, publishes: bool, watch: bool) -> None:
    """Print each class as a DeviceClass whose CEL expression selects the same devices.

    Classes that cannot be expressed in CEL are skipped, with the reason on standard error.

    With --apply, DeviceClasses are written to the cluster that the classes come from, and those whose class no longer
    exists are deleted. The exit status is 1 if a class cannot be published, or only in part.
    """
    if publishes:
        click.get_current_context().exit(_apply_classes(class_name, output or "table", watch=watch))
    if watch or output == "table":
        raise click.UsageError("--watch and -o table require --apply")
    from fairway.devices.select.cel_export import export as to_cel
    from fairway.errors import InputError

    ledger = _ledger(files)
    classes = list(ledger.classes) if class_name is None else [find_class(ledger, class_name)]
    documents, left_out = [], []
    for known in classes:
        exported = to_cel(known.spec)
        for finding in exported.findings:
            echo(f"Warning: resourceclass {known.name}: spec.{finding} ({finding.reason})", err=True)
        if exported.expression is None:
            left_out.append(known.name)
            continue
        documents.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": known.name},
                "spec": {"selectors": [{"cel": {"expression": exported.expression}}]},
            }
        )
    if left_out and class_name is not None:
        raise InputError(f"--class: {class_name} cannot be expressed as a DeviceClass that selects the same devices")
    if output == "json":
        print_structured({"apiVersion": "v1", "kind": "List", "items": documents}, output)
        return
    for place, document in enumerate(documents):
        echo("---\n" if place else "", nl=False)
        print_structured(document, "yaml")


def _ledger(files: tuple[str, ...]) -> DeviceLedger:
    from fairway.devices.track.ledger import device_ledger

    ledger = device_ledger(inputs.read_state(files))
    for warning in ledger.warnings():
        warn(warning)
    return ledger


def find_class(ledger: DeviceLedger, name: str) -> CompiledClass:
    from fairway.errors import InputError

    known = ledger.classes.get(name)
    if known is None:
        raise InputError(f"--class: {name} does not exist{_instead(name, [found.name for found in ledger.classes])}")
    return known


def find_device(ledger: DeviceLedger, class_name: str, name: str, node: str | None) -> FoundDevice:
    """The device of that name, which may also be NODE/DEVICE or NODE/POOL/DEVICE."""
    from fairway.cli.classes_view import FoundDevice
    from fairway.devices.track.report import devices, unusable_because
    from fairway.errors import InputError

    nodes = ledger.nodes_by_name()
    if node is not None and node not in nodes:
        raise InputError(f"--node: {node} does not exist or has no devices{_instead(node, nodes)}")
    here = [
        FoundDevice(device, class_name in there.selected[slot], unusable_because(there, slot, class_name))
        for there, slot, device in devices(ledger, node)
    ]
    named = [found for found in here if name in names_of(found.device)]
    if not named:
        where = f" on node {node}" if node is not None else ""
        near = {known for found in here for known in names_of(found.device)[: 2 if "/" in name else 1]}
        raise InputError(f"--device: {name} does not exist{where}{_instead(name, near)}")
    if len(named) > 1:
        raise InputError(_which([found.device for found in named], name))
    return named[0]


def names_of(device: Device) -> tuple[str, ...]:
    """The names of a device, the shortest first. A device that several nodes reach has no node."""
    if not device.node:
        return device.name, f"{device.pool}/{device.name}", f"{device.pool}/{device.name}"
    return device.name, f"{device.node}/{device.name}", f"{device.node}/{device.pool}/{device.name}"


def _which(devices: list[Device], name: str) -> str:
    _, on_node, in_pool = names_of(devices[0])
    unique = [names_of(device)[1] for device in devices].count(on_node) == 1
    ways = f"--node {devices[0].node} or {on_node}" if unique and devices[0].node else in_pool
    return f"--device: {len(devices)} devices are named {name}, expected a unique name, for example {ways}"


def _instead(name: str, known: Collection[str]) -> str:
    from fairway.api.shape import did_you_mean

    hint = did_you_mean(name, known)
    return hint if "did you mean" in hint or len(known) <= _MANY else f", expected one of {len(known)} others"


def _apply_classes(class_name: str | None, output: str, *, watch: bool) -> int:
    """Publish classes; returns the exit status, which is 1 if a class is not published, or only in part."""

    try:
        from fairway.kube.server import find_connection
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "kube") from None
    options = click.get_current_context().ensure_object(Options)
    if not options.reads_cluster:
        raise click.UsageError(
            "--apply publishes the classes of a live cluster; use --kubeconfig or --context instead of -f"
        )
    connection = find_connection(options.kubeconfig, options.context)
    return asyncio.run(_publish(connection, class_name, output, watch=watch))


async def _publish(connection: Any, class_name: str | None, output: str, *, watch: bool) -> int:
    from fairway.errors import InputError
    from fairway.kube.class_export import ClassPublisher
    from fairway.kube.http import ApiClient

    client, before = ApiClient(connection), None
    try:
        publisher = ClassPublisher(client, class_name)
        while True:
            try:
                published = await publisher.publish()
            except InputError as error:
                if before is None:
                    raise
                echo(f"Warning: {error}", err=True)  # continue when the API server answers again
            else:
                if before is None or _changed(published, before):
                    _print_published(published, output)
                before = published
            if not watch:
                return int(not all(each.complete for each in before))
            await asyncio.sleep(EVERY)
    finally:
        await client.close()


def _changed(now: Sequence[PublishedClass], before: Sequence[PublishedClass]) -> bool:
    """Whether there is news. A class that was created and is now unchanged is not."""
    settled = [each._replace(result="unchanged") for each in before if each.result in ("created", "changed")]
    kept = [each for each in before if each.result in ("unchanged", "left out", "refused")]
    return list(now) != sorted([*settled, *kept], key=lambda each: each.name)


def _print_published(published: Sequence[PublishedClass], output: str) -> None:
    from fairway.kube.class_export import lines

    if output != "table":
        items = [
            {
                "name": each.name,
                "result": each.result,
                "complete": each.complete,
                "notExpressed": [
                    {"field": f"spec.{found.path}", "reason": found.reason, "message": found.message}
                    for found in each.findings
                ],
                **({"message": each.why} if each.why else {}),
            }
            for each in published
        ]
        print_structured({"deviceClasses": items}, output)
        return
    if not published:
        console().print("No classes.")
        return
    rows = table("class", "device class", "note")
    for each in published:
        notes = list(lines(each)) or [""]
        for place, note in enumerate(notes):
            rows.add_row(*((each.name, each.result) if place == 0 else ("", "")), note)
    console().print(rows)
