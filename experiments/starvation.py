"""What reserving does for a big gang among a stream of small jobs, and what it costs them: a table and a picture.

python -m experiments starvation            writes docs/images/big-gang.svg
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from experiments.gang_bound import mean_wait, small_jobs
from experiments.plot import WIDTH, PlotFrame, area, axes
from fairway.clock import SECOND, Micros
from fairway.sim.parallel import RunTask, run_all, run_task
from fairway.sim.report import RunComparison, RunReport, compare

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "scenarios"
POLICIES = ("no-reserve.yaml", "reserve-after-half-an-hour.yaml")
TITLES = ("Without reserve", "With reserve after half an hour")
GANG_MINUTES = 57.5
"""The gang waits at most this long: 52 minutes, which is what a reservation of everything gave, and a tenth more."""

SMALL_MINUTES = 16
"""Minutes by which the mean wait of the small jobs may rise: what is reached (15.6), rounded up."""

WISHED_MINUTES = 5
"""What was asked for. It is missed, and by a scheduler that knows every run time as well (`known_run_times`)."""

SLOTS = 320
"""Small jobs that the cluster takes at once; beside the gang half of them."""

GANG_ARRIVES: Micros = 30 * 60 * SECOND
GANG_RUNS: Micros = 60 * 60 * SECOND
CAPACITY = {"cpu": 40 * 16 * 1000, "memory": 40 * 64 * 1024**3 * 1000}

PICTURE = ROOT / "docs" / "images" / "big-gang.svg"
_STYLE = """
svg{font:12px system-ui,sans-serif;--ink:#1d2129;--soft:#667080;--rule:#dfe2e7;--c0:#2f6fb3;--c1:#e39a1f}
@media (prefers-color-scheme:dark){svg{--ink:#e6e9ee;--soft:#97a1b0;--rule:#39404c;--c0:#5b9bdd;--c1:#f0b04a}}
.tick{fill:var(--soft)}.title{fill:var(--ink);font-weight:600}.grid{stroke:var(--rule)}.area{opacity:.8}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.cursor{display:none}
"""


def compared(seeds: int = 3) -> tuple[RunComparison, Sequence[RunReport]]:
    """The comparison, and the first run under each policy."""
    path = FOLDER / "big-gang.yaml"
    tasks = [
        RunTask(str(path), path.read_text(), name, (FOLDER / name).read_text(), seed)
        for name in POLICIES
        for seed in range(seeds)
    ]
    reports = list(run_all(tasks, run_task))
    return compare(reports[:seeds], reports[seeds:]), (reports[0], reports[seeds])


def known_run_times(seeds: int = 3) -> tuple[float, float]:
    """Minutes by which the mean wait of the small jobs rises if all run times are known and the gang starts as late as
    it may: in the order of submission, and the shortest first.
    """
    begin = GANG_ARRIVES + round(GANG_MINUTES * 60 * SECOND)
    rises: list[tuple[float, ...]] = []
    for seed in range(seeds):
        jobs = small_jobs(FOLDER / "big-gang.yaml", "small", seed, CAPACITY)
        alone = mean_wait(jobs, SLOTS)
        gang = (begin, begin + GANG_RUNS)
        waits = (mean_wait(jobs, SLOTS, SLOTS // 2, gang, shortest=shortest) for shortest in (False, True))
        rises.append(tuple(wait - alone for wait in waits))
    in_order, shortest = (sum(column) / seeds / 60 for column in zip(*rises, strict=True))
    return in_order, shortest


def picture(reports: Sequence[RunReport]) -> str:
    """Allocations of each queue over time, one panel per policy, on one time scale."""
    end = max(report.charts.times[-1] for report in reports)
    height, gap = 190, 34
    parts = []
    for index, (title, report) in enumerate(zip(TITLES, reports, strict=True)):
        top = index * (height + gap)
        parts.append(f'<text class="title" x="52" y="{top + 18}">{escape(title)}</text>')
        parts.append(f'<svg y="{top + 24}" width="{WIDTH}" height="{height}">{_panel(report, end, height)}</svg>')
    bottom = len(reports) * (height + gap)
    legend = "".join(
        f'<rect class="c{index}" x="{52 + 150 * index}" y="{bottom + 2}" width="10" height="10"/>'
        f'<text class="tick" x="{68 + 150 * index}" y="{bottom + 11}">{name}</text>'
        for index, name in enumerate(("the gang", "the small jobs"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 20}"><style>{_STYLE}</style>'
        f"{''.join(parts)}{legend}</svg>\n"
    )


def _panel(report: RunReport, end: float, height: int) -> str:
    charts, frame = report.charts, PlotFrame(height, end, 1.0)
    low, body = [0.0] * len(charts.times), []
    for index, queue in enumerate(("gangs", "stream")):
        high = [a + b for a, b in zip(low, charts.queues[queue], strict=True)]
        body.append(area(frame, charts.times, low, high, f"area c{index}"))
        low = high
    return axes(frame) + "".join(body)
