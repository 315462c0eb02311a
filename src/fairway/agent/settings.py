"""`AgentSettings`: everything that `fairway agent` can be told. Spans are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.agent.discovery import SYSFS, read_kinds
from fairway.agent.names import is_driver_name
from fairway.errors import InputError

DRIVER = "devices.fairway.dev"
AUTO, SLICES, ANNOTATION = PUBLISH = ("auto", "slices", "annotation")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    node: str
    driver: str = DRIVER
    publish: str = AUTO
    mapping: Path | None = None
    discover: tuple[str, ...] = ()
    sysfs: Path = SYSFS
    plugin_folder: Path = Path("/var/lib/fairway/device-plugins")
    """Where device plugins find the socket to register at; their pods mount it in the place of the kubelet's."""
    kubelet_plugins: Path = Path("/var/lib/kubelet/plugins")
    kubelet_registry: Path = Path("/var/lib/kubelet/plugins_registry")
    cdi_folder: Path = Path("/var/run/cdi")
    state_folder: Path = Path("/var/lib/fairway/agent")
    plugin_grace: float = 300.0
    """How long devices of a plugin that was lost stay published, as unhealthy ones."""
    dry_run: bool = False
    http_address: str = ":10270"


def check_settings(given: dict[str, Any]) -> AgentSettings:
    """From flags that were given; InputError says what is wrong."""
    if "discover" in given:
        given = {**given, "discover": read_kinds(given["discover"])}
    settings = AgentSettings(**given)
    if not settings.node:
        raise InputError("the name of the node is not known, expected --node-name or $NODE_NAME")
    if not is_driver_name(settings.driver) or not settings.driver[0].isalpha():
        raise InputError(
            f"driver name {settings.driver!r}: expected a DNS subdomain of at most 63 characters, first a letter"
        )
    if settings.plugin_folder == Path("/var/lib/kubelet/device-plugins"):
        raise InputError(
            f"plugin folder {settings.plugin_folder} is the kubelet's own, expected a folder of the agent's"
        )
    return settings
