"""Series over time from a recorder's snapshots: means between two of them, few enough that a report can be mailed.

Snapshots hold running sums, so that any of them can be left out and the means over what remains stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fairway.clock import SECOND
from fairway.sim.metrics import MetricsRecorder
from fairway.sim.metrics.recorder import BILLION, WANTED, UsageSnapshot
from fairway.sim.metrics.tenants import ONE
from fairway.sim.node_timeline import NodeTimeline, ReservationSpan
from fairway.sim.report.model import Charts, NamespaceSeries

MAX_NAMESPACES = 12
MAX_RESERVATIONS = 16
_DIGITS = 5


def charts_of(recorder: MetricsRecorder, timeline: NodeTimeline) -> Charts:
    """The charts of a finished run."""
    snapshots = _thinned(recorder.timeline.snapshots)
    series = _Series(snapshots, recorder.sum_columns, recorder.stand_columns, recorder.start)
    names = [name for name in recorder.sum_columns if name.startswith("namespace/")]
    services = {name: series.last_sum(name) for name in names}
    shown = sorted(names, key=lambda name: (-services[name], name))[:MAX_NAMESPACES]
    return Charts(
        times=series.times,
        queues={queue: series.mean(f"queue/{queue}", ONE) for queue in sorted(recorder.queues)},
        used={name: series.part(f"used/{name}", f"capacity/{name}") for name in recorder.resources},
        namespaces={
            name.removeprefix("namespace/"): NamespaceSeries(series.mean(name, ONE), series.stood(name, ONE))
            for name in shown
        },
        more_namespaces=len(names) - len(shown),
        waiting=series.stood("waiting"),
        starving=series.stood("starving"),
        reserved=series.stood("reserved"),
        evictions=series.growth("evictions"),
        fragmentation=[round(part / BILLION, _DIGITS) for part in series.ratio("idle", "backlogged")],
        bars=timeline.bars if timeline.complete else (),
        reservations=_longest(timeline.reservations),
        outages=timeline.outages,
    )


def usage_series(recorder: MetricsRecorder) -> tuple[list[float], dict[str, list[float]]]:
    """The times, and the utilisation of each resource, of a finished run."""
    snapshots = _thinned(recorder.timeline.snapshots)
    series = _Series(snapshots, recorder.sum_columns, recorder.stand_columns, recorder.start)
    return series.times, {name: series.part(f"used/{name}", f"capacity/{name}") for name in recorder.resources}


def _longest(reservations: Sequence[ReservationSpan]) -> list[ReservationSpan]:
    """The longest ones, ordered by time."""
    longest = sorted(reservations, key=lambda span: (span.start - span.end, span.start, span.job))[:MAX_RESERVATIONS]
    return sorted(longest, key=lambda reservation: (reservation.start, reservation.job))


def _thinned(snapshots: Sequence[UsageSnapshot]) -> Sequence[UsageSnapshot]:
    """About `WANTED` snapshots at most, always including the last one."""
    step = -(-len(snapshots) // WANTED)
    kept = list(snapshots[::step])
    return kept if kept[-1] is snapshots[-1] else [*kept, snapshots[-1]]


class _Series:
    def __init__(
        self, snapshots: Sequence[UsageSnapshot], sums: Sequence[str], stands: Sequence[str], start: int
    ) -> None:
        self._snapshots = snapshots
        self._sums = {name: index for index, name in enumerate(sums)}
        self._stands = {name: index for index, name in enumerate(stands)}
        self.times = [(snapshot.at - start) / SECOND for snapshot in snapshots[1:]]

    def last_sum(self, name: str) -> float:
        return self._sum(self._snapshots[-1], name)

    def mean(self, name: str, unit: int) -> list[float]:
        """The mean between consecutive snapshots of an amount that was integrated over time."""
        return [
            round((self._sum(b, name) - self._sum(a, name)) / (b.at - a.at) / unit, _DIGITS)
            for a, b in pairwise(self._snapshots)
        ]

    def part(self, name: str, of: str) -> list[float]:
        return [round(part, _DIGITS) for part in self.ratio(name, of)]

    def ratio(self, name: str, of: str) -> list[float]:
        """Growth of one sum divided by growth of the other, between consecutive snapshots."""
        ratios = []
        for a, b in pairwise(self._snapshots):
            whole = self._sum(b, of) - self._sum(a, of)
            ratios.append((self._sum(b, name) - self._sum(a, name)) / whole if whole else 0.0)
        return ratios

    def growth(self, name: str) -> list[float]:
        return [self._sum(b, name) - self._sum(a, name) for a, b in pairwise(self._snapshots)]

    def stood(self, name: str, unit: int = 1) -> list[float]:
        index = self._stands[name]
        return [round(s.stands[index] / unit, _DIGITS) if index < len(s.stands) else 0.0 for s in self._snapshots[1:]]

    def _sum(self, snapshot: UsageSnapshot, name: str) -> float:
        index = self._sums[name]
        return snapshot.sums[index] if index < len(snapshot.sums) else 0.0
