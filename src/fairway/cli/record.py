"""`fairway record`: what the scheduler reads of a live cluster, as files."""

from __future__ import annotations

import click

from fairway.cli import inputs
from fairway.cli.cluster_options import GivenCluster, manifests_options
from fairway.cli.output import output_option, print_structured


@click.command(
    epilog="""\b
Examples:
  fairway record --kubeconfig ~/.kube/config --out snapshot/
  fairway plan -f snapshot/objects                          decide on it
  fairway explain team/train -f snapshot/objects
  fairway replay snapshot/cycle --at 0 --policy p.yaml  by another policy"""
)
@manifests_options
@click.option("--out", required=True, metavar="FOLDER", help="Where to write; made where it is not there.")
@output_option
def command(given: GivenCluster, out: str, output: str) -> None:
    """Write what the scheduler reads of a cluster to files that plan, explain, sandbox and replay take.

    Only fields that rules read are written. Secrets, environment variables, commands and images are not read at all,
    and annotations only where they belong to scheduling.
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
