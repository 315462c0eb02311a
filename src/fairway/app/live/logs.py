"""Log lines of `fairway run`: one line per event, as text for people or as JSON for machines.

log.info("bound", pod="a/p", node="n1")
2026-01-01T00:00:00Z INFO bound pod=a/p node=n1
{"time":"2026-01-01T00:00:00Z","level":"info","message":"bound","pod":"a/p","node":"n1"}

Logging never raises: a line that cannot be written, or a field that cannot be shown, must not change what the program
does next. A scheduler once logged "stopping" to a broken pipe before it set the flag, and went on binding.
"""

from __future__ import annotations

import json
import logging
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
    """May be used from any thread; `write` takes a whole line, so that lines do not mix."""

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
        """The last warnings and errors: when, which level, and what."""

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
            except Exception:  # a value that JSON has no form for, or half of a character
                line = json.dumps({**head, **{name: _shown(value) for name, value in fields.items()}})
        else:
            words = (f"{name}={_text(_shown(value))}" for name, value in fields.items())
            line = " ".join([now, level.upper(), message, *words])
        return line.replace("\n", "\\n")

    def dropped_line(self, number: int) -> str:
        """The line that stands for so many which were not written."""
        fields = {"lines": number, "why": "standard error was not read in time"}
        return self._line(self._clock(), "warning", "log lines were dropped", fields)


def _shown(value: object) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except Exception as error:
        return f"({type(value).__name__} that cannot be shown: {type(error).__name__})"


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
        say("message of a library", source=record.name, why=record.getMessage(), **fields)


def forward_library_logs(log: RunLog, *names: str) -> None:
    """Warnings of libraries go to the log and nowhere else: Python would print them to standard error, which may be a
    pipe that blocks or a terminal that a screen is drawn on.
    """
    for name in names:
        logger = logging.getLogger(name)
        for handler in [one for one in logger.handlers if isinstance(one, _LibraryHandler)]:
            logger.removeHandler(handler)
        logger.addHandler(_LibraryHandler(log))
        logger.propagate = False
