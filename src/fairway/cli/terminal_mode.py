"""Puts a terminal back as it was, for a process that is ended while a screen is drawn on it."""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Callable

LEAVE = b"\x1b[?2004l\x1b[?1004l\x1b[?25h\x1b[?1049l"
"""No bracketed paste, no focus reports, a visible cursor, and the screen that was there before."""


def restorer() -> Callable[[], None]:
    """Remembers the mode of the terminal now; the call restores it without waiting for anything."""
    terminal = sys.stdin.fileno()
    mode = termios.tcgetattr(terminal)

    def restore() -> None:
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        if select.select([], [terminal], [], 0)[1]:  # output may be stopped with Ctrl-S
            os.write(terminal, LEAVE)

    return restore
