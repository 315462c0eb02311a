"""`fairway agent`: the node side of devices."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from fairway.cli.output import program_log

_FOLDER = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  fairway agent --node-name n1 --dry-run              what would be published
  fairway agent --node-name n1 --mapping devices.yaml attributes from a file
  fairway agent --node-name n1 --discover pci,rdma    devices without plugins
  fairway agent --publish annotation                  a cluster without DRA"""
)
@click.option("--node-name", "node", envvar="NODE_NAME", metavar="NAME", default="", help="This node; or $NODE_NAME.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; default $KUBECONFIG, then as a pod.")
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; default the current one.")
@click.option("--driver-name", "driver", metavar="NAME", help="Of the DRA driver.  [default: devices.fairway.dev]")
@click.option(
    "--publish",
    type=click.Choice(["auto", "slices", "annotation"]),
    help="As ResourceSlices, or as an annotation of the node.  [default: auto, slices where there is DRA]",
)
@click.option("--mapping", type=_FOLDER, metavar="FILE", help="Attributes of devices: a file of kind DeviceMapping.")
@click.option("--discover", metavar="KINDS", help="Publish devices of the host too: some of pci,numa,rdma.")
@click.option("--sysfs", type=_FOLDER, metavar="DIR", help="Where to discover.  [default: /sys]")
@click.option(
    "--plugin-dir",
    "plugin_folder",
    type=_FOLDER,
    metavar="DIR",
    help="Where device plugins register.  [default: /var/lib/fairway/device-plugins]",
)
@click.option(
    "--kubelet-plugins",
    type=_FOLDER,
    metavar="DIR",
    help="Of the driver's socket.  [default: /var/lib/kubelet/plugins]",
)
@click.option(
    "--kubelet-registry",
    type=_FOLDER,
    metavar="DIR",
    help="Where the kubelet finds drivers.  [default: /var/lib/kubelet/plugins_registry]",
)
@click.option("--cdi-dir", "cdi_folder", type=_FOLDER, metavar="DIR", help="For CDI specs.  [default: /var/run/cdi]")
@click.option(
    "--state-dir",
    "state_folder",
    type=_FOLDER,
    metavar="DIR",
    help="For checkpoints.  [default: /var/lib/fairway/agent]",
)
@click.option(
    "--plugin-grace",
    type=click.FloatRange(1, 86400),
    metavar="SECONDS",
    help="Until devices of a lost plugin are withdrawn.  [default: 300]",
)
@click.option("--dry-run", is_flag=True, default=None, help="Listen to plugins and log what would be published.")
@click.option("--http-address", metavar="HOST:PORT", help="Of /healthz, /readyz and /metrics.  [default: :10270]")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Of lines on standard error.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", help="[default: info]"
)
def command(kubeconfig: str | None, context: str | None, log_format: str, log_level: str, **flags: Any) -> None:
    """Run on a node: publish the devices of its plugins, and prepare claims with those that the scheduler chose."""
    from fairway.errors import ApiError, InputError

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what matters of connections is in our own lines
    try:
        from fairway.agent.service import NodeAgent
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[agent]'") from None
    from fairway.agent.settings import check_settings
    from fairway.kube.server.configuration import find_connection

    settings = check_settings({name: value for name, value in flags.items() if value is not None})
    connection = find_connection(kubeconfig, context)
    log = program_log(log_format, log_level)
    try:
        status = asyncio.run(NodeAgent(settings, connection, log).run())
    except ApiError as error:
        raise InputError(str(error)) from None
    click.get_current_context().exit(status)
