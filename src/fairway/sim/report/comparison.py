"""Comparisons of two policies for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fairway.sim.report.compare import Difference, RunComparison
from fairway.sim.report.svg import clear_time, counted, escape, percent
from fairway.sim.report.table import MAX_ROWS, plain_table

MANY_TIMES = 10
"""From here on a change is given as so many times, not in percent."""

_STYLES = {"better": "green", "worse": "red", "": ""}


def comparison_tables(comparison: RunComparison) -> Iterator[RenderableType]:
    """Everything to be printed, in order."""
    seeds = len(comparison.seeds)
    runs = "1 run of each" if seeds == 1 else f"{seeds} seeds"
    yield f"{comparison.scenario}: A is {comparison.first}, B is {comparison.second}; {runs}"
    for title, rows in _parts(comparison):
        yield ""
        yield _table(title, rows, seeds > 1)


def comparison_html(comparison: RunComparison) -> str:
    """The same as sections of the page."""
    return "".join(
        f"<section><h2>{escape(title)}</h2>{_html_table(rows, len(comparison.seeds) > 1)}</section>"
        for title, rows in _parts(comparison)
    ) + _seeds_note(comparison)


def _seeds_note(comparison: RunComparison) -> str:
    seeds = comparison.seeds
    if len(seeds) == 1:
        return ""
    return (
        f"<p class=note>Means over {len(seeds)} seeds, the same for both. Where the last column is empty, the change "
        f"is none, or the spread over the seeds can explain it. Cards above and plots below are of seed {seeds[0]}.</p>"
    )


def _parts(comparison: RunComparison) -> Iterator[tuple[str, Sequence[Difference]]]:
    yield "A against B", comparison.overall
    for title, rows in (
        ("Mean wait by size", comparison.sizes),
        ("Mean wait by queue", comparison.queues),
        ("Mean wait by namespace", comparison.namespaces),
        ("Clusters", comparison.clusters),
    ):
        if rows:
            cut = f" (the {MAX_ROWS} that change most, of {len(rows)})" if len(rows) > MAX_ROWS else ""
            yield f"{title}{cut}", rows[:MAX_ROWS]
    for what, rows, count in (
        ("gain", comparison.gaining, comparison.gaining_jobs),
        ("lose", comparison.losing, comparison.losing_jobs),
    ):
        if rows:
            cut = f" (the first {len(rows)} of {count})" if count > len(rows) else ""
            yield f"Wait of jobs that {what}{cut}", rows


def _table(title: str, rows: Sequence[Difference], with_margin: bool) -> Table:
    table = plain_table(title.lower(), "A", "B", "change", *(["± (95 %)"] if with_margin else []), "B is")
    for row in rows:
        margin = [value(row.margin, row.unit)] if with_margin else []
        cells = [_name(row), value(row.first, row.unit), value(row.second, row.unit), signed(row), *margin]
        table.add_row(*cells, Text(row.verdict, style=_STYLES[row.verdict]))
    return table


def _html_table(rows: Sequence[Difference], with_margin: bool) -> str:
    head = (
        "<th></th><th>A</th><th>B</th><th>change</th>" + ("<th>± (95 %)</th>" if with_margin else "") + "<th>B is</th>"
    )
    body = "".join(
        f"<tr><td>{escape(_name(row))}</td><td>{value(row.first, row.unit)}</td><td>{value(row.second, row.unit)}</td>"
        f"<td>{signed(row)}</td>{f'<td>{value(row.margin, row.unit)}</td>' if with_margin else ''}"
        f'<td class="{row.verdict}">{row.verdict}</td></tr>'
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _name(row: Difference) -> str:
    return f"{row.name} ({counted(row.jobs, 'job')})" if row.jobs else row.name


def value(number: float, unit: str) -> str:
    if unit == "s":
        return clear_time(number)
    return percent(number) if unit == "%" else f"{number:.4g}"


def signed(row: Difference) -> str:
    """The change with its sign: points where the measure is a part, and relative to A otherwise."""
    sign = "-" if row.change < 0 else "+" if row.change else ""
    if row.unit == "%":
        return f"{sign}{100 * abs(row.change):.3g} points" if row.change else "0"
    return f"{sign}{value(abs(row.change), row.unit)}{_relative(row)}"


def _relative(row: Difference) -> str:
    if not row.first or not row.change:
        return ""
    times = row.second / row.first
    return f" ({times:.3g} x)" if times >= MANY_TIMES else f" ({100 * (times - 1):+.0f} %)"
