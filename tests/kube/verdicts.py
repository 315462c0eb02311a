"""What must hold at every revision of a server, checked on its own history and on nothing that Fairway says."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from kube.history import History, HistoryEntry, Thing
from kube.proxy import UNNOTICED, FaultProxy, Passed
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


def late_gangs(
    history: History, jobs: Mapping[str, TestJob], lives: Iterable[tuple[float, float]], seconds: float
) -> list[str]:
    """Gangs that were half-bound for longer than that, from when it began; time without a scheduler does not count."""
    times = half_bound_times(history, jobs, lives)
    return [f"{name} was half-bound for {ran:.0f} s" for name, ran in times if ran > seconds]


def half_bound_times(
    history: History, jobs: Mapping[str, TestJob], lives: Iterable[tuple[float, float]]
) -> list[tuple[str, float]]:
    """How long gangs were half-bound while there was a scheduler."""
    lives = list(lives)
    return [(name, _covered(lives, begin, end)) for name, begin, end in half_bound(history, jobs)]


def _covered(lives: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """How much of a time the others cover together."""
    total, reached = 0.0, begin
    for start, stop in sorted(lives):
        total += max(0.0, min(stop, end) - max(start, reached))
        reached = max(reached, min(stop, end))
    return total


def double_evictions(proxies: Iterable[FaultProxy]) -> list[str]:
    """Pods that were evicted again after Fairway was told that they are. Tests never use a name twice."""
    told: dict[str, float] = {}
    passed = [one for proxy in proxies for one in proxy.passed if one.asked.path.endswith("/eviction")]
    found = []
    for one in sorted(passed, key=lambda one: one.at):
        if one.status == 201:
            name = one.asked.path.split("/")[-2]
            if one.sent > told.get(name, one.sent):
                found.append(f"{name}, {one.sent - told[name]:.1f} s after it was told")
            if one.was_told:
                told.setdefault(name, one.at)
    return found


def excess_victims(history: History, jobs: Mapping[str, TestJob]) -> list[str]:
    """More jobs that give way to one job at the same time than it has pods: every pod asks for one cpu, so that each
    victim makes place for one at least. Victims on nodes that were cordoned or lost meanwhile do not count.
    """
    found = []
    leaving: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    usable: set[str] = set()
    for entry in history.entries("Node", "Pod"):
        if entry.kind == "Node":
            is_usable = not entry.is_deleted and not entry.thing["spec"].get("unschedulable")
            usable = usable | {entry.name} if is_usable else usable - {entry.name}
            continue
        for pods in leaving.values():
            pods.pop(entry.uid, None)
        claimant, meta = _claimant(entry), entry.thing["metadata"]
        if claimant is None or entry.is_deleted or "deletionTimestamp" not in meta:
            continue
        leaving[claimant][entry.uid] = meta["labels"].get(JOB, ""), entry.thing["spec"].get("nodeName", "")
        victims = {job for job, node in leaving[claimant].values() if node in usable and job != claimant}
        if claimant in jobs and len(victims) > jobs[claimant].size:
            found.append(f"{sorted(victims)} for {claimant} at {entry.revision}")
    return found


def _claimant(entry: HistoryEntry) -> str | None:
    """The job that a pod was evicted for, by its condition; None where the pod does not say."""
    for one in entry.thing["status"].get("conditions", ()):
        if one["type"] == "DisruptionTarget" and one.get("reason") == "PreemptionByScheduler":
            said = re.match(r"\w+ for [^/ ]+/([^ :]+):", one.get("message", ""))
            return said[1] if said else None
    return None


def _is_on_a_node(entry: HistoryEntry) -> bool:
    meta = entry.thing["metadata"]
    return bool(entry.thing["spec"].get("nodeName")) and not entry.is_deleted and "deletionTimestamp" not in meta


_KINDS = {"pods": "Pod", "resourceclaims": "ResourceClaim", "reservations": "Reservation", "leases": "Lease"}


def lost_writes(history: History, proxies: Iterable[FaultProxy], namespace: str) -> list[str]:
    """Writes that the server acknowledged and that no revision shows: of bindings the very node, of evictions and
    deletions the end of the object, of all others the very revision that the answer names. A scheduler also
    writes to what other tests left in their namespaces; the history has one namespace only.
    """
    entries = history.entries(*_KINDS.values())
    revisions = {(entry.kind, entry.name, entry.revision) for entry in entries}
    placed = {(entry.name, entry.thing["spec"].get("nodeName")) for entry in entries if entry.kind == "Pod"}
    leaving = {
        (entry.kind, entry.name)
        for entry in entries
        if entry.is_deleted or "deletionTimestamp" in entry.thing["metadata"]
    }
    found = []
    for passed in (passed for proxy in proxies for passed in proxy.passed if passed.status < 300):
        kind, name, rest = _target(passed)
        if kind == "" or _namespace(passed) != namespace:
            continue
        if rest == "binding":
            is_there = (name, _json(passed.request)["target"]["name"]) in placed
        elif rest == "eviction" or passed.asked.method == "DELETE":
            is_there = (kind, name) in leaving
        else:
            is_there = (kind, name, _revision(passed.asked.path, passed.body, {})) in revisions
        if not is_there:
            found.append(f"{passed.asked.method} {passed.asked.path}: {passed.status}")
    return found


def _namespace(passed: Passed) -> str:
    return passed.asked.path.rpartition("/namespaces/")[2].partition("/")[0]


def _target(passed: Passed) -> tuple[str, str, str]:
    """Kind, name and subresource of what was written; the kind is "" where the history does not have it."""
    _, space, rest = passed.asked.path.rpartition("/namespaces/")
    if not space:
        return "", "", ""
    _, plural, *parts = rest.split("/")
    name = parts[0] if parts else _json(passed.body)["metadata"]["name"]
    return _KINDS.get(plural, ""), name, parts[1] if len(parts) > 1 else ""


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


def writes_without_lease(history: History, proxies: Iterable[FaultProxy], margin: float) -> list[str]:
    """Writes of a replica at revisions at which the lease was not its own. A patch that changed nothing made none.

    `margin` are the seconds between the end of the right to write and the end of the lease. A write that was on its way
    for longer, in the proxy or the server, may come too late although it was sent in time (`late_sends` says whether it
    was): no client can call it back, so it is not the scheduler's fault. `excused_writes` says how many there were.
    """
    return [text for text, took in _writes_without_lease(history, proxies) if took < margin]


def excused_writes(history: History, proxies: Iterable[FaultProxy], margin: float) -> list[str]:
    """What `writes_without_lease` leaves out."""
    return [text for text, took in _writes_without_lease(history, proxies) if took >= margin]


def _writes_without_lease(history: History, proxies: Iterable[FaultProxy]) -> list[tuple[str, float]]:
    """With the seconds that each was on its way, as far as they were not Fairway's."""
    holders = [(entry.revision, entry.thing["spec"].get("holderIdentity") or "") for entry in history.entries("Lease")]
    bound = _bound_at(history)
    found: list[tuple[str, float]] = []
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
            took = passed.at - passed.sent + proxy.stalled_before(passed.sent)
            if revision > passed.since and holder not in own:
                said = f"{passed.asked.method} {passed.asked.path} at {revision}, {took:.1f} s, held by {holder!r}"
                found.append((said, took))
    return found


def late_sends(proxies: Iterable[FaultProxy], deadline: float) -> list[str]:
    """Writes that left a replica when its right to write was over: later than `deadline` seconds after a renewal of the
    lease came from it, or after it had released the lease. Whether the server took them does not matter.
    """
    found = []
    for proxy in proxies:
        taken = [one for one in proxy.passed if "/leases" in one.asked.path and one.status < 300]
        rights = [(one.sent, _json(one.body)["spec"].get("holderIdentity") or "") for one in taken]
        rights.append((0.0, ""))
        for at, asked in proxy.asked:
            if not asked.is_write or "/leases" in asked.path:
                continue
            renewed, holder = max(right for right in rights if right[0] <= at)
            late = at - renewed - deadline if holder else math.inf
            if late > UNNOTICED + proxy.stalled_before(at):
                found.append(f"{asked.method} {asked.path}, {late:.1f} s after the deadline")
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
