"""`fairway record` and `fairway replay`: save a cluster to files, and decide a recorded cycle again."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.inputs import GivenCluster, manifests_options
from fairway.cli.output import echo, output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway record --kubeconfig ~/.kube/config --out snapshot/
  fairway plan -f snapshot/objects
  fairway explain team/train -f snapshot/objects
  fairway replay snapshot/cycle --at 0 --policy p.yaml  with another policy"""
)
@manifests_options
@click.option("--out", required=True, metavar="DIR", help="Directory to write to; created if it does not exist.")
@output_option
def record(given: GivenCluster, out: str, output: str) -> None:
    """Save the scheduler's view of a cluster to files that plan, explain, sandbox and replay can read.

    Only fields that scheduling uses are written. Secrets, environment variables, commands and images are never read,
    and only annotations that affect scheduling are.
    """
    from fairway.app.recordings import CYCLE, OBJECTS, record_cluster
    from fairway.clock import format_rfc3339

    policy, moment = given.policy_and_time()
    names = given.own_schedulers()
    objects = inputs.read_objects(given.files)
    folder = inputs.folder_to_write(out)
    counts = record_cluster(folder, objects, policy, moment, names)
    if output != "table":
        print_structured({"folder": str(folder), "now": format_rfc3339(moment), "objects": counts}, output)
        return
    total = sum(counts.values())
    echo(f"Recorded {total} {'object' if total == 1 else 'objects'} as of {format_rfc3339(moment)}:")
    for kind, count in counts.items():
        echo(f"  {count:>6} {kind}")
    echo(f"Plan:   fairway plan -f {folder / OBJECTS} --now {format_rfc3339(moment)}")
    echo(f"Replay: fairway replay {folder / CYCLE} --at 0")


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
def replay(folder: str, number: int, policy_file: str | None, output: str) -> None:
    """Decide cycle N of the recording in DIR again and print its plan.

    With the recorded policy, the plan must be identical to the recorded one; otherwise the exit status is 1.
    """
    from pathlib import Path

    from fairway.app.recordings import part_of, read_cycle, read_recorded_policy
    from fairway.drive import plan_digest
    from fairway.scheduler.decide import decide, decide_and_explain
    from fairway.scheduler.plugins.installed import default_registry

    path = part_of(Path(folder), number)
    recorded_policy = read_recorded_policy(path, default_registry().catalog)
    policy = recorded_policy if policy_file is None else inputs.read_policy(policy_file)
    recorded = read_cycle(path, number)
    plan = decide_and_explain(recorded.state, policy, recorded.now)
    digested = plan if recorded.has_reasons else decide(recorded.state, policy, recorded.now)
    same = plan_digest(digested) == recorded.digest
    if output == "table":
        from fairway.cli.plan_table import print_plan

        print_plan(plan)
    else:
        print_structured(plan.document(), output)
    if same:
        echo(f"Cycle {number}: the plan is identical to the recorded one.", err=True)
    elif policy_file is not None:
        from fairway.cli.plan_table import differences

        found = differences(decide(recorded.state, recorded_policy, recorded.now), plan)
        rest = ":" if found else " in its reasons only."
        echo(f"Cycle {number}: the plan differs from the recorded one{rest}", err=True)
        for line in found[:MAX_LINES]:
            echo(f"  {line}", err=True)
        if len(found) > MAX_LINES:
            echo(f"  and {len(found) - MAX_LINES} more", err=True)
    else:
        from fairway.cli.invocation import CheckFailed

        raise CheckFailed(
            f"cycle {number}: the plan differs from the recorded one; was it recorded by another version of Fairway?"
        )
