"""`fairway apply` and `fairway delete`: change objects of the running sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.inputs import sandbox_option
from fairway.cli.output import echo, output_option, print_structured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.app.sandbox import ObjectResult
    from fairway.app.view.models.commands import ObjectName


@click.command(
    epilog="""\b
Examples:
  fairway apply -f examples/sandbox/gang.yaml
  cat job.yaml | fairway apply -f -"""
)
@inputs.files_option
@inputs.strict_option
@sandbox_option
@output_option
def apply(files: tuple[str, ...], sandbox: str | None, output: str) -> None:
    """Create or update the objects of manifests in the running sandbox, all of them or none."""
    from fairway.app.sandbox import Client

    objects = inputs.read_objects(files)
    _print_results(Client.find(sandbox).apply(objects), output)


@click.command(
    epilog="""\b
Examples:
  fairway delete job vision/sweep-3    a pod group with its pods, or a pod
  fairway delete node gpu-1            its pods become pending again
  fairway delete rsv vision/big        release a reservation
  fairway delete -f examples/sandbox/gang.yaml"""
)
@click.argument("kind", required=False)
@click.argument("names", nargs=-1, metavar="[NAMESPACE/]NAME...")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE", help="Manifests whose objects are deleted. Repeatable."
)
@sandbox_option
@output_option
def delete(kind: str | None, names: tuple[str, ...], files: tuple[str, ...], sandbox: str | None, output: str) -> None:
    """Delete objects from the running sandbox, by KIND and NAME or by manifest, all of them or none."""
    if bool(files) == bool(kind) or (kind and not names):
        raise click.UsageError("expected a kind and names, or -f")
    from fairway.api import kinds
    from fairway.app.sandbox import Client, kind_named

    if kind is None:
        keys = [kinds.key(thing) for thing in inputs.read_objects(files)]
        wanted = [_name(*key) for key in keys]
    else:
        word = "Job" if kind.lower() in ("job", "jobs") else kind_named(kind).name
        wanted = [_name(word, *_split(name)) for name in names]
    _print_results(Client.find(sandbox).delete(wanted), output)


def _split(text: str) -> tuple[str, str]:
    namespace, _, name = text.rpartition("/")
    return namespace, name


def _name(kind: str, namespace: str, name: str) -> ObjectName:
    from fairway.app.view.models.commands import ObjectName

    return ObjectName(kind=kind, namespace=namespace, name=name)


def _print_results(results: Sequence[ObjectResult], output: str) -> None:
    """One line per object, with its result."""
    if output != "table":
        print_structured({"items": list(results)}, output)
        return
    for result in results:
        echo(f"{result.object} {result.result}")
