"""`fairway apply`: create or update objects in the running sandbox."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import print_results, sandbox_option
from fairway.cli.output import output_option


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
def command(files: tuple[str, ...], sandbox: str | None, output: str) -> None:
    """Create or update the objects of manifests in the running sandbox, all of them or none."""
    from fairway.app.sandbox.client import Client

    objects = inputs.read_objects(files)
    print_results(Client.find(sandbox).apply(objects), output)
