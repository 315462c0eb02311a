"""The one place where text is printed: tables for people, JSON and YAML for programs, errors and warnings.

Names come from files and from other people. A terminal obeys some characters instead of showing them: escape sequences
that set the clipboard or the title, marks that turn the direction of writing round. So whatever is printed goes through
here, where such characters are shown by their number: `\\x1b`, `\\u202e`.

JSON keeps the order in which it was built and is a contract: keys are added, never renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairway.cli.lazy import Options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    from fairway.app.live.logs import RunLog

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, invisible marks, other line ends
    "\ud800-\udfff\U000e0000-\U000e0fff]"  # halves of characters, tags
)
_ENDS = {"\n": "\\n", "\t": "\\t"}


def escaped(text: str) -> str:
    """The text with every character that a terminal would obey, or not show, written as its number."""
    return _OBEYED.sub(_number, text)


def one_line(text: str) -> str:
    """The same for what must stay one line: a name with a line end in it could pass for a message of ours."""
    return re.sub("[\n\t]", lambda found: _ENDS[found[0]], escaped(text))


def _number(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, to standard error if it is about the run and not its result."""
    click.echo(escaped(text), err=err, nl=nl)


def log_line(text: str) -> None:
    """A line of a log, which never blocks and never raises. Escaped so that JSON stays JSON."""
    from fairway.app.live.log_stream import standard_error

    standard_error(_OBEYED.sub(lambda found: json_escape(found[0]), text))


def last_words(text: str, options: Options | None = None) -> None:
    """A message of a program that is stopping, to standard error. No stream that is closed, broken or full holds up
    such a program from here on.
    """
    from fairway.app.live.log_stream import standard_error

    context = click.get_current_context(silent=True)
    options = options or (context.find_object(Options) if context else None)
    if options is not None:
        options.stopped = True
    standard_error(escaped(text))
    standard_error.flush()


def program_log(form: str, level: str) -> RunLog:
    """The log of a long-running program, on standard error."""
    from fairway.app.live.log_stream import standard_error
    from fairway.app.live.logs import RunLog

    log = RunLog(form, level, write=log_line)
    standard_error.describe_dropped = log.dropped_line
    return log


def warn(text: str) -> None:
    """A warning, on one line of standard error."""
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
    """A JSON document: what JSON itself lets through is escaped as JSON has it, so it stays the same document."""
    text = document.decode().removesuffix("\n")
    click.echo(_OBEYED.sub(lambda found: json_escape(found[0]), text))


def json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def console(*, err: bool = False) -> Console:
    """Where tables go: as wide as COLUMNS or the terminal says, without limit if neither does; colour if wanted."""
    import os
    import sys

    from rich.console import Console
    from rich.segment import Segment
    from rich.table import Table

    from fairway.cli.columns import UNLIMITED, fit

    class SafeConsole(Console):
        """Escapes what it is given: texts before they are measured, so that columns stay straight, and whatever comes
        out of them, which is what counts.
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
            """A table that cannot be as narrow as the terminal is printed as wide as it must be."""
            widest = max((fit(thing, self.width, escaped) for thing in things if isinstance(thing, Table)), default=0)
            before = self._width, self._height
            self._width, self._height = max(widest, self.width), self.height
            try:
                super().print(*things, **rest)
            finally:
                self._width, self._height = before

        def on_broken_pipe(self) -> None:
            raise  # the pipe error itself: rich would leave with 1, which means that a check failed

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
    """`18`, or where something is set aside `18 allocated + 16 reserved`."""
    return allocated if reserved == "0" else f"{allocated} allocated + {reserved} reserved"


def table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table in the common look; the columns named in `numbers` are set to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made
