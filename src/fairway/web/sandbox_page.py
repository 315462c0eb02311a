"""The page of a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fairway.app.live.logs import RunLog
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.app.view.behind import LiveFacts
from fairway.app.view.history_ring import IN_MEMORY, HistoryRing
from fairway.web.loopback import LoopbackPage
from fairway.web.page_log import to_standard_error
from fairway.web.shown import ShownCluster
from fairway.web.sources import sandbox_watch
from fairway.web.worker import WhatIfWorker


class SandboxPage(LoopbackPage):
    """With a history in a file, or in memory."""

    def __init__(
        self,
        sandbox: Sandbox,
        port: int,
        token: str,
        history: str | Path = IN_MEMORY,
        log: Callable[[str], None] = to_standard_error,
    ) -> None:
        """`log` takes lines of the log."""
        ring, watch = HistoryRing(history), sandbox_watch(sandbox)
        watch.drawn = ring.take
        shown = ShownCluster("sandbox", "Sandbox", watch, sandbox=sandbox, history=ring, what_if=WhatIfWorker())
        shown.log = RunLog(write=log)
        shown.lateness = lambda: LiveFacts(unseen=watch.unseen())
        super().__init__(shown, port, token)

    def paced_by(self, runner: Runner) -> None:
        self.shown.pace = runner
