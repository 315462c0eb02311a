"""`LogStream`: standard error as a destination that never raises and never blocks.

A log line must not decide whether a scheduler lives. Standard error can be closed, its reader can be gone (`2>&1 | tee`
and Ctrl-C end the reader first), or nobody reads it and the pipe is full; a plain write raises in the first two cases
and blocks for ever in the third, in whichever thread happened to log. So lines go through a bounded queue to a thread
of their own. What does not fit is dropped and counted, and the count is logged once the reader is back.

The thread writes to the descriptor itself: a thread that is blocked inside `sys.stderr` holds the lock of its buffer,
and the interpreter aborts at exit when it cannot get that lock.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

MAX_BYTES = 1 << 20
"""Unwritten lines that are kept; later ones are dropped."""
FLUSH = 1.0
"""Seconds that the last lines of a process have to be written."""


def _dropped_text(number: int) -> str:
    return f"{number} log lines were dropped: standard error was not read in time"


class LogStream:
    """Lines go to the standard error of this process; may be used from any thread and after a fork."""

    def __init__(self) -> None:
        self.describe_dropped: Callable[[int], str] = _dropped_text
        """The line that says how many were dropped, in the form of the log."""
        self.dropped = 0
        """All lines that were dropped so far."""
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.flush)

    def _reset(self) -> None:
        """Threads do not survive a fork, and lines that the parent has queued are the parent's."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._not_said = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, line: str) -> None:
        """Queue a line; the line end is added."""
        descriptor = _descriptor()
        if descriptor is None:
            with suppress(Exception):
                if sys.stderr is not None:
                    sys.stderr.write(f"{line}\n")
            return
        text = f"{line}\n".encode(errors="backslashreplace")
        with self._changed:
            if self._bytes + len(text) > MAX_BYTES:
                self.dropped += 1
                self._not_said += 1
                return
            if self._not_said:
                text = f"{self.describe_dropped(self._not_said)}\n".encode(errors="backslashreplace") + text
                self._not_said = 0
            self._lines.append(text)
            self._bytes += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, args=(descriptor,), name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float = FLUSH) -> bool:
        """Wait until all lines are written; False if some are not after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines, seconds)

    def _write(self, descriptor: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                text = self._lines[0]
            with suppress(OSError):  # closed, or its reader is gone: there is no other place to report it
                while text:
                    text = text[os.write(descriptor, text) :]
            with self._changed:
                self._bytes -= len(self._lines.popleft())
                self._changed.notify_all()


def _descriptor() -> int | None:
    """None where standard error is not a file of the system: closed at the start (its number may belong to a socket by
    now), or replaced by a program that wants to read the lines itself.
    """
    try:
        return None if sys.stderr is None else sys.stderr.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return None


standard_error = LogStream()
