"""Spec K9 to K11 on a real API server: what is written for people and machines to read, and how often.

Those about reading are in `test_kube_reading`, K7 and K8 in `test_kube_writing`, K12 and K13 in `test_kube_replicas`,
K14 in `test_kube_crashes`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.history import DirectClient, History
from kube.intercepted import Faults, Send
from kube.live import Live

VOLCANO = "scheduling.volcano.sh/v1beta1"
QUEUES = f"/apis/{VOLCANO}/queues"
STIRRED = 8.0
"""Seconds in which things happen and a status must not be written again."""


@pytest.fixture(name="history")
def a_history(installed: ControlPlane, cluster: Cluster) -> Iterator[History]:
    client = DirectClient(installed)
    space = f"namespaces/{cluster.namespace}"
    paths = {
        "Pod": f"/api/v1/{space}/pods",
        "PodGroup": f"/apis/{VOLCANO}/{space}/podgroups",
        "Event": f"/apis/events.k8s.io/v1/{space}/events",
    }
    with History(client, paths) as history:
        yield history
    client.close()


def group(cluster: Cluster, name: str, minimum: int, **spec: Any) -> str:
    path = f"/apis/{VOLCANO}/namespaces/{cluster.namespace}/podgroups"
    head = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}}
    cluster.make(path, {**head, "spec": {"minMember": minimum, **spec}})
    return f"{path}/{name}"


def member(cluster: Cluster, name: str, of: str, cpu: str = "1") -> None:
    cluster.pod(name, cpu=cpu, metadata={"annotations": {"scheduling.k8s.io/group-name": of}})


async def _no_fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
    return None


def stir(cluster: Cluster, live: Live, **metadata: Any) -> float:
    """Other pods come and go, and each is decided about, for so many seconds: reasons come once a second."""
    begin = time.monotonic()
    for number in count():
        cycles = live.cycles
        cluster.pod(f"other-{number}", cpu="100m", metadata=metadata)
        eventually(lambda: cluster.places()[f"other-{number}"])  # noqa: B023 - looked at before the next one
        assert live.cycles > cycles
        cluster.delete(f"{cluster.pods}/other-{number}")
        if time.monotonic() - begin > STIRRED:
            break
    return time.monotonic() - begin


def test_K9_a_status_is_written_again_only_when_it_changes_in_substance(cluster: Cluster, history: History) -> None:
    """By the requests that are made: one that changes nothing makes no revision. The counts of the queue move with
    every pod that comes and goes.
    """
    faults = Faults(_no_fault)
    cluster.node("n", cpu=2)
    queue = cluster.namespace
    cluster.make(QUEUES, {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": queue}, "spec": {"weight": 1}})
    with Live(cluster, prepare=faults.install) as live:
        path = group(cluster, "g", 3, queue=queue)
        for number in range(3):
            member(cluster, f"g-{number}", "g")
        eventually(lambda: "conditions" in cluster.get(path).get("status", {}))
        eventually(lambda: _condition(cluster.get(f"{cluster.pods}/g-0"), "PodScheduled"))
        eventually(lambda: not live.scheduler._queue.unended())
        before = len(faults.requests)
        seconds = stir(cluster, live, labels={"fairway.dev/queue": queue})
        written = Counter(one.path for one in faults.requests[before:] if one.path.endswith("/status"))
        most = 2 + seconds // 10  # what moves may be written once in ten seconds, and a state once at once
        quiet = [f"{path}/status", f"{QUEUES}/{queue}/status"]
        quiet += [f"{cluster.pods}/g-{number}/status" for number in range(3)]
        assert max(written[name] for name in quiet) <= most
        history.reaches()
        texts = {
            _condition(entry.thing, "PodScheduled")["reason"]
            for entry in history.entries("Pod")
            if entry.name == "g-0" and _condition(entry.thing, "PodScheduled")
        }
        assert texts == {"Unschedulable"}


def _condition(thing: Any, kind: str) -> Any:
    found = thing.get("status", {}).get("conditions", ())
    return next((one for one in found if one["type"] == kind), None)


def test_K10_a_group_of_volcano_goes_through_its_phases_and_its_queue_counts_it(
    cluster: Cluster, history: History
) -> None:
    cluster.node("n", cpu=2)
    queue = cluster.namespace
    head = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": queue}}
    cluster.make(QUEUES, {**head, "spec": {"weight": 1}})
    with Live(cluster):
        path = group(cluster, "g", 2, queue=queue, minResources={"cpu": "2"})
        eventually(lambda: _phase(cluster, path) == "Inqueue", "a group without pods is let in")
        member(cluster, "g-0", "g")
        member(cluster, "g-1", "g")
        eventually(lambda: _phase(cluster, path) == "Running")
        placed = _condition(cluster.get(path), "Scheduled")
        assert (placed["status"], placed["reason"]) == ("True", "GangReady")
        eventually(lambda: _counts(cluster, queue).get("running") == 1)
        assert _counts(cluster, queue)["allocated"]["cpu"] == "2"
        for name in ("g-0", "g-1"):
            cluster.runs(name)
            cluster.runs(name, "Succeeded")
        eventually(lambda: _phase(cluster, path) == "Completed")
    phases = [entry.thing["status"].get("phase") for entry in history.entries("PodGroup") if "status" in entry.thing]
    order = ["Pending", "Inqueue", "Running", "Completed"]
    assert phases == sorted(phases, key=order.index)


def _phase(cluster: Cluster, path: str) -> str:
    return str(cluster.get(path).get("status", {}).get("phase", ""))


def _counts(cluster: Cluster, queue: str) -> Any:
    return cluster.get(f"{QUEUES}/{queue}").get("status", {})


def test_K10_a_group_of_kubernetes_has_its_own_condition(cluster: Cluster) -> None:
    version = "scheduling.k8s.io/v1alpha2"
    path = f"/apis/{version}/namespaces/{cluster.namespace}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    cluster.node("n", cpu=1)
    with Live(cluster):
        cluster.make(path, {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
        for name in ("g-0", "g-1"):
            cluster.pod(name, schedulingGroup={"podGroupName": "g"})
        waits = eventually(lambda: _condition(cluster.get(f"{path}/g"), "PodGroupScheduled"))
        assert (waits["status"], waits["reason"]) == ("False", "Unschedulable")
        assert "insufficient cpu" in waits["message"]
        cluster.node("m", cpu=1)
        eventually(lambda: _condition(cluster.get(f"{path}/g"), "PodGroupScheduled")["status"] == "True")


def test_K11_one_event_for_a_job_and_a_reason_and_one_for_each_of_its_pods(cluster: Cluster, history: History) -> None:
    cluster.node("n", cpu=2)
    with Live(cluster) as live:
        group(cluster, "g", 3)
        for number in range(3):
            member(cluster, f"g-{number}", "g")
        eventually(lambda: ("Unschedulable", "PodGroup", "g") in _events(history))
        seconds = stir(cluster, live)
        cluster.node("m", cpu=2)
        eventually(lambda: ("Scheduled", "PodGroup", "g") in _events(history))
        found = _events(history)
        assert found["Scheduled", "PodGroup", "g"] == 1
        assert found["Unschedulable", "PodGroup", "g"] <= 2  # too few pods at first, then too few nodes
        said = [one for one in history.snapshot("Event") if one["reason"] == "Unschedulable"]
        times = sum(one.get("series", {}).get("count", 1) for one in said if one["regarding"]["name"] == "g")
        assert times <= 3 + seconds // 10, "nor is one that is there said again in each cycle"
        of_pods = {key: count for key, count in found.items() if key[1] == "Pod" and key[2].startswith("g-")}
        assert of_pods == {("FailedScheduling", "Pod", f"g-{number}"): 1 for number in range(3)}


def _events(history: History) -> Counter[tuple[str, str, str]]:
    found = history.snapshot("Event")
    return Counter((one["reason"], one["regarding"]["kind"], one["regarding"]["name"]) for one in found)


def test_K11_evictions_and_reservations_are_events_too(cluster: Cluster, history: History, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("""
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate, preempt]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
""")
    cluster.node("n", cpu=2)
    name = f"{cluster.namespace}-high"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    with Live(cluster, policy=str(policy)):
        cluster.pod("low", cpu="2", terminationGracePeriodSeconds=30)
        eventually(lambda: cluster.places() == {"low": "n"})
        cluster.runs("low")
        cluster.pod("high", cpu="2", priorityClassName=name)
        eventually(lambda: ("Preempted", "Pod", "low") in _events(history))
        cluster.delete(f"{cluster.pods}/low")
        eventually(lambda: cluster.places() == {"high": "n"})
        cluster.pod("equal", cpu="2", priorityClassName=name)
        eventually(lambda: ("Reserved", "Pod", "equal") in _events(history))
        one = next(event for event in history.snapshot("Event") if event["reason"] == "Preempted")
        assert f"by preempt for {cluster.namespace}/high" in one["note"]
        assert (one["type"], one["action"]) == ("Warning", "Preempting")
