"""Log lines of `fairway run`: one line per event, as text for people or as JSON for machines.

log.info("bound", pod="a/p", node="n1")
2026-01-01T00:00:00Z INFO bound pod=a/p node=n1
{"time":"2026-01-01T00:00:00Z","level":"info","message":"bound","pod":"a/p","node":"n1"}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from fairway.clock import Clock, Micros, format_rfc3339, wall_clock

RECENT = 50
LEVELS = ("debug", "info", "warning", "error")


class RunLog:
    """See the module. May be used from any thread; `write` takes a line whole, so that lines do not mix."""

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
        at = self._clock()
        now = format_rfc3339(at)
        if level in ("warning", "error"):
            detail = fields.get("why") or fields.get("error") or ""
            self.recent.append((at, level, f"{message}: {detail}" if detail else message))
        if self._json:
            line = msgspec.json.encode({"time": now, "level": level, "message": message, **fields}).decode()
        else:
            line = " ".join(
                [now, level.upper(), message, *(f"{name}={_text(value)}" for name, value in fields.items())]
            )
        self._write(line.replace("\n", "\\n"))


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    is_plain = text.isprintable() and not any(sign in text for sign in ' "=')
    return text if text and is_plain else msgspec.json.encode(text).decode()
