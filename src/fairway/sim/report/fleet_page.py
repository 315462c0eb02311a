"""The sections of the page that are about a fleet: its clusters, its teams, and the use of each cluster over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairway.sim.report import svg
from fairway.sim.report.fleet import FleetView
from fairway.sim.report.plots import NARROW, SMALL, Scale
from fairway.sim.report.svg import PlotFrame, clear_time, counted, escape, percent

MOST_PLOTS = 24
_CLUSTER = ("cluster", "nodes", "finished", "running", "waiting", "mean wait", "longest", "moved in", "out", "in use")
_TEAM = ("team", "without a cluster", "longest", "moves", "jobs by cluster")


def fleet_sections(views: Sequence[FleetView], scale: Scale) -> Iterator[tuple[str, str, list[str]]]:
    """Title, explanation, and a part for each view."""
    text = "Waits count from when a job came to the fleet; moves are of jobs that waited."
    yield "Clusters", text, [_clusters(view) for view in views]
    text = "How long jobs were without a cluster, how often they moved, and where they ran."
    yield "Teams", text, [_teams(view) for view in views]
    text = "The part in use of the resource that is used most in each cluster."
    yield "Use of clusters", text, [_plots(view, scale) for view in views]


def _clusters(fleet: FleetView) -> str:
    rows = [
        (
            one.name,
            f"{one.nodes}",
            f"{one.finished}",
            f"{one.running}",
            f"{one.waiting}",
            clear_time(one.mean_wait),
            clear_time(one.longest_wait),
            f"{one.moved_in}",
            f"{one.moved_out}",
            ", ".join(f"{name} {percent(part)}" for name, part in one.utilisation.items() if part),
        )
        for one in fleet.clusters
    ]
    left = f"<p class=note>Without a cluster at the end: {counted(fleet.unplaced, 'job')}</p>" if fleet.unplaced else ""
    return _table(_CLUSTER, rows) + left


def _teams(fleet: FleetView) -> str:
    rows = [
        (
            team.name,
            clear_time(team.unplaced_mean),
            clear_time(team.unplaced_longest),
            f"{team.moves}",
            ", ".join(f"{name} {count}" for name, count in team.clusters.items()),
        )
        for team in fleet.teams
    ]
    return _table(_TEAM, rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _plots(fleet: FleetView, scale: Scale) -> str:
    frame = PlotFrame(SMALL, scale.end, 1.0, NARROW if scale.width == svg.WIDTH else scale.width)
    found = []
    for one in fleet.clusters[:MOST_PLOTS]:
        if not one.times:
            continue
        body = svg.area(frame, one.times, [0.0] * len(one.used), one.used, "area c0")
        hover = svg.hover(frame, one.times, {"in use": one.used}, as_percent=True)
        plot = svg.plot(frame, body, as_percent=True, label=f"Use of cluster {one.name} over time", hover=hover)
        found.append(f"<figure><figcaption>{escape(one.name)}</figcaption>{plot}</figure>")
    more = len(fleet.clusters) - MOST_PLOTS
    rest = f"<p class=note>{counted(more, 'more cluster')}.</p>" if more > 0 else ""
    return f'<div class="multiples">{"".join(found)}</div>{rest}'
