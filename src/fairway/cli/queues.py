"""`fairway queues`: the shares of queues and namespaces after one cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import GivenCluster, cluster_options
from fairway.cli.output import output_option, print_structured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway.scheduler.plan import NamespaceStanding, QueueStanding


@click.command(
    epilog="""\b
Examples:
  fairway queues -f cluster/
  fairway queues -f cluster/ --policy policy.yaml -o json
  fairway queues                           the running sandbox"""
)
@cluster_options
@output_option
def command(given: GivenCluster, output: str) -> None:
    """Show the deserved resources of queues, and the allocations of queues and namespaces, after one cycle."""
    queues, namespaces = _of_files(given) if given.files else _of_sandbox(given)
    if output == "table":
        from fairway.cli.plan_table import print_shares

        print_shares(queues, namespaces)
    else:
        print_structured({"queues": list(queues), "namespaces": list(namespaces)}, output)


Standings = tuple["Sequence[QueueStanding]", "Sequence[NamespaceStanding]"]


def _of_files(given: GivenCluster) -> Standings:
    from fairway.scheduler.decide import decide_and_explain

    policy, moment = given.policy_and_time()
    plan = decide_and_explain(inputs.read_state(given.files, given.own_schedulers()), policy, moment)
    return plan.queues, plan.namespaces


def _of_sandbox(given: GivenCluster) -> Standings:
    frame = given.client().frame()
    return frame.queues, frame.namespaces
