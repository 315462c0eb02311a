"""The page of a sandbox."""

from __future__ import annotations

from pathlib import Path

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.app.view.history_ring import IN_MEMORY, HistoryRing
from fairway.web.loopback import LoopbackPage
from fairway.web.sandbox_actions import SandboxActions
from fairway.web.shown import ShownCluster
from fairway.web.sources import sandbox_watch
from fairway.web.worker import WhatIfWorker


class SandboxPage(LoopbackPage):
    """With a history in a file, or in memory."""

    def __init__(self, sandbox: Sandbox, port: int, token: str, history: str | Path = IN_MEMORY) -> None:
        ring, watch = HistoryRing(history), sandbox_watch(sandbox)
        watch.drawn = ring.take
        shown = ShownCluster("sandbox", "Sandbox", watch, sandbox=sandbox, history=ring, what_if=WhatIfWorker())
        shown.actions = SandboxActions(sandbox)
        super().__init__(shown, port, token)

    def paced_by(self, runner: Runner) -> None:
        self.shown.pace = runner
