"""A scrolling list of rows: one row is selected, and stays selected while the rows around it change.

Only visible lines are drawn, so a list of thousands costs no more than a short one. Positions are lines: a row whose
text does not fit beside its cells has it below them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fairway.cli.screen.rows import CUT, STYLES, ScreenList, ScreenRow, fitted, wrapped

GAP = 2
INDENT = 4
MIN_NAME, MIN_CELL = 24, 8
"""Minimum widths of a name and of other cells."""
LINES_BELOW = 4
"""Lines of text below a row; Enter shows the rest."""
SELECTED = Style(reverse=True)
DIM = Style(dim=True)
HEAD = Style(bold=True)
AS_ABOVE = "as above"


class Listing(ScrollView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("enter", "open", show=False),
    ]
    DEFAULT_CSS = """
    Listing { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-color: ansi_bright_black;
        scrollbar-background: ansi_default; }
    """

    class Opened(Message):
        """Enter was pressed on a row."""

        def __init__(self, row: ScreenRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self._shown = ScreenList("", (), frozenset(), (), "")
        self._selected = 0
        self._widths: tuple[int, ...] = ()
        self._ends: list[int] = []
        """The line after each row."""
        self._room = 20
        """The width that the rows are arranged for; the widget may be resized before they are rearranged."""
        self._follows = True
        """Whether the first row stays selected, because the user has selected no other."""

    @property
    def selected(self) -> ScreenRow | None:
        rows = self._shown.rows
        return rows[self._selected] if self._selected < len(rows) else None

    def show(self, shown: ScreenList, *, keep: bool = True) -> None:
        """Show other rows; with `keep`, the selected row stays selected and in place on the screen."""
        before = self.selected
        top = self._line_of(self._selected) - self.scroll_offset.y
        self._shown = shown
        self._follows |= not keep
        self._selected = 0 if self._follows or before is None else self._found_again(before)
        self._arrange()
        line = 0 if self._follows else self._line_of(self._selected) - top
        self.scroll_to(y=max(line, 0), animate=False)
        self._reveal()

    def _found_again(self, before: ScreenRow) -> int:
        rows = self._shown.rows
        found = next((at for at, row in enumerate(rows) if row.key == before.key), self._selected)
        return min(found, max(len(rows) - 1, 0))

    # -- layout --------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        self._room = max(self.size.width - 1, 20)
        self._widths = _widths(self._shown, self._room)
        heights = (self._height(at) for at in range(len(self._shown.rows)))
        self._ends = list(accumulate(heights))
        self.virtual_size = Size(self.size.width, self._ends[-1] if self._ends else 1)
        self.refresh()

    @property
    def _text_at(self) -> int:
        return sum(self._widths) + GAP * len(self._widths)

    def _line_of(self, row: int) -> int:
        return self._ends[row - 1] if 0 < row <= len(self._ends) else 0

    def _is_beside(self, row: ScreenRow) -> bool:
        return cell_len(row.text) <= self._room - self._text_at

    def _repeats(self, at: int) -> bool:
        """Whether a row has the same text as the one above it."""
        if at == 0:
            return False
        row, above = self._shown.rows[at], self._shown.rows[at - 1]
        return bool(row.tag) and (row.tag, row.text) == (above.tag, above.text)

    def _below(self, row: ScreenRow) -> Sequence[str]:
        return wrapped(row.text, self._room - INDENT)

    def _height(self, at: int) -> int:
        row = self._shown.rows[at]
        if self._is_beside(row) or self._repeats(at):
            return 1
        return 1 + min(len(self._below(row)), LINES_BELOW)

    def on_resize(self) -> None:
        self._arrange()
        self._reveal()

    # -- keys ----------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        self._select(self._selected + by)

    def action_page(self, by: int) -> None:
        line = self._line_of(self._selected) + by * max(self.size.height - 1, 1)
        self._select(bisect_right(self._ends, max(line, 0)))

    def action_edge(self, last: int) -> None:
        self._select(last * (len(self._shown.rows) - 1))

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))

    def _select(self, row: int) -> None:
        self._selected = min(max(row, 0), max(len(self._shown.rows) - 1, 0))
        self._follows = self._selected == 0
        self._reveal()
        self.refresh()

    def _reveal(self) -> None:
        if self._ends:
            first, end = self._line_of(self._selected), self._ends[self._selected]
            self.scroll_to_region(Region(0, first, 1, end - first), animate=False, immediate=True, force=True)

    # -- drawing -------------------------------------------------------------------------------------------

    def heading(self) -> Text:
        """The names of the columns, for a fixed line above the list."""
        names = [self._cell(name, at) for at, name in enumerate(self._shown.columns[:-1])]
        return Text((" " * GAP).join([*names, *self._shown.columns[-1:]]), style=HEAD, no_wrap=True, overflow="crop")

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        if not self._shown.rows:
            return self._strip(Text(self._shown.empty if line == 0 else "", style=DIM))
        at = bisect_right(self._ends, line)
        if at >= len(self._shown.rows):
            return Strip.blank(self.size.width)
        inner = line - self._line_of(at)
        text = self._first_line(at) if inner == 0 else self._lower_line(at, inner)
        if at == self._selected and self.has_focus:
            text.pad_right(max(0, self._room - text.cell_len))
            text.stylize(SELECTED)
        return self._strip(text)

    def _strip(self, text: Text) -> Strip:
        width = self.size.width
        return Strip(text.render(self.app.console)).crop(0, width).extend_cell_length(width)

    def _first_line(self, at: int) -> Text:
        row = self._shown.rows[at]
        line = Text(no_wrap=True)
        for place, cell in enumerate(row.cells):
            line.append(self._cell(cell, place), style=STYLES.get(cell, ""))
            line.append(" " * GAP)
        if self._is_beside(row):
            return line.append(row.text, style=DIM)
        if self._repeats(at):
            return line.append(AS_ABOVE, style=DIM)
        return line.append(fitted(row.tag, max(self._room - self._text_at, 1)).rstrip())

    def _lower_line(self, at: int, inner: int) -> Text:
        lines = self._below(self._shown.rows[at])
        more = CUT if inner == LINES_BELOW and len(lines) > LINES_BELOW else ""
        return Text(f"{' ' * INDENT}{lines[inner - 1]}{more}", style=DIM, no_wrap=True)

    def _cell(self, text: str, at: int) -> str:
        width = self._widths[at]
        if self._shown.columns[at] in self._shown.numbers and cell_len(text) < width:
            return " " * (width - cell_len(text)) + text
        return fitted(text, width)


def _widths(shown: ScreenList, room: int) -> tuple[int, ...]:
    """Widths of all columns except the last: each as wide as its longest cell; the widest shrink first."""
    widths = [len(name) for name in shown.columns[:-1]]
    for row in shown.rows:
        for at, cell in enumerate(row.cells):
            size = len(cell) if cell.isascii() else cell_len(cell)
            if size > widths[at]:
                widths[at] = size
    least = [min(width, MIN_NAME if at == 0 else MIN_CELL) for at, width in enumerate(widths)]
    over = sum(widths) + GAP * len(widths) - room * 3 // 4
    while over > 0:
        widest = max(range(len(widths)), key=lambda at: widths[at] - least[at])
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
        over -= 1
    return tuple(widths)
