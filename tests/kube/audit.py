"""Whether the access that `fairway install` grants is what was used: any request that was forbidden is an error, and so
is any rule that no program of Fairway used. Read from the audit logs of all API servers of a test run; `make kube-test`
ends with it.

    FAIRWAY_AUDIT=DIR pytest tests/kube && python -m kube.audit DIR
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fairway.kube.install.agent import agent_rules
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import CLASS_USERS, files
from kube.controlplane.plane import AGENT, PAGE, PLACER, SCHEDULER

Access = tuple[str, str, str]
"""API group, resource with its subresource, verb."""
ASKED_BY_THE_SERVER: dict[Access, Access] = {
    ("resource.k8s.io", "resourceclaims/binding", "patch"): ("resource.k8s.io", "resourceclaims/status", "patch"),
}
"""Rules that no request names: the server asks for them itself during another request, which must have been made."""


class AuditReport(NamedTuple):
    forbidden: list[str]
    unused: list[tuple[str, Access]]
    requests: dict[str, int]
    """Of each user."""


def granted() -> dict[str, set[Access]]:
    """By the user that the roles are bound to."""
    fleet = InstallOptions(part="fleet", name="fairway-fleet")
    scheduler = [_installed(InstallOptions(volcano_crds=ours)) for ours in (True, False)]
    page = _installed(InstallOptions(web=True)) - _installed(InstallOptions())
    return {
        SCHEDULER: set().union(*scheduler),
        PAGE: page,
        PLACER: _installed(fleet),
        AGENT: set(_access(agent_rules())),
    }


def _installed(options: InstallOptions) -> set[Access]:
    things = [one for name, some in files(options).items() if "access" in name for one in some]
    roles = [one for one in things if "rules" in one and one["metadata"]["name"] != CLASS_USERS]
    return {access for role in roles for access in _access(role["rules"])}


def _access(rules: Iterable[dict[str, Any]]) -> Iterator[Access]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def report(lines: Iterable[str]) -> AuditReport:
    """Requests that tests send with a program's token are held to its access, and use none of it."""
    rights = granted()
    forbidden: dict[str, None] = {}
    used: dict[str, set[Access]] = {user: set() for user in rights}
    requests = dict.fromkeys(rights, 0)
    for line in lines:
        event = json.loads(line)
        user = event["user"]["username"]
        if user not in rights or "objectRef" not in event or "impersonatedUser" in event:
            continue
        access = _asked(event)
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
            if access not in rights[user]:  # else by a server that has just started, and does not know the roles yet
                forbidden[f"{user}: {event['verb']} {event['requestURI']}"] = None
        elif event.get("userAgent", "").startswith("fairway/"):
            requests[user] += 1
            used[user].add(access)  # whatever the answer: to look for what is not there is a use too
    return AuditReport(list(forbidden), _unused(rights, used), requests)


def _asked(event: dict[str, Any]) -> Access:
    target = event["objectRef"]
    resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
    return target.get("apiGroup", ""), resource, event["verb"]


def _unused(rights: dict[str, set[Access]], used: dict[str, set[Access]]) -> list[tuple[str, Access]]:
    return [
        (user, access)
        for user, accesses in rights.items()
        for access in sorted(accesses - used[user])
        if ASKED_BY_THE_SERVER.get(access) not in used[user]
    ]


def main(folder: str) -> int:
    lines = (line for path in sorted(Path(folder).glob("*.jsonl")) for line in path.read_text().splitlines())
    found = report(lines)
    for request in found.forbidden:
        sys.stderr.write(f"forbidden by the access that is installed: {request}\n")
    for user, access in found.unused:
        sys.stderr.write(f"granted and never used: {' '.join(access)} ({user})\n")
    counts = ", ".join(f"{count} of {user.rpartition(':')[2]}" for user, count in found.requests.items())
    sys.stderr.write(f"access: requests looked at: {counts}\n")
    return int(bool(found.forbidden or found.unused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
