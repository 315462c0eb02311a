"""CDI specs: how a container runtime learns what a plugin wants in a container (environment, mounts, device files).

One file for each claim, one CDI device in it for each request and plugin. What CDI cannot say (annotations of the
container) is returned, to be reported.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairway.agent.files import write_whole
from fairway.agent.limits import MAX_EDITS, MAX_SPEC
from fairway.agent.protocol import device_plugin_pb2 as messages
from fairway.errors import PrepareError

VERSION = "0.6.0"
CLASS = "claim"

_ENV = re.compile(r"[^=\0]+")
_CDI_NAME = re.compile(
    r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?"
)
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")

CdiSpec = dict[str, Any]


class CdiDevice(NamedTuple):
    """What one CDI device does to a container, and what the plugin wanted that it cannot do."""

    edits: CdiSpec
    others: tuple[str, ...]
    """CDI devices of the plugin's own, by their full names."""
    lost: tuple[str, ...]
    """The names of annotations."""


def device_edits(resource: str, answer: messages.ContainerAllocateResponse) -> CdiDevice:
    """PrepareError where the plugin's answer cannot be carried out as it is."""
    where = f"plugin {resource}: Allocate"
    if len(answer.envs) + len(answer.mounts) + len(answer.devices) + len(answer.cdi_devices) > MAX_EDITS:
        raise PrepareError(f"{where}: more than {MAX_EDITS} variables, mounts and devices")
    edits: CdiSpec = {}
    for name, value in sorted(answer.envs.items()):
        if not _ENV.fullmatch(name) or "\0" in value:
            raise PrepareError(f"{where}: {name[:60]!r} is not an environment variable")
        edits.setdefault("env", []).append(f"{name}={value}")
    for device in answer.devices:
        edits.setdefault("deviceNodes", []).append(_device_node(where, device))
    for mount in answer.mounts:
        _check_paths(where, mount.host_path, mount.container_path)
        options = ["rbind", "rprivate", "ro" if mount.read_only else "rw"]
        edits.setdefault("mounts", []).append(
            {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": options}
        )
    others = tuple(device.name for device in answer.cdi_devices)
    for other in others:
        if not _CDI_NAME.fullmatch(other):
            raise PrepareError(
                f"{where}: {other[:100]!r} is not the name of a CDI device, expected vendor/class=device"
            )
    return CdiDevice(edits, others, tuple(sorted(answer.annotations)))


def _device_node(where: str, device: messages.DeviceSpec) -> CdiSpec:
    inside = device.container_path or device.host_path
    _check_paths(where, device.host_path, inside)
    if not set(device.permissions) <= set("rwm"):
        raise PrepareError(f"{where}: permissions {device.permissions[:20]!r}, expected some of r, w and m")
    node = {"path": inside, "hostPath": device.host_path}
    return {**node, "permissions": device.permissions} if device.permissions else node


def _check_paths(where: str, *paths: str) -> None:
    for path in paths:
        if not path.startswith("/") or "\0" in path or ".." in path.split("/") or len(path) > 4096:
            raise PrepareError(f"{where}: {path[:100]!r} is not a path, expected one that begins with / and has no ..")


class CdiFolder:
    """The specs of this driver in the folder that the container runtime reads."""

    def __init__(self, folder: Path, driver: str) -> None:
        self._folder = folder
        self._driver = driver

    def device_name(self, uid: str, number: int) -> str:
        """The full name of a claim's n-th CDI device."""
        return f"{self._driver}/{CLASS}={uid}-{number}"

    def spec(self, uid: str, edits: Sequence[CdiSpec]) -> CdiSpec:
        """The spec of a claim. CDI wants each device to change something."""
        devices = [
            {"name": f"{uid}-{number}", "containerEdits": one or {"env": [f"FAIRWAY_CLAIM_{number}={uid}"]}}
            for number, one in enumerate(edits)
        ]
        return {"cdiVersion": VERSION, "kind": f"{self._driver}/{CLASS}", "devices": devices}

    def write(self, uid: str, spec: CdiSpec) -> None:
        data = msgspec.json.encode(spec)
        if len(data) > MAX_SPEC:
            raise PrepareError(f"the CDI spec of the claim has {len(data)} bytes, expected at most {MAX_SPEC}")
        try:
            write_whole(self._path(uid), data, mode=0o644)
        except OSError as error:
            raise PrepareError(f"{error.filename}: the CDI spec cannot be written: {error.strerror}") from None

    def keep(self, uid: str, spec: CdiSpec) -> None:
        """Write it where it is not there whole: a runtime would not start the container with half of it."""
        path, data = self._path(uid), msgspec.json.encode(spec)
        try:
            with path.open("rb") as stream:
                if stream.read(len(data) + 1) == data:
                    return
        except OSError:
            pass  # it is not there, or something else is: writing says what is wrong
        self.write(uid, spec)

    def tidy(self) -> None:
        """Remove what writes left behind that were cut short."""
        for path in self._folder.glob(f".{self._driver}-{CLASS}_*.partial"):
            with contextlib.suppress(OSError):
                path.unlink()

    def remove(self, uid: str) -> None:
        try:
            self._path(uid).unlink(missing_ok=True)
        except OSError as error:
            raise PrepareError(f"{error.filename}: the CDI spec cannot be removed: {error.strerror}") from None

    def uids(self) -> list[str]:
        """The claims that there are specs for."""
        prefix = f"{self._driver}-{CLASS}_"
        if not self._folder.is_dir():
            return []
        names = sorted(path.name for path in self._folder.iterdir())
        found = [name[len(prefix) : -5] for name in names if name.startswith(prefix) and name.endswith(".json")]
        return [uid for uid in found if _UID.fullmatch(uid)]

    def _path(self, uid: str) -> Path:
        return self._folder / f"{self._driver}-{CLASS}_{uid}.json"


def is_uid(text: str) -> bool:
    """Uids become names of files: no other text may."""
    return _UID.fullmatch(text) is not None
