"""One placement as tables: the clusters that were scored, and why others were not chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.cli.output import table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fairway.fleet.explain import Filtered
    from fairway.fleet.plan import Outcome

CUT = "--- cut ---"
GAP, NAME, ROOM = 3, 30, 26
"""Between two columns; for the name of a cluster at most; for rank, score and replicas."""
NAMED = 3
"""Of several clusters that are out for the same reason, this many are named."""


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
