"""A software bill of materials in CycloneDX 1.6: the shipped packages, with hashes, licences and dependencies.

The same locks give the same bytes: there is no timestamp, and the serial number is derived from the content.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

from tools.locked import ROOT, LockedPackage

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://fairway.dev/sbom")
_EXPRESSION = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def version() -> str:
    text = (ROOT / "src" / "fairway" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def bill(packages: list[LockedPackage]) -> dict[str, Any]:
    own = f"pkg:pypi/fairway@{version()}"
    by_name = {(package.ecosystem, package.name): package.url for package in packages}
    needs: dict[str, list[str]] = {
        package.url: sorted(
            by_name[package.ecosystem, name] for name in package.requires if (package.ecosystem, name) in by_name
        )
        for package in packages
    }
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "fairway",
                "version": version(),
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(package) for package in packages],
        "dependencies": [
            {"ref": own, "dependsOn": sorted(needs)},
            *({"ref": url, "dependsOn": inner} for url, inner in sorted(needs.items())),
        ],
    }
    digest = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{digest}"}


def _component(package: LockedPackage) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
        "hashes": [{"alg": algorithm, "content": digest} for algorithm, digest in package.hashes],
        "licenses": [_licence(package.licence)],
    }


def _licence(text: str) -> dict[str, Any]:
    if not _EXPRESSION.fullmatch(text):
        return {"license": {"name": text}}
    return {"expression": text} if " " in text else {"license": {"id": text}}


def write(packages: list[LockedPackage], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bill(packages), indent=2) + "\n")
