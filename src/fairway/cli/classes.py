"""`fairway classes`: the devices and pods of each class, whether a class selects a device, and export to CEL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.output import echo, output_option, print_structured, warn

if TYPE_CHECKING:
    from fairway.devices.track.ledger import DeviceLedger


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
    from fairway.cli.classes_find import find_class, find_device
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
        from fairway.cli.classes_apply import apply

        click.get_current_context().exit(apply(class_name, output or "table", watch=watch))
    if watch or output == "table":
        raise click.UsageError("--watch and -o table go with --apply")
    from fairway.cli.classes_find import find_class
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
        raise InputError(f"--class: {class_name} cannot be written as a DeviceClass that selects the same devices")
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
