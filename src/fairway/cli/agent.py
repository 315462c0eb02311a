"""`fairway agent`: the node side of devices."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from fairway.cli import inputs
from fairway.cli.output import program_log
from fairway.cli.program_options import connection_options, log_options

_FOLDER = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  fairway agent --node-name n1 --dry-run              publish nothing
  fairway agent --node-name n1 --mapping devices.yaml attributes from a file
  fairway agent --node-name n1 --discover pci,rdma    devices without plugins
  fairway agent --publish annotation                  a cluster without DRA"""
)
@click.option(
    "--node-name",
    "node",
    envvar="NODE_NAME",
    metavar="NAME",
    default="",
    help="Name of this node. Defaults to $NODE_NAME.",
)
@connection_options("cluster")
@click.option("--driver-name", "driver", metavar="NAME", help="Name of the DRA driver.  [default: devices.fairway.dev]")
@click.option(
    "--publish",
    type=click.Choice(["auto", "slices", "annotation"]),
    help="How to publish devices: as ResourceSlices, or as a node annotation. `auto` uses slices if the cluster has "
    "DRA.  [default: auto]",
)
@click.option(
    "--mapping", type=_FOLDER, metavar="FILE", help="File of kind DeviceMapping with the attributes of devices."
)
@click.option(
    "--discover", metavar="KINDS", help="Also publish host devices of these comma-separated kinds: pci, numa, rdma."
)
@click.option("--sysfs", type=_FOLDER, metavar="DIR", help="Sysfs mount to discover devices in.  [default: /sys]")
@click.option(
    "--plugin-dir",
    "plugin_folder",
    type=_FOLDER,
    metavar="DIR",
    help="Directory in which device plugins register.  [default: /var/lib/fairway/device-plugins]",
)
@click.option(
    "--kubelet-plugins",
    type=_FOLDER,
    metavar="DIR",
    help="Directory of the driver's socket.  [default: /var/lib/kubelet/plugins]",
)
@click.option(
    "--kubelet-registry",
    type=_FOLDER,
    metavar="DIR",
    help="Directory in which the kubelet looks for drivers.  [default: /var/lib/kubelet/plugins_registry]",
)
@click.option(
    "--cdi-dir", "cdi_folder", type=_FOLDER, metavar="DIR", help="Directory for CDI specs.  [default: /var/run/cdi]"
)
@click.option(
    "--state-dir",
    "state_folder",
    type=_FOLDER,
    metavar="DIR",
    help="Directory for checkpoints.  [default: /var/lib/fairway/agent]",
)
@click.option(
    "--plugin-grace",
    type=click.FloatRange(1, 86400),
    metavar="SECONDS",
    help="Time until the devices of a disconnected plugin are withdrawn.  [default: 300]",
)
@click.option("--dry-run", is_flag=True, default=None, help="Log what would be published instead of publishing it.")
@click.option(
    "--http-address", metavar="HOST:PORT", help="Address that serves /healthz, /readyz and /metrics.  [default: :10270]"
)
@log_options
def command(
    kubeconfig: str | None, context: str | None, log_format: str | None, log_level: str | None, **flags: Any
) -> None:
    """Run the node agent: publish the devices of device plugins and prepare the claims allocated to this node."""
    from fairway.errors import ApiError, InputError

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # our own log covers connections
    try:
        from fairway.agent.service import NodeAgent
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "agent") from None
    from fairway.agent.settings import check_settings
    from fairway.kube.server import find_connection

    settings = check_settings({name: value for name, value in flags.items() if value is not None})
    connection = find_connection(kubeconfig, context)
    log = program_log(log_format or "text", log_level or "info")
    try:
        status = asyncio.run(NodeAgent(settings, connection, log).run())
    except ApiError as error:
        raise InputError(str(error)) from None
    click.get_current_context().exit(status)
