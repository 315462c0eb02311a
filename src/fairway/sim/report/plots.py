"""The plots of the page, each from the report's data alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairway.sim.metrics import SIZE_CLASSES, WaitMetrics
from fairway.sim.report import svg
from fairway.sim.report.model import Charts, RunReport
from fairway.sim.report.svg import BOTTOM, RIGHT, TOP, WIDTH, Frame, number

HEIGHT = 220
SMALL = 130
NARROW = 340


def utilisation(charts: Charts, end: float) -> str:
    """What each queue held, stacked, and the use of each resource as a line."""
    if not charts.times:
        return ""
    total = [sum(values) for values in zip(*charts.queues.values(), strict=True)] if charts.queues else []
    used = {name: values for name, values in charts.used.items() if any(values)}
    top = max([1.0, *total, *(max(values) for values in used.values())])
    frame = Frame(HEIGHT, end, top)
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
    label = "Share of the cluster that each queue held, over time"
    return svg.plot(frame, "".join(body), as_percent=True, label=label, hover=hover) + svg.legend(names)


def namespaces(charts: Charts, end: float) -> str:
    """One small plot each: what it held against what it was entitled to."""
    if not charts.times:
        return ""
    top = max(
        (max(max(line.share, default=0), max(line.entitled, default=0)) for line in charts.namespaces.values()),
        default=0.0,
    )
    frame = Frame(SMALL, end, svg.value_ticks(top or 1.0, 3)[-1], width=NARROW)
    found = []
    for name, line in charts.namespaces.items():
        body = svg.area(frame, charts.times, [0.0] * len(line.share), line.share, "area c0")
        body += svg.line(frame, charts.times, line.entitled, "line c5")
        hover = svg.hover(frame, charts.times, {"held": line.share, "entitled": line.entitled}, as_percent=True)
        plot = svg.plot(frame, body, as_percent=True, label=f"Share of namespace {name}", hover=hover)
        found.append(f"<figure><figcaption>{svg.escape(name)}</figcaption>{plot}</figure>")
    names = [("dot c0", "held (mean)"), ("rule c5", "entitled by weight and demand")]
    more = f"<p class=note>{charts.more_namespaces} more with less service.</p>" if charts.more_namespaces else ""
    return f'<div class="multiples">{"".join(found)}</div>{svg.legend(names)}{more}'


def waiting(charts: Charts, end: float) -> str:
    """How many jobs waited; of these, how many starved, and nodes reserved for them."""
    series = {"jobs waiting": charts.waiting}
    if any(charts.starving) or any(charts.reserved):
        series |= {"jobs reserved for": charts.starving, "nodes reserved": charts.reserved}
    return _lines(charts, series, end, "Jobs that waited, over time")


def preemptions(charts: Charts, end: float) -> str:
    """Evictions in each span of time."""
    if not any(charts.evictions):
        return '<p class="note">Nobody was evicted.</p>'
    frame = Frame(SMALL, end, svg.value_ticks(max(charts.evictions))[-1])
    body = svg.columns(frame, charts.times, charts.evictions, "bar c5")
    hover = svg.hover(frame, charts.times, {"evictions": charts.evictions}, as_percent=False)
    return svg.plot(frame, body, as_percent=False, label="Evictions over time", hover=hover)


def waits(groups: Mapping[str, WaitMetrics]) -> str:
    """For each group a band from the median to the 95th percentile, marks at the 99th and the longest."""
    shown = {name: group for name, group in groups.items() if group.jobs}
    if not shown:
        return '<p class="note">No job finished.</p>'
    longest = max(group.max for group in shown.values())
    row = 26
    height = TOP + row * len(shown) + BOTTOM
    left, scale = 190, (WIDTH - 190 - RIGHT) / math.log10(1 + max(longest, 1.0))

    def x(seconds: float) -> float:
        return left + scale * math.log10(1 + seconds)

    parts = [svg.row_tick(x(tick), height, svg.short_time(tick)) for tick in _log_ticks(longest)]
    for index, (name, group) in enumerate(shown.items()):
        y = TOP + row * index + row / 2
        text = (
            f"{name}: {group.jobs} jobs, mean {svg.clear_time(group.mean)}, median {svg.clear_time(group.p50)}, "
            f"95 % {svg.clear_time(group.p95)}, 99 % {svg.clear_time(group.p99)}, longest {svg.clear_time(group.max)}"
        )
        parts.append(
            f"<g><title>{svg.escape(text)}</title>"
            f'<text class="tick" x="{left - 8}" y="{number(y)}" text-anchor="end" dominant-baseline="middle">'
            f"{svg.escape(name)} · {group.jobs}</text>"
            f'<line class="line c0" x1="{number(x(0))}" x2="{number(x(group.max))}" y1="{number(y)}" y2="{number(y)}"/>'
            f'<rect class="bar c0" x="{number(x(group.p50))}" y="{number(y - 6)}" '
            f'width="{number(max(2.0, x(group.p95) - x(group.p50)))}" height="12" rx="2"/>'
            f'<line class="mark" x1="{number(x(group.p99))}" x2="{number(x(group.p99))}" '
            f'y1="{number(y - 8)}" y2="{number(y + 8)}"/>'
            f'<circle class="bar c5" cx="{number(x(group.max))}" cy="{number(y)}" r="3.5"/></g>'
        )
    names = [("dot c0", "median to 95th percentile"), ("rule ink", "99th"), ("dot c5", "longest")]
    return (
        f'<svg viewBox="0 0 {WIDTH} {number(height)}" role="img" aria-label="Waits">{"".join(parts)}</svg>'
        + svg.legend(names)
    )


def by_size(report: RunReport) -> Mapping[str, WaitMetrics]:
    """The size classes from small to large."""
    found = report.metrics.by_size
    return {name: found[name] for _, name in SIZE_CLASSES if name in found}


def _lines(charts: Charts, series: svg.Series, end: float, label: str) -> str:
    if not charts.times:
        return ""
    top = max((max(values, default=0) for values in series.values()), default=0)
    frame = Frame(SMALL, end, svg.value_ticks(top)[-1])
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
