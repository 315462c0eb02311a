"""The one place where text is printed: tables for people, JSON and YAML for programs, errors and warnings.

Names come from files and from other people. A terminal obeys some characters instead of showing them: escape sequences
that set the clipboard or the title, marks that reverse the direction of writing. So everything is printed through this
module, which shows such characters by their number: `\\x1b`, `\\u202e`.

JSON keeps the order in which it was built and is a contract: keys are added, never renamed.

Cells of a table break between words, so that a name is never split, and amounts never break. If the columns do not fit,
the widest shrinks first. If even the longest names do not fit, lines get longer than the terminal: such a table is
harder to read, but can still be copied.

Rich is imported inside the functions that need it: `--help` must not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairway.cli.invocation import Options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Column, Table

    from fairway.app.logs import RunLog


F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")
UNLIMITED = 1 << 20
"""Width of an output that is not a terminal."""
PIECE = 24
"""Minimum width for a long word that is not a name, such as an expression: it may break."""
_NAME = re.compile(r"[\w.,:;/@=+%~()-]*")
_STEPS = ((1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_SECOND = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, invisible marks, other line ends
    "\ud800-\udfff\U000e0000-\U000e0fff]"  # halves of characters, tags
)
_ENDS = {"\n": "\\n", "\t": "\\t"}


def escaped(text: str) -> str:
    """The text, with every character that a terminal would obey or not show replaced by its number."""
    return _OBEYED.sub(_number, text)


def one_line(text: str) -> str:
    """The escaped text on one line: a name with a newline in it could pass for a message of ours."""
    return re.sub("[\n\t]", lambda found: _ENDS[found[0]], escaped(text))


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; with `err`, to standard error, for what is about the run rather than its result."""
    click.echo(escaped(text), err=err, nl=nl)


def log_line(text: str) -> None:
    """Write a log line; never blocks and never raises. Escaped so that JSON stays JSON."""
    from fairway.app.logs import standard_error

    standard_error(_OBEYED.sub(lambda found: json_escape(found[0]), text))


def last_words(text: str, options: Options | None = None) -> None:
    """Write the last message of a program that is stopping to standard error. From here on, no closed, broken or full
    stream delays it.
    """
    from fairway.app.logs import standard_error

    context = click.get_current_context(silent=True)
    options = options or (context.find_object(Options) if context else None)
    if options is not None:
        options.stopped = True
    standard_error(escaped(text))
    standard_error.flush()


def program_log(form: str, level: str) -> RunLog:
    """The log of a long-running program, on standard error."""
    from fairway.app.logs import RunLog, standard_error

    log = RunLog(form, level, write=log_line)
    standard_error.describe_dropped = log.dropped_line
    return log


def warn(text: str) -> None:
    """Print a warning on one line of standard error."""
    echo(f"Warning: {one_line(text)}", err=True)


def output_option(function: F) -> F:
    """`-o table|json|yaml`, given to the command as `output`."""
    help = "Output format."
    choice = click.Choice(FORMATS)
    return click.option("-o", "--output", type=choice, default="table", show_default=True, help=help)(function)


def print_structured(data: Any, output: str) -> None:
    """Print builtins or msgspec structs as `json` or `yaml`."""
    import msgspec

    if output == "json":
        print_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = msgspec.to_builtins(data)
    text = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True)
    if _OBEYED.search(text):
        text = yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=False)
    click.echo(text, nl=False)


def print_json(document: bytes) -> None:
    """Print a JSON document, with JSON escapes for characters that a terminal would obey: the data stay the same."""
    text = document.decode().removesuffix("\n")
    click.echo(_OBEYED.sub(lambda found: json_escape(found[0]), text))


def json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def console(*, err: bool = False) -> Console:
    """Prints tables: as wide as COLUMNS or the terminal, or else without limit; in colour unless disabled."""
    import os
    import sys

    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    class SafeConsole(Console):
        """Escapes texts before they are measured, so that columns stay straight, and again everything that is
        rendered, which is what reaches the terminal.
        """

        def render_str(self, text: str, **rest: Any) -> Any:
            return super().render_str(escaped(text), **rest)

        def render(self, *arguments: Any, **rest: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **rest):
                if segment.control or not _OBEYED.search(segment.text):
                    yield segment
                else:
                    yield Segment(escaped(segment.text), segment.style)

        def print(self, *things: Any, **rest: Any) -> None:
            """Print a table that cannot be as narrow as the terminal as wide as it must be."""
            widest = max((fit(thing, self.width, escaped) for thing in things if isinstance(thing, Table)), default=0)
            before = self._width, self._height
            self._width, self._height = max(widest, self.width), self.height
            try:
                super().print(*things, **rest)
            finally:
                self._width, self._height = before

        def on_broken_pipe(self) -> None:
            raise  # the pipe error itself: rich would exit with 1, which means that a check failed

    context = click.get_current_context(silent=True)
    options = context.find_object(Options) if context else None
    plain = bool(os.environ.get("NO_COLOR")) or (options is not None and not options.color)
    color = None if plain else "auto"
    terminal = (sys.stderr if err else sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return SafeConsole(
        color_system=color,  # type: ignore[arg-type]
        highlight=False,
        emoji=False,
        markup=False,
        stderr=err,
        width=None if terminal else UNLIMITED,
    )


def amount_text(allocated: str, reserved: str = "0") -> str:
    """`18`, or `18 allocated + 16 reserved` if something is reserved."""
    return allocated if reserved == "0" else f"{allocated} allocated + {reserved} reserved"


def table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table in the common style; the columns named in `numbers` are right-aligned."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


# -- widths of columns ---------------------------------------------------------------------------------------


def fit(table: Table, width: int, shown: Callable[[str], str]) -> int:
    """Set the widths of the columns so that the table has at most `width`, if its names allow that; returns its width.

    `shown` converts a text to what will be printed.
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
    """Widths within the (min, max) range of each column: `max` if all fit, otherwise the widest shrink first."""

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
    """The width that a column of amounts needs: `1h 30m` stays on one line, as a name does."""
    from rich.cells import cell_len

    cells = column.cells if column.justify == "right" else ()
    return max([column.min_width or 0, *(cell_len(shown(_plain(cell))) for cell in cells)])


def _range(cells: Sequence[object], least: int, shown: Callable[[str], str]) -> tuple[int, int]:
    """The widths of the longest name and of the longest line."""
    from rich.cells import cell_len

    lines = [line for cell in cells for line in shown(_plain(cell)).split("\n")]
    longest = max((_least(word) for line in lines for word in line.split()), default=0)
    return max(least, longest), max(least, *(cell_len(line) for line in lines))


def _plain(cell: object) -> str:
    from rich.text import Text

    return cell.plain if isinstance(cell, Text) else str(cell)


def _least(word: str) -> int:
    from rich.cells import cell_len

    return cell_len(word) if _NAME.fullmatch(word) else min(cell_len(word), PIECE)


# -- amounts and times ---------------------------------------------------------------------------------------


def readable(name: str, text: str) -> str:
    """An amount for people: `62.8Gi` for `65843172Ki` of memory, `3.9` for `3900m` of cpu."""
    from fairway.errors import InputError
    from fairway.resources.quantity import AmountUnit, parse_amount, unit_of

    try:
        amount = parse_amount(name, text)
    except InputError:
        return text
    unit = unit_of(name)
    if unit is AmountUnit.BYTE:
        size, suffix = next(((size, suffix) for size, suffix in _STEPS if amount >= size), (1, ""))
        return f"{_short(amount / size)}{suffix}"
    return _short(amount / 1000) if unit is AmountUnit.MILLI else text


def _short(number: float) -> str:
    """At most three significant digits; whole numbers in full."""
    text = f"{number:.0f}" if number >= 100 else f"{number:.3g}"
    return text if "e" not in text else f"{number:.6f}".rstrip("0").rstrip(".")


def age(span: int) -> str:
    """A duration in its largest unit, or in two if the number is small: `45s`, `3m20s`, `95m`, `5h`, `2d4h`, `40d`."""
    seconds = max(span, 0) // _SECOND
    for place, (size, unit) in enumerate(_UNITS):
        if seconds >= 2 * size or size == 1:
            whole, rest = divmod(seconds, size)
            if whole >= 10 or size == 1:
                return f"{whole}{unit}"
            lower, name = _UNITS[place + 1]
            return f"{whole}{unit}" + (f"{rest // lower}{name}" if rest // lower else "")
    raise AssertionError
