"""How long-running programs stop: the first SIGINT or SIGTERM requests a clean stop, the second exits at once.

The handlers are Python's own, not those of an event loop. An event loop runs its handlers when it gets round to them,
and the second signal is for programs that do not get there: one whose last message blocks on a full pipe, or whose API
server does not answer while the lease is released.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

Stop = Callable[[], object]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _StopHandler:
    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.before_exit: Stop = lambda: None
        self._is_stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            with suppress(Exception):
                self.before_exit()
            os._exit(128 + number)
        self._is_stopping = True
        self.stop()


def interrupt() -> None:
    """A `stop` for programs without an event loop: interrupts the main thread."""
    raise KeyboardInterrupt


@contextmanager
def stop_signals(stop: Stop, before_exit: Stop | None = None) -> Iterator[None]:
    """Call `stop` at the first signal, between two instructions of the main thread; it must not block.

    `before_exit` runs before the second signal ends the process, for what cannot be repaired afterwards, such as the
    mode of the terminal. Nested uses share one count of signals, so that a program can stop differently while it shows
    a screen. It has no effect outside the main thread, which is the only one that receives signals.
    """
    outer = signal.getsignal(signal.SIGTERM)
    if isinstance(outer, _StopHandler):
        saved = outer.stop, outer.before_exit
        outer.stop, outer.before_exit = stop, before_exit or outer.before_exit
        try:
            yield
        finally:
            outer.stop, outer.before_exit = saved
        return
    handler = _StopHandler(stop)
    if before_exit is not None:
        handler.before_exit = before_exit
    before = {}
    try:
        for number in _SIGNALS:
            before[number] = signal.signal(number, handler)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


async def finished_before_stop(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Whether the work finished; it is cancelled if `stop` is set first. For a start that waits for an API server."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        await working
        return True
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
