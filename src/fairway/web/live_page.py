"""The process that serves the page of a live scheduler, started by `fairway run --web`.

Its first line of standard input says how to serve; the rest is what `app.live.viewer_feed` writes. It ends when that
ends, and its end does not concern the scheduler.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.api.policy import default_policy, parse_policy
from fairway.app.live.logs import RunLog
from fairway.app.stopping import interrupt, stop_signals
from fairway.app.view.history_ring import IN_MEMORY, HistoryRing
from fairway.app.view.mirror import CycleReport, Mirror
from fairway.app.view.scheduler_page import NO_FACTS, ProgramFacts
from fairway.app.view.watch import ClusterWatch
from fairway.clock import wall_clock
from fairway.kube.http.client import ApiClient
from fairway.kube.server.configuration import find_connection
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.events import Deleted, Event, Upserted
from fairway.web.access import Access, LoopbackAccess
from fairway.web.application import application
from fairway.web.cluster_access import ClusterAccess
from fairway.web.cluster_actions import ClusterActions
from fairway.web.fleet_page import HubFleet
from fairway.web.page_log import to_standard_error
from fairway.web.server import PageServer
from fairway.web.shown import ShownCluster
from fairway.web.worker import WhatIfWorker

NICE = 10
"""Where there is not enough of the machine, the scheduler has more of it than its page."""
_STRUCTS: dict[str, Any] = {kind.name: kind.struct for kind in KINDS}


class LivePageSettings(msgspec.Struct, rename="camel"):
    """The first line."""

    host: str
    port: int
    title: str
    token: str = ""
    """On the loopback address: what opens the page. Elsewhere the API server knows the tokens."""
    hosts: list[str] = msgspec.field(default_factory=list)
    """Names that requests may be made under where the API server knows the tokens; [] is any."""
    scheduler_names: list[str] = msgspec.field(default_factory=list)
    kubeconfig: str | None = None
    context: str | None = None
    allow_actions: bool = False
    history: str = IN_MEMORY
    hub: str | None = None
    """The kubeconfig of a hub, for the view of the fleet."""
    log_format: str = "text"
    log_level: str = "info"


class FeedLine(msgspec.Struct):
    upsert: str = ""
    delete: str = ""
    object: msgspec.Raw = msgspec.Raw()
    at: int | None = None
    cycle: CycleReport | None = None
    policy: str = ""
    facts: ProgramFacts | None = None


class LivePage:
    """Feeds a watch, and serves it."""

    def __init__(self, settings: LivePageSettings) -> None:
        policy = default_policy(default_registry().catalog)
        self.watch = ClusterWatch(Mirror(policy, wall_clock(), settings.scheduler_names or None), wall_clock)
        history = HistoryRing(settings.history)
        self.watch.drawn = history.take
        self._facts = NO_FACTS
        self.shown = ShownCluster(
            "live",
            settings.title,
            self.watch,
            facts=lambda: self._facts,
            history=history,
            what_if=WhatIfWorker(),
            fleet=None if settings.hub is None else HubFleet(settings.hub).page,
            log=RunLog(settings.log_format, settings.log_level, write=to_standard_error),
        )
        self._client: ApiClient | None = None
        access = self._access(settings)
        self._site = application(self.shown, access, self._hosts(settings))
        self.server = PageServer(self._site.app, settings.port, self.shown.log, settings.host)
        if isinstance(access, LoopbackAccess):
            access.port = self.server.port
        self._events: list[Event] = []
        self._decoder = msgspec.json.Decoder(FeedLine)

    def _access(self, settings: LivePageSettings) -> Access:
        """A loopback page has one user, and so no tokens to act with."""
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
        line = self._decoder.decode(text)
        if line.upsert:
            self._events.append(Upserted(_object(line.upsert, line.object)))
        elif line.delete:
            self._events.append(Deleted(_object(line.delete, line.object)))
        elif line.at is not None:
            events, self._events = self._events, []
            self.watch.applied_at(events, line.at)
        elif line.cycle is not None:
            self.watch.report(line.cycle)
        elif line.policy:
            self.watch.use(parse_policy(line.policy, "the policy in force", default_registry().catalog))
        elif line.facts is not None:
            self._facts = line.facts


def _object(kind: str, raw: msgspec.Raw) -> ApiObject:
    found: ApiObject = msgspec.json.decode(raw, type=_STRUCTS[kind])
    return found


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def main() -> None:
    os.nice(NICE)
    with stop_signals(interrupt), suppress(KeyboardInterrupt):
        _serve()


def _serve() -> None:
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=LivePageSettings)
    page = LivePage(settings)
    page.start()
    try:
        for line in sys.stdin.buffer:
            page.take(line)
    finally:
        page.stop()


if __name__ == "__main__":
    main()
