"""A live scheduler inside the test's own process, on a thread: quick to start, and open to be looked into."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

from fairway.app.live.program import LeaderElection
from fairway.app.live.service import LiveScheduler
from fairway.app.live.settings import RunSettings
from fairway.app.logs import RunLog
from fairway.drive.store import ObjectStore
from fairway.kube.server.kubeconfig import find_connection
from kube.cluster import Cluster, eventually

Prepare = Callable[[LiveScheduler], None]


class Live:
    """`with Live(cluster) as live:`; at its end the scheduler is stopped cleanly, and must have ended with 0."""

    def __init__(
        self, cluster: Cluster, *, user: str = "scheduler", prepare: Prepare = lambda live: None, **settings: Any
    ) -> None:
        chosen = {
            "kubeconfig": str(cluster.plane.kubeconfig(user)),
            "scheduler_names": (cluster.scheduler,),
            "leader_election": LeaderElection(enabled=False),
            "http_address": "127.0.0.1:0",
            "min_interval": 0.01,
            **settings,
        }
        self.settings = RunSettings(**chosen)
        self.lines: list[dict[str, Any]] = []
        log = RunLog("json", "debug", write=lambda line: self.lines.append(msgspec.json.decode(line)))
        self.scheduler = LiveScheduler(self.settings, find_connection(self.settings.kubeconfig), log)
        prepare(self.scheduler)
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def _run(self) -> None:
        self.exit_code = asyncio.run(self.scheduler.run())

    def __enter__(self) -> Live:
        self._thread.start()
        eventually(lambda: self.scheduler.ready.is_set() or not self._thread.is_alive(), "all kinds listed")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            assert self.exit_code == 0

    def stop(self) -> None:
        if self._thread.is_alive():
            self.scheduler._sockets.call_soon_threadsafe(self.scheduler.stop)
            self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def cycles(self) -> int:
        return self.scheduler._scheduler.cycles

    @property
    def store(self) -> ObjectStore:
        return self.scheduler._scheduler.store

    def logged(self, message: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["message"] == message]

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """What a call gives on the deciding thread."""
        found: list[Any] = []
        done = threading.Event()

        def hand_over() -> None:
            found.append(call())
            done.set()

        self.scheduler._thread.hand_over(hand_over)
        assert done.wait(60)
        return found[0]
