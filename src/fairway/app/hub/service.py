"""`FleetController`: connects the placer's loop to a hub's API server and runs until it is stopped."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from functools import partial
from random import Random
from uuid import uuid4

from fairway.app.hub.observing import FleetMetrics, FleetWatcher
from fairway.app.hub.settings import FleetSettings
from fairway.app.live.logs import RunLog
from fairway.app.live.program import KubeProgram
from fairway.clock import SECOND
from fairway.kube.http.exchange import Ending
from fairway.kube.hub.decisions import Publication
from fairway.kube.hub.loop import FleetLoop
from fairway.kube.hub.turns import FairTurns
from fairway.kube.reading.feed import Feed
from fairway.kube.reading.reflector import Delivery
from fairway.kube.reading.served import FLEET_KINDS
from fairway.kube.requests.events import EventMaker, EventNote
from fairway.kube.requests.statuses import StatusWrite
from fairway.kube.server.connection import Connection
from fairway.kube.writing.outbox import Outbox
from fairway.kube.writing.ready_writes import QueuedWrite, WriteRank

CONTROLLER = "fairway.dev/fleet"


class FleetController(KubeProgram):
    """The placer of one hub. It is also the world of its loop."""

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
            status_rank=WriteRank.RESERVATION,  # in line with decisions: those of others would keep it waiting
        )
        self.loop = FleetLoop(
            self._thread,
            self,
            FleetWatcher(self._log, self.metrics, dry_run=self._settings.dry_run),
            versions=self._versions,
            min_interval=int(self._settings.min_interval * SECOND),
            turns=FairTurns(sys.maxsize) if self._settings.dry_run else FairTurns(),  # in a dry run no write ever ends
        )
        self._feed = Feed(FLEET_KINDS, self.loop, self.loop.store, self._listed)

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.api_version:
            self._versions[delivery.kind.name] = delivery.api_version
        super()._deliver(delivery)

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Nothing is kept but what was read."""

    def _lead_if_complete(self) -> None:
        self.loop.lead(self._complete and self._leads)

    def publish(self, publications: Sequence[Publication]) -> None:
        """All at once: to wake the other thread costs more than to hand something over."""
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
        """`term` is when they were decided: in a later one another replica may have decided meanwhile."""
        for one in publications:
            lane, ended = ("PlacementDecisions", *one.key), partial(self._ended, one)
            self._queue.add(QueuedWrite(lane, WriteRank.RESERVATION, one.script, ended, term))

    def _ended(self, publication: Publication, ending: Ending) -> None:
        self._courier.send(partial(self.loop.ended, publication, ending))

    def _metrics_text(self) -> bytes:
        self.metrics.events_dropped.set(self._dropped)
        return super()._metrics_text()
