"""`fairway place` and `fairway clusters`: cluster selection for Placements, and the clusters of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import console, output_option, print_structured, table, warn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairway.fleet.explain import Filtered
    from fairway.fleet.overview import ClusterOverview
    from fairway.fleet.plan import FleetPlan, Outcome

CUT = "--- cut ---"
GAP, NAME, ROOM = 3, 30, 26
"""Width of a gap between columns, of a cluster name at most, and of rank, score and replicas together."""
NAMED = 3
"""Clusters that are named per reason; the rest are counted."""
NAMED_SIZES = 3
"""Pod sizes and taints shown per cluster."""


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
        out.print("No Placements.")
    for number, outcome in enumerate(plan.outcomes):
        if number:
            out.print()
        print_outcome(out, outcome)
    if plan.recheck_at is not None:
        out.print(f"\nThese decisions may change by time alone, at {format_rfc3339(plan.recheck_at)} at the earliest.")


def print_outcome(out: Console, outcome: Outcome) -> None:
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
    """Scores by prioritizer: selected clusters above the cut, other scored ones below it.

    If the names of the prioritizers do not fit, they become letters, which the returned legend explains.
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
    """Why the others were not selected; clusters with the same reason share a row."""
    together: dict[tuple[str, str], list[str]] = {}
    for item in filtered:
        together.setdefault((item.filter, item.reason), []).append(item.cluster)
    made = table("not chosen", "filter", "reason")
    for (filter, reason), clusters in together.items():
        more = len(clusters) - NAMED
        names = ", ".join(clusters[:NAMED]) + (f" and {more} more" if more > 0 else "")
        made.add_row(names, filter, reason)
    return made


@click.command(
    epilog="""\b
Examples:
  fairway clusters --context hub
  fairway clusters -f fleet/ -o json"""
)
@inputs.cluster_or_files_option
@inputs.strict_option
@inputs.skip_invalid_option
@inputs.now_option
@output_option
def clusters(files: tuple[str, ...], now: str | None, output: str) -> None:
    """List ManagedClusters with free capacity, how many pods of common sizes fit, taints, and report age."""
    from fairway.fleet.overview import overview

    moment = inputs.read_time(now)
    manifests = inputs.read_fleet(files)
    found = overview(manifests.objects, moment)
    for warning in manifests.warnings:
        warn(warning)
    if output != "table":
        print_structured({"clusters": [_document(each) for each in found]}, output)
        return
    if not found:
        console().print("No ManagedClusters.")
        return
    rows = table("cluster", "state", "free", "fits", "used by", "report", numbers=["used by"])
    for each in found:
        rows.add_row(each.name, _state(each), _free(each), _fits(each), str(each.placements), _report(each))
    console().print(rows)
    for each in found:
        for problem in each.problems:
            warn(problem)


def _document(cluster: ClusterOverview) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(cluster)
    return document


def _state(cluster: ClusterOverview) -> str:
    words = [] if cluster.available else ["not available"]
    return ", ".join([*words, *cluster.taints[:NAMED_SIZES]]) or "ok"


def _free(cluster: ClusterOverview) -> str:
    if cluster.free is None:
        return "unknown"
    shown = [name for name in cluster.free if name in ("cpu", "memory") or "/" in name]
    return ", ".join(f"{cluster.free[name]} {name}" for name in shown) or "nothing"


def _fits(cluster: ClusterOverview) -> str:
    texts = []
    for size in cluster.shapes[:NAMED_SIZES]:
        request = " ".join(f"{text} {name}" for name, text in size.request.items() if name != "pods")
        where = ", ".join(f"{name}={value}" for name, value in size.node_selector.items())
        texts.append(f"{size.fits} of {request}{f' ({where})' if where else ''}")
    return "; ".join(texts)


def _report(cluster: ClusterOverview) -> str:
    if cluster.report_age is None:
        return "ended" if cluster.report_ended else "none"
    return f"ended, {cluster.report_age} s old" if cluster.report_ended else f"{cluster.report_age} s old"
