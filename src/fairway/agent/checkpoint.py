"""Claims that are prepared, one file each, so that a new process knows them.

A file is written after the plugin was asked and the CDI spec is there, and before the kubelet hears of it. Killed in
between, the kubelet asks again and everything is done again: nothing in it must happen only once. A file that cannot be
read is put aside and concerns its own claim only. After the host was started again (another boot id) a claim counts as
not prepared: plugins keep nothing over that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fairway.agent.cdi import is_uid
from fairway.agent.files import remove_whole, write_whole
from fairway.errors import PrepareError

FORMAT = 1
MAX_FILE = 4 << 20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class PreparedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device as the kubelet gets it."""

    request: str
    pool: str
    device: str
    cdi: tuple[str, ...] = ()
    share_id: str | None = None
    admin: bool = False
    """Given out although another claim may have it."""


class PreparedClaim(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    boot: str
    devices: tuple[PreparedDevice, ...]
    units: tuple[tuple[str, str], ...]
    """What no other claim may have at the same time: resource and id."""
    spec: dict[str, Any]
    """The CDI spec."""
    format: int = FORMAT


class ClaimFiles:
    """The folder of checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> tuple[dict[str, PreparedClaim], list[str]]:
        """The claims by uid, and the files that were put aside."""
        found: dict[str, PreparedClaim] = {}
        bad: list[str] = []
        if not self._folder.is_dir():
            return found, bad
        for path in sorted(self._folder.glob("*.json")):
            claim = _read(path)
            if claim is None:
                path.replace(path.with_suffix(".unreadable"))
                bad.append(str(path))
            else:
                found[claim.uid] = claim
        return found, bad

    def write(self, claim: PreparedClaim) -> None:
        try:
            write_whole(self._path(claim.uid), msgspec.json.encode(claim))
        except OSError as error:
            raise PrepareError(f"{error.filename}: the checkpoint cannot be written: {error.strerror}") from None

    def remove(self, uid: str) -> None:
        try:
            if self._folder.is_dir():
                remove_whole(self._path(uid))
        except OSError as error:
            raise PrepareError(f"{error.filename}: the checkpoint cannot be removed: {error.strerror}") from None

    def _path(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"


def boot_id(path: Path = BOOT_ID) -> str:
    """Another one after each start of the host; "" where the kernel does not say."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _read(path: Path) -> PreparedClaim | None:
    try:
        with path.open("rb") as stream:
            claim = msgspec.json.decode(stream.read(MAX_FILE), type=PreparedClaim)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return claim if claim.format == FORMAT and claim.uid == path.stem and is_uid(claim.uid) else None
