"""Log lines of the long-running programs: one line per event, as text for people or as JSON for machines.

    log.info("bound", pod="a/p", node="n1")
    2026-01-01T00:00:00Z INFO bound pod=a/p node=n1
    {"time":"2026-01-01T00:00:00Z","level":"info","message":"bound","pod":"a/p","node":"n1"}

`RunLog` never raises: a line that cannot be written, or a field that cannot be formatted, must not change what the
program does next. A scheduler once logged "stopping" to a broken pipe before it set the flag, and went on binding.

`LogStream` is standard error as a destination that neither raises nor blocks. Standard error can be closed, its reader
can be gone (in `2>&1 | tee`, Ctrl-C ends the reader first), or nobody reads it and the pipe is full. A plain write
raises in the first two cases and blocks for ever in the third, in whichever thread happened to log. So lines go through
a bounded queue to a thread of their own; lines that do not fit are dropped and counted, and the count is logged once
the reader is back. That thread writes to the file descriptor directly: a thread blocked inside `sys.stderr` holds the
lock of its buffer, and the interpreter aborts at exit if it cannot get that lock.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from fairway.clock import Clock, Micros, format_rfc3339, wall_clock

RECENT = 50
LEVELS = ("debug", "info", "warning", "error")


class RunLog:
    """May be used from any thread; `write` gets whole lines, so that lines do not mix."""

    def __init__(
        self,
        form: str = "text",
        level: str = "info",
        *,
        write: Callable[[str], None],
        clock: Clock = wall_clock,
    ) -> None:
        self._json = form == "json"
        self._least = LEVELS.index(level)
        self._write = write
        self._clock = clock
        self.recent: deque[tuple[Micros, str, str]] = deque(maxlen=RECENT)
        """The last warnings and errors: time, level and text."""

    def debug(self, message: str, **fields: Any) -> None:
        self._say("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._say("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._say("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._say("error", message, fields)

    def shows(self, level: str) -> bool:
        return LEVELS.index(level) >= self._least

    def _say(self, level: str, message: str, fields: dict[str, Any]) -> None:
        if not self.shows(level):
            return
        with suppress(Exception):
            at = self._clock()
            if level in ("warning", "error"):
                detail = fields.get("why") or fields.get("error") or ""
                self.recent.append((at, level, f"{message}: {detail}" if detail else message))
            self._write(self._line(at, level, message, fields))

    def _line(self, at: Micros, level: str, message: str, fields: dict[str, Any]) -> str:
        now = format_rfc3339(at)
        if self._json:
            head = {"time": now, "level": level, "message": message}
            try:
                line = msgspec.json.encode({**head, **fields}).decode()
            except Exception:  # a value without a JSON form, or a lone surrogate
                line = json.dumps({**head, **{name: _shown(value) for name, value in fields.items()}})
        else:
            words = (f"{name}={_text(_shown(value))}" for name, value in fields.items())
            line = " ".join([now, level.upper(), message, *words])
        return line.replace("\n", "\\n")

    def dropped_line(self, number: int) -> str:
        """The line that reports how many lines were dropped."""
        fields = {"lines": number, "why": "standard error was not read in time"}
        return self._line(self._clock(), "warning", "log lines were dropped", fields)


def _shown(value: object) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except Exception as error:
        return f"({type(value).__name__} that cannot be formatted: {type(error).__name__})"


def _text(text: str) -> str:
    is_plain = text.isprintable() and not any(sign in text for sign in ' "=')
    return text if text and is_plain else json.dumps(text, ensure_ascii=not text.isprintable())


class _LibraryHandler(logging.Handler):
    def __init__(self, log: RunLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        fields = {} if error is None else {"traceback": "".join(traceback.format_exception(error))}
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say("library message", source=record.name, why=record.getMessage(), **fields)


def forward_library_logs(log: RunLog, *names: str) -> None:
    """Send warnings of libraries to the log only. Python would print them to standard error, which may be a pipe that
    blocks or a terminal with a screen on it.
    """
    for name in names:
        logger = logging.getLogger(name)
        for handler in [each for each in logger.handlers if isinstance(each, _LibraryHandler)]:
            logger.removeHandler(handler)
        logger.addHandler(_LibraryHandler(log))
        logger.propagate = False


MAX_BYTES = 1 << 20
"""Maximum size of queued lines; further lines are dropped."""
FLUSH = 1.0
"""Seconds for writing the last lines of a process."""


def _dropped_text(number: int) -> str:
    return f"{number} log lines were dropped: standard error was not read in time"


class LogStream:
    """Writes lines to standard error; may be used from any thread and after a fork."""

    def __init__(self) -> None:
        self.describe_dropped: Callable[[int], str] = _dropped_text
        """Makes the line that reports dropped lines, in the log's format."""
        self.dropped = 0
        """Number of lines dropped so far."""
        self._reset()
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.flush)

    def _reset(self) -> None:
        """Threads do not survive a fork, and lines queued by the parent are written by the parent."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._not_reported = 0
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
                self._not_reported += 1
                return
            if self._not_reported:
                text = f"{self.describe_dropped(self._not_reported)}\n".encode(errors="backslashreplace") + text
                self._not_reported = 0
            self._lines.append(text)
            self._bytes += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, args=(descriptor,), name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float = FLUSH) -> bool:
        """Wait until all lines are written; False if some are not within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines, seconds)

    def _write(self, descriptor: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                text = self._lines[0]
            with suppress(OSError):  # closed, or its reader is gone: nowhere else to report it
                while text:
                    text = text[os.write(descriptor, text) :]
            with self._changed:
                self._bytes -= len(self._lines.popleft())
                self._changed.notify_all()


def _descriptor() -> int | None:
    """None if standard error has no file descriptor: it was closed at the start (its number may belong to a socket by
    now), or was replaced by a program that reads the lines itself.
    """
    try:
        return None if sys.stderr is None else sys.stderr.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return None


standard_error = LogStream()
