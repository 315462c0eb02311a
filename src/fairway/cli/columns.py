"""How wide the columns of a table are: cells break between words, so a name is never split, and amounts not at all.

Where the columns do not fit, the widest gives way first. Where even the longest names do not fit, the lines are longer
than the terminal: that reads worse than it copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

UNLIMITED = 1 << 20
"""Columns of an output that is not a terminal."""
PIECE = 24
"""Columns that a long word needs which is not a name, such as an expression: it may go on in the next line."""
_NAME = re.compile(r"[\w.,:;/@=+%~()-]*")


def fit(table: Table, width: int, shown: Callable[[str], str]) -> int:
    """Set the width of each column so that the table has at most `width`, if its names allow it; returns what it has.

    `shown` is a text as it will be printed.
    """
    ranges = [_range([column.header, *column.cells], _amounts(column, shown), shown) for column in table.columns]
    box = 0 if table.box is None else len(table.columns) - 1
    edges = 2 if table.box is not None and table.show_edge else 0
    _, right, _, left = (*table.padding,)
    padding = (left + right) * len(ranges) - (0 if table.pad_edge else left + right)
    free = width - box - edges - padding
    widths = shrunk(ranges, free)
    for column, chosen in zip(table.columns, widths, strict=True):
        column.width = chosen
    return sum(widths) + width - free


def shrunk(ranges: Sequence[tuple[int, int]], free: int) -> list[int]:
    """Widths between (least, most) of each column: all of them `most` if they fit, else the widest smaller first."""

    def capped(cap: int) -> list[int]:
        return [min(most, max(least, cap)) for least, most in ranges]

    low, high = 0, max((most for _, most in ranges), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(capped(middle)) <= free else (low, middle - 1)
    widths, more = capped(low), capped(low + 1)
    left = free - sum(widths)
    for index, wider in enumerate(more):
        if left > 0 and wider > widths[index]:
            widths[index] = wider
            left -= 1
    return widths


def _amounts(column: Column, shown: Callable[[str], str]) -> int:
    """What a column of amounts needs: `1h 30m` stays on one line, as a name does."""
    cells = column.cells if column.justify == "right" else ()
    return max([column.min_width or 0, *(cell_len(shown(_plain(cell))) for cell in cells)])


def _range(cells: Sequence[object], least: int, shown: Callable[[str], str]) -> tuple[int, int]:
    """The longest name and the longest line."""
    lines = [line for cell in cells for line in shown(_plain(cell)).split("\n")]
    longest = max((_least(word) for line in lines for word in line.split()), default=0)
    return max(least, longest), max(least, *(cell_len(line) for line in lines))


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _least(word: str) -> int:
    return cell_len(word) if _NAME.fullmatch(word) else min(cell_len(word), PIECE)
