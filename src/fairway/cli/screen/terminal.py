"""Output to a terminal that may disappear or stop reading.

Textual writes from a thread with a queue of 30 texts. A write that fails ends that thread, and a write that blocks
(Ctrl-S) stops it. Either way the event loop soon waits for a place in the queue, for good, and no signal stops the
program any more. So the file behind that thread neither raises nor blocks without end:

- Output to a terminal that is gone (a closed window, a lost connection) is discarded. `hung_up` tells.
- Output to a terminal that reads nothing waits until `abandon`, which a signal calls; what is left is then discarded.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

_WAIT = 100
"""Milliseconds between two looks at whether the output was abandoned."""


def hung_up(file: int) -> bool:
    """Whether the terminal of a file descriptor is gone."""
    poll = select.poll()
    poll.register(file, 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


class TerminalOutput:
    """As much of a text file as Textual's writing thread uses."""

    def __init__(self, file: TextIO) -> None:
        self._encoding = file.encoding or "utf-8"
        self._file = file.fileno()
        self._own = -1
        with suppress(OSError):
            # A description of our own: O_NONBLOCK on the shared one would change the terminal of the shell, too.
            self._own = os.open(os.ttyname(self._file), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        self._abandoned = False

    def abandon(self) -> None:
        """Wait for the terminal no longer; from a signal handler."""
        self._abandoned = True

    def fileno(self) -> int:
        return self._file

    def write(self, text: str) -> int:
        left = text.encode(self._encoding, "replace")
        file = self._file if self._own < 0 else self._own
        while left:
            try:
                left = left[os.write(file, left) :]
            except BlockingIOError:
                if self._abandoned:
                    break
                poll = select.poll()
                poll.register(file, select.POLLOUT)
                poll.poll(_WAIT)
            except OSError:  # the terminal is gone
                break
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""


class TerminalDriver(LinuxDriver):
    """Textual's driver with output that cannot stop the program."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        assert self._file is not None, "there is a screen only where all standard streams are open"
        self.output = TerminalOutput(self._file)
        self._file = self.output  # type: ignore[assignment]  # all that the writing thread uses is there
