"""Stacked areas over time as SVG text, for the pictures in docs/: axes in percent, colours by CSS class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 8, 24
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """Maps times and values to coordinates."""

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


def axes(frame: PlotFrame) -> str:
    """Grid lines with values in percent and with times."""
    ticks = [tick for tick in value_ticks(frame.top) if tick <= frame.top * 1.001]
    lines = [_value_tick(frame, tick, f"{100 * tick:.3g}%") for tick in ticks]
    lines += [_time_tick(frame, tick) for tick in time_ticks(frame.end, max(2, frame.width // 100))]
    return "".join(lines)


def area(frame: PlotFrame, times: Sequence[float], low: Sequence[float], high: Sequence[float], css: str) -> str:
    """The area between two series; each value holds over the interval that ends at its time."""
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
    return f'<path class="{css}" d="{_steps(frame, times, high)}{_joined(back)}Z"/>'


def _steps(frame: PlotFrame, times: Sequence[float], values: Sequence[float]) -> str:
    parts, before = [f"M{LEFT} {number(frame.y(values[0]))}"], values[0]
    for time, value in zip(times, values, strict=True):
        if value != before:
            parts.append(f"V{number(frame.y(value))}")
            before = value
        parts.append(f"H{number(frame.x(time))}")
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    """Consecutive horizontal moves as one."""
    kept: list[str] = []
    for part in parts:
        if kept and part[0] == "H" and kept[-1][0] == "H":
            kept[-1] = part
        else:
            kept.append(part)
    return "".join(kept)


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
        f'<text class="tick" x="{x}" y="{frame.height - 6}" text-anchor="middle">{_short_time(seconds)}</text>'
    )


def _short_time(seconds: float) -> str:
    """A time in its largest unit: `90m` is `1.5h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.4g}{unit}"
    return "0" if not seconds else f"{seconds * 1000:.3g}ms"


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
