"""`fairway explain`: why a job waits, what would start it now, and when it starts anyway."""

from __future__ import annotations

import click

from fairway.cli.cluster_options import GivenCluster, cluster_options
from fairway.cli.output import output_option, print_structured, warn


@click.command(
    epilog="""\b
Examples:
  fairway explain team-vision/sweep -f cluster/
  fairway explain sweep -f cluster/ --policy policy.yaml -o json
  fairway explain train-7                  a job of the sandbox that runs"""
)
@click.argument("job", metavar="JOB")
@cluster_options
@output_option
def command(job: str, given: GivenCluster, output: str) -> None:
    """Print why JOB waits, which smallest change would start it now, and when it will start.

    JOB is namespace/name, or a name alone where only one job has it. The cluster is that of the manifests, else that
    of the sandbox that runs. Every answer is confirmed by deciding on a copy; nothing is changed.
    """
    from fairway.app.explain import explain

    said = explain(given.situation(), job) if given.files else given.client().explain(job)
    if output == "table":
        from fairway.cli.explain_table import print_explanation

        print_explanation(said)
    else:
        print_structured(said, output)
    for warning in said.warnings:
        warn(warning)
