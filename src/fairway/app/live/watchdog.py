"""`StallWatchdog`: reports when scheduling stalls, with the stack of the deciding thread and the object it works on.

A process whose deciding thread is stuck looks healthy from outside: it renews its lease, answers probes and keeps its
watches. The watchdog runs on the event loop's thread and inspects the other one. Nothing is recorded for it while a
cycle runs, so it costs the cycle nothing: the object is found in the local variables of the stack.

There are two limits. After the first, it logs a warning with the stack, again each time the stall has doubled, and sets
a metric. After the second, `/healthz` fails, so that the kubelet restarts the pod and a standby takes over.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from fairway.api.meta import ApiStruct, ObjectMeta
from fairway.app.live.observing import ProgramMetrics
from fairway.app.logs import RunLog
from fairway.kube.writing import LoopThread, Stall
from fairway.state.jobs import Job, Task

LOOK = 1.0
"""Seconds between two checks."""
MAX_FRAMES = 12
"""Innermost frames in the log: they are the ones that differ between stalls."""

PAUSED = "waiting for the API server to answer earlier writes"


class StallWatchdog:
    """Limits are in seconds; 0 disables one."""

    def __init__(
        self,
        thread: LoopThread,
        log: RunLog,
        metrics: ProgramMetrics,
        timeout: float,
        unhealthy_after: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._thread = thread
        self._log = log
        self._metrics = metrics
        self._timeout = timeout
        self._unhealthy_after = unhealthy_after
        self._monotonic = monotonic
        self._warned: Stall | None = None
        self._warn_again = 0.0
        self._lasted = 0.0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK, self._timeout / 4 or LOOK))
            self.look()

    def look(self) -> None:
        """Compare the current stall, if any, with the first limit."""
        stall = self._thread.stall()
        if self._warned is not None and stall != self._warned:
            self._log.info("scheduling has resumed", stalled_for=f"{self._lasted:.0f}s")
            self._warned = None
        seconds = 0.0 if stall is None else self._monotonic() - stall.since
        if stall is None or not self._timeout or seconds < self._timeout:
            self._metrics.stalled_seconds.set(0)
            return
        self._metrics.stalled_seconds.set(seconds)
        self._lasted = seconds
        if self._warned is None:
            self._metrics.stalls.inc()
            self._warned, self._warn_again = stall, 0.0
        if seconds >= self._warn_again:
            self._warn_again = 2 * seconds
            self._warn(stall, seconds)

    def _warn(self, stall: Stall, seconds: float) -> None:
        if not stall.is_busy:
            self._log.warning("scheduling is stalled", stalled_for=f"{seconds:.0f}s", doing=PAUSED)
            return
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = "" if frame is None else "".join(traceback.format_stack(frame)[-MAX_FRAMES:])
        about = "" if frame is None else object_in(frame)
        self._log.warning(
            "scheduling is stalled", stalled_for=f"{seconds:.0f}s", object=about or "unknown", stack=stack
        )

    def unhealthy(self) -> str:
        """Why the process should be restarted; "" if it should not."""
        seconds = self._thread.stalled_for()
        if not self._unhealthy_after or seconds < self._unhealthy_after:
            return ""
        return f"scheduling has been stalled for {seconds:.0f} s"


def object_in(frame: FrameType) -> str:
    """The user's object that the innermost frame with one works on: a job, pod, claim or placement; "" if none."""
    for local in _locals_of(frame):
        if isinstance(local, Job):
            return f"job {local.key}"
        if isinstance(local, Task):
            return f"pod {local.key}"
        meta = getattr(local, "metadata", None) if isinstance(local, ApiStruct) else None
        if isinstance(meta, ObjectMeta) and meta.namespace:  # nodes and classes belong to no user
            return f"{type(local).__name__} {meta.namespace}/{meta.name}"
    return ""


def _locals_of(frame: FrameType | None) -> Iterator[object]:
    while frame is not None:
        yield from list(frame.f_locals.values())
        frame = frame.f_back
