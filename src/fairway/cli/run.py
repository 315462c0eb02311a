"""`fairway run`: the scheduler on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import echo, program_log
from fairway.cli.program_options import (
    connection_options,
    given_settings,
    lease_options,
    log_options,
    page_options,
    stall_options,
)

if TYPE_CHECKING:
    from fairway.app.live import RunSettings
    from fairway.app.logs import RunLog


@click.command(
    epilog="""\b
Examples:
  fairway run --kubeconfig ~/.kube/config --dry-run   decide, write nothing
  fairway run --policy policy.yaml                    a policy of your own
  fairway run --scheduler-names volcano               replace Volcano
  fairway run --config run.yaml --log-format json     settings from a file"""
)
@click.option("--config", metavar="FILE", help="Settings file of kind FairwayConfiguration. Flags override it.")
@connection_options("cluster")
@click.option(
    "--scheduler-names",
    metavar="NAMES",
    help="Comma-separated scheduler names; pods with one of them as schedulerName are scheduled.  [default: fairway]",
)
@click.option("--policy", metavar="FILE", help="Policy file, reloaded when it changes.")
@click.option(
    "--policy-config-map",
    metavar="NAMESPACE/NAME",
    help="ConfigMap with the policy under the key policy.yaml, reloaded when it changes.",
)
@click.option(
    "--dry-run", is_flag=True, default=None, help="Log what would be written to the cluster instead of writing it."
)
@click.option(
    "--shadow-policy",
    metavar="FILE",
    help="Also decide with this policy and log where its plans differ; nothing of it is written.",
)
@click.option("--shadow-every", type=int, metavar="N", help="Evaluate the shadow policy only in every Nth cycle.")
@click.option(
    "--min-interval", type=float, metavar="SECONDS", help="Minimum time between two scheduling cycles.  [default: 0.05]"
)
@click.option(
    "--max-in-flight-binds",
    type=int,
    metavar="N",
    help="Maximum number of binds in flight; cycles pause above it.  [default: 2000]",
)
@click.option("--connections", type=int, metavar="N", help="Maximum number of concurrent writes.  [default: 32]")
@click.option(
    "--scheduling-budget",
    type=int,
    metavar="UNITS",
    help="Maximum cost of one namespace per scheduling cycle, in units of about one microsecond; 0 means no limit.  "
    "[default: 6000]",
)
@click.option("--column-memory", type=int, metavar="MIB", help="Maximum memory for cached node scores.  [default: 256]")
@click.option(
    "--gang-bind-timeout", type=float, metavar="SECONDS", help="Maximum time to bind all pods of a gang.  [default: 60]"
)
@click.option(
    "--bind-volumes-timeout",
    type=float,
    metavar="SECONDS",
    help="Maximum time for the volumes of a pod to be bound before it is pending again.  [default: 600]",
)
@lease_options("fairway")
@click.option(
    "--scheduled-events/--no-scheduled-events",
    default=None,
    help="Write a Scheduled event for each bound pod that is not in a gang.",
)
@click.option("--record", metavar="DIR", help="Directory to record every cycle in, for `fairway replay`.")
@click.option(
    "--record-megabytes", type=int, metavar="N", help="Maximum size of the recording, in MB.  [default: 1024]"
)
@stall_options
@click.option(
    "--http-address", metavar="HOST:PORT", help="Address that serves health, metrics and /debug.  [default: :10259]"
)
@click.option(
    "--feed-socket", metavar="PATH", help="Socket that feeds a page in another process (see `fairway web --feed`)."
)
@click.option(
    "--web", metavar="HOST:PORT", help="Address to serve the web page on. A loopback address is protected by a token."
)
@page_options
@click.option("--report-to", metavar="FILE", help="Kubeconfig of a hub to report free capacity to.")
@click.option("--report-as", metavar="NAME", help="Name of this cluster's ManagedCluster on the hub.")
@click.option("--report-lifetime", type=float, metavar="SECONDS", help="Time until a report expires.  [default: 120]")
@click.option(
    "--report-scores",
    is_flag=True,
    default=None,
    help="Also report an AddOnPlacementScore, for the placement controller of OCM.",
)
@log_options
def command(config: str | None, **flags: Any) -> None:
    """Run the scheduler on a cluster: watch it, decide when something changes, and bind pods."""

    try:
        from fairway.app.live import LiveScheduler
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "kube") from None
    from fairway.app.live import read_settings
    from fairway.kube.server import find_connection

    settings = read_settings(config, _settings(flags))
    connection = find_connection(settings.kubeconfig, settings.context)
    log = program_log(settings.log_format, settings.log_level)
    with _page(settings, log) as fed:
        code = asyncio.run(LiveScheduler(fed, connection, log).run())
    click.get_current_context().exit(code)


@contextmanager
def _page(settings: RunSettings, log: RunLog) -> Iterator[RunSettings]:
    """Runs the page's process as long as the scheduler; yields the settings with the socket that feeds it."""
    if settings.web is None:
        yield settings
        return
    import msgspec

    try:
        from fairway.web import started
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "web") from None
    with started(settings, log) as (socket, address):
        import sys

        if sys.stdout.isatty() or "#" not in address:
            echo(f"Page at {address}")
        else:  # output may be saved, and must not contain a token
            log.info("serving the page; set its token with FAIRWAY_WEB_TOKEN", address=address.partition("#")[0])
        yield msgspec.structs.replace(settings, feed_socket=socket)


def _settings(flags: dict[str, Any]) -> dict[str, Any]:
    given = given_settings(flags)
    for name in ("schedulerNames", "webHosts"):
        if name in given:
            given[name] = [part.strip() for part in given[name].split(",")]
    return given
