"""Plots of bars on rows: pods on nodes, and reservations of starving jobs."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.sim.report import svg
from fairway.sim.report.model import RunReport
from fairway.sim.report.plots import Scale
from fairway.sim.report.svg import BOTTOM, RIGHT, TOP, number

MAX_LANES = 160

Entry = tuple[int, str, Micros, Micros, str]
"""Lane (-1: all of them), text, start, end, css."""


def starving(report: RunReport, scale: Scale) -> str:
    """A row for each starving job, while nodes were reserved for it."""
    reservations = report.charts.reservations
    if not reservations or not report.charts.times:
        return '<p class="note">No job starved so long that nodes were reserved for it.</p>'
    origin = parse_rfc3339(report.start)
    jobs: dict[str, list[Entry]] = {}
    for reservation in reservations:
        text = f"{svg.counted(reservation.nodes, 'node')} for {reservation.job}"
        jobs.setdefault(reservation.job, []).append(
            (0, text, reservation.start - origin, reservation.end - origin, "c5")
        )
    return _rows(scale, list(jobs.items()), "Reservations of starving jobs")


def gantt(report: RunReport, scale: Scale) -> str:
    """A band for each node with the pods that ran on it, coloured by queue; evicted ones are pale."""
    charts = report.charts
    if not charts.bars or not charts.times:
        return '<p class="note">The run has too many pods or nodes to draw each of them.</p>'
    origin = parse_rfc3339(report.start)
    queues = {queue: svg.colour(index) for index, queue in enumerate(charts.queues)}
    nodes: dict[str, list[Entry]] = {}
    lanes: dict[str, list[Micros]] = {}
    for bar in sorted(charts.bars, key=lambda bar: (bar.node, bar.start, bar.job)):
        text = f"{bar.job}{', evicted' if bar.evicted else ''}"
        css = f"{queues.get(bar.queue, 'c0')}{' evicted' if bar.evicted else ''}"
        lane = _lane(lanes.setdefault(bar.node, []), bar.start, bar.end)
        entry = (lane, text, bar.start - origin, bar.end - origin, css)
        nodes.setdefault(bar.node, []).append(entry)
    for outage in charts.outages:
        if outage.node in nodes:
            entry = (-1, f"{outage.node} was away", outage.start - origin, outage.end - origin, "away")
            nodes[outage.node].insert(0, entry)
    if sum(map(len, lanes.values())) > MAX_LANES:
        return '<p class="note">The run has too many pods at once to draw each of them.</p>'
    names = [(f"dot {css}", queue) for queue, css in queues.items()]
    plot = _rows(scale, list(nodes.items()), "Pods on nodes over time")
    return plot + svg.legend(names)


def _rows(scale: Scale, rows: Sequence[tuple[str, Sequence[Entry]]], label: str) -> str:
    lane_height, gap = 9.0, 5.0
    left, end = 130, scale.end
    room = scale.width - left - RIGHT
    parts, y = [], float(TOP)
    for name, entries in rows:
        lanes = max((lane for lane, *_ in entries), default=0) + 1
        height = max(lanes, 1) * lane_height
        parts.append(f'<rect class="band" x="{left}" y="{number(y)}" width="{room}" height="{height}"/>')
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{number(y + height / 2)}" text-anchor="end" '
            f'dominant-baseline="middle">{_label(name)}</text>'
        )
        for lane, text, start, finish, css in entries:
            x0, x1 = (left + room * (time / SECOND) / end for time in (start, finish))
            top, tall = (y, height) if lane < 0 else (y + lane * lane_height, lane_height - 1)
            parts.append(
                f'<rect class="bar {css}" x="{number(x0)}" y="{number(top)}" width="{number(max(0.8, x1 - x0))}" '
                f'height="{tall}" rx="1.5"><title>{svg.escape(text)}, {svg.short_time(start / SECOND)} to '
                f"{svg.short_time(finish / SECOND)}</title></rect>"
            )
        y += height + gap
    height = y + BOTTOM - gap
    ticks = "".join(
        svg.row_tick(left + room * tick / end, height, svg.short_time(tick))
        for tick in svg.time_ticks(end, max(2, room // 80))
    )
    return svg.drawing(scale.width, height, f"{ticks}{''.join(parts)}", label=label)


def _label(name: str) -> str:
    """As much of a name as there is space for; the whole one is shown where the pointer is."""
    return svg.escape(name) if len(name) < 22 else f"{svg.escape(name[:20])}…<title>{svg.escape(name)}</title>"


def _lane(ends: list[Micros], start: Micros, end: Micros) -> int:
    """The first lane that is free from `start` on; it is taken until `end`."""
    for lane, busy_until in enumerate(ends):
        if busy_until <= start:
            ends[lane] = end
            return lane
    ends.append(end)
    return len(ends) - 1
