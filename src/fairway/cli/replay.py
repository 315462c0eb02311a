"""`fairway replay`: decide a recorded cycle again, with its own or another policy."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.output import echo, output_option, print_structured

MAX_LINES = 20


@click.command(
    epilog="""\b
Examples:
  fairway simulate day.yaml --record log/
  fairway replay log/ --at 17                    decide cycle 17 again
  fairway run --record live/                     record a live scheduler
  fairway replay log/ --at 17 --policy new.yaml  with another policy"""
)
@click.argument("folder", metavar="DIR")
@click.option("--at", "number", type=click.IntRange(min=0), required=True, metavar="N", help="Number of the cycle.")
@inputs.policy_option_with("Policy file. Defaults to the recorded policy.")
@output_option
def command(folder: str, number: int, policy_file: str | None, output: str) -> None:
    """Decide cycle N of the recording in DIR again and print its plan.

    With the recorded policy, the plan must be identical to the recorded one; otherwise the exit status is 1.
    """
    from pathlib import Path

    from fairway.app.recordings import part_of, read_cycle, read_recorded_policy
    from fairway.drive import plan_digest
    from fairway.scheduler.decide import decide, decide_and_explain
    from fairway.scheduler.plugins.installed import default_registry

    path = part_of(Path(folder), number)
    logged_policy = read_recorded_policy(path, default_registry().catalog)
    policy = logged_policy if policy_file is None else inputs.read_policy(policy_file)
    logged = read_cycle(path, number)
    plan = decide_and_explain(logged.state, policy, logged.now)
    same = plan_digest(plan if logged.has_reasons else decide(logged.state, policy, logged.now)) == logged.digest
    if output == "table":
        from fairway.cli.plan_table import print_plan

        print_plan(plan)
    else:
        print_structured(plan.document(), output)
    if same:
        echo(f"Cycle {number}: the same plan, to the byte.", err=True)
    elif policy_file is not None:
        from fairway.cli.plan_only import differences

        found = differences(decide(logged.state, logged_policy, logged.now), plan)
        said = ":" if found else "; it does the same, for other reasons."
        echo(f"Cycle {number}: not the plan that was logged{said}", err=True)
        for line in found[:MAX_LINES]:
            echo(f"  {line}", err=True)
        if len(found) > MAX_LINES:
            echo(f"  and {len(found) - MAX_LINES} more", err=True)
    else:
        from fairway.cli.errors import CheckFailed

        raise CheckFailed(f"cycle {number}: the plan differs from the logged one; was it logged by another version?")
