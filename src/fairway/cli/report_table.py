"""The report of a run, and the comparison of two, as tables for a terminal. What they say is in the view model."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fairway.app.view.models.runs import (
    ComparisonTable,
    Measure,
    RunComparisonView,
    RunFleet,
    RunView,
    WaitTable,
)
from fairway.app.view.run_report import counted, duration_text, report_view
from fairway.sim.report import RunReport, Speed

MAX_ROWS = 20

_STYLES = {"better": "green", "worse": "red", "": ""}


def report_tables(report: RunReport, speed: Speed) -> Iterator[RenderableType]:
    """Everything to be printed, in order."""
    view = report_view([report])
    run = view.runs[0]
    partial = " (interrupted: partial)" if report.partial else ""
    yield f"{view.title} under {run.policy}, seed {run.seed}{partial}"
    yield f"{view.subtitle}\n"
    yield _measures(run.measures)
    for waits in run.waits:
        if waits.by == "size" or len(waits.rows) > 1:
            yield ""
            yield _waits(waits)
    if run.fleet is not None:
        yield ""
        yield _clusters(run.fleet)
        yield ""
        yield _teams(run.fleet)
    if passed := _passed(run):
        yield ""
        yield f"{counted(passed, 'assertion')} held"
    yield ""
    yield _speed_line(speed)


def comparison_tables(comparison: RunComparisonView) -> Iterator[RenderableType]:
    """Everything to be printed, in order."""
    seeds = comparison.seeds
    runs = "1 run of each" if seeds == 1 else f"{seeds} seeds"
    yield f"{comparison.scenario}: A is {comparison.first}, B is {comparison.second}; {runs}"
    for table in comparison.tables:
        yield ""
        yield _compared(table, with_margin=seeds > 1)


def plain_table(*columns: str) -> Table:
    """Names to the left, figures to the right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    return table


def _passed(run: RunView) -> int:
    return sum(notice.kind == "passed" for notice in run.notices)


def _measures(measures: list[Measure]) -> Table:
    table = plain_table("metric", "value", "more")
    table.columns[2].justify = "left"
    for measure in measures:
        table.add_row(measure.name, measure.value, measure.detail)
    return table


def _waits(waits: WaitTable) -> Table:
    table = plain_table(waits.by, "jobs", "mean wait", "median", "95 %", "longest", "slowdown")
    for row in waits.rows[:MAX_ROWS]:
        times = (duration_text(seconds) for seconds in (row.mean, row.median, row.p95, row.longest))
        table.add_row(row.group, f"{row.jobs}", *times, f"{row.slowdown:.2f}")
    _add_rest(table, len(waits.rows) + waits.more)
    return table


def _clusters(fleet: RunFleet) -> Table:
    table = plain_table("cluster", "nodes", "finished", "waiting", "mean wait", "longest", "moved in", "out", "in use")
    for row in fleet.clusters[:MAX_ROWS]:
        times = (duration_text(seconds) for seconds in (row.mean_wait, row.longest_wait))
        counts = (f"{row.nodes}", f"{row.finished}", f"{row.waiting}")
        table.add_row(row.name, *counts, *times, f"{row.moved_in}", f"{row.moved_out}", row.in_use)
    _add_rest(table, len(fleet.clusters) + fleet.more_clusters)
    if fleet.unplaced:
        table.add_row("no cluster yet", "", "", f"{fleet.unplaced}", *[""] * 5)
    return table


def _teams(fleet: RunFleet) -> Table:
    """The waits of teams are in the table of namespaces."""
    table = plain_table("team", "without a cluster", "longest", "moves", "jobs by cluster")
    table.columns[4].justify = "left"
    for row in fleet.teams[:MAX_ROWS]:
        times = (duration_text(seconds) for seconds in (row.unplaced_mean, row.unplaced_longest))
        table.add_row(row.name, *times, f"{row.moves}", row.clusters)
    _add_rest(table, len(fleet.teams) + fleet.more_teams)
    return table


def _add_rest(table: Table, total: int) -> None:
    if total > MAX_ROWS:
        table.add_row(f"and {total - MAX_ROWS} more", *[""] * (len(table.columns) - 1))


def _compared(compared: ComparisonTable, *, with_margin: bool) -> Table:
    table = plain_table(compared.title.lower(), "A", "B", "change", *(["± (95 %)"] if with_margin else []), "B is")
    for row in compared.rows:
        margin = [row.margin] if with_margin else []
        verdict = Text(row.verdict, style=_STYLES[row.verdict])
        table.add_row(row.name, row.first, row.second, row.change, *margin, verdict)
    return table


def _speed_line(speed: Speed) -> str:
    part = 100 * speed.decide_seconds / max(speed.seconds, 1e-9)
    return (
        f"{speed.seconds:.2f} s: {speed.events} events, {speed.cycles} cycles ({part:.0f} % of the time, 99 %: "
        f"{speed.cycle_p99 * 1000:.2f} ms), {speed.decisions_per_second:.0f} decisions/s, "
        f"{speed.peak_memory / 2**20:.0f} MiB"
    )
