"""`ShownCluster`: what a page shows, wherever it comes from: a sandbox, a live scheduler, or a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.app.view.scheduler_page import NO_FACTS, ProgramFacts
from fairway.app.view.watch import ClusterWatch


@dataclass(slots=True)
class ShownCluster:
    """See the module. Parts that a source does not have are None."""

    kind: Literal["sandbox", "live", "recording"]
    title: str
    watch: ClusterWatch
    facts: Callable[[], ProgramFacts] = field(default=lambda: NO_FACTS)
    sandbox: Sandbox | None = None
    pace: Runner | None = None
