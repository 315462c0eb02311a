"""From the result of a simulation to the view model that the terminal prints and the page draws.

Everything that is worded or selected for a reader is decided here, once: which figures are shown and in which order,
how a duration is written, which rows are left out of a long table. The terminal (`cli/report_table`) and the page
(`frontend/src/report`) only lay it out. The same report gives the same view, so the files of a run are reproducible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from fairway.app.view.models.common import SeriesLine, TimeSeries
from fairway.app.view.models.history import TimelineNode, TimelineSpan
from fairway.app.view.models.runs import (
    ComparisonRow,
    ComparisonTable,
    Measure,
    ReportView,
    RunCluster,
    RunComparisonView,
    RunFleet,
    RunNotice,
    RunPolicy,
    RunTeam,
    RunView,
    RunWaits,
    WaitTable,
)
from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.sim.metrics import SIZE_CLASSES, Metrics, WaitMetrics
from fairway.sim.metrics.outcomes import UserMetrics
from fairway.sim.metrics.summary import PlannedMetrics
from fairway.sim.report import Charts, Difference, FleetView, RunComparison, RunReport

MAX_LINES = 12
"""Maximum number of lines of a chart. The smallest are added up, so that the total of a chart is preserved."""
MAX_GROUPS = 200
"""Maximum number of rows of a table of waits, clusters or teams."""
MAX_CHARTS = 24
"""Maximum number of charts of single clusters."""
MAX_LANES = 400
"""Maximum number of lanes of the timeline: with more, bars are indistinguishable."""
MAX_NOTICES = 50
MAX_POLICY_LENGTH = 64 << 10
MAX_COMPARED = 20
"""Maximum number of rows of one table of a comparison; the largest changes are kept."""
MANY_TIMES = 10
"""From this ratio on a change is given as a factor, not in percent."""

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))
_NO_NODES = "The run has too many pods or nodes to draw each of them."
_TOO_DENSE = "The run has too many pods at once to draw each of them."


class Origin(NamedTuple):
    """The command and policies behind a report, so that its reader can reproduce it."""

    command: str
    policies: Sequence[tuple[str, str]]
    """Name and text of each."""


# -- words -----------------------------------------------------------------------------------------------------


def duration_text(seconds: float) -> str:
    """A duration in its two largest units: `1h 17m`."""
    if seconds < 60:
        return f"{seconds:.3g}s" if seconds else "0"
    for (size, unit), (lower, part) in pairwise(_UNITS):
        if seconds >= size:
            whole, rest = divmod(round(seconds / lower) * lower, size)
            return f"{whole:g}{unit} {rest / lower:g}{part}" if rest else f"{whole:g}{unit}"
    raise AssertionError


def percent_text(part: float) -> str:
    return f"{100 * part:.3g}%"


def counted(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _moment(time: str) -> str:
    """An RFC 3339 time to the second."""
    return f"{time[:10]} {time[11:19]}"


# -- the report ------------------------------------------------------------------------------------------------


def report_view(
    reports: Sequence[RunReport], comparison: RunComparison | None = None, origin: Origin | None = None
) -> ReportView:
    """One run, or two side by side with their comparison."""
    first = reports[0]
    size = f"{counted(first.nodes, 'node')}, {counted(first.metrics.submitted, 'job')}"
    return ReportView(
        title=first.scenario,
        subtitle=f"{size}, {_moment(first.start)} to {_moment(first.end)}",
        command="" if origin is None else origin.command,
        policies=[] if origin is None else [RunPolicy(name, _shortened(text)) for name, text in origin.policies],
        rules=f"Simultaneous events: {first.order}. Ties: {first.ties}.",
        notes=list(_notes(reports)),
        runs=[_run_view(report, label) for report, label in zip(reports, _labels(reports), strict=True)],
        comparison=None if comparison is None else comparison_view(comparison),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_POLICY_LENGTH else f"{text[:MAX_POLICY_LENGTH]}\n# ... (shortened)\n"


def _labels(reports: Sequence[RunReport]) -> list[str]:
    """`A: now.yaml`, with the directory only where two names would be equal."""
    if len(reports) == 1:
        return [""]
    names = [Path(report.policy).name for report in reports]
    ambiguous = len(set(names)) < len(names)
    return [
        f"{letter}: {report.policy if ambiguous else name}"
        for letter, report, name in zip("ABCDEFGH", reports, names, strict=False)
    ]


def _notes(reports: Sequence[RunReport]) -> Iterator[str]:
    """Which figures are averages, and what is added up."""
    spans = [after - before for report in reports for before, after in pairwise((0.0, *report.charts.times))]
    if spans:
        yield f"Charts show means over intervals of at most {duration_text(max(spans))}."
    queues = max(len(report.charts.queues) for report in reports)
    if queues > MAX_LINES:
        yield f"The chart of queues shows the {MAX_LINES - 1} with the largest shares; the other lines are added up."


def _run_view(report: RunReport, label: str) -> RunView:
    charts, start = report.charts, parse_rfc3339(report.start)
    series = _SeriesMaker(charts, start / SECOND)
    timeline, note = _timeline(charts)
    waiting = {"waiting jobs": charts.waiting}
    if any(charts.starving) or any(charts.reserved):
        waiting |= {"jobs with a reservation": charts.starving, "reserved nodes": charts.reserved}
    return RunView(
        label=label,
        policy=report.policy,
        seed=report.seed,
        start=start / SECOND,
        end=parse_rfc3339(report.end) / SECOND,
        notices=_notices(report),
        measures=list(_measures(report.metrics)),
        waits=[
            _wait_table("size", report.metrics.by_size),
            _wait_table("queue", report.metrics.by_queue),
            _wait_table("namespace", report.metrics.by_namespace),
        ],
        utilisation=series.of("Utilisation", "share", {name: v for name, v in charts.used.items() if any(v)}),
        queues=series.of("Shares of queues", "share", charts.queues),
        namespaces=[
            series.of(name, "share", {"allocated": shares.share, "entitled": shares.entitled})
            for name, shares in charts.namespaces.items()
        ],
        more_namespaces=charts.more_namespaces,
        waiting=series.of("Waiting jobs", "count", waiting),
        fragmentation=series.of("Fragmentation", "share", _unless_zero("idle", charts.fragmentation)),
        evictions=series.of("Evictions", "count", _unless_zero("evicted pods", charts.evictions)),
        reservations=_reservations(charts),
        timeline=timeline,
        timeline_note=note,
        fleet=_fleet(report.fleet, start / SECOND) if isinstance(report.fleet, FleetView) else None,
    )


def _notices(report: RunReport) -> list[RunNotice]:
    found = [RunNotice("partial", "The run was interrupted; the report covers the time until then.")] * report.partial
    found += [RunNotice("failed", text) for text in report.breaches]
    found += [RunNotice("passed", text) for text in report.passed]
    found += [RunNotice("warning", text) for text in report.warnings]
    if len(found) > MAX_NOTICES:
        rest = len(found) - MAX_NOTICES
        found[MAX_NOTICES:] = [RunNotice("warning", f"and {counted(rest, 'more notice')}, see report.json")]
    return found


# -- series ----------------------------------------------------------------------------------------------------


def _unless_zero(name: str, values: Sequence[float]) -> dict[str, Sequence[float]]:
    return {name: values} if any(values) else {}


class _SeriesMaker:
    """Series over the intervals of one run. The start is a point of its own, so that the first interval is drawn."""

    def __init__(self, charts: Charts, start: float) -> None:
        self._times = [start, *(start + time for time in charts.times)] if charts.times else []

    def of(self, title: str, unit: Literal["share", "count"], lines: Mapping[str, Sequence[float]]) -> TimeSeries:
        shown = [SeriesLine(name, [values[0], *values]) for name, values in _largest(lines).items() if values]
        return TimeSeries(title=title, unit=unit, times=self._times, lines=shown)


def _largest(lines: Mapping[str, Sequence[float]]) -> Mapping[str, Sequence[float]]:
    """All lines, or the largest ones in their order and the sum of the others."""
    if len(lines) <= MAX_LINES:
        return lines
    order = sorted(lines, key=lambda name: (-sum(lines[name]), name))
    kept, rest = set(order[: MAX_LINES - 1]), order[MAX_LINES - 1 :]
    total = [round(sum(values), 5) for values in zip(*(lines[name] for name in rest), strict=True)]
    return {**{name: values for name, values in lines.items() if name in kept}, f"{len(rest)} others": total}


# -- bars ------------------------------------------------------------------------------------------------------


def _reservations(charts: Charts) -> list[TimelineNode]:
    jobs: dict[str, list[TimelineSpan]] = {}
    for span in charts.reservations:
        jobs.setdefault(span.job, []).append(
            TimelineSpan("reserved", span.job, "", span.nodes, span.start / SECOND, span.end / SECOND)
        )
    return [TimelineNode(job, "", spans) for job, spans in jobs.items()]


def _timeline(charts: Charts) -> tuple[list[TimelineNode], str]:
    """Nodes with the pods that ran on them and with outages, and why there are none."""
    if not charts.bars:
        return [], _NO_NODES if any(charts.waiting) or any(map(any, charts.used.values())) else "No pod ran."
    pods: dict[tuple[str, str, str, Micros, Micros, bool], int] = {}
    for bar in sorted(charts.bars, key=lambda bar: (bar.node, bar.start, bar.job)):
        key = (bar.node, bar.job, bar.queue, bar.start, bar.end, bar.evicted)
        pods[key] = pods.get(key, 0) + 1
    nodes: dict[str, list[TimelineSpan]] = {}
    for (node, job, queue, start, end, evicted), count in pods.items():
        kind: Literal["evicted", "running"] = "evicted" if evicted else "running"
        nodes.setdefault(node, []).append(TimelineSpan(kind, job, queue, count, start / SECOND, end / SECOND))
    for outage in charts.outages:
        if outage.node in nodes:
            nodes[outage.node].append(TimelineSpan("away", "", "", 0, outage.start / SECOND, outage.end / SECOND))
    if sum(map(_lanes, nodes.values())) > MAX_LANES:
        return [], _TOO_DENSE
    return [TimelineNode(name, "", spans) for name, spans in nodes.items()], ""


def _lanes(spans: Sequence[TimelineSpan]) -> int:
    """The most spans that overlap at any time."""
    changes = sorted([(span.start, 1) for span in spans] + [(span.end or 0.0, -1) for span in spans])
    depth = most = 0
    for _, change in changes:
        depth += change
        most = max(most, depth)
    return most


# -- figures ---------------------------------------------------------------------------------------------------


def _measures(metrics: Metrics) -> Iterator[Measure]:
    """The most important figures first."""
    wait, longest = metrics.wait, metrics.wait.longest
    unfinished = [
        f"{count} {state}"
        for count, state in (
            (metrics.running, "running"),
            (metrics.waiting, "waiting"),
            (metrics.withdrawn, "withdrawn"),
        )
        if count
    ]
    yield Measure("jobs finished", f"{metrics.finished} of {metrics.submitted}", ", ".join(unfinished))
    yield Measure("wait, mean", duration_text(wait.mean), f"median {duration_text(wait.p50)}")
    yield Measure("wait, 95 %", duration_text(wait.p95), f"99 %: {duration_text(wait.p99)}")
    job = "" if longest is None else f"{longest.key}, {counted(longest.tasks, 'task')}, queue {longest.queue}"
    yield Measure("wait, longest", duration_text(wait.max), job)
    if metrics.waiting:
        yield Measure("still waiting", duration_text(metrics.longest_waiting), metrics.longest_waiting_job)
    detail = f"99 %: {wait.slowdown_p99:.4g}; weighted by area: {wait.slowdown_weighted:.4g}"
    yield Measure("bounded slowdown", f"{wait.slowdown_mean:.2f}", detail)
    yield from _user_measures(metrics.users)
    yield from _planned_measures(metrics.planned)
    yield Measure("makespan", duration_text(metrics.makespan), "first submission to last end")
    for name, use in metrics.utilisation.items():
        detail = f"to the last start {percent_text(use.to_last_start)}, submission {percent_text(use.to_last_submit)}"
        yield Measure(f"{name} in use", percent_text(use.to_last_end), detail)
    yield Measure("idle while jobs wait", percent_text(metrics.fragmentation), "of the most used resource")
    if metrics.jain is not None:
        yield Measure("Jain index", f"{metrics.jain:.4f}", "namespaces' service by weight")
    yield Measure("share deviation", f"{metrics.deviation_mean:.4f}", f"99 %: {metrics.deviation_p99:.4f}")
    starved = metrics.starvation
    yield Measure("below its share", duration_text(starved.namespace_longest), starved.namespace or "no namespace")
    if starved.queue:
        yield Measure("below its guarantee", duration_text(starved.queue_longest), f"queue {starved.queue}")
    yield from _preemption_measures(metrics)
    if metrics.preemption.failures:
        yield Measure("pods lost with nodes", f"{metrics.preemption.failures}", "")


def _user_measures(users: UserMetrics) -> Iterator[Measure]:
    """A single user has nobody to be compared with."""
    if users.users < 2:
        return
    wait, normalised = users.wait, users.normalised_wait
    detail = f"± {duration_text(wait.deviation)}; longest {duration_text(wait.largest)}, {wait.user}"
    yield Measure(f"wait of {users.users} users", duration_text(wait.mean), detail)
    detail = f"± {normalised.deviation:.3g}; most {normalised.largest:.3g}, {normalised.user}"
    yield Measure("normalised user wait", f"{normalised.mean:.3g}", detail)


def _planned_measures(planned: PlannedMetrics) -> Iterator[Measure]:
    """Only for runs in which a start was planned."""
    hard, soft = planned.kept + planned.missed, planned.soft_kept + planned.soft_missed
    if not hard + soft:
        return
    late = f", by up to {duration_text(planned.worst)} ({planned.worst_job})" if planned.missed else ""
    detail = f"{planned.missed} missed{late}; {planned.soft_kept} of {soft} soft ones kept"
    yield Measure("planned starts kept", f"{planned.kept} of {hard}", detail)


def _preemption_measures(metrics: Metrics) -> Iterator[Measure]:
    preemption = metrics.preemption
    lost = ", ".join(_lost_work(name, amount) for name, amount in preemption.lost_work.items())
    yield Measure("evictions", f"{preemption.evictions}", f"lost {lost}" if lost else "")
    if not preemption.evictions:
        return
    again = f"; {counted(preemption.repeat_victims, 'job')} more than once" if preemption.repeat_victims else ""
    detail = f"{preemption.most_stopped_job}{again}".lstrip("; ")
    yield Measure("most stops of one job", f"{preemption.most_stops}", detail)
    served = sum(metrics.service.values())
    part = (
        f"of the cluster, {percent_text(preemption.dominant_hours * 3600 / served)} of all that ran" if served else ""
    )
    yield Measure("dominant hours lost", f"{preemption.dominant_hours:.3g}", part)


def _lost_work(name: str, amount: float) -> str:
    """Amount-seconds as hours; bytes as GiB."""
    if name in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30 / 3600:.3g} GiB-hours of {name}"
    return f"{amount / 3600:.3g} {name}-hours"


def _wait_table(by: Literal["size", "queue", "namespace"], groups: Mapping[str, WaitMetrics]) -> WaitTable:
    names: Iterable[str] = (name for _, name in SIZE_CLASSES if name in groups)
    if by != "size":
        names = sorted(groups, key=lambda name: (-groups[name].jobs, name))
    rows = [
        RunWaits(name, waits.jobs, waits.mean, waits.p50, waits.p95, waits.p99, waits.max, waits.slowdown_mean)
        for name, waits in ((name, groups[name]) for name in names)
    ]
    return WaitTable(by, rows[:MAX_GROUPS], max(0, len(rows) - MAX_GROUPS))


def _fleet(fleet: FleetView, start: float) -> RunFleet:
    clusters = [
        RunCluster(
            name=cluster.name,
            nodes=cluster.nodes,
            finished=cluster.finished,
            running=cluster.running,
            waiting=cluster.waiting,
            mean_wait=cluster.mean_wait,
            longest_wait=cluster.longest_wait,
            moved_in=cluster.moved_in,
            moved_out=cluster.moved_out,
            in_use=", ".join(f"{name} {percent_text(part)}" for name, part in cluster.utilisation.items() if part),
        )
        for cluster in fleet.clusters
    ]
    teams = [
        RunTeam(
            name=team.name,
            unplaced_mean=team.unplaced_mean,
            unplaced_longest=team.unplaced_longest,
            moves=team.moves,
            clusters=", ".join(f"{name} {count}" for name, count in team.clusters.items()),
        )
        for team in fleet.teams
    ]
    drawn = [cluster for cluster in fleet.clusters if cluster.times]
    return RunFleet(
        clusters=clusters[:MAX_GROUPS],
        more_clusters=max(0, len(clusters) - MAX_GROUPS),
        teams=teams[:MAX_GROUPS],
        more_teams=max(0, len(teams) - MAX_GROUPS),
        unplaced=fleet.unplaced,
        use=[
            TimeSeries(
                title=cluster.name,
                unit="share",
                times=[start, *(start + time for time in cluster.times)],
                lines=[SeriesLine("in use", [cluster.used[0], *cluster.used])],
            )
            for cluster in drawn[:MAX_CHARTS]
        ],
        more_use=max(0, len(drawn) - MAX_CHARTS),
    )


# -- the comparison --------------------------------------------------------------------------------------------


def comparison_view(comparison: RunComparison) -> RunComparisonView:
    seeds = len(comparison.seeds)
    note = ""
    if seeds > 1:
        note = (
            f"Means over {seeds} seeds, the same for both. Where the last column is empty, there is no change, or the "
            f"spread over the seeds can explain it. The other views show seed {comparison.seeds[0]}."
        )
    tables = [
        ComparisonTable(title, [_compared(row, with_margin=seeds > 1) for row in rows])
        for title, rows in _compared_parts(comparison)
    ]
    return RunComparisonView(comparison.scenario, comparison.first, comparison.second, seeds, tables, note)


def _compared_parts(comparison: RunComparison) -> Iterator[tuple[str, Sequence[Difference]]]:
    yield "A against B", comparison.overall
    for title, rows in (
        ("Mean wait by size", comparison.sizes),
        ("Mean wait by queue", comparison.queues),
        ("Mean wait by namespace", comparison.namespaces),
        ("Clusters", comparison.clusters),
    ):
        if rows:
            cut = f" (the {MAX_COMPARED} that change most, of {len(rows)})" if len(rows) > MAX_COMPARED else ""
            yield f"{title}{cut}", rows[:MAX_COMPARED]
    for verb, rows, count in (
        ("gain", comparison.gaining, comparison.gaining_jobs),
        ("lose", comparison.losing, comparison.losing_jobs),
    ):
        if rows:
            cut = f" (the first {len(rows)} of {count})" if count > len(rows) else ""
            yield f"Wait of jobs that {verb}{cut}", rows


def _compared(row: Difference, *, with_margin: bool) -> ComparisonRow:
    return ComparisonRow(
        name=f"{row.name} ({counted(row.jobs, 'job')})" if row.jobs else row.name,
        first=_value(row.first, row.unit),
        second=_value(row.second, row.unit),
        change=_change(row),
        margin=_value(row.margin, row.unit) if with_margin else "",
        verdict=row.verdict,
    )


def _value(number: float, unit: str) -> str:
    if unit == "s":
        return duration_text(number)
    return percent_text(number) if unit == "%" else f"{number:.4g}"


def _change(row: Difference) -> str:
    """With its sign: in points for a part of a whole, and also relative to A otherwise."""
    sign = "-" if row.change < 0 else "+" if row.change else ""
    if row.unit == "%":
        return f"{sign}{100 * abs(row.change):.3g} points" if row.change else "0"
    text = f"{sign}{_value(abs(row.change), row.unit)}"
    if not row.first or not row.change:
        return text
    ratio = row.second / row.first
    times = f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
    return f"{text} ({times} x)" if ratio >= MANY_TIMES else f"{text} ({100 * (ratio - 1):+.0f} %)"
