"""`fairway queues`: the shares of queues and namespaces, as they would stand after one cycle."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.output import output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway queues -f cluster/
  fairway queues -f cluster/ --policy policy.yaml -o json"""
)
@inputs.files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.policy_option
@inputs.now_option
@inputs.scheduler_name_option
@output_option
def command(
    files: tuple[str, ...],
    policy_file: str | None,
    now: str | None,
    scheduler_names: tuple[str, ...],
    all_pods: bool,
    output: str,
) -> None:
    """Show what queues deserve, and what queues and namespaces have allocated, after one cycle."""
    from fairway.scheduler.decide import decide

    policy = inputs.read_policy(policy_file)
    moment = inputs.read_time(now)
    plan = decide(inputs.read_state(files, inputs.ours(scheduler_names, all_pods)), policy, moment)
    if output == "table":
        from fairway.cli.plan_table import print_shares

        print_shares(plan)
    else:
        document = plan.document()
        print_structured({"queues": document["queues"], "namespaces": document["namespaces"]}, output)
