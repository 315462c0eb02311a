"""Metrics and log lines of the programs that watch an API server.

`ProgramMetrics` and `RunMetrics` declare what `/metrics` shows: kube-scheduler's names where the meaning is the same,
and our own under `fairway_`. The observers below are told of reading, of requests and of cycles, and count and log
them. Each is called on one thread only, which its docstring names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fairway.api.kinds import Kind, ObjectKey
from fairway.api.pods import Pod
from fairway.app.logs import RunLog
from fairway.clock import SECOND, wall_clock
from fairway.drive import Bind, Change, Evict, title
from fairway.errors import ApiError
from fairway.kube.http import ApiAnswer, ApiRequest
from fairway.kube.reading import UnreadableObject
from fairway.state.events import Deleted, Event
from fairway.state.reader import gates_of_pod

if TYPE_CHECKING:  # the placer of a hub has no use for a scheduler
    from fairway.drive import Cycle

MAX_REMEMBERED = 10_000
"""Unreadable objects that are remembered, so that each is logged once."""
_CYCLE_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ACTIVE, UNSCHEDULABLE, GATED = "active", "unschedulable", "gated"


class TimeSpread(Collector):
    """A histogram with a cheap `observe`, for values of every request. Written on one thread only."""

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
        """For the registry: the cumulative count at each limit."""
        names = [*map(floatToGoString, self._limits), "+Inf"]
        counts = list(zip(names, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(self._name, self._meaning, buckets=counts, sum_value=self._sum)


class Tally(Collector):
    """A labelled counter with a cheap `add`, for every request. Written on one thread only."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str]) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *values: str, number: int = 1) -> None:
        """`values` are label values, in the order of the labels."""
        self._counts[values] = self._counts.get(values, 0) + number

    def counts(self) -> dict[tuple[str, ...], int]:
        """Counts by label values; from any thread."""
        return self._counts.copy()

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, number in self.counts().items():
            family.add_metric(values, number)
        yield family


class ProgramMetrics:
    """Metrics of reading, writing and the lease, which all programs have.

    Counters and gauges may be changed on any thread; tallies and histograms may not.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self.requests = self._tally("fairway_api_requests", "Write requests, by method and status.", "method", "code")
        self.request_seconds = histogram(
            "fairway_api_request_duration_seconds", "Duration of a write request.", _REQUEST_SECONDS
        )
        self.unreadable = counter("fairway_unreadable_objects", "Objects that could not be read, by kind.", "kind")
        self.relists = counter("fairway_relists", "Lists repeated because a watch could not continue.", "kind")
        self.read_failures = counter("fairway_read_failures", "Failed lists and watches.", "kind")
        self.objects = gauge("fairway_listed_objects", "Objects in the last list, by kind.", "kind")
        self.leads = gauge("fairway_leader", "1 if this replica is the leader.")
        self.ready = gauge("fairway_ready", "1 if all kinds have been listed.")
        self.stalls = counter("fairway_stalls", "Times that scheduling stalled for longer than the stall timeout.")
        self.stalled_seconds = gauge(
            "fairway_stalled_seconds", "Time since the last progress while scheduling is stalled, else 0."
        )
        self.events_dropped = gauge(
            "fairway_events_dropped_total", "Events dropped because they could not be written in time."
        )

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
    """The metrics of the scheduler."""

    def __init__(self) -> None:
        super().__init__()
        counter, gauge, histogram, tally = self._counter, self._gauge, self._histogram, self._tally
        # as kube-scheduler
        self.pending_pods = gauge("scheduler_pending_pods", "Pending pods, by kube-scheduler's queue.", "queue")
        self.attempts = tally(
            "scheduler_schedule_attempts", "Pods bound (scheduled) or rejected by the API server (error).", "result"
        )
        self.attempt_seconds = histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time from a decision to the response to its binding.",
            _REQUEST_SECONDS,
        )
        self.victims = counter("scheduler_preemption_victims", "Pods evicted for other pods.")
        # ours
        self.cycles = counter("fairway_cycles", "Scheduling cycles.")
        self.cycle_seconds = histogram(
            "fairway_cycle_duration_seconds", "Duration of a scheduling cycle.", _CYCLE_SECONDS
        )
        self.changes = tally("fairway_changes", "Planned changes, by kind and result.", "kind", "result")
        self.unanswered = gauge("fairway_unanswered_changes", "Changes in flight.")
        self.policy_reloads = counter("fairway_policy_reloads", "Policy reloads, by result.", "result")
        self.shadow = counter(
            "fairway_shadow_differences", "Bindings and evictions in which the shadow policy differs.", "kind"
        )
        self.reservations_refused = gauge("fairway_reservations_refused", "1 if Reservations cannot be written.")
        self.broken_gangs = counter(
            "fairway_broken_gangs", "Gangs evicted because they could not be completed in time."
        )


class ReadingObserver:
    """Observes reflectors; called on the asyncio thread."""

    def __init__(self, log: RunLog, metrics: ProgramMetrics) -> None:
        self._log = log
        self._metrics = metrics
        self._named: set[tuple[str, str]] = set()
        self._absent: set[Kind] = set()

    def listed(self, kind: Kind, count: int, seconds: float) -> None:
        self._absent.discard(kind)
        self._metrics.objects.labels(kind.name).set(count)
        self._log.info("listed", kind=kind.name, version=kind.api_versions[0], objects=count, seconds=f"{seconds:.2f}")

    def not_installed(self, kind: Kind) -> None:
        if kind not in self._absent:
            self._absent.add(kind)
            self._log.info(
                "kind not installed; checking again every minute", kind=kind.name, version=kind.api_versions[0]
            )

    def left_out(self, kind: Kind, unreadable: UnreadableObject) -> None:
        self._metrics.unreadable.labels(kind.name).inc()
        name = title(unreadable.key)
        if (name, unreadable.uid) not in self._named:
            if len(self._named) >= MAX_REMEMBERED:
                self._named.clear()
            self._named.add((name, unreadable.uid))
            self._log.warning("object left out because it cannot be read", object=name, why=unreadable.why)

    def failed(self, kind: Kind, error: ApiError, wait: float) -> None:
        self._metrics.read_failures.labels(kind.name).inc()
        self._log.warning("reading failed", kind=kind.name, error=str(error), again_in=f"{wait:.1f}s")

    def relists(self, kind: Kind, why: str) -> None:
        self._metrics.relists.labels(kind.name).inc()
        self._log.info("listing again", kind=kind.name, why=why)


class LoopObserver:
    """Observes cycles, as a listener of the loop; called on its thread."""

    def __init__(self, log: RunLog, metrics: RunMetrics, *, dry_run: bool) -> None:
        self._log = log
        self._metrics = metrics
        self._dry_run = dry_run

    def applied(self, events: Sequence[Event]) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self._metrics.cycles.inc()
        self._metrics.cycle_seconds.observe(cycle.nanoseconds / 1e9)
        if cycle.changes:
            self.wrote(cycle.changes)

    def wrote(self, changes: Sequence[Change]) -> None:
        """Log changes that are sent, or would be sent in a dry run."""
        if self._log.shows("info" if self._dry_run else "debug"):
            log = self._log.info if self._dry_run else self._log.debug
            for change in changes:
                log("would write" if self._dry_run else "writing", **_fields(change))

    def settled(self, change: Change) -> None:
        self._metrics.changes.add(type(change).__name__, "done")
        if isinstance(change, Bind):
            self._metrics.attempts.add("scheduled")
            self._metrics.attempt_seconds.observe(max(0, wall_clock() - change.at) / SECOND)
        elif isinstance(change, Evict):
            self._metrics.victims.inc()

    def refused(self, change: Change, why: str) -> None:
        self._metrics.changes.add(type(change).__name__, "refused")
        if isinstance(change, Bind):
            self._metrics.attempts.add("error")
        self._log.info("refused", why=why, **_fields(change))


class RequestObserver:
    """Observes write requests; called on the asyncio thread."""

    def __init__(self, metrics: ProgramMetrics) -> None:
        self._metrics = metrics

    def __call__(self, request: ApiRequest, answer: ApiAnswer, seconds: float) -> None:
        self._metrics.requests.add(request.method, str(answer.status))
        self._metrics.request_seconds.observe(seconds)


def _fields(change: Change) -> dict[str, str]:
    fields = {"change": type(change).__name__, "object": title(change.key)}
    if isinstance(change, Bind):
        fields["node"] = change.binding.node
    elif isinstance(change, Evict):
        fields |= {"for": change.eviction.for_, "reason": change.eviction.reason}
    return fields


class PendingPods:
    """Counts pending pods by kube-scheduler's queues: `active` until a cycle has considered them, then `unschedulable`,
    or `gated`. A listener of the loop.
    """

    def __init__(self, scheduler_names: Collection[str]) -> None:
        self._names = frozenset(scheduler_names)
        self._waiting: dict[ObjectKey, str] = {}
        self._active: set[ObjectKey] = set()

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            pod = event.object
            if not isinstance(pod, Pod):
                continue
            key = "Pod", pod.metadata.namespace, pod.metadata.name
            if isinstance(event, Deleted) or not self._waits(pod):
                if self._waiting.pop(key, None) is not None:
                    self._active.discard(key)
            elif gates_of_pod(pod):
                self._waiting[key] = GATED
                self._active.discard(key)
            elif self._waiting.get(key) != UNSCHEDULABLE:
                self._waiting[key] = ACTIVE
                self._active.add(key)

    def decided(self, cycle: Cycle) -> None:
        for key in self._active:
            self._waiting[key] = UNSCHEDULABLE
        self._active.clear()

    def refused(self, change: Change, why: str) -> None:
        """Nothing to do: the pod is reported as pending again."""

    def show(self, gauge: Gauge) -> None:
        """From any thread. Counts may be slightly out of date: the loop continues meanwhile."""
        active, waiting = len(self._active), len(self._waiting)
        gated = sum(queue == GATED for queue in list(self._waiting.values()))
        gauge.labels(ACTIVE).set(active)
        gauge.labels(GATED).set(gated)
        gauge.labels(UNSCHEDULABLE).set(max(0, waiting - active - gated))

    def _waits(self, pod: Pod) -> bool:
        return (
            not pod.spec.node_name
            and pod.spec.scheduler_name in self._names
            and pod.status.phase in ("", "Pending")
            and pod.metadata.deletion_timestamp is None
        )
