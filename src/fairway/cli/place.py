"""`fairway place`: choose clusters for placements, on manifests, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured, table, warn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairway.fleet.explain import Filtered
    from fairway.fleet.plan import FleetPlan, Outcome

WIDTH = 80
"""Tables are no wider than this even where the terminal is: they are pasted into tickets."""
CUT = "--- cut ---"
GAP, NAME, ROOM = 3, 30, 26
"""Between two columns; for the name of a cluster at most; for rank, score and replicas."""
NAMED = 3
"""Of several clusters that are out for the same reason, this many are named."""


@click.command(
    epilog="""\b
Examples:
  fairway place -f examples/fleet/quickstart.yaml
  fairway place -f fleet/ -f placement.yaml -o json
  fairway place -f fleet.yaml --now 2026-01-01T00:00:00Z -o yaml"""
)
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.now_option
@output_option
def command(files: tuple[str, ...], now: str | None, output: str) -> None:
    """Choose clusters for every Placement in FILE..., with a score or a reason for each cluster.

    Reads ManagedClusters, ManagedClusterSets and their bindings, Placements, AddOnPlacementScores,
    and PlacementDecisions as the decisions made so far. Nothing is written anywhere.
    """
    from fairway.fleet import FleetState, place

    moment = inputs.read_time(now)
    manifests = inputs.read_manifests(files)
    plan = place(FleetState(manifests.objects), moment)
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
        _print_outcome(out, outcome)
    if plan.recheck_at is not None:
        out.print(f"\nTime alone may change this at {format_rfc3339(plan.recheck_at)}.")


def _print_outcome(out: Console, outcome: Outcome) -> None:
    out.print(outcome.name, style="bold")
    for condition in outcome.conditions:
        if condition.type == "PlacementSatisfied" or condition.status != "False":
            out.print(f"{condition.type} {condition.status}, {condition.reason}: {condition.message}")
    for warning in outcome.warnings:
        out.print(f"Warning: {warning}")
    below = [item for item in outcome.filtered if item.score is not None]
    if outcome.decisions or below:
        scores, legend = _scores(outcome, below, out.width)
        out.print()
        out.print(scores)
        if legend:
            out.print(legend)
    if outcome.filtered:
        out.print()
        out.print(_reasons(outcome.filtered))


def _scores(outcome: Outcome, below: list[Filtered], width: int) -> tuple[Table, str]:
    """Clusters by prioritizers: the chosen above the cut, the others that were scored under it.

    Where the names of the prioritizers do not fit they become letters, and the text says what they stand for.
    """
    weights = {prioritizer.name: weight for prioritizer, weight in outcome.rules.weights}
    rows = [(item.cluster, item.score, item.scores) for item in outcome.decisions]
    rows += [(item.cluster, item.score, item.scores) for item in below]
    names = list(dict.fromkeys(name for _, _, scores in rows for name in scores))
    titles = [_title(name, weights.get(name, 1)) for name in names]
    legend = ""
    widest = max((len(cluster) for cluster, _, _ in rows), default=0)
    if sum(len(title) + GAP for title in titles) + min(max(widest, len(CUT)), NAME) + ROOM > width:
        letters = [chr(ord("A") + number % 26) * (1 + number // 26) for number in range(len(names))]
        legend = "\n".join(f"{letter} = {title}" for letter, title in zip(letters, titles, strict=True))
        titles = letters
    shares = outcome.rules.placement.spec.replicas is not None
    columns = ["#", "cluster", "score", *titles, *(["replicas"] if shares else [])]
    made = table(*columns, numbers=[column for column in columns if column != "cluster"])
    made.columns[1].min_width = len(CUT)
    for number, (cluster, score, scores) in enumerate(rows):
        if number == len(outcome.decisions):
            made.add_row("", CUT)
        points = [str(scores[name]) if name in scores else "" for name in names]
        chosen = number < len(outcome.decisions)
        replicas = [str(outcome.decisions[number].replicas)] if shares and chosen else []
        made.add_row(str(number + 1), cluster, "" if score is None else str(score), *points, *replicas)
    return made, legend


def _title(name: str, weight: int) -> str:
    return name if weight == 1 else f"{weight} x {name}"


def _reasons(filtered: tuple[Filtered, ...]) -> Table:
    """Why the others were not chosen; those with the same reason share a line."""
    together: dict[tuple[str, str], list[str]] = {}
    for item in filtered:
        together.setdefault((item.filter, item.reason), []).append(item.cluster)
    made = table("not chosen", "filter", "reason")
    for (filter, reason), clusters in together.items():
        more = len(clusters) - NAMED
        names = ", ".join(clusters[:NAMED]) + (f" and {more} more" if more > 0 else "")
        made.add_row(names, filter, reason)
    return made
