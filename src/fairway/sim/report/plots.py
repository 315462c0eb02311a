"""The plots of the page, each from the report's data alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.sim.metrics import SIZE_CLASSES, WaitMetrics
from fairway.sim.report import svg
from fairway.sim.report.model import Charts, RunReport
from fairway.sim.report.svg import BOTTOM, RIGHT, TOP, PlotFrame, number

HEIGHT = 220
SMALL = 130
NARROW = 340


@dataclass(frozen=True, slots=True)
class Scale:
    """What plots that stand side by side have in common, so that they can be compared."""

    end: float
    """The last time, in seconds."""
    width: int
    most_waiting: float
    most_evicted: float
    longest_wait: float

    @classmethod
    def of(cls, reports: Sequence[RunReport]) -> Scale:
        charts = [report.charts for report in reports]
        counts = [[*chart.waiting, *chart.starving, *chart.reserved] for chart in charts]
        return cls(
            end=max((time for chart in charts for time in chart.times[-1:]), default=1.0),
            width=svg.WIDTH if len(reports) == 1 else svg.HALF,
            most_waiting=max((max(found, default=0.0) for found in counts), default=0.0),
            most_evicted=max((max(chart.evictions, default=0.0) for chart in charts), default=0.0),
            longest_wait=max((report.metrics.wait.max for report in reports), default=0.0),
        )


def utilisation(charts: Charts, scale: Scale) -> str:
    """What each queue had, stacked, and the use of each resource as a line."""
    if not charts.times:
        return ""
    total = [sum(values) for values in zip(*charts.queues.values(), strict=True)] if charts.queues else []
    used = {name: values for name, values in charts.used.items() if any(values)}
    top = max([1.0, *total, *(max(values) for values in used.values())])
    frame = PlotFrame(HEIGHT, scale.end, top, scale.width)
    body, low = [], [0.0] * len(charts.times)
    for index, values in enumerate(charts.queues.values()):
        high = [a + b for a, b in zip(low, values, strict=True)]
        body.append(svg.area(frame, charts.times, low, high, f"area {svg.colour(index)}"))
        low = high
    names = [(f"dot {svg.colour(index)}", queue) for index, queue in enumerate(charts.queues)]
    for index, (name, values) in enumerate(used.items()):
        body.append(svg.line(frame, charts.times, values, f"line ink dash{index % 4}"))
        names.append((f"rule dash{index % 4}", f"{name} in use"))
    shown = {**charts.queues, **{f"{name} in use": values for name, values in used.items()}}
    hover = svg.hover(frame, charts.times, shown, as_percent=True)
    label = "Share of the cluster that each queue had allocated, over time"
    return svg.plot(frame, "".join(body), as_percent=True, label=label, hover=hover) + svg.legend(names)


def namespaces(charts: Charts, scale: Scale) -> str:
    """One small plot each: what it had against what it was entitled to."""
    if not charts.times:
        return ""
    top = max(
        (max(max(line.share, default=0), max(line.entitled, default=0)) for line in charts.namespaces.values()),
        default=0.0,
    )
    width = NARROW if scale.width == svg.WIDTH else scale.width
    frame = PlotFrame(SMALL, scale.end, svg.value_ticks(top or 1.0, 3)[-1], width)
    found = []
    for name, line in charts.namespaces.items():
        body = svg.area(frame, charts.times, [0.0] * len(line.share), line.share, "area c0")
        body += svg.line(frame, charts.times, line.entitled, "line c5")
        hover = svg.hover(frame, charts.times, {"held": line.share, "entitled": line.entitled}, as_percent=True)
        plot = svg.plot(frame, body, as_percent=True, label=f"Share of namespace {name}", hover=hover)
        found.append(f"<figure><figcaption>{svg.escape(name)}</figcaption>{plot}</figure>")
    names = [("dot c0", "allocated (mean)"), ("rule c5", "entitled by weight and demand")]
    more = f"<p class=note>{charts.more_namespaces} more with less service.</p>" if charts.more_namespaces else ""
    return f'<div class="multiples">{"".join(found)}</div>{svg.legend(names)}{more}'


def waiting(charts: Charts, scale: Scale) -> str:
    """How many jobs waited; of these, how many starved, and nodes reserved for them."""
    series = {"jobs waiting": charts.waiting}
    if any(charts.starving) or any(charts.reserved):
        series |= {"jobs reserved for": charts.starving, "nodes reserved": charts.reserved}
    return _lines(charts, series, scale, "Jobs that waited, over time")


def fragmentation(charts: Charts, scale: Scale) -> str:
    """What stood idle while jobs waited, over time."""
    if not any(charts.fragmentation):
        return '<p class="note">No job waited while anything was idle.</p>'
    frame = PlotFrame(SMALL, scale.end, 1.0, scale.width)
    body = svg.area(frame, charts.times, [0.0] * len(charts.times), charts.fragmentation, "area c1")
    hover = svg.hover(frame, charts.times, {"idle": charts.fragmentation}, as_percent=True)
    label = "Idle part of the most used resource while jobs waited, over time"
    return svg.plot(frame, body, as_percent=True, label=label, hover=hover)


def preemptions(charts: Charts, scale: Scale) -> str:
    """Evictions in each span of time."""
    if not any(charts.evictions):
        return '<p class="note">No pod was evicted.</p>'
    frame = PlotFrame(SMALL, scale.end, svg.value_ticks(scale.most_evicted)[-1], scale.width)
    body = svg.columns(frame, charts.times, charts.evictions, "bar c5")
    hover = svg.hover(frame, charts.times, {"evictions": charts.evictions}, as_percent=False)
    return svg.plot(frame, body, as_percent=False, label="Evictions over time", hover=hover)


def waits(groups: Mapping[str, WaitMetrics], scale: Scale) -> str:
    """For each group a band from the median to the 95th percentile, marks at the 99th and the longest."""
    shown = {name: group for name, group in groups.items() if group.jobs}
    if not shown:
        return '<p class="note">No job finished.</p>'
    row, left = 26, 130
    height = TOP + row * len(shown) + BOTTOM
    decade = (scale.width - left - RIGHT) / math.log10(1 + max(scale.longest_wait, 1.0))

    def x(seconds: float) -> float:
        return left + decade * math.log10(1 + seconds)

    parts = [svg.row_tick(x(tick), height, svg.short_time(tick)) for tick in _log_ticks(scale.longest_wait)]
    for index, (name, group) in enumerate(shown.items()):
        y = TOP + row * index + row / 2
        figures = (group.mean, group.p50, group.p95, group.p99, group.max)
        told = zip(("mean", "median", "95 %", "99 %", "longest"), map(svg.clear_time, figures), strict=True)
        text = f"{name}: {svg.counted(group.jobs, 'job')}, {', '.join(f'{what} {time}' for what, time in told)}"
        parts.append(
            f"<g><title>{svg.escape(text)}</title>"
            f'<text class="tick" x="{left - 8}" y="{number(y)}" text-anchor="end" dominant-baseline="middle">'
            f"{svg.escape(name)} ({group.jobs})</text>"
            f'<line class="line c0" x1="{number(x(0))}" x2="{number(x(group.max))}" y1="{number(y)}" y2="{number(y)}"/>'
            f'<rect class="bar c0" x="{number(x(group.p50))}" y="{number(y - 6)}" '
            f'width="{number(max(2.0, x(group.p95) - x(group.p50)))}" height="12" rx="2"/>'
            f'<line class="mark" x1="{number(x(group.p99))}" x2="{number(x(group.p99))}" '
            f'y1="{number(y - 8)}" y2="{number(y + 8)}"/>'
            f'<circle class="bar c5" cx="{number(x(group.max))}" cy="{number(y)}" r="3.5"/></g>'
        )
    names = [("dot c0", "median to 95th percentile"), ("rule ink", "99th"), ("dot c5", "longest")]
    return svg.drawing(scale.width, height, "".join(parts), label="Waits by size") + svg.legend(names)


def by_size(report: RunReport) -> Mapping[str, WaitMetrics]:
    """The size classes from small to large."""
    found = report.metrics.by_size
    return {name: found[name] for _, name in SIZE_CLASSES if name in found}


def _lines(charts: Charts, series: svg.Series, scale: Scale, label: str) -> str:
    if not charts.times:
        return ""
    frame = PlotFrame(SMALL, scale.end, svg.value_ticks(scale.most_waiting)[-1], scale.width)
    colours = ("c0", "c5", "c1")
    body = "".join(
        svg.line(frame, charts.times, values, f"line {css}")
        for css, values in zip(colours, series.values(), strict=False)
    )
    hover = svg.hover(frame, charts.times, series, as_percent=False)
    names = [(f"rule {css}", name) for css, name in zip(colours, series, strict=False)]
    return svg.plot(frame, body, as_percent=False, label=label, hover=hover) + svg.legend(names)


def _log_ticks(longest: float) -> list[float]:
    marks = (0, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
    return [float(mark) for mark in marks if mark <= max(longest, 1.0)]
