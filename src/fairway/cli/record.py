"""`fairway record`: save the scheduler's view of a cluster to files."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import GivenCluster, manifests_options
from fairway.cli.output import output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway record --kubeconfig ~/.kube/config --out snapshot/
  fairway plan -f snapshot/objects
  fairway explain team/train -f snapshot/objects
  fairway replay snapshot/cycle --at 0 --policy p.yaml  with another policy"""
)
@manifests_options
@click.option("--out", required=True, metavar="FOLDER", help="Directory to write to; created if it does not exist.")
@output_option
def command(given: GivenCluster, out: str, output: str) -> None:
    """Save the scheduler's view of a cluster to files that plan, explain, sandbox and replay can read.

    Only fields that scheduling uses are written. Secrets, environment variables, commands and images are never read,
    and only annotations that affect scheduling are.
    """
    from fairway.app.cluster_record import CYCLE, OBJECTS, record_cluster
    from fairway.clock import format_rfc3339

    policy, moment = given.policy_and_time()
    names = given.own_schedulers()
    objects = inputs.read_objects(given.files)
    folder = inputs.folder_to_write(out)
    counts = record_cluster(folder, objects, policy, moment, names)
    if output != "table":
        print_structured({"folder": str(folder), "now": format_rfc3339(moment), "objects": counts}, output)
        return
    from fairway.cli.output import echo

    total = sum(counts.values())
    echo(f"Recorded {total} {'object' if total == 1 else 'objects'} as of {format_rfc3339(moment)}:")
    for kind, count in counts.items():
        echo(f"  {count:>6} {kind}")
    echo(f"Decide on them: fairway plan -f {folder / OBJECTS} --now {format_rfc3339(moment)}")
    echo(f"Decide again:   fairway replay {folder / CYCLE} --at 0")
