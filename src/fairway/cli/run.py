"""`fairway run`: the scheduler on a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.output import echo, program_log
from fairway.cli.page_options import page_options

if TYPE_CHECKING:
    from fairway.app.live.logs import RunLog
    from fairway.app.live.settings import RunSettings


@click.command(
    epilog="""\b
Examples:
  fairway run --kubeconfig ~/.kube/config --dry-run   decide, write nothing
  fairway run --policy policy.yaml                    schedulerName: fairway
  fairway run --scheduler-names volcano               in place of Volcano's
  fairway run --config run.yaml --log-format json     settings from a file"""
)
@click.option("--config", metavar="FILE", help="Settings: a file of kind FairwayConfiguration. Flags win over it.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; default $KUBECONFIG, then as a pod.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; default the current one.")
@click.option(
    "--scheduler-names",
    metavar="NAMES",
    help="Schedule the pods that name one of these schedulers, separated by commas.  [default: fairway]",
)
@click.option("--policy", metavar="FILE", help="The policy file, read again when it changes.")
@click.option(
    "--policy-config-map", metavar="NAMESPACE/NAME", help="The policy in a ConfigMap (key policy.yaml), read likewise."
)
@click.option("--dry-run", is_flag=True, default=None, help="Decide and log what would be written; write nothing.")
@click.option("--shadow-policy", metavar="FILE", help="Decide by this policy too, and log where it differs.")
@click.option("--shadow-every", type=int, metavar="N", help="Do so in every n-th cycle only.")
@click.option("--min-interval", type=float, metavar="SECONDS", help="Between two cycles.  [default: 0.05]")
@click.option("--max-in-flight-binds", type=int, metavar="N", help="Pause while more are unanswered.  [default: 2000]")
@click.option("--connections", type=int, metavar="N", help="Writes at the same time.  [default: 32]")
@click.option(
    "--scheduling-budget",
    type=int,
    metavar="UNITS",
    help="Maximum cost of one namespace in a scheduling cycle, in units of about a microsecond; 0 for no limit.  "
    "[default: 6000]",
)
@click.option("--column-memory", type=int, metavar="MIB", help="For kept scores of nodes, at most.  [default: 256]")
@click.option("--gang-bind-timeout", type=float, metavar="SECONDS", help="For a gang to be completed.  [default: 60]")
@click.option(
    "--leader-elect/--no-leader-elect", default=None, help="Decide only with the lease.  [default: leader-elect]"
)
@click.option("--lease-namespace", metavar="NAME", help="Of the lease; default the service account's or context's.")
@click.option("--lease-name", metavar="NAME", help="Of the lease.  [default: fairway]")
@click.option(
    "--scheduled-events/--no-scheduled-events", default=None, help="An event for each lone pod that is bound."
)
@click.option("--record", metavar="DIR", help="Record every cycle there, for `fairway replay`.")
@click.option("--record-megabytes", type=int, metavar="N", help="Of the recording, at most.  [default: 1024]")
@click.option(
    "--stall-timeout",
    type=float,
    metavar="SECONDS",
    help="Warn when work is pending and no cycle has finished for this long.  [default: 30; 0: never]",
)
@click.option(
    "--unhealthy-after",
    type=float,
    metavar="SECONDS",
    help="Fail /healthz when work is pending and no cycle has finished for this long.  [default: 300; 0: never]",
)
@click.option("--http-address", metavar="HOST:PORT", help="Of health, metrics and /debug.  [default: :10259]")
@click.option("--feed-socket", metavar="PATH", help="Feed a page in another container there: `fairway web --feed`.")
@click.option("--web", metavar="HOST:PORT", help="Start a page there; on a loopback address with a token.")
@page_options
@click.option("--report-to", metavar="FILE", help="The kubeconfig of a hub to which free capacity is reported.")
@click.option("--report-as", metavar="NAME", help="The name of this cluster's ManagedCluster there.")
@click.option("--report-lifetime", type=float, metavar="SECONDS", help="How long a report counts.  [default: 120]")
@click.option(
    "--report-scores",
    is_flag=True,
    default=None,
    help="Also as an AddOnPlacementScore, which OCM's own placement reads.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Of lines on standard error.  [default: text]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
def command(config: str | None, **flags: Any) -> None:
    """Schedule a cluster: watch it, decide when something changes, and write what was decided."""
    from fairway.errors import InputError

    try:
        from fairway.app.live.service import LiveScheduler
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[kube]'") from None
    from fairway.app.live.settings import read_settings
    from fairway.kube.server.configuration import find_connection

    settings = read_settings(config, _given(flags))
    connection = find_connection(settings.kubeconfig, settings.context)
    log = program_log(settings.log_format, settings.log_level)
    with _page(settings, log) as fed:
        code = asyncio.run(LiveScheduler(fed, connection, log).run())
    click.get_current_context().exit(code)


@contextmanager
def _page(settings: RunSettings, log: RunLog) -> Iterator[RunSettings]:
    """The process that serves the page, as long as the scheduler runs; the settings, with the socket to feed it by."""
    if settings.web is None:
        yield settings
        return
    import msgspec

    from fairway.errors import InputError

    try:
        from fairway.web.live_process import started
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[web]'") from None
    with started(settings, log) as (socket, address):
        import sys

        if sys.stdout.isatty() or "#" not in address:
            echo(f"Page at {address}")
        else:  # what is printed may be kept: a token must not be
            log.info("page; FAIRWAY_WEB_TOKEN sets its token", address=address.partition("#")[0])
        yield msgspec.structs.replace(settings, feed_socket=socket)


_NESTED = {
    "leaderElect": "leaderElection.enabled",
    "leaseNamespace": "leaderElection.namespace",
    "leaseName": "leaderElection.name",
}


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, by the names that a file has for them."""
    given: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None:
            first, *rest = name.split("_")
            camel = first + "".join(part.capitalize() for part in rest)
            given[_NESTED.get(camel, camel)] = value
    for name in ("schedulerNames", "webHosts"):
        if name in given:
            given[name] = [one.strip() for one in given[name].split(",")]
    return given
