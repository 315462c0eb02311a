"""What must hold at every revision of a server, checked on its own history and on nothing that Fairway says."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from kube.history import History, HistoryEntry, Thing
from kube.proxy import FaultProxy
from kube.workload import JOB, TestJob

_OVER = ("Succeeded", "Failed")


def over_commitments(history: History) -> list[str]:
    """Nodes whose pods request more than they have. Every pod asks for one cpu."""
    found: list[str] = []
    nodes: dict[str, int] = {}
    on_node: dict[str, set[str]] = defaultdict(set)
    for entry in history.entries("Node", "Pod"):
        if entry.kind == "Node":
            nodes.pop(entry.name, None)
            amount = entry.thing["status"].get("allocatable", {}).get("cpu")
            if not entry.is_deleted and amount is not None:
                nodes[entry.name] = int(amount)
            continue
        node = entry.thing["spec"].get("nodeName", "")
        for pods in on_node.values():
            pods.discard(entry.uid)
        if node and not entry.is_deleted and entry.thing["status"].get("phase") not in _OVER:
            on_node[node].add(entry.uid)
            if len(on_node[node]) > nodes.get(node, 1 << 30):
                found.append(f"{node} at {entry.revision}: {len(on_node[node])} pods of one cpu, has {nodes[node]}")
    return found


def moves(history: History) -> list[str]:
    """Pods that changed their node."""
    node_of: dict[str, str] = {}
    found = []
    for entry in history.entries("Pod"):
        node = entry.thing["spec"].get("nodeName", "")
        before = node_of.setdefault(entry.uid, node)
        if before and node != before:
            found.append(f"{entry.name} from {before} to {node} at {entry.revision}")
        node_of[entry.uid] = node or before
    return found


def shared_devices(history: History) -> list[str]:
    """Devices that two claims have at once."""
    of_claim: dict[str, set[str]] = {}
    found = []
    for entry in history.entries("ResourceClaim"):
        allocation = entry.thing.get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", ())
        mine = {f"{one['pool']}/{one['device']}" for one in results} if not entry.is_deleted else set()
        for other, theirs in of_claim.items():
            if other != entry.uid and mine & theirs:
                found.append(f"{mine & theirs} at {entry.revision}")
        of_claim[entry.uid] = mine
    return found


def half_bound(history: History, jobs: Mapping[str, TestJob]) -> list[tuple[str, float, float]]:
    """Gangs that were not complete before: from when to when some of their pods, and too few, were on nodes."""
    found: list[tuple[str, float, float]] = []
    begun: dict[str, float] = {}
    on_nodes: dict[str, set[str]] = defaultdict(set)
    was_complete: set[str] = set()
    for entry in history.entries("Pod"):
        job = jobs.get(entry.thing["metadata"]["labels"].get(JOB, ""))
        if job is None or job.minimum < 2 or job.name in was_complete:
            continue
        pods = on_nodes[job.name]
        if _is_on_a_node(entry):
            pods.add(entry.uid)
        else:
            pods.discard(entry.uid)
        if job.name in begun and not 0 < len(pods) < job.minimum:
            found.append((job.name, begun.pop(job.name), entry.at))
        elif job.name not in begun and 0 < len(pods) < job.minimum:
            begun[job.name] = entry.at
        if len(pods) >= job.minimum:
            was_complete.add(job.name)
    return found + [(name, begin, float("inf")) for name, begin in begun.items()]


def _is_on_a_node(entry: HistoryEntry) -> bool:
    meta = entry.thing["metadata"]
    return bool(entry.thing["spec"].get("nodeName")) and not entry.is_deleted and "deletionTimestamp" not in meta


def lost_writes(history: History, proxies: Iterable[FaultProxy]) -> list[str]:
    """Bindings that were acknowledged and that no revision shows."""
    shown = {(entry.name, entry.thing["spec"].get("nodeName")) for entry in history.entries("Pod")}
    found = []
    for proxy in proxies:
        for passed in proxy.passed:
            if passed.asked.path.endswith("/binding") and passed.status == 201:
                name = passed.asked.path.split("/")[-2]
                if not any(pod == name and node for pod, node in shown):
                    found.append(f"binding of {name}")
    return found


def double_reservations(history: History) -> list[str]:
    """Jobs that two reservations stand for at once."""
    of_job: dict[str, set[str]] = defaultdict(set)
    found = []
    for entry in history.entries("Reservation"):
        job = entry.thing["spec"]["jobRef"]["uid"]
        if entry.is_deleted:
            of_job[job].discard(entry.uid)
        else:
            of_job[job].add(entry.uid)
        if len(of_job[job]) > 1:
            found.append(f"{entry.name} at {entry.revision}")
    return found


def writes_without_lease(history: History, proxies: Iterable[FaultProxy]) -> list[str]:
    """Writes of a replica at revisions at which the lease was not its own. A patch that changed nothing made none."""
    holders = [(entry.revision, entry.thing["spec"].get("holderIdentity") or "") for entry in history.entries("Lease")]
    bound = _bound_at(history)
    found = []
    for proxy in proxies:
        own = set()
        for passed in proxy.passed:
            if "/leases" in passed.asked.path and passed.status < 300:
                own.add(_json(passed.body)["spec"].get("holderIdentity"))
        for passed in proxy.passed:
            if "/leases" in passed.asked.path or passed.status >= 300:
                continue
            revision = _revision(passed.asked.path, passed.body, bound)
            holder = max(((at, name) for at, name in holders if at <= revision), default=(0, ""))[1]
            if revision > passed.since and holder not in own:
                found.append(f"{passed.asked.method} {passed.asked.path} at {revision}, held by {holder!r}")
    return found


def _bound_at(history: History) -> dict[str, int]:
    """The revision at which a pod got its node, by name: tests never use a name twice."""
    found: dict[str, int] = {}
    for entry in history.entries("Pod"):
        if entry.thing["spec"].get("nodeName"):
            found.setdefault(entry.name, entry.revision)
    return found


def _revision(path: str, body: bytes, bound: Mapping[str, int]) -> int:
    """0 where the answer does not say."""
    if path.endswith("/binding"):
        return bound.get(path.split("/")[-2], 0)
    return int(_json(body).get("metadata", {}).get("resourceVersion") or 0)


def _json(body: bytes) -> Thing:
    found: Thing = json.loads(body)
    return found
