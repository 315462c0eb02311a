"""`fairway plan`: decide once on manifests, and print what would be done and why the rest waits."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.output import output_option, print_structured, warn


@click.command(
    epilog="""\b
Examples:
  fairway plan -f cluster/
  fairway plan -f nodes.yaml -f jobs.yaml --policy policy.yaml -o json
  kubectl get nodes,pods,queues,podgroups -A -o json | fairway plan -f -"""
)
@inputs.files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.policy_option
@inputs.now_option
@inputs.scheduler_name_option
@click.option("--paranoid", is_flag=True, help="Check every sum and cross-reference before and after.")
@output_option
def command(
    files: tuple[str, ...],
    policy_file: str | None,
    now: str | None,
    scheduler_names: tuple[str, ...],
    all_pods: bool,
    paranoid: bool,
    output: str,
) -> None:
    """Decide once on manifests and print the plan: what is bound where, and why the rest waits."""
    from fairway.scheduler.decide import decide

    policy = inputs.read_policy(policy_file)
    moment = inputs.read_time(now)
    state = inputs.read_state(files, inputs.ours(scheduler_names, all_pods))
    if paranoid:
        from fairway.scheduler.paranoid import check

        check(state, policy, moment)
    plan = decide(state, policy, moment)
    if paranoid:
        check(state, policy, moment)
    if output == "table":
        from fairway.cli.plan_table import print_plan

        print_plan(plan)
    else:
        print_structured(plan.document(), output)
    for warning in plan.warnings:
        warn(warning)
