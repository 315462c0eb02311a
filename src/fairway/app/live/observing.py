"""What is logged and counted of reading a cluster and of the loop's cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairway.api.kinds import Kind
from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import ProgramMetrics, RunMetrics
from fairway.clock import SECOND, wall_clock
from fairway.drive import Bind, Change, Evict, title
from fairway.errors import ApiError
from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from fairway.kube.reading.decoding import UnreadableObject
from fairway.state.events import Event

if TYPE_CHECKING:  # the placer of a hub has no use for a scheduler
    from fairway.drive import Cycle

MOST_NAMED = 10_000
"""Objects that are remembered as named in the log already."""


class ReadingObserver:
    """Of reflectors: on the asyncio thread."""

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
            self._log.info("not installed, looked for again every minute", kind=kind.name, version=kind.api_versions[0])

    def left_out(self, kind: Kind, unreadable: UnreadableObject) -> None:
        self._metrics.unreadable.labels(kind.name).inc()
        name = title(unreadable.key)
        if (name, unreadable.uid) not in self._named:
            if len(self._named) >= MOST_NAMED:
                self._named.clear()
            self._named.add((name, unreadable.uid))
            self._log.warning("left out: the object cannot be read", object=name, why=unreadable.why)

    def failed(self, kind: Kind, error: ApiError, wait: float) -> None:
        self._metrics.read_failures.labels(kind.name).inc()
        self._log.warning("reading failed", kind=kind.name, error=str(error), again_in=f"{wait:.1f}s")

    def relists(self, kind: Kind, why: str) -> None:
        self._metrics.relists.labels(kind.name).inc()
        self._log.info("listing again", kind=kind.name, why=why)


class LoopObserver:
    """Of the loop: a listener, on its thread."""

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
        """Changes leave, or would leave."""
        if self._log.shows("info" if self._dry_run else "debug"):
            say = self._log.info if self._dry_run else self._log.debug
            for change in changes:
                say("would write" if self._dry_run else "writes", **_fields(change))

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
    """Of requests that write: on the asyncio thread."""

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
