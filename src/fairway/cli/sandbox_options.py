"""What the commands that use a sandbox have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairway.cli.output import echo

if TYPE_CHECKING:
    from fairway.app.sandbox.client import Result

F = TypeVar("F", bound=Callable[..., Any])


def sandbox_option(function: F) -> F:
    help = "Where the sandbox listens; default the one that was started last."
    return click.option("--sandbox", metavar="URL", envvar="FAIRWAY_SANDBOX", help=help)(function)


def print_results(results: Sequence[Result]) -> None:
    """One line for each object, and what became of it."""
    for result in results:
        echo(f"{result.object} {result.result}")
