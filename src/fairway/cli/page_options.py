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
        help="What opens the page: one token, or tokens of the cluster.  [default: auto: by the address]",
    ),
    click.option("--web-hosts", metavar="NAMES", help="Host names that the page answers under; default any."),
    click.option("--web-cert", metavar="FILE", help="Certificate of the page, for TLS; read again when it changes."),
    click.option("--web-key", metavar="FILE", help="Private key of that certificate."),
    click.option(
        "--allow-actions", is_flag=True, default=None, help="Let users act from the page, with their own rights."
    ),
    click.option("--web-history", metavar="FILE", help="Keep the page's history there; default in memory."),
)


def page_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
