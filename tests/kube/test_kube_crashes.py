"""Spec K14: nothing is kept on disk. The process is killed at the worst points, and the next one knows all it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.process import RunProcess
from kube.proxy import Asked, FaultProxy

POLICY = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate, preempt]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: devices}]
"""
DEVICES = "/apis/resource.k8s.io/v1"


class KilledOnce:
    """A process that is killed when it makes a request whose path ends so, before or after the server has done it."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, folder: Path) -> None:
        (folder / "policy.yaml").write_text(POLICY)
        self.proxy = proxy
        self.run = RunProcess(
            folder,
            "run",
            kubeconfig=str(proxy.kubeconfig(folder)),
            schedulerNames=[cluster.scheduler],
            policy=str(folder / "policy.yaml"),
            leaderElection={"enabled": False},
            gangBindTimeout=5,
        )
        proxy.kill = self.run.kill

    def at(self, end: str, fault: str = "kill-after", number: int = 1) -> None:
        """At the so many-th of these requests."""
        left = [number]

        def choose(asked: Asked) -> str:
            if not asked.is_write or not asked.path.endswith(end):
                return ""
            left[0] -= 1
            return fault if left[0] == 0 else ""

        self.proxy.choose = choose

    def dies(self) -> None:
        eventually(lambda: self.run.was_killed, "it was killed")
        self.proxy.choose = lambda asked: ""


@pytest.fixture(name="killed")
def a_process_that_is_killed(installed: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[KilledOnce]:
    with FaultProxy(installed) as proxy:
        killed = KilledOnce(cluster, proxy, tmp_path)
        yield killed
        killed.run.kill()
        assert killed.run.problems() == []


def gang(cluster: Cluster, name: str, size: int) -> None:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{cluster.namespace}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    cluster.make(path, {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec})
    for number in range(size):
        cluster.pod(f"{name}-{number}", schedulingGroup={"podGroupName": name})


@pytest.mark.parametrize("fault", ["kill-before", "kill-after"])
def test_K14_a_gang_of_which_half_was_bound_is_completed(cluster: Cluster, killed: KilledOnce, fault: str) -> None:
    cluster.node("n", cpu=10)
    gang(cluster, "g", 4)
    killed.at("/binding", fault, number=3)
    killed.run.start()
    killed.dies()
    killed.run.start()
    eventually(lambda: all(cluster.places().values()))


def test_K14_a_reservation_stands_across_a_crash(cluster: Cluster, killed: KilledOnce) -> None:
    cluster.node("n", cpu=2)
    path = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations"
    killed.run.start()
    cluster.pod("runs", cpu="1")
    eventually(lambda: cluster.places() == {"runs": "n"})
    cluster.pod("wide", cpu="2")
    before = eventually(lambda: _only(cluster, path))
    killed.run.kill()
    cluster.pod("small", cpu="1")  # it would fit, but the node is reserved
    killed.run.start()
    eventually(lambda: _says_why(cluster, "small"))
    after = _only(cluster, path)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["places"] == before["spec"]["places"]
    assert cluster.places()["small"] == ""
    cluster.delete(f"{cluster.pods}/runs")
    eventually(lambda: cluster.places() == {"wide": "n", "small": ""})
    eventually(lambda: _only(cluster, path) is None or _only(cluster, path)["spec"]["jobRef"]["name"] == "small")


def test_a_reservation_whose_answer_was_lost_is_read_and_there_is_no_second(
    cluster: Cluster, killed: KilledOnce
) -> None:
    path = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations"
    cluster.node("n", cpu=2)
    killed.at("/reservations", "lost")
    killed.run.start()
    cluster.pod("runs", cpu="1")
    eventually(lambda: cluster.places() == {"runs": "n"})
    cluster.pod("wide", cpu="2")
    name = eventually(lambda: _only(cluster, path))["metadata"]["name"]
    eventually(lambda: ("GET", f"{path}/{name}") in {(one.method, one.path) for _, one in killed.proxy.asked})
    cluster.delete(f"{cluster.pods}/runs")
    eventually(lambda: cluster.places() == {"wide": "n"})
    eventually(lambda: _only(cluster, path) is None, "the reservation is released")


def _only(cluster: Cluster, path: str) -> Any:
    found = cluster.get(path)["items"]
    return found[0] if found else None


def _says_why(cluster: Cluster, name: str) -> bool:
    found = cluster.get(f"{cluster.pods}/{name}")["status"].get("conditions", ())
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in found)


@pytest.mark.parametrize("end", ["/eviction", "/high/status"])
def test_K14_after_a_crash_no_second_victim_is_evicted_for_the_same_pod(
    cluster: Cluster, killed: KilledOnce, end: str
) -> None:
    """It dies when the victim was told to leave, or when the claimant was nominated.

    A claimant that has starved by the time of the second life has a reservation, and no nomination.
    """
    name = f"{cluster.namespace}-high"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    for number in range(3):
        cluster.node(f"n{number}", cpu=2)
        cluster.pod(f"low-{number}", cpu="2", terminationGracePeriodSeconds=30)
    killed.run.start()
    eventually(lambda: all(cluster.places().values()), "all are placed")
    for number in range(3):
        cluster.runs(f"low-{number}")
    killed.at(end)
    cluster.pod("high", cpu="2", priorityClassName=name)
    killed.dies()
    killed.run.start()
    eventually(lambda: len(_terminating(cluster)) == 1, "one victim leaves")
    eventually(lambda: _has_a_place(cluster, "high"), "it is nominated or has a reservation")
    victim = _terminating(cluster)[0]
    node = cluster.places()[victim]
    cluster.delete(f"{cluster.pods}/{victim}")
    eventually(lambda: cluster.places()["high"] == node, "it has the victim's place")
    assert _terminating(cluster) == []
    assert len(cluster.places()) == 3


def _has_a_place(cluster: Cluster, pod: str) -> bool:
    reservations = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations"
    return bool(cluster.get(f"{cluster.pods}/{pod}")["status"].get("nominatedNodeName") or _only(cluster, reservations))


def _terminating(cluster: Cluster) -> list[str]:
    found = cluster.get(cluster.pods)["items"]
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" in pod["metadata"]]


@pytest.mark.parametrize(
    ("end", "fault", "number"),
    [
        ("/evictionrecords", "kill-before", 1),
        ("/evictionrecords", "kill-after", 1),
        ("/eviction", "kill-after", 1),
        ("/eviction", "kill-before", 2),
    ],
)
def test_K14_a_stop_is_counted_once_wherever_the_scheduler_ends(
    cluster: Cluster, killed: KilledOnce, end: str, fault: str, number: int
) -> None:
    """The record is written before the first pod of the gang is evicted, and the next life goes on with it."""
    records = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/evictionrecords"
    name = f"{cluster.namespace}-high"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    cluster.node("n", cpu=2)
    gang(cluster, "g", 2)
    killed.run.start()
    eventually(lambda: all(cluster.places().values()), "the gang is placed")
    for pod in ("g-0", "g-1"):
        cluster.runs(pod)
    killed.at(end, fault, number)
    cluster.pod("high", cpu="2", priorityClassName=name)
    killed.dies()
    killed.run.start()
    eventually(lambda: cluster.places() == {"high": "n"}, "the claimant has the node")
    record = _only(cluster, records)
    assert record["status"]["stops"] == 1
    assert {victim["pod"] for victim in record["status"]["victims"]} == {"g-0", "g-1"}
    assert [owner["kind"] for owner in record["metadata"]["ownerReferences"]] == ["PodGroup"]

    cluster.delete(f"{cluster.pods}/high")
    for pod in ("g-0", "g-1"):  # as its controller would
        cluster.pod(pod, schedulingGroup={"podGroupName": "g"})
    eventually(lambda: cluster.places() == {"g-0": "n", "g-1": "n"}, "it runs again")
    for pod in ("g-0", "g-1"):
        cluster.runs(pod)
    cluster.pod("next", cpu="2", priorityClassName=name)
    eventually(lambda: "protected until" in _message(cluster, "next"), "the next claimant waits, and says why")
    eventually(lambda: "restartedAt" in _only(cluster, records)["status"], "the restart is recorded")
    assert _only(cluster, records)["status"]["stops"] == 1
    assert cluster.places() == {"g-0": "n", "g-1": "n", "next": ""}


def test_a_record_whose_answer_was_lost_is_read_and_counts_once(cluster: Cluster, killed: KilledOnce) -> None:
    records = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/evictionrecords"
    name = f"{cluster.namespace}-high"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    cluster.node("n", cpu=1)
    gang(cluster, "g", 1)
    killed.run.start()
    eventually(lambda: all(cluster.places().values()), "the gang is placed")
    cluster.runs("g-0")
    killed.at("/evictionrecords", "lost")
    cluster.pod("high", priorityClassName=name)
    eventually(lambda: cluster.places() == {"high": "n"}, "the claimant has the node")
    assert _only(cluster, records)["status"]["stops"] == 1
    assert ("GET", f"{records}/g") in {(one.method, one.path) for _, one in killed.proxy.asked}


def test_a_record_that_is_a_week_old_is_deleted(cluster: Cluster, killed: KilledOnce) -> None:
    """Its job is gone, and no garbage collector runs here."""
    records = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/evictionrecords"
    reference = {"kind": "PodGroup", "name": "gone", "uid": "gone"}
    for name, stopped in (("gone", "2020-01-01T00:00:00Z"), ("fresh", "2100-01-01T00:00:00Z")):
        status = {"stops": 2, "stoppedAt": stopped, "victims": [{"pod": "gone-0", "uid": "gone-0"}]}
        body = {"metadata": {"name": name}, "spec": {"jobRef": {**reference, "name": name}}, "status": status}
        head = {"apiVersion": "fairway.dev/v1alpha1", "kind": "EvictionRecord"}
        cluster.plane.call("POST", records, {**head, **body}, user="scheduler")
    killed.run.start()
    cluster.node("n", cpu=1)
    cluster.pod("p")
    eventually(lambda: cluster.places() == {"p": "n"})
    eventually(lambda: [one["metadata"]["name"] for one in cluster.get(records)["items"]] == ["fresh"])


def _message(cluster: Cluster, name: str) -> str:
    found = cluster.get(f"{cluster.pods}/{name}")["status"].get("conditions", ())
    return next((one.get("message", "") for one in found if one["type"] == "PodScheduled"), "")


def test_K14_a_claim_that_was_allocated_for_a_pod_that_was_never_bound_is_released(
    cluster: Cluster, killed: KilledOnce
) -> None:
    space = cluster.namespace
    driver = f"{space}.example"
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    cluster.make(f"{DEVICES}/deviceclasses", {"metadata": {"name": space}, "spec": {"selectors": selectors}})
    for number in (1, 2):
        node = cluster.node(f"n{number}", cpu=1)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec: dict[str, Any] = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "d0"}]}
        cluster.make(f"{DEVICES}/resourceslices", {"metadata": {"name": node}, "spec": spec})
    claims = f"{DEVICES}/namespaces/{space}/resourceclaims"
    request = {"name": "d", "exactly": {"deviceClassName": space}}
    cluster.make(claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    killed.at("/resourceclaims/c/status")
    killed.run.start()
    cluster.pod("p", resourceClaims=[{"name": "d", "resourceClaimName": "c"}])
    killed.dies()
    first = _allocated(cluster, claims)
    assert first
    assert cluster.places() == {"p": ""}
    cluster.plane.call("PATCH", f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}}, kind="merge")
    killed.run.start()
    other = f"{space}-n2" if first == f"{space}-n1" else f"{space}-n1"
    eventually(lambda: cluster.places() == {"p": other.removeprefix(f"{space}-")})
    assert _allocated(cluster, claims) == other
    cluster.delete(f"{cluster.pods}/p")
    cluster.plane.call("PATCH", f"{claims}/c", {"metadata": {"finalizers": None}}, kind="merge")


def _allocated(cluster: Cluster, claims: str) -> str:
    """The pool of its device."""
    status = cluster.get(f"{claims}/c").get("status", {})
    results = (status.get("allocation") or {}).get("devices", {}).get("results", ())
    return str(results[0]["pool"]) if results else ""
