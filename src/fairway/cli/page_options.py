"""Options of the page of a live cluster, the same in `fairway run` and `fairway web`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--web-access",
        type=click.Choice(["auto", "token", "cluster"]),
        help="How users sign in: with one shared token, or with their cluster tokens. `auto` uses `token` on a "
        "loopback address and `cluster` elsewhere.  [default: auto]",
    ),
    click.option(
        "--web-hosts", metavar="NAMES", help="Comma-separated host names that the page accepts. Defaults to any."
    ),
    click.option("--web-cert", metavar="FILE", help="TLS certificate of the page, reloaded when it changes."),
    click.option("--web-key", metavar="FILE", help="Private key of the TLS certificate."),
    click.option(
        "--allow-actions",
        is_flag=True,
        default=None,
        help="Allow actions on the page, with each user's own permissions.",
    ),
    click.option(
        "--web-history", metavar="FILE", help="File for the page's history. Defaults to keeping it in memory."
    ),
)


def page_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
