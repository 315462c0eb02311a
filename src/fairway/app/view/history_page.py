"""The pages of the history: series and groups from the ring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fairway.app.view.history_ring import HistoryRing, HistorySample, KeptWait
from fairway.app.view.models.common import SeriesLine, TimeSeries
from fairway.app.view.models.history import HistoryPage, QueueHistory, WaitGroup
from fairway.app.view.picture import Picture
from fairway.clock import SECOND, Micros

SIZES = ((1, "1 pod"), (8, "2-8 pods"), (64, "9-64 pods"), (512, "65-512 pods"), (1 << 60, "more than 512 pods"))
MOST_LINES = 30
"""Lines of one series: those that are largest on average."""

Samples = Sequence[tuple[Micros, HistorySample]]
Values = Callable[[HistorySample], Mapping[str, float]]


def history_page(
    ring: HistoryRing, picture: Picture, start: Micros | None, end: Micros | None, points: int
) -> HistoryPage:
    samples = ring.samples(start, end, points)
    waits = ring.waits(start, end)
    return HistoryPage(
        revision=picture.revision,
        now=picture.now,
        kept=ring.kept(),
        utilisation=_series("Allocated part of the cluster", "share", samples, lambda one: one.utilisation),
        queues=_series("Dominant share of queues", "share", samples, _queue_shares),
        namespaces=_series("Dominant share of namespaces", "share", samples, lambda one: one.namespaces),
        jobs=_series("Jobs", "count", samples, lambda one: {"waiting": one.waiting, "running": one.running}),
        evictions=_differences(_series("Pods evicted", "count", samples, lambda one: one.evictions)),
        waits_by_size=_by_size(waits),
        waits_by_namespace=_by_namespace(waits),
    )


def queue_history(
    ring: HistoryRing, picture: Picture, queue: str, start: Micros | None, end: Micros | None, points: int
) -> QueueHistory:
    samples = ring.samples(start, end, points)

    def of(part: str) -> Values:
        return lambda one: getattr(one.queues[queue], part) if queue in one.queues else {}

    return QueueHistory(
        revision=picture.revision,
        queue=queue,
        allocated=_series("Allocated, as a part of the cluster", "share", samples, of("allocated")),
        deserved=_series("Deserved, as a part of the cluster", "share", samples, of("deserved")),
        namespaces=_series("Weighted share of namespaces", "share", samples, of("namespaces")),
    )


def _queue_shares(one: HistorySample) -> dict[str, float]:
    return {name: queue.share for name, queue in one.queues.items()}


def _series(title: str, unit: str, samples: Samples, values: Values) -> TimeSeries:
    rows = [values(one) for _, one in samples]
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            sums[name] = sums.get(name, 0.0) + value
    names = sorted(sums, key=lambda name: (-sums[name], name))[:MOST_LINES]
    return TimeSeries(
        title=title,
        unit=unit,  # type: ignore[arg-type]
        times=[at / SECOND for at, _ in samples],
        lines=[SeriesLine(name, [row.get(name) for row in rows]) for name in sorted(names)],
    )


def _differences(series: TimeSeries) -> TimeSeries:
    """What came since the time before, of lines that only grow; after a restart they begin again."""
    lines = []
    for line in series.lines:
        values: list[float | None] = []
        last = 0.0
        for value in line.values:
            now = value or 0.0
            values.append(now - last if now >= last else now)
            last = now
        lines.append(SeriesLine(line.name, values))
    return TimeSeries(series.title, series.unit, series.times, lines)


def _by_size(waits: Iterable[KeptWait]) -> list[WaitGroup]:
    found: dict[str, list[float]] = {name: [] for _, name in SIZES}
    for wait in waits:
        found[next(name for most, name in SIZES if wait.pods <= most)].append(wait.seconds)
    return [_group(name, values) for name, values in found.items() if values]


def _by_namespace(waits: Iterable[KeptWait]) -> list[WaitGroup]:
    found: dict[str, list[float]] = {}
    for wait in waits:
        found.setdefault(wait.namespace, []).append(wait.seconds)
    return [_group(name, found[name]) for name in sorted(found)]


def _group(name: str, values: list[float]) -> WaitGroup:
    values.sort()
    count = len(values)
    return WaitGroup(
        name,
        count,
        round(sum(values) / count, 3),
        round(values[count // 2], 3),
        round(values[(count - 1) * 9 // 10], 3),
        round(values[-1], 3),
    )
