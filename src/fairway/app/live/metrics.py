"""What `/metrics` shows: kube-scheduler's names where they mean the same, ours under `fairway_`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_CYCLE_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class TimeSpread(Collector):
    """A histogram that costs little to add to, as it is for every request. Added to on one thread only."""

    def __init__(self, name: str, meaning: str, buckets: Sequence[float]) -> None:
        self._name = name
        self._meaning = meaning
        self._limits = tuple(buckets)
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._limits, value)] += 1
        self._sum += value

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """For the registry: how many values were at most each limit."""
        names = [*map(floatToGoString, self._limits), "+Inf"]
        counts = list(zip(names, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._meaning, buckets=counts, sum_value=self._sum)


class Tally(Collector):
    """A counter by labels that costs little to add to, as it is for every request. Added to on one thread only."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str]) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *values: str, number: int = 1) -> None:
        """`values` are those of the labels, in their order."""
        self._counts[values] = self._counts.get(values, 0) + number

    def counts(self) -> dict[tuple[str, ...], int]:
        """By the values of the labels; from any thread."""
        return self._counts.copy()

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, number in self.counts().items():
            family.add_metric(values, number)
        yield family


class ProgramMetrics:
    """Of reading, writing and the lease: what all programs have. Counters may be changed on any thread, but for
    tallies and histograms.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self.requests = self._tally(
            "fairway_api_requests", "Requests that write, by method and status.", "method", "code"
        )
        self.request_seconds = histogram(
            "fairway_api_request_duration_seconds", "Time of one request that writes.", _REQUEST_SECONDS
        )
        self.unreadable = counter("fairway_unreadable_objects", "Objects that were left out, by kind.", "kind")
        self.relists = counter("fairway_relists", "Lists made again because a watch could not go on.", "kind")
        self.read_failures = counter("fairway_read_failures", "Lists and watches that failed.", "kind")
        self.objects = gauge("fairway_listed_objects", "Objects in the last list, by kind.", "kind")
        self.leads = gauge("fairway_leader", "1 if this replica decides.")
        self.ready = gauge("fairway_ready", "1 if all kinds were listed.")
        self.stalls = counter("fairway_stalls", "Times that scheduling stood still for longer than the stall timeout.")
        self.stalled_seconds = gauge(
            "fairway_stalled_seconds", "Time since the last progress while scheduling stands still; else 0."
        )
        self.events_dropped = gauge("fairway_events_dropped_total", "Events that were not written for lack of time.")

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self.registry)

    def _tally(self, name: str, meaning: str, *labels: str) -> Tally:
        made = Tally(name, meaning, labels)
        self.registry.register(made)
        return made

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> TimeSpread:
        made = TimeSpread(name, meaning, buckets)
        self.registry.register(made)
        return made


class RunMetrics(ProgramMetrics):
    """Of the scheduler."""

    def __init__(self) -> None:
        super().__init__()
        counter, gauge, histogram, tally = self._counter, self._gauge, self._histogram, self._tally
        # as kube-scheduler
        self.pending_pods = gauge("scheduler_pending_pods", "Pods that wait.", "queue")
        self.attempts = tally(
            "scheduler_schedule_attempts", "Pods bound (scheduled), or refused by the server (error).", "result"
        )
        self.attempt_seconds = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From a decision to the answer to its binding.",
            _REQUEST_SECONDS,
        )
        self.victims = counter("scheduler_preemption_victims", "Pods evicted for others.")
        # ours
        self.cycles = counter("fairway_cycles", "Decisions.")
        self.cycle_seconds = histogram("fairway_cycle_duration_seconds", "Time of one decision.", _CYCLE_SECONDS)
        self.changes = tally(
            "fairway_changes", "Changes of plans, by kind and by what became of them.", "kind", "result"
        )
        self.unanswered = gauge("fairway_unanswered_changes", "Changes that are not answered yet.")
        self.policy_reloads = counter("fairway_policy_reloads", "Policies read, by result.", "result")
        self.shadow = counter("fairway_shadow_differences", "Entries in which the shadow policy differs.", "kind")
        self.reservations_refused = gauge("fairway_reservations_refused", "Whether Reservations cannot be written.")
        self.broken_gangs = counter(
            "fairway_broken_gangs", "Gangs evicted because they could not be completed in time."
        )
