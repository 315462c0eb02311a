"""The shipped packages: Python packages of a lock file, and npm packages built into the page."""

from __future__ import annotations

import base64
import importlib.metadata
import json
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)[^\n]*((?:\n    --hash=\S+(?: \\)?)*)", re.MULTILINE)
_CLASSIFIED = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True)
class LockedPackage:
    """A package, with the hashes of the files that its lock accepts."""

    ecosystem: str
    """`pypi` or `npm`, as in a package URL."""
    name: str
    version: str
    hashes: tuple[tuple[str, str], ...]
    """(algorithm, hexadecimal digest)"""
    licence: str
    """An SPDX expression, or the package's own words."""
    requires: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"pkg:{self.ecosystem}/{self.name.replace('@', '%40')}@{self.version}"


def pinned(lock: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """By name: the version, and the SHA-256 digests of the files that may be installed."""
    return {
        canonicalize_name(name): (version, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, hashes in _ENTRY.findall(lock.read_text())
    }


def python_packages(lock: Path, licences: dict[str, str]) -> list[LockedPackage]:
    """The packages of a lock; their metadata come from the environment, which has the same versions."""
    found = pinned(lock)
    packages = []
    for name, (version, digests) in sorted(found.items()):
        metadata = importlib.metadata.distribution(name)
        if metadata.version != version:
            raise SystemExit(f"{name} {metadata.version} is installed, {lock.name} has {version}: run make test first")
        requires = sorted({entry for entry in _required(metadata) if entry in found})
        hashes = tuple(("SHA-256", digest) for digest in digests)
        licence = licences.get(name) or _licence(metadata)
        packages.append(LockedPackage("pypi", name, version, hashes, licence, tuple(requires)))
    return packages


def _required(metadata: importlib.metadata.Distribution) -> list[str]:
    read = [Requirement(text) for text in metadata.requires or ()]
    return [canonicalize_name(one.name) for one in read if one.marker is None or one.marker.evaluate({"extra": ""})]


def _licence(metadata: importlib.metadata.Distribution) -> str:
    fields = metadata.metadata
    if "License-Expression" in fields:
        return fields["License-Expression"]
    classified = [_CLASSIFIED[text] for text in fields.get_all("Classifier") or () if text in _CLASSIFIED]
    return classified[0] if len(classified) == 1 else _words(fields)


def _words(fields: importlib.metadata.PackageMetadata) -> str:
    words = fields["License"].splitlines() if "License" in fields else []
    return words[0] if words else "unknown"


def page_packages(lock: Path = ROOT / "frontend" / "package-lock.json") -> list[LockedPackage]:
    """The npm packages that are part of the built page: all except those for development."""
    packages = json.loads(lock.read_text())["packages"]
    return [
        LockedPackage(
            "npm",
            path.rpartition("node_modules/")[2],
            entry["version"],
            (_integrity(entry["integrity"]),),
            str(entry.get("license", "unknown")),
            tuple(sorted(entry.get("dependencies", ()))),
        )
        for path, entry in sorted(packages.items())
        if path and not entry.get("dev") and not entry.get("devOptional")
    ]


def _integrity(text: str) -> tuple[str, str]:
    algorithm, _, digest = text.partition("-")
    return f"SHA-{algorithm.removeprefix('sha')}", base64.b64decode(digest).hex()
