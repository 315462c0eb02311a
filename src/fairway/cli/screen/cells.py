"""Text in a number of columns: wide characters count twice, and what a terminal would obey is shown by its number."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len, chop_cells

from fairway.cli.output import one_line

CUT = "…"


@lru_cache(maxsize=65_536)
def clean(text: str) -> str:
    """One line that a terminal only shows."""
    return one_line(text)


def fitted(text: str, width: int) -> str:
    """Exactly `width` columns. Of a name that is too long the middle is left out: its ends tell it from others."""
    size = cell_len(text)
    if size <= width:
        return text + " " * (width - size)
    if width < 8:
        return _padded(_start(text, width - 1) + CUT, width)
    tail = _start(text[::-1], (width - 1) // 3)[::-1]
    return _padded(_start(text, width - 1 - cell_len(tail)) + CUT + tail, width)


@lru_cache(maxsize=4_096)
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """Lines of at most `width` columns, broken between words; a word that is longer goes on in the next line."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, max(width, 2)) or [""]
        lines += full
    return (*lines, line) if line else tuple(lines)


def bar(part: float, width: int) -> str:
    """Filled by a part of one; more than nothing is always to be seen."""
    filled = min(max(round(part * width), 1 if part > 0 else 0), width)
    return "█" * filled + "░" * (width - filled)


def _start(text: str, width: int) -> str:
    return chop_cells(text, width)[0] if text and width > 0 else ""


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cell_len(text))
