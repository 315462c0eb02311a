"""What the screen needs of that which it shows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from fairway.app.explain import Explanation
from fairway.app.records import FinishedJob
from fairway.app.view.frame import Frame, NodeUse


class WatchedCluster(Protocol):
    """A cluster that can be looked at; methods are called from a thread of the screen's."""

    def frame(self) -> Frame: ...

    def nodes(self) -> Sequence[NodeUse]: ...

    def outcomes(self, last: int) -> Sequence[FinishedJob]: ...

    def explain(self, job: str) -> Explanation: ...


class PaceControl(Protocol):
    """Time that can be held and scaled, as that of a sandbox; a live cluster has none."""

    speed: Fraction
    paused: bool
    failure: Exception | None
    """What ended it."""

    def behind(self) -> str | None:
        """By how much time is behind the demanded speed; None if it is not. It never waits for the cluster."""
