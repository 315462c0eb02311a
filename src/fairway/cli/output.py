"""How results are printed: tables for people, JSON and YAML for programs, always on standard output.

JSON keeps the order in which it was built and is a contract: keys are added, never renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairway.cli.lazy import Options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "yaml")


def output_option(function: F) -> F:
    """`-o table|json|yaml`, given to the command as `output`."""
    help = "How to print the result."
    choice = click.Choice(FORMATS)
    return click.option("-o", "--output", type=choice, default="table", show_default=True, help=help)(function)


def print_structured(data: Any, output: str) -> None:
    """Print builtins or msgspec structs as `json` or `yaml`."""
    import msgspec

    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = msgspec.to_builtins(data)
    click.echo(yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


def console() -> Console:
    """Where tables go: as wide as the terminal, 80 columns where there is none, colour only if wanted."""
    import os

    from rich.console import Console

    class PipeAware(Console):
        def on_broken_pipe(self) -> None:
            raise  # the pipe error itself: rich would leave with 1, which means that a check failed

    context = click.get_current_context(silent=True)
    options = context.find_object(Options) if context else None
    plain = bool(os.environ.get("NO_COLOR")) or (options is not None and not options.color)
    return PipeAware(color_system=None if plain else "auto", highlight=False, emoji=False, markup=False)


def table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table in the common look; the columns named in `numbers` are set to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made
