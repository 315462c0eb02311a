"""Gangs that a scheduler left half-bound, or cannot complete, on a real API server (spec K8)."""

from __future__ import annotations

import time

import pytest

from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from kube.cluster import Cluster, eventually
from kube.intercepted import Faults, Send
from kube.live import Live

TIMEOUT = 2


def half_bound(cluster: Cluster, cpu: int) -> None:
    """A gang of three of which a scheduler bound one pod and then went away, for longer than the gang's time."""
    node = cluster.node("n", cpu=cpu)
    gang(cluster, 3)
    cluster.bind("g0", node)
    time.sleep(TIMEOUT + 1.5)


def gang(cluster: Cluster, size: int) -> None:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{cluster.namespace}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    cluster.make(path, {"apiVersion": "scheduling.k8s.io/v1alpha2", "metadata": {"name": "g"}, "spec": spec})
    for number in range(size):
        cluster.pod(f"g{number}", schedulingGroup={"podGroupName": "g"})


def evicted(live: Live) -> bool:
    return bool(live.logged("gang evicted because it could not be completed in time"))


def test_K8_a_gang_whose_time_was_over_while_no_scheduler_ran_is_completed(cluster: Cluster) -> None:
    half_bound(cluster, cpu=4)
    with Live(cluster, gang_bind_timeout=TIMEOUT) as live:
        eventually(lambda: set(cluster.places().values()) == {"n"})
        time.sleep(TIMEOUT + 1)
        assert len(cluster.places()) == 3
        assert not evicted(live)


def test_K8_it_is_evicted_where_it_does_not_fit_any_more(cluster: Cluster) -> None:
    half_bound(cluster, cpu=1)
    with Live(cluster, gang_bind_timeout=TIMEOUT) as live:
        eventually(lambda: cluster.places() == {"g1": "", "g2": ""})
        assert evicted(live)


@pytest.mark.parametrize("cpu", [4, 1])
def test_a_dry_run_on_a_half_bound_gang_says_what_it_would_do(cluster: Cluster, cpu: int) -> None:
    half_bound(cluster, cpu=cpu)
    before = cluster.places()
    with Live(cluster, gang_bind_timeout=TIMEOUT, dry_run=True) as live:
        eventually(lambda: live.logged("would write"))
        time.sleep(TIMEOUT + 1)
        said = {line["change"] for line in live.logged("would write")}
    assert said == ({"Bind"} if cpu == 4 else {"Evict"})
    assert cluster.places() == before


def test_K8_a_gang_of_which_one_bind_finds_no_end_is_evicted_and_waits_again(cluster: Cluster) -> None:
    """The server cannot say whether one of them was made, for as long as the test wants."""
    fails = [True]

    async def fault(request: ApiRequest, send: Send) -> ApiAnswer | None:
        if fails[0] and request.path.endswith("/g1/binding"):
            return ApiAnswer(500, b'{"kind": "Status", "message": "etcdserver: request timed out"}')
        return None

    cluster.node("n", cpu=4)
    with Live(cluster, prepare=Faults(fault).install, gang_bind_timeout=TIMEOUT) as live:
        gang(cluster, 2)
        eventually(lambda: cluster.places() == {"g0": "n", "g1": ""})
        eventually(lambda: cluster.places() == {"g1": ""})
        assert evicted(live)
        path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        said = eventually(lambda: [one for one in cluster.get(path)["items"] if one["reason"] == "GangTimedOut"])
        assert said[0]["note"] == f"1 of 2 pods of the gang {cluster.namespace}/g could be bound within {TIMEOUT} s"
        fails[0] = False
        cluster.pod("g2", schedulingGroup={"podGroupName": "g"})
        eventually(lambda: cluster.places() == {"g1": "n", "g2": "n"})


def test_K8_a_gang_of_a_jobs_pods_without_a_group_is_held_to_it_too(cluster: Cluster) -> None:
    node = cluster.node("n", cpu=1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    meta = {"ownerReferences": [owner], "annotations": {"fairway.dev/min-available": "2"}}
    for name in ("t0", "t1"):
        cluster.pod(name, metadata=meta)
    cluster.bind("t0", node)
    with Live(cluster, gang_bind_timeout=TIMEOUT) as live:
        eventually(lambda: cluster.places() == {"t1": ""})
        assert evicted(live)
        path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        said = eventually(lambda: [one for one in cluster.get(path)["items"] if one["reason"] == "GangTimedOut"])
        assert (said[0]["regarding"]["kind"], said[0]["regarding"]["name"]) == ("Job", "train")
