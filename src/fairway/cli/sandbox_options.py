"""What the verbs have in common that speak to a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def sandbox_option(function: F) -> F:
    help = "Where the sandbox listens; default the one that was started last."
    return click.option("--sandbox", metavar="URL", envvar="FAIRWAY_SANDBOX", help=help)(function)
