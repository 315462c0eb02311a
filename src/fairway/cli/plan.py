"""`fairway plan`: one scheduling cycle on manifests."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.inputs import GivenCluster, manifests_options
from fairway.cli.output import output_option, print_structured, warn


@click.command(
    epilog="""\b
Examples:
  fairway plan -f cluster/
  fairway plan -f nodes.yaml -f jobs.yaml --policy policy.yaml -o json
  fairway plan -f cluster/ --only job.yaml     effect of submitting a job
  kubectl get nodes,pods,queues,podgroups -A -o json | fairway plan -f -"""
)
@manifests_options
@click.option(
    "--only",
    multiple=True,
    metavar="FILE",
    help="Print only the effect of submitting the objects in this file, on them and on others. Repeatable.",
)
@click.option(
    "--paranoid", is_flag=True, help="Verify all totals, and decide the cycle a second time with nothing cached."
)
@output_option
def command(given: GivenCluster, only: tuple[str, ...], paranoid: bool, output: str) -> None:
    """Run one scheduling cycle on manifests and print the plan: bindings, evictions, and why the rest is pending."""
    from fairway.scheduler.decide import decide_and_explain

    policy, moment = given.policy_and_time()
    names = given.own_schedulers()
    if only:
        from fairway.cli.plan_table import print_submission, submission

        asked = submission(given.files, only, policy, moment, names)
        print_submission(asked) if output == "table" else print_structured(asked, output)
        return
    state = inputs.read_state(given.files, names)
    if paranoid:
        from fairway.scheduler.paranoid import check, check_plan

        check(state, policy, moment)
    plan = decide_and_explain(state, policy, moment)
    if paranoid:
        check_plan(plan, state, policy, moment)
        check(state, policy, moment)
    if output == "table":
        from fairway.cli.plan_table import print_plan

        print_plan(plan)
    else:
        print_structured(plan.document(), output)
    for warning in plan.warnings:
        warn(warning)
