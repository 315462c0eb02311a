"""Whether the access that `fairway install` grants is what was used: any request that was forbidden is an error, and so
is any rule that no test used. Read from the audit logs of all API servers of a test run.

    FAIRWAY_AUDIT=DIR pytest tests/kube && python -m kube.audit DIR
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fairway.kube.install.bundle import files
from fairway.kube.install.options import InstallOptions
from kube.controlplane.plane import SCHEDULER

_ASKED_BY_THE_SERVER = {("resource.k8s.io", "resourceclaims/binding", "patch")}
"""The server asks for it itself when a claim is allocated; no request names it."""
_ALLOCATION = ("resource.k8s.io", "resourceclaims/status", "patch")

Access = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


class AuditReport(NamedTuple):
    forbidden: list[str]
    unused: list[Access]
    requests: int


def granted(options: Iterable[InstallOptions]) -> set[Access]:
    """By the roles that are bound to the scheduler."""
    found = set()
    for option in options:
        for thing in (one for name, things in files(option).items() if "access" in name for one in things):
            if thing["kind"] in ("Role", "ClusterRole") and thing["metadata"]["name"].startswith(
                option.name + "-resource"
            ):
                continue  # for users of classes, not for the scheduler
            found |= set(_access(thing.get("rules", ())))
    return found


def _access(rules: Iterable[dict[str, Any]]) -> Iterator[Access]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def report(lines: Iterable[str]) -> AuditReport:
    rights = granted([InstallOptions(), InstallOptions(volcano_crds=False)])
    forbidden: dict[str, None] = {}
    used: set[Access] = set()
    requests = 0
    for line in lines:
        event = json.loads(line)
        if event["user"]["username"] != SCHEDULER or "objectRef" not in event:
            continue
        requests += 1
        target = event["objectRef"]
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        access = (target.get("apiGroup", ""), resource, event["verb"])
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
            if access not in rights:  # else by a server that has just started, and does not know the roles yet
                forbidden[f"{event['verb']} {event['requestURI']}"] = None
        elif event.get("responseStatus", {}).get("code", 0) < 300:
            used.add(access)
    if _ALLOCATION in used:
        used |= _ASKED_BY_THE_SERVER
    return AuditReport(list(forbidden), sorted(rights - used), requests)


def main(folder: str) -> int:
    lines = (line for path in sorted(Path(folder).glob("*.jsonl")) for line in path.read_text().splitlines())
    found = report(lines)
    for request in found.forbidden:
        sys.stderr.write(f"forbidden by the access that is installed: {request}\n")
    for access in found.unused:
        sys.stderr.write(f"granted and never used: {' '.join(access)}\n")
    sys.stderr.write(f"access: {found.requests} requests of the scheduler looked at\n")
    return int(bool(found.forbidden or found.unused or not found.requests))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
