"""The view model of a report: bounded, worded once, and the same for the same run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fairway.app.view import run_report
from fairway.app.view.run_report import comparison_view, duration_text, report_view
from fairway.sim.metrics import WaitMetrics
from fairway.sim.node_timeline import Bar, Outage
from fairway.sim.report import Difference, RunComparison, RunReport
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario
from support.engine import policy

SCENARIO = """
name: two teams
cluster: {nodes: 2 x {cpu: 4}}
workload:
  jobs:
  - {name: a, namespace: x, count: 12, every: 10s, request: {cpu: 2}, run: 60s}
  - {name: big, namespace: y, tasks: 2, request: {cpu: 4}, run: 30s, arrive: 20s}
"""


@pytest.fixture(scope="module")
def report() -> RunReport:
    return Simulation(parse_scenario(SCENARIO, Path("s.yaml")), policy()).run().report


def test_the_same_report_gives_the_same_view(report: RunReport) -> None:
    assert msgspec.json.encode(report_view([report])) == msgspec.json.encode(report_view([report]))


def test_series_begin_at_the_start_of_the_run_and_have_a_value_for_each_time(report: RunReport) -> None:
    run = report_view([report]).runs[0]
    for series in (run.utilisation, run.queues, run.waiting, *run.namespaces):
        assert series.times[0] == run.start
        assert series.times[-1] == pytest.approx(run.end)
        assert all(len(line.values) == len(series.times) for line in series.lines)


def test_lines_beyond_the_limit_are_added_up(report: RunReport) -> None:
    times = report.charts.times
    queues = {f"q{number:02}": [0.01 * number] * len(times) for number in range(40)}
    wide = msgspec.structs.replace(report, charts=msgspec.structs.replace(report.charts, queues=queues))
    view = report_view([wide])
    lines = view.runs[0].queues.lines
    assert len(lines) == run_report.MAX_LINES
    assert lines[-1].name == "29 others"
    assert sum(line.values[0] or 0 for line in lines) == pytest.approx(sum(0.01 * number for number in range(40)))
    assert any("the other lines are added up" in note for note in view.notes)


def test_rows_beyond_the_limit_are_counted(report: RunReport) -> None:
    waits = WaitMetrics(1, 1.0, 1.0, 1.0, 1.0, 1.0, None, 1.0, 1.0, 1.0)
    many = {f"user-{number}": waits for number in range(5_000)}
    wide = msgspec.structs.replace(report, metrics=msgspec.structs.replace(report.metrics, by_namespace=many))
    table = next(table for table in report_view([wide]).runs[0].waits if table.by == "namespace")
    assert (len(table.rows), table.more) == (run_report.MAX_GROUPS, 5_000 - run_report.MAX_GROUPS)


def test_pods_of_a_job_that_start_and_end_together_are_one_bar(report: RunReport) -> None:
    bars = [Bar("n", "t/j", "q", 0, 10_000_000), Bar("n", "t/j", "q", 0, 10_000_000), Bar("n", "t/k", "q", 0, 5, True)]
    charts = msgspec.structs.replace(report.charts, bars=bars, outages=[Outage("n", 5, 9), Outage("gone", 5, 9)])
    (node,) = report_view([msgspec.structs.replace(report, charts=charts)]).runs[0].timeline
    assert [(span.kind, span.job, span.pods) for span in node.spans] == [
        ("running", "t/j", 2),
        ("evicted", "t/k", 1),
        ("away", "", 0),
    ]


def test_a_timeline_of_too_many_lanes_is_left_out_with_its_reason(report: RunReport) -> None:
    bars = [Bar("n", f"t/j-{number}", "q", 0, 10) for number in range(run_report.MAX_LANES + 1)]
    charts = msgspec.structs.replace(report.charts, bars=bars, outages=[])
    run = report_view([msgspec.structs.replace(report, charts=charts)]).runs[0]
    assert (run.timeline, run.timeline_note) == ([], "The run has too many pods at once to draw each of them.")


def test_labels_have_the_directory_only_where_names_are_equal(report: RunReport) -> None:
    def labels(*policies: str) -> list[str]:
        reports = [msgspec.structs.replace(report, policy=name) for name in policies]
        return [run.label for run in report_view(reports).runs]

    assert labels("default", "new/p.yaml") == ["A: default", "B: p.yaml"]
    assert labels("old/p.yaml", "new/p.yaml") == ["A: old/p.yaml", "B: new/p.yaml"]


def test_compared_rows_that_are_left_out_are_counted() -> None:
    rows = [Difference(f"n{number}", "s", 1.0, 2.0, 1.0, 0.0, True) for number in range(30)]
    view = comparison_view(RunComparison("s", "A", "B", [0], rows[:1], [], rows, [], rows[:10], 25))
    assert [table.title for table in view.tables] == [
        "A against B",
        "Mean wait by namespace (the 20 that change most, of 30)",
        "Wait of jobs that gain (the first 10 of 25)",
    ]
    row = view.tables[0].rows[0]
    assert (row.first, row.second, row.change, row.margin, row.verdict) == ("1s", "2s", "+1s (+100 %)", "", "worse")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0"), (0.25, "0.25s"), (59, "59s"), (60, "1m"), (4620, "1h 17m"), (90000, "1d 1h")]
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
