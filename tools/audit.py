"""`make audit`: licences and known vulnerabilities of shipped packages, and a bill of materials in dist/.

Licences are compared with locks/audit.toml. Vulnerabilities come from PyPI (the field that pip-audit reads as well) or,
offline, from an export of OSV (`--database PyPI.zip`, from osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip).
A service that reports nothing for a known vulnerable package has no data, and then nothing counts as checked. npm
packages are checked by `npm audit`. What could not be checked is reported; with `--strict` it fails the audit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tools import sbom
from tools.locked import ROOT, LockedPackage, page_packages, python_packages

RULES = ROOT / "locks" / "audit.toml"
PRODUCTION = ROOT / "locks" / "production.lock"
INDEX = "https://pypi.org/pypi"
KNOWN = ("pycrypto", "2.6.1")
"""A release with known vulnerabilities: a source that reports none for it has no data."""
TIMEOUT = 20.0

Lookup = Callable[[str, str], list[str] | None]
"""The vulnerability identifiers of a release; None if the source has no data."""


# -- licences ------------------------------------------------------------------------------------------------------


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether one alternative (OR) consists of allowed licences only (AND)."""
    alternatives = expression.replace("(", " ").replace(")", " ").split(" OR ")
    return any(all(part.strip() in allowed for part in one.split(" AND ")) for one in alternatives)


def refused_licences(packages: list[LockedPackage], allowed: set[str]) -> list[str]:
    return [
        f"{one.name} {one.version}: licence {one.licence!r} is not in {RULES.name}"
        for one in packages
        if not is_allowed(one.licence, allowed)
    ]


# -- vulnerabilities -----------------------------------------------------------------------------------------------


def from_index(name: str, version: str) -> list[str] | None:
    """The vulnerabilities that PyPI lists for a release; an index that answers by name only has those of the latest."""
    for path in (f"{name}/{version}", name):
        try:
            with urllib.request.urlopen(f"{INDEX}/{path}/json", timeout=TIMEOUT) as answer:
                found = json.load(answer)
        except (OSError, ValueError, urllib.error.URLError):
            continue
        if found["info"]["version"] == version and "vulnerabilities" in found:
            return [entry["id"] for entry in found["vulnerabilities"] if not entry.get("withdrawn")]
    return None


def from_database(path: Path) -> Lookup:
    """The vulnerabilities in an export of OSV: a zip file with one JSON document each."""
    affected: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            document = json.loads(archive.read(member))
            for entry in () if "withdrawn" in document else document.get("affected", ()):
                if entry.get("package", {}).get("ecosystem") == "PyPI":
                    name = canonicalize_name(entry["package"]["name"])
                    affected.setdefault(name, []).append((document["id"], entry))

    def lookup(name: str, version: str) -> list[str] | None:
        entries = affected.get(canonicalize_name(name), ())
        return sorted({found for found, entry in entries if _concerns(entry, version)})

    return lookup


def _concerns(entry: dict[str, Any], version: str) -> bool:
    if version in entry.get("versions", ()):
        return True
    try:
        return any(_in_range(part, Version(version)) for part in entry.get("ranges", ()) if part["type"] == "ECOSYSTEM")
    except InvalidVersion:
        return False


def _in_range(part: dict[str, Any], version: Version) -> bool:
    """Events are in order: each `introduced` is ended by the next `fixed` or `last_affected`."""
    inside = False
    for event in part.get("events", ()):
        if "introduced" in event:
            inside = inside or event["introduced"] == "0" or version >= Version(event["introduced"])
        elif "fixed" in event:
            inside = inside and version < Version(event["fixed"])
        elif "last_affected" in event:
            inside = inside and version <= Version(event["last_affected"])
    return inside


def vulnerabilities(packages: list[LockedPackage], lookup: Lookup) -> tuple[list[str], list[str]]:
    """(vulnerable packages, packages that could not be checked)"""
    if not lookup(*KNOWN):
        return [], [f"{len(packages)} Python packages: not checked: no data (the source knows nothing of {KNOWN[0]})"]
    vulnerable, unchecked = [], []
    for one in packages:
        found = lookup(one.name, one.version)
        if found is None:
            unchecked.append(f"{one.name} {one.version}: not checked: no data")
        else:
            vulnerable += [f"{one.name} {one.version}: {identifier}" for identifier in found]
    return vulnerable, unchecked


def npm_vulnerabilities() -> tuple[list[str], list[str]]:
    """The findings of `npm audit` for the packages built into the page."""
    unchecked = ["packages of the page: not checked: no data (npm audit gave no answer)"]
    npm = shutil.which("npm")
    if npm is None:
        return [], ["packages of the page: not checked: npm is not installed"]
    command = [
        npm,
        "audit",
        "--omit=dev",
        "--package-lock-only",
        "--json",
        "--fetch-retries=0",
        "--fetch-timeout=20000",
    ]
    try:
        done = subprocess.run(command, cwd=ROOT / "frontend", capture_output=True, text=True, timeout=120, check=False)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return [], unchecked
    if "vulnerabilities" not in found:
        return [], unchecked
    return [f"{name}: {entry['severity']}" for name, entry in found["vulnerabilities"].items()], []


# -- the command ---------------------------------------------------------------------------------------------------


def _without(found: list[str], ignored: dict[str, str]) -> Iterator[str]:
    for line in found:
        if line.rpartition(": ")[2] not in ignored:
            yield line


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--database", type=Path, help="an export of OSV instead of PyPI")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "fairway.cdx.json")
    parser.add_argument("--strict", action="store_true", help="fail where something could not be checked")
    options = parser.parse_args(arguments)
    rules = tomllib.loads(RULES.read_text())
    python, page = python_packages(PRODUCTION, rules["licences"]), page_packages()
    packages = [*python, *page]

    sbom.write(packages, options.out)
    print(f"bill of materials: {len(packages)} packages in {options.out}")
    refused = refused_licences(packages, set(rules["allowed"]))
    print(f"licences: {len(packages) - len(refused)} of {len(packages)} packages allowed")
    lookup = from_database(options.database) if options.database else from_index
    vulnerable, unchecked = vulnerabilities(python, lookup)
    more, unchecked_too = npm_vulnerabilities()
    found, unchecked = list(_without([*vulnerable, *more], rules["ignored"])), [*unchecked, *unchecked_too]
    print(f"known vulnerabilities: {len(found)}")
    for line in [*refused, *found, *unchecked]:
        print(f"  {line}")
    return 1 if refused or found or (options.strict and unchecked) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
