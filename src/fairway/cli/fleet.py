"""`fairway fleet`: the placer on a real hub."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import click

from fairway.cli import inputs
from fairway.cli.output import program_log
from fairway.cli.program_options import connection_options, given_settings, lease_options, log_options, stall_options


@click.command(
    epilog="""\b
Examples:
  fairway fleet --context hub --dry-run     decide, write nothing
  fairway fleet                             in a pod on the hub
  fairway install fleet | kubectl apply -f -"""
)
@connection_options("hub")
@click.option(
    "--dry-run", is_flag=True, default=None, help="Log what would be written to the cluster instead of writing it."
)
@click.option(
    "--min-interval", type=float, metavar="SECONDS", help="Minimum time between two decisions.  [default: 0.05]"
)
@click.option("--connections", type=int, metavar="N", help="Maximum number of concurrent writes.  [default: 32]")
@lease_options("fairway-fleet")
@stall_options
@click.option(
    "--http-address", metavar="HOST:PORT", help="Address that serves /healthz, /readyz and /metrics.  [default: :10260]"
)
@log_options
def command(**flags: Any) -> None:
    """Run the fleet placer on a hub: watch it, select clusters for Placements, and write PlacementDecisions."""
    gc.disable()  # imports are never freed; the program enables it again, with its own thresholds

    import msgspec

    from fairway.errors import InputError

    try:
        from fairway.app.hub import FleetController
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "kube") from None
    from fairway.app.hub import FleetSettings
    from fairway.kube.server import find_connection

    try:
        settings = msgspec.convert(_nested(given_settings(flags)), FleetSettings, str_keys=True)
    except msgspec.ValidationError as error:
        raise InputError(f"flags: {error}") from None
    connection = find_connection(settings.kubeconfig, settings.context)
    log = program_log(settings.log_format, settings.log_level)
    click.get_current_context().exit(asyncio.run(FleetController(settings, connection, log).run()))


def _nested(given: dict[str, Any]) -> dict[str, Any]:
    lease = {name.partition(".")[2]: value for name, value in given.items() if "." in name}
    rest = {name: value for name, value in given.items() if "." not in name}
    return {**rest, "leaderElection": {"name": "fairway-fleet", **lease}}
