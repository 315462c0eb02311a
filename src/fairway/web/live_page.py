"""The process that serves the page of a live scheduler: a container of its own (`fairway web --feed`), or started by
`fairway run --web`.

It connects to the scheduler's socket and shows what `app.live.viewer_feed` writes there. When that ends, it goes on to
show what it knows, and connects again. Its own end does not concern the scheduler.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread
from typing import Any

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.api.policy import default_policy, parse_policy
from fairway.app.live import FeedHead
from fairway.app.logs import RunLog
from fairway.app.stopping import stop_signals
from fairway.app.view.behind import LiveFacts
from fairway.app.view.history_ring import IN_MEMORY, HistoryRing
from fairway.app.view.mirror import CycleReport, Mirror
from fairway.app.view.scheduler_page import NO_FACTS, ProgramFacts
from fairway.app.view.watch import ClusterWatch
from fairway.clock import wall_clock
from fairway.errors import InputError
from fairway.kube.http import ApiClient
from fairway.kube.server import find_connection
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.events import Deleted, Event, Upserted
from fairway.web.access import Access, LoopbackAccess
from fairway.web.application import application
from fairway.web.cluster_access import ClusterAccess
from fairway.web.cluster_actions import ClusterActions
from fairway.web.connections import ReloadedCertificate
from fairway.web.fleet_page import HubFleet
from fairway.web.page_log import to_standard_error
from fairway.web.server import PageServer
from fairway.web.shown import ShownCluster
from fairway.web.worker import WhatIfWorker

AGAIN = 0.5
"""Seconds between two attempts to reach the scheduler."""
SILENT = 30.0
"""Seconds without a line before reconnecting: the scheduler writes one every few seconds."""
NICE = 10
"""Niceness: on a busy machine the scheduler takes precedence over its page."""
_STRUCTS: dict[str, Any] = {kind.name: kind.struct for kind in KINDS}


class LivePageSettings(msgspec.Struct, rename="camel"):
    """Settings of the page. A scheduler that starts the page sends them as the first line of its standard input."""

    host: str
    port: int
    feed: str = ""
    """The scheduler's socket."""
    token: str = ""
    """Token of a page on the loopback address; elsewhere, the API server reviews tokens."""
    hosts: list[str] = msgspec.field(default_factory=list)
    """Accepted host names with --web-access cluster; [] for any."""
    certificate: str | None = None
    key: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    allow_actions: bool = False
    history: str = IN_MEMORY
    hub: str | None = None
    """Kubeconfig of a hub, for the fleet view."""
    log_format: str = "text"
    log_level: str = "info"
    megabytes: int = 0
    """Memory limit of the process; 0 for none, in a container with its own limit."""


class FeedLine(msgspec.Struct):
    begin: FeedHead | None = None
    whole: bool = False
    upsert: str = ""
    delete: str = ""
    object: msgspec.Raw = msgspec.Raw()
    at: int | None = None
    cycle: CycleReport | None = None
    policy: str = ""
    facts: ProgramFacts | None = None


class LivePage:
    """Feeds a watch and serves its page."""

    def __init__(self, settings: LivePageSettings, head: FeedHead, log: RunLog | None = None) -> None:
        policy = default_policy(default_registry().catalog)
        self.head = head
        self.watch = ClusterWatch(Mirror(policy, wall_clock(), head.scheduler_names or None), wall_clock)
        history = HistoryRing(settings.history)
        self.watch.drawn = history.take
        self._facts = NO_FACTS
        self.shown = ShownCluster(
            "live",
            head.title,
            self.watch,
            facts=lambda: self._facts,
            history=history,
            what_if=WhatIfWorker(),
            fleet=None if settings.hub is None else HubFleet(settings.hub).page,
            log=log or RunLog(settings.log_format, settings.log_level, write=to_standard_error),
        )
        self._client: ApiClient | None = None
        access = self._access(settings)
        self._site = application(self.shown, access, self._hosts(settings))
        certificate = None
        if settings.certificate and settings.key:
            certificate = ReloadedCertificate(settings.certificate, settings.key, self.shown.log)
        self.server = PageServer(self._site.app, settings.port, self.shown.log, settings.host, certificate)
        if isinstance(access, LoopbackAccess):
            access.port = self.server.port
        self.shown.lateness = self._lateness
        self._heard = self._facts_at = self._cycle_at = time.monotonic()
        self._cycle_seconds = 0.0
        self._events: list[Event] = []
        self._decoder = msgspec.json.Decoder(FeedLine)

    def _access(self, settings: LivePageSettings) -> Access:
        """A loopback page has no user tokens to act with."""
        if settings.token:
            return LoopbackAccess(settings.token)
        connection = find_connection(settings.kubeconfig, settings.context)
        if settings.allow_actions:
            self.shown.actions = ClusterActions(connection, self.watch)
        self._client = ApiClient(connection)
        return ClusterAccess(self._client, self._namespaces)

    def _namespaces(self) -> Iterable[str]:
        return {row.namespace for row in self.watch.picture.jobs.rows}

    def _hosts(self, settings: LivePageSettings) -> Callable[[], frozenset[str] | None]:
        if not settings.token:
            given = frozenset(settings.hosts) or None
            return lambda: given
        return lambda: frozenset(
            f"{name}{port}" for name in ("127.0.0.1", "localhost", "[::1]") for port in ("", f":{self.server.port}")
        )

    def start(self) -> None:
        self.watch.start()
        self.server.start()
        if isinstance(self.shown.actions, ClusterActions):
            self.shown.actions.loop = self.server.loop

    def stop(self) -> None:
        if self._client is not None and self.server.loop is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self.server.loop)
        self.server.stop(self._site.hub.stop)
        self.watch.stop()
        if self.shown.history is not None:
            self.shown.history.close()

    def take(self, text: bytes) -> None:
        """A line of the feed."""
        self._heard = time.monotonic()
        line = self._decoder.decode(text)
        if line.begin is not None:  # what was not told to its end is told again
            self._events = []
        elif line.upsert:
            self._events.append(Upserted(_object(line.upsert, line.object)))
        elif line.delete:
            self._events.append(Deleted(_object(line.delete, line.object)))
        elif line.at is not None:
            events, self._events = self._events, []
            if line.whole:
                self.watch.replaced_at([event.object for event in events], line.at)
            else:
                self.watch.applied_at(events, line.at)
        elif line.cycle is not None:
            self._cycle_at, self._cycle_seconds = self._heard, line.cycle.nanoseconds / 1e9
            self.watch.report(line.cycle)
        elif line.policy:
            self.watch.use(parse_policy(line.policy, "the policy in force", default_registry().catalog))
        elif line.facts is not None:
            self._facts, self._facts_at = line.facts, self._heard

    def _lateness(self) -> LiveFacts:
        """Thread-safe."""
        now, stalled = time.monotonic(), self._facts.stalled
        if stalled:
            stalled += now - self._facts_at
        return LiveFacts(
            silent=now - self._heard,
            stalled=stalled,
            cycle=self._cycle_seconds,
            cycle_age=now - self._cycle_at,
            unseen=self.watch.unseen(),
        )


def _object(kind: str, raw: msgspec.Raw) -> ApiObject:
    found: ApiObject = msgspec.json.decode(raw, type=_STRUCTS[kind])
    return found


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class FeedReader:
    """Reads the scheduler's socket, and serves the page from the first line on. `run` returns after `stop`."""

    def __init__(self, settings: LivePageSettings, log: RunLog | None = None) -> None:
        self._settings = settings
        self.log = log or RunLog(settings.log_format, settings.log_level, write=to_standard_error)
        self._is_stopping = False  # not an Event: `stop` may interrupt the very thread that waits for one
        self._feed: socket.socket | None = None
        self._page: LivePage | None = None
        self._was_fed = True

    def stop(self) -> None:
        """Safe in any thread and in signal handlers."""
        self._is_stopping = True
        feed = self._feed
        if feed is not None:
            with suppress(OSError):
                feed.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    self._follow()
                except OSError as error:
                    self._say_unfed(str(error.strerror or error))
                else:
                    self._say_unfed("it closed the connection")
                time.sleep(AGAIN)
        finally:
            if self._page is not None:
                self._page.stop()

    def _stops(self) -> bool:
        return self._is_stopping

    def _say_unfed(self, why: str) -> None:
        if self._was_fed and not self._is_stopping:
            self.log.warning("the scheduler does not feed the page; reconnecting", socket=self._settings.feed, why=why)
        self._was_fed = False

    def _follow(self) -> None:
        """Reads one connection to the scheduler until it ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as feed:
            feed.settimeout(SILENT)
            feed.connect(self._settings.feed)
            self._feed = feed
            if self._is_stopping:
                return
            with feed.makefile("rb") as lines:
                for line in lines:
                    if self._stops():
                        return
                    self._take(line)

    def _take(self, line: bytes) -> None:
        page = self._page
        if page is None:
            head = msgspec.json.decode(line, type=FeedLine).begin
            if head is None:
                return
            page = self._page = LivePage(self._settings, head, self.log)
            page.start()
            self.log.info("the page is served", address=page.server.url, cluster=head.title)
        elif not self._was_fed:
            self.log.info("the scheduler feeds the page again")
        self._was_fed = True
        page.take(line)


def main() -> None:
    """Stops when standard input ends, which the scheduler that started the page holds open."""
    os.nice(NICE)
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=LivePageSettings)
    if settings.megabytes:
        resource.setrlimit(resource.RLIMIT_AS, (settings.megabytes << 20, settings.megabytes << 20))
    reader = FeedReader(settings)

    def wait() -> None:
        sys.stdin.buffer.read()
        reader.stop()

    Thread(target=wait, name="scheduler", daemon=True).start()
    with stop_signals(reader.stop):
        try:
            reader.run()
        except InputError as error:
            reader.log.error("the page cannot be served", why=str(error))
            sys.exit(2)


if __name__ == "__main__":
    main()
