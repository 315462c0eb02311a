"""`fairway fleet`: the placer on a real hub.

Wiring only. Placements are decided in `fleet`, and read and written in `kube.hub`; the life of the process, from the
lease to the last write, is that of every `KubeProgram`. This module adds the settings of the placer, its metrics and
log lines, and the connection between the loop and the write queue.
"""

from __future__ import annotations

import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Annotated, Literal
from uuid import uuid4

import msgspec
from msgspec import Meta

from fairway.app.live.observing import ProgramMetrics
from fairway.app.live.program import KubeProgram, LeaderElection, Span
from fairway.app.logs import RunLog
from fairway.clock import SECOND
from fairway.fleet import FleetPlan
from fairway.fleet.rules import Key
from fairway.kube.http import Ending, WriteResult
from fairway.kube.hub import FairTurns, FleetLoop, Publication
from fairway.kube.kinds import FLEET_KINDS
from fairway.kube.reading import Delivery, Feed
from fairway.kube.requests import EventMaker, EventNote, StatusWrite
from fairway.kube.server import Connection
from fairway.kube.writing import Outbox, QueuedWrite, WriteRank

__all__ = ["FleetController", "FleetSettings"]

CONTROLLER = "fairway.dev/fleet"
_DECISION_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class FleetSettings(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Everything that can be set for `fairway fleet`. Durations are in seconds."""

    kubeconfig: str | None = None
    context: str | None = None
    dry_run: bool = False
    min_interval: Span = 0.05
    """Minimum time between two decisions caused by events."""
    connections: Annotated[int, Meta(ge=1, le=1000)] = 32
    """Maximum number of concurrent writes."""
    leader_election: LeaderElection = LeaderElection(name="fairway-fleet")
    stall_timeout: Span = 30.0
    """With work pending and no cycle finished for this long, a warning shows the stack; 0: never."""
    unhealthy_after: Span = 300.0
    """With work pending and no cycle finished for this long, `/healthz` fails; 0: never."""
    http_address: str = ":10260"
    """Address of /healthz, /readyz and /metrics, as `host:port`; "" serves none."""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class FleetMetrics(ProgramMetrics):
    """The metrics of the placer."""

    def __init__(self) -> None:
        super().__init__()
        counter, gauge = self._counter, self._gauge
        self.decisions = counter("fairway_fleet_decisions", "Placements decided.")
        self.decision_seconds = self._histogram(
            "fairway_fleet_decision_duration_seconds",
            "Time to decide the placements that events affected.",
            _DECISION_SECONDS,
        )
        self.moves = counter("fairway_fleet_moves", "Clusters that joined or left a decision.", "move")
        self.publications = counter("fairway_fleet_publications", "Decisions written, by result.", "result")
        self.repairs = counter("fairway_fleet_repairs", "Decisions written again because another program changed them.")
        self.misconfigured = counter("fairway_fleet_misconfigured", "Decisions about misconfigured placements.")
        self.failed = counter("fairway_fleet_failed", "Placements not decided because of an error in Fairway.")
        self.set_aside = gauge("fairway_fleet_clusters_set_aside", "Clusters whose reports cannot be used.")


class FleetWatcher:
    """Logs and counts what the loop does; called on its thread."""

    def __init__(self, log: RunLog, metrics: FleetMetrics, *, dry_run: bool) -> None:
        self._log = log
        self._metrics = metrics
        self._dry_run = dry_run

    def decided(self, plan: FleetPlan, seconds: float) -> None:
        metrics = self._metrics
        metrics.decisions.inc(len(plan.outcomes))
        metrics.decision_seconds.observe(seconds)
        log = self._log.info if self._dry_run else self._log.debug
        shown = self._log.shows("info" if self._dry_run else "debug")
        for outcome in plan.outcomes:
            if outcome.rules.problems:
                metrics.misconfigured.inc()
                self._log.warning("misconfigured", placement=outcome.name, why="; ".join(outcome.rules.problems))
            for move in outcome.moves:
                metrics.moves.labels("joined" if move.joined else "left").inc()
                if shown:
                    log(
                        "joins" if move.joined else "leaves",
                        placement=outcome.name,
                        cluster=move.cluster,
                        score=move.score,
                        reason=move.reason,
                    )

    def published(self, key: Key, ending: Ending) -> None:
        self._metrics.publications.labels(ending.result.value).inc()
        if ending.result is not WriteResult.DONE:
            self._log.warning("decision not written", placement="/".join(key), why=ending.why)

    def repairs(self, key: Key) -> None:
        self._metrics.repairs.inc()
        self._log.warning("decision changed by another program; writing it again", placement="/".join(key))

    def failed(self, key: Key, error: Exception) -> None:
        self._metrics.failed.inc()
        trace = "".join(traceback.format_exception(error))
        self._log.error("placement not decided because of an error in Fairway", placement="/".join(key), why=trace)

    def set_aside(self, clusters: int) -> None:
        self._metrics.set_aside.set(clusters)


class FleetController(KubeProgram):
    """The placer of one hub. It is also the world that its loop writes to."""

    kinds = FLEET_KINDS

    def __init__(
        self, settings: FleetSettings, connection: Connection, log: RunLog, *, random: Random | None = None
    ) -> None:
        self._settings = settings
        self.metrics = FleetMetrics()
        self.loop: FleetLoop
        super().__init__(settings, connection, log, self.metrics, random)

    async def _prepare(self) -> None:
        self._versions: dict[str, str] = {}
        self._dropped = 0
        self._maker = EventMaker(socket.gethostname(), lambda: uuid4().hex[:16], CONTROLLER)
        self._outbox = Outbox(
            self._sockets,
            self._queue,
            self._courier.send,
            status_failed=lambda key: self.loop.status_failed(key),
            event_failed=self._maker.forget,
            status_rank=WriteRank.RESERVATION,  # the rank of decisions: behind them, statuses would never leave
        )
        self.loop = FleetLoop(
            self._thread,
            self,
            FleetWatcher(self._log, self.metrics, dry_run=self._settings.dry_run),
            versions=self._versions,
            min_interval=int(self._settings.min_interval * SECOND),
            turns=FairTurns(sys.maxsize) if self._settings.dry_run else FairTurns(),  # no write ever ends in a dry run
        )
        self._feed = Feed(FLEET_KINDS, self.loop, self.loop.store, self._listed)

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.api_version:
            self._versions[delivery.kind.name] = delivery.api_version
        super()._deliver(delivery)

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Nothing to do: the loop keeps only what it has read."""

    def _lead_if_complete(self) -> None:
        self.loop.lead(self._complete and self._leads)

    def publish(self, publications: Sequence[Publication]) -> None:
        """Queue all in one call: waking the other thread costs more than handing something over."""
        if not self._settings.dry_run:
            self._sockets.call_soon_threadsafe(self._queue_all, publications, self._deciding_term)

    def statuses(self, writes: Sequence[StatusWrite]) -> None:
        if not self._settings.dry_run:
            self._outbox.statuses(writes)

    def events(self, notes: Sequence[EventNote]) -> None:
        if not self._settings.dry_run:
            self._dropped += len(notes) - self._outbox.events([self._maker.write(note) for note in notes])

    # -- on the asyncio thread -----------------------------------------------------------------------------------

    def _queue_all(self, publications: Sequence[Publication], term: int) -> None:
        """`term` is the leadership term of the decision: by a later one, another replica may have decided."""
        for publication in publications:
            lane, ended = ("PlacementDecisions", *publication.key), partial(self._ended, publication)
            self._queue.add(QueuedWrite(lane, WriteRank.RESERVATION, publication.script, ended, term))

    def _ended(self, publication: Publication, ending: Ending) -> None:
        self._courier.send(partial(self.loop.ended, publication, ending))

    def _metrics_text(self) -> bytes:
        self.metrics.events_dropped.set(self._dropped)
        return super()._metrics_text()
