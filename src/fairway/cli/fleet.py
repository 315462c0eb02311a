"""`fairway fleet`: the placer on a real hub."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import click

from fairway.cli.output import program_log


@click.command(
    epilog="""\b
Examples:
  fairway fleet --context hub --dry-run     decide, write nothing
  fairway fleet                             in a pod on the hub
  fairway install fleet | kubectl apply -f -"""
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the hub. Defaults to $KUBECONFIG, then to the pod's service account.",
)
@click.option("--context", metavar="NAME", help="Kubeconfig context. Defaults to the current one.")
@click.option(
    "--dry-run", is_flag=True, default=None, help="Log what would be written to the cluster instead of writing it."
)
@click.option(
    "--min-interval", type=float, metavar="SECONDS", help="Minimum time between two decisions.  [default: 0.05]"
)
@click.option("--connections", type=int, metavar="N", help="Maximum number of concurrent writes.  [default: 32]")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Decide only while holding the lease.  [default: leader-elect]",
)
@click.option(
    "--lease-namespace",
    metavar="NAME",
    help="Namespace of the lease. Defaults to that of the service account or the context.",
)
@click.option("--lease-name", metavar="NAME", help="Name of the lease.  [default: fairway-fleet]")
@click.option(
    "--stall-timeout",
    type=float,
    metavar="SECONDS",
    help="Warn if work is pending and no cycle has finished for this long.  [default: 30; 0: never]",
)
@click.option(
    "--unhealthy-after",
    type=float,
    metavar="SECONDS",
    help="Fail /healthz if work is pending and no cycle has finished for this long.  [default: 300; 0: never]",
)
@click.option(
    "--http-address", metavar="HOST:PORT", help="Address that serves /healthz, /readyz and /metrics.  [default: :10260]"
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="Format of log lines on standard error.  [default: text]"
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Minimum level of log lines.  [default: info]",
)
def command(**flags: Any) -> None:
    """Run the fleet placer on a hub: watch it, select clusters for Placements, and write PlacementDecisions."""
    gc.disable()  # all that is imported stays; the program turns it on again, with limits of its own

    import msgspec

    from fairway.errors import InputError

    try:
        from fairway.app.hub.service import FleetController
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[kube]'") from None
    from fairway.app.hub.settings import FleetSettings
    from fairway.kube.server.kubeconfig import find_connection

    try:
        settings = msgspec.convert(_given(flags), FleetSettings, str_keys=True)
    except msgspec.ValidationError as error:
        raise InputError(f"flags: {error}") from None
    connection = find_connection(settings.kubeconfig, settings.context)
    log = program_log(settings.log_format, settings.log_level)
    click.get_current_context().exit(asyncio.run(FleetController(settings, connection, log).run()))


_LEASE = {"leader_elect": "enabled", "lease_namespace": "namespace", "lease_name": "name"}


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, by the names of the settings."""
    given: dict[str, Any] = {}
    lease: dict[str, Any] = {"name": "fairway-fleet"}
    for name, value in flags.items():
        if value is None:
            continue
        if name in _LEASE:
            lease[_LEASE[name]] = value
        else:
            first, *rest = name.split("_")
            given[first + "".join(part.capitalize() for part in rest)] = value
    return {**given, "leaderElection": lease}
