"""`fairway delete`: delete jobs and other objects from the running sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import print_results, sandbox_option
from fairway.cli.output import output_option

if TYPE_CHECKING:
    from fairway.app.view.models.commands import ObjectName


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
def command(kind: str | None, names: tuple[str, ...], files: tuple[str, ...], sandbox: str | None, output: str) -> None:
    """Delete objects from the running sandbox, by KIND and NAME or by manifest, all of them or none."""
    if bool(files) == bool(kind) or (kind and not names):
        raise click.UsageError("expected a kind and names, or -f")
    from fairway.api import kinds
    from fairway.app.sandbox.client import Client
    from fairway.app.sandbox.kind_names import kind_named
    from fairway.app.view.models.commands import ObjectName as Name

    if kind is None:
        keys = [kinds.key(thing) for thing in inputs.read_objects(files)]
        wanted = [Name(kind=key[0], namespace=key[1], name=key[2]) for key in keys]
    else:
        word = "Job" if kind.lower() in ("job", "jobs") else kind_named(kind).name
        wanted = [_object(word, name) for name in names]
    print_results(Client.find(sandbox).delete(wanted), output)


def _object(kind: str, text: str) -> ObjectName:
    from fairway.app.view.models.commands import ObjectName

    namespace, _, name = text.rpartition("/")
    return ObjectName(kind=kind, namespace=namespace, name=name)
