"""`fairway queues`: the shares of queues and namespaces, as they would stand after one cycle."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import GivenCluster, manifests_options
from fairway.cli.output import output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway queues -f cluster/
  fairway queues -f cluster/ --policy policy.yaml -o json"""
)
@manifests_options
@output_option
def command(given: GivenCluster, output: str) -> None:
    """Show what queues deserve, and what queues and namespaces have allocated, after one cycle."""
    from fairway.scheduler.decide import decide

    policy, moment = given.policy_and_time()
    plan = decide(inputs.read_state(given.files, given.own_schedulers()), policy, moment)
    if output == "table":
        from fairway.cli.plan_table import print_shares

        print_shares(plan)
    else:
        document = plan.document()
        print_structured({"queues": document["queues"], "namespaces": document["namespaces"]}, output)
