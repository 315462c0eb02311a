"""Plots as SVG text: axes, lines, stacked areas, columns, spreads and bars on rows. Colours are CSS classes.

A plot's numbers are written with at most one decimal of a pixel; what moves under the pointer (`hover`) is a small
JSON block that the page's script reads.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH = 720
HALF = 490
"""Of plots that stand side by side: about as many pixels as they get, so that their texts keep their size."""
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 8, 24
COLOURS = 8
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))

Series = Mapping[str, Sequence[float]]


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def short_time(seconds: float) -> str:
    """A time in its largest unit: `90m` is `1.5h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.4g}{unit}"
    return "0" if not seconds else f"{seconds * 1000:.3g}ms"


def clear_time(seconds: float) -> str:
    """A time to be read, in its two largest units: `1h 17m`."""
    if seconds < 60:
        return f"{seconds:.3g}s" if seconds else "0"
    for (size, unit), (lower, part) in pairwise(_UNITS):
        if seconds >= size:
            whole, rest = divmod(round(seconds / lower) * lower, size)
            return f"{whole:g}{unit} {rest / lower:g}{part}" if rest else f"{whole:g}{unit}"
    raise AssertionError


def clear_moment(time: str) -> str:
    """A time of RFC 3339 to be read: to the second, which is all that a reader wants."""
    return f"{time[:10]} {time[11:19]}"


def time_ticks(end: float, wanted: int = 7) -> list[float]:
    """Round times from 0 to `end`."""
    steps = [*_TIME_STEPS, *(86400 * days for days in (2, 5, 7, 14, 28, 56, 112, 224, 448))]
    step = next((step for step in steps if end / step <= wanted), steps[-1])
    return [index * step for index in range(int(end / step) + 1)]


def value_ticks(top: float, wanted: int = 4) -> list[float]:
    """Round values from 0 to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [index * step for index in range(math.ceil(top / step - 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """Where a plot's values land."""

    height: int
    end: float
    """The last time, in seconds."""
    top: float
    """The highest value."""
    width: int = WIDTH

    def x(self, seconds: float) -> float:
        return LEFT + (self.width - LEFT - RIGHT) * seconds / self.end if self.end else float(LEFT)

    def y(self, value: float) -> float:
        room = self.height - TOP - BOTTOM
        return TOP + room * (1 - min(value, self.top) / self.top)


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def counted(count: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def percent(value: float) -> str:
    return f"{100 * value:.3g}%"


def plot(frame: PlotFrame, body: str, *, as_percent: bool, label: str, hover: str = "") -> str:
    """A framed plot with its axes."""
    cursor = f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{frame.height - BOTTOM}"/>'
    return drawing(
        frame.width, frame.height, f"{axes(frame, as_percent=as_percent)}{body}{cursor}{hover}", label=label, css="plot"
    )


def axes(frame: PlotFrame, *, as_percent: bool) -> str:
    ticks = [tick for tick in value_ticks(frame.top) if tick <= frame.top * 1.001]
    lines = [_value_tick(frame, tick, percent(tick) if as_percent else f"{tick:g}") for tick in ticks]
    lines += [_time_tick(frame, tick) for tick in time_ticks(frame.end, max(2, frame.width // 100))]
    return "".join(lines)


def drawing(width: int, height: float, body: str, *, label: str, css: str = "") -> str:
    """As wide as there is free capacity; where that makes its texts too small to read, it can be moved sideways
    instead.
    """
    return (
        f'<div class="wide"><svg viewBox="0 0 {width} {number(height)}" style="min-width:{width * 4 // 5}px" '
        f'role="img" aria-label="{escape(label)}" class="{css}">{body}</svg></div>'
    )


def hover(frame: PlotFrame, times: Sequence[float], series: Series, *, as_percent: bool) -> str:
    """What the page's script needs to say the values under the pointer."""
    data = {
        "left": LEFT,
        "width": frame.width - LEFT - RIGHT,
        "end": frame.end,
        "percent": as_percent,
        "times": [round(time, 1) for time in times],
        "series": {name: [round(value, 4) for value in values] for name, values in series.items()},
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


def steps(frame: PlotFrame, times: Sequence[float], values: Sequence[float]) -> str:
    """A path that keeps each value over the span that ends at its time."""
    parts, before = [f"M{LEFT} {number(frame.y(values[0]))}"], values[0]
    for time, value in zip(times, values, strict=True):
        if value != before:
            parts.append(f"V{number(frame.y(value))}")
            before = value
        parts.append(f"H{number(frame.x(time))}")
    return _joined(parts)


def line(frame: PlotFrame, times: Sequence[float], values: Sequence[float], css: str) -> str:
    return f'<path class="{css}" d="{steps(frame, times, values)}"/>' if values else ""


def area(frame: PlotFrame, times: Sequence[float], low: Sequence[float], high: Sequence[float], css: str) -> str:
    """What lies between two series."""
    if not high:
        return ""
    back, before = [], low[-1]
    edges = [0.0, *times]
    back.append(f"V{number(frame.y(low[-1]))}")
    for index in range(len(low) - 1, -1, -1):
        if low[index] != before:
            back.append(f"V{number(frame.y(low[index]))}")
            before = low[index]
        back.append(f"H{number(frame.x(edges[index]))}")
    return f'<path class="{css}" d="{steps(frame, times, high)}{_joined(back)}Z"/>'


def _joined(parts: Sequence[str]) -> str:
    """A row of horizontal moves without a vertical one between them is one move."""
    kept: list[str] = []
    for part in parts:
        if kept and part[0] == "H" and kept[-1][0] == "H":
            kept[-1] = part
        else:
            kept.append(part)
    return "".join(kept)


def columns(frame: PlotFrame, times: Sequence[float], values: Sequence[float], css: str) -> str:
    """A column for each value that is not zero."""
    found, before = [], 0.0
    for time, value in zip(times, values, strict=True):
        if value:
            x, width = frame.x(before), max(1.0, frame.x(time) - frame.x(before))
            y = frame.y(value)
            found.append(
                f'<rect class="{css}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
                f'height="{number(frame.height - BOTTOM - y)}"/>'
            )
        before = time
    return "".join(found)


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(css class, text) pairs under a plot."""
    items = "".join(f'<span><i class="{css}"></i>{escape(text)}</span>' for css, text in entries)
    return f'<div class="legend">{items}</div>'


def colour(index: int) -> str:
    return f"c{index % COLOURS}"


def _value_tick(frame: PlotFrame, value: float, text: str) -> str:
    y = number(frame.y(value))
    return (
        f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{y}" text-anchor="end" dominant-baseline="middle">{text}</text>'
    )


def _time_tick(frame: PlotFrame, seconds: float) -> str:
    x = number(frame.x(seconds))
    bottom = frame.height - BOTTOM
    return (
        f'<line class="grid" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>'
        f'<text class="tick" x="{x}" y="{frame.height - 6}" text-anchor="middle">{short_time(seconds)}</text>'
    )


def row_tick(x: float, height: float, text: str) -> str:
    """A grid line through the rows of a plot that has no values of its own."""
    return (
        f'<line class="grid" x1="{number(x)}" x2="{number(x)}" y1="{TOP}" y2="{number(height - BOTTOM)}"/>'
        f'<text class="tick" x="{number(x)}" y="{number(height - 8)}" text-anchor="middle">{text}</text>'
    )
