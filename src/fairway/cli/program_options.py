"""Options that several long-running programs share (`run`, `fleet`, `agent`, `web`), and flags as settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Decorator = Callable[[Command], Command]


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator for several options, which `--help` lists in this order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def connection_options(where: str) -> Callable[[Any], Any]:
    """`where` is the cluster or the hub that the program connects to."""
    return _together(
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help=f"Kubeconfig of the {where}. Defaults to $KUBECONFIG, then to the pod's service account.",
        ),
        click.option("--context", metavar="NAME", help="Kubeconfig context. Defaults to the current one."),
    )


def lease_options(name: str) -> Callable[[Any], Any]:
    """`name` is the default name of the lease."""
    return _together(
        click.option(
            "--leader-elect/--no-leader-elect",
            default=None,
            help="Decide only while holding the lease.  [default: leader-elect]",
        ),
        click.option(
            "--lease-namespace",
            metavar="NAME",
            help="Namespace of the lease. Defaults to that of the service account or the context.",
        ),
        click.option("--lease-name", metavar="NAME", help=f"Name of the lease.  [default: {name}]"),
    )


stall_options = _together(
    click.option(
        "--stall-timeout",
        type=float,
        metavar="SECONDS",
        help="Warn if work is pending and no cycle has finished for this long.  [default: 30; 0: never]",
    ),
    click.option(
        "--unhealthy-after",
        type=float,
        metavar="SECONDS",
        help="Fail /healthz if work is pending and no cycle has finished for this long.  [default: 300; 0: never]",
    ),
)

log_options = _together(
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Format of log lines on standard error.  [default: text]",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="Minimum level of log lines.  [default: info]",
    ),
)

page_options = _together(
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

_NESTED = {
    "leader_elect": "leaderElection.enabled",
    "lease_namespace": "leaderElection.namespace",
    "lease_name": "leaderElection.name",
}


def given_settings(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were used, by the names that settings have in a file; a dot separates nested names."""
    return {_NESTED.get(name, _camel(name)): value for name, value in flags.items() if value is not None}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
