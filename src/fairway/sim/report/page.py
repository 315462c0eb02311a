"""The page: one HTML file that holds everything, light enough to mail, readable in light and dark and on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairway.sim.metrics import WaitMetrics
from fairway.sim.metrics.summary import PlannedMetrics
from fairway.sim.report import plots, rows
from fairway.sim.report.fleet import FleetView
from fairway.sim.report.fleet_page import fleet_sections
from fairway.sim.report.model import RunReport
from fairway.sim.report.svg import clear_moment, clear_time, counted, escape, percent

_HERE = Path(__file__).parent
_SECTIONS = (
    (
        "Use of the cluster",
        "The dominant share that each queue had allocated, stacked, and how much of each resource was in use.",
    ),
    ("Shares and entitlements", "What each namespace had allocated, against what weight and demand entitled it to."),
    ("Waits by size", "Jobs by the share of the cluster that they request; time on a logarithmic scale."),
    ("Waiting jobs", "Jobs waiting over time, those that starved, and the nodes reserved for them."),
    ("Fragmentation", "The idle part of the most used resource while jobs waited."),
    ("Reservations", "While a bar lasts, nodes were kept for that starving job."),
    ("Preemptions", "Pods evicted in each span of time."),
    ("Pods on nodes", "Each bar is a pod, pale where it was evicted; a node that was away is red."),
)


class Origin(NamedTuple):
    """How a page came about, so that its reader can make it again."""

    command: str
    policies: Sequence[tuple[str, str]]
    """Name and text of each."""


def page(reports: Sequence[RunReport], comparison: str = "", origin: Origin | None = None) -> str:
    """One report, or several side by side; `comparison` is HTML that goes before the plots."""
    first = reports[0]
    title = f"{first.scenario} under {' and '.join(report.policy for report in reports)}"
    style, script = ((_HERE / name).read_text() for name in ("page.css", "page.js"))
    scale = plots.Scale.of(reports)
    columns = [_plots(report, scale) for report in reports]
    sections = "".join(
        f"<section><h2>{name}</h2><p class=note>{text}</p>{_side_by_side(reports, plots_of_section)}</section>"
        for (name, text), *plots_of_section in zip(_SECTIONS, *columns, strict=True)
    )
    heads = _side_by_side(reports, [_head(report) for report in reports])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<header><h1>{escape(first.scenario)}</h1>{_subtitle(first)}{_origin(origin)}</header>"
        f"{heads}{comparison}{_fleet(reports, scale)}{_waits(reports)}{sections}{_rules(first)}</main>"
        f"<div id=tip></div><script>{script}</script></body></html>\n"
    )


def _subtitle(report: RunReport) -> str:
    size = f"{counted(report.nodes, 'node')} · {counted(report.metrics.submitted, 'job')}"
    span = f"from {clear_moment(report.start)} to {clear_moment(report.end)}"
    return f"<p class=note>{size} · {span} · seed {report.seed}</p>"


def _rules(report: RunReport) -> str:
    """What decides between equals: to compare two runs, and at the end."""
    return f"<p class=note>At one instant: {escape(report.order)}. Ties: {escape(report.ties)}.</p>"


def _origin(origin: Origin | None) -> str:
    if origin is None:
        return ""
    policies = "".join(
        f"<details><summary>Policy: {escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in origin.policies
    )
    return f"<p class=note>Made by <code>{escape(origin.command)}</code></p>{policies}"


def _fleet(reports: Sequence[RunReport], scale: plots.Scale) -> str:
    """Clusters and teams, where all reports are of fleets."""
    views = [report.fleet for report in reports if isinstance(report.fleet, FleetView)]
    if len(views) < len(reports):
        return ""
    return "".join(
        f"<section><h2>{name}</h2><p class=note>{text}</p>{_side_by_side(reports, parts)}</section>"
        for name, text, parts in fleet_sections(views, scale)
    )


def _waits(reports: Sequence[RunReport]) -> str:
    """Waits by queue and by namespace, of all of them."""
    sections = []
    for what in ("queue", "namespace"):
        groups = [getattr(report.metrics, f"by_{what}") for report in reports]
        tables = _side_by_side(reports, [_wait_table(what, group) for group in groups])
        sections.append(f"<section><h2>Waits by {what}</h2>{tables}</section>")
    return "".join(sections)


def _wait_table(what: str, groups: Mapping[str, WaitMetrics]) -> str:
    head = "".join(f"<th>{name}</th>" for name in (what, "jobs", "mean wait", "median", "95 %", "longest", "slowdown"))
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{waits.jobs}</td>"
        + "".join(f"<td>{clear_time(span)}</td>" for span in (waits.mean, waits.p50, waits.p95, waits.max))
        + f"<td>{waits.slowdown_mean:.2f}</td></tr>"
        for name, waits in sorted(groups.items(), key=lambda item: (-item[1].jobs, item[0]))
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _side_by_side(reports: Sequence[RunReport], parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    names = _names(reports)
    cells = "".join(f"<div><h3>{escape(name)}</h3>{part}</div>" for name, part in zip(names, parts, strict=True))
    return f'<div class="beside">{cells}</div>'


def _names(reports: Sequence[RunReport]) -> list[str]:
    """`A: now.yaml`, without the folder where that is enough to tell them apart."""
    short = [Path(report.policy).name for report in reports]
    alike = len(set(short)) < len(short)
    letters = "ABCDEFGH"
    return [
        f"{letter}: {report.policy if alike else name}"
        for letter, report, name in zip(letters, reports, short, strict=False)
    ]


def _plots(report: RunReport, scale: plots.Scale) -> list[str]:
    charts = report.charts
    return [
        plots.utilisation(charts, scale),
        plots.namespaces(charts, scale),
        plots.waits(plots.by_size(report), scale),
        plots.waiting(charts, scale),
        plots.fragmentation(charts, scale),
        rows.starving(report, scale),
        plots.preemptions(charts, scale),
        rows.gantt(report, scale),
    ]


def _head(report: RunReport) -> str:
    metrics = report.metrics
    notices = [f'<p class="alarm">{escape(breach)}</p>' for breach in report.breaches]
    if report.partial:
        notices.insert(0, '<p class="alarm">The run was cut short: this report covers only what had happened.</p>')
    notices += [f'<p class="passed">Passed: {escape(text)}</p>' for text in report.passed]
    notices += [f'<p class="warning">{escape(warning)}</p>' for warning in report.warnings]
    use = " · ".join(
        f"{escape(name)} {percent(u.to_last_end)} ({percent(u.to_last_start)} to the last start)"
        for name, u in metrics.utilisation.items()
    )
    starved = metrics.starvation
    cards = [
        ("Jobs finished", f"{metrics.finished}", f"{metrics.running} running, {metrics.waiting} waiting at the end"),
        ("Mean wait", clear_time(metrics.wait.mean), f"median {clear_time(metrics.wait.p50)}"),
        ("95th percentile", clear_time(metrics.wait.p95), f"99th {clear_time(metrics.wait.p99)}"),
        ("Longest wait", clear_time(metrics.wait.max), _longest(report)),
        (
            "Bounded slowdown",
            f"{metrics.wait.slowdown_mean:.2f}",
            f"99th {metrics.wait.slowdown_p99:.4g}, weighted by area {metrics.wait.slowdown_weighted:.4g}",
        ),
        ("Makespan", clear_time(metrics.makespan), "first submission to last end"),
        ("Share deviation", f"{metrics.deviation_mean:.4f}", f"on average{_jain(metrics.jain)}"),
        (
            "Wait of users",
            clear_time(metrics.users.wait.mean),
            f"± {clear_time(metrics.users.wait.deviation)} over {counted(metrics.users.users, 'user')}; "
            f"{metrics.users.normalised_wait.mean:.3g} s for each processor-second",
        ),
        *_planned_card(metrics.planned),
        (
            "Below its share",
            clear_time(starved.namespace_longest),
            escape(starved.namespace) or "no namespace was kept waiting for its share",
        ),
        (
            "Evictions",
            f"{metrics.preemption.evictions}",
            f"{counted(metrics.preemption.repeat_victims, 'job')} stopped more than once",
        ),
        (
            "Most stops of one job",
            f"{metrics.preemption.most_stops}",
            f"{metrics.preemption.dominant_hours:.3g} cluster-hours of the dominant resource lost",
        ),
    ]
    found = "".join(
        f'<div class="card"><b>{name}</b><strong>{value}</strong><small>{text}</small></div>'
        for name, value, text in cards
    )
    return f'{"".join(notices)}<div class="cards">{found}</div><p class=note>In use to the last end: {use}</p>'


def _jain(index: float | None) -> str:
    return "" if index is None else f"; Jain index {index:.3f}"


def _planned_card(planned: PlannedMetrics) -> list[tuple[str, str, str]]:
    """Only of runs in which a start was planned."""
    hard, soft = planned.kept + planned.missed, planned.soft_kept + planned.soft_missed
    if not hard + soft:
        return []
    text = f"{planned.missed} missed; {planned.soft_kept} of {soft} soft ones kept"
    return [("Planned starts kept", f"{planned.kept} of {hard}", text)]


def _longest(report: RunReport) -> str:
    longest = report.metrics.wait.longest
    return f"{escape(longest.key)}, {counted(longest.tasks, 'task')}" if longest is not None else ""
