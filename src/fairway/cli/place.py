"""`fairway place`: cluster selection for Placements, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured, warn
from fairway.cli.place_table import print_outcome

if TYPE_CHECKING:
    from fairway.fleet.plan import FleetPlan


@click.command(
    epilog="""\b
Examples:
  fairway place -f examples/fleet/quickstart.yaml
  fairway place -f fleet/ -f placement.yaml -o json
  fairway place --context hub                  with the objects of a hub
  fairway place -f fleet.yaml --now 2026-01-01T00:00:00Z -o yaml"""
)
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.now_option
@output_option
def command(files: tuple[str, ...], now: str | None, output: str) -> None:
    """Select clusters for every Placement and print a score or a reason for each cluster.

    Reads ManagedClusters, ManagedClusterSets and their bindings, Placements, AddOnPlacementScores, and
    PlacementDecisions (the current decisions). Nothing is written.
    """
    from fairway.fleet import FleetState, place
    from fairway.fleet.reports import as_trusted

    moment = inputs.read_time(now)
    manifests = inputs.read_fleet(files)
    plan = place(FleetState(as_trusted(manifests.objects, moment)), moment)
    for warning in (*manifests.warnings, *plan.warnings):
        warn(warning)
    if output == "table":
        _print_tables(plan)
    else:
        print_structured(plan.document(), output)


def _print_tables(plan: FleetPlan) -> None:
    from fairway.clock import format_rfc3339

    out = console()
    if not plan.outcomes:
        out.print("There is no Placement in the files.")
    for number, outcome in enumerate(plan.outcomes):
        if number:
            out.print()
        print_outcome(out, outcome)
    if plan.recheck_at is not None:
        out.print(f"\nTime alone may change this at {format_rfc3339(plan.recheck_at)}.")
