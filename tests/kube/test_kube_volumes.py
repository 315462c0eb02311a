"""Spec K23: volumes are bound before their pods, on a real API server, and whatever happens in between."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.process import RunProcess
from kube.proxy import Asked, FaultProxy
from kube.storage import HOST, SELECTED, Storage

POLICY = """
actions: [enqueue, allocate]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def nodes(cluster: Cluster, *names: str, cpu: float = 4) -> None:
    for name in names:
        labels: dict[str, Any] = {HOST: f"{cluster.namespace}-{name}"}
        cluster.node(name, cpu=cpu, **labels)


def gang(cluster: Cluster, name: str, size: int) -> None:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{cluster.namespace}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    cluster.make(path, {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec})


def test_K23_a_volume_that_is_there_and_one_that_is_provisioned(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1", "n2")
    with Storage(cluster) as storage, Live(cluster) as live:
        storage.volume("pv", f"{cluster.namespace}-n2", storage.local)
        storage.claim("a", storage.local)
        storage.claim("b", storage.disk)
        storage.user("there", "a")
        storage.user("made", "b")
        eventually(lambda: all(cluster.places().values()), "both are bound")
        assert cluster.places()["there"] == "n2"
        assert (storage.volume_of("a"), storage.volume_of("b")) == ("pv", "pvc-b")
        volume = cluster.get(f"/api/v1/persistentvolumes/{cluster.namespace}-pv")
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
        assert [line for line in live.lines if "forbidden" in str(line).lower()] == []


def test_K23_a_pod_that_waits_for_its_volume_holds_nobody_up(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1")
    with Storage(cluster) as storage, Live(cluster, max_in_flight_binds=1):
        storage.provisions = False
        storage.claim("slow", storage.disk)
        storage.user("waits", "slow")
        path = f"{storage.claims}/slow"
        eventually(lambda: SELECTED in cluster.get(path)["metadata"].get("annotations", {}), "the node is selected")
        cluster.pod("other")
        cluster.pod("another")
        eventually(lambda: cluster.places()["other"] == cluster.places()["another"] == "n1")
        assert cluster.places()["waits"] == ""
        storage.provisions = True
        eventually(lambda: cluster.places()["waits"] == "n1")


def test_K23_a_gang_is_bound_when_the_volumes_of_all_are(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1", "n2")
    with Storage(cluster) as storage, Live(cluster):
        storage.provisions = False
        storage.volume("pv", f"{cluster.namespace}-n1", storage.local)
        storage.claim("quick", storage.local)
        storage.claim("slow", storage.disk)
        gang(cluster, "g", 3)
        for name, claims in (("g-0", ["quick"]), ("g-1", ["slow"]), ("g-2", [])):
            storage.user(name, *claims, schedulingGroup={"podGroupName": "g"})
        eventually(lambda: storage.volume_of("quick") == "pv", "the volume that was there is bound")
        time.sleep(1)
        assert set(cluster.places().values()) == {""}
        storage.provisions = True
        eventually(lambda: all(cluster.places().values()))


def test_K23_a_provisioner_that_gives_up(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1")
    with Storage(cluster) as storage, Live(cluster):
        storage.gives_up = 1
        storage.claim("c", storage.disk)
        storage.user("p", "c")
        eventually(lambda: cluster.places()["p"] == "n1", "the second attempt succeeds")
        assert len(storage.given_up) == 1
        said = cluster.get(f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")["items"]
        notes = [event["note"] for event in said if event["reason"] == "FailedScheduling"]
        assert 'provisioning failed for PVC "c"' in notes


def test_K23_volumes_that_take_too_long(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1")
    with Storage(cluster) as storage, Live(cluster, bind_volumes_timeout=1):
        storage.provisions = False
        storage.claim("c", storage.disk)
        storage.user("p", "c")

        def notes() -> list[str]:
            said = cluster.get(f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")["items"]
            return [event["note"] for event in said]

        eventually(lambda: "binding volumes: timed out after 1 s" in notes())
        assert cluster.places()["p"] == ""
        storage.provisions = True
        eventually(lambda: cluster.places()["p"] == "n1")


def test_K23_two_pods_and_one_volume(installed: ControlPlane, cluster: Cluster) -> None:
    nodes(cluster, "n1")
    with Storage(cluster) as storage, Live(cluster):
        storage.volume("pv", f"{cluster.namespace}-n1", storage.local)
        for name in ("a", "b"):
            storage.claim(name, storage.local)
            storage.user(name, name)
        eventually(lambda: sorted(cluster.places().values()) == ["", "n1"])
        [left] = [name for name, node in cluster.places().items() if not node]
        condition = eventually(lambda: _waits(cluster.get(f"{cluster.pods}/{left}")), "it says why it waits")
        assert "1 node(s) didn't find available persistent volumes to bind" in condition["message"]
        storage.volume("pv2", f"{cluster.namespace}-n1", storage.local)
        eventually(lambda: all(cluster.places().values()))


WRITES = {"volume": "persistentvolumes/", "claim": "persistentvolumeclaims/", "binding": "/binding"}


@pytest.mark.parametrize("fault", ["kill-before", "kill-after"])
@pytest.mark.parametrize("write", WRITES)
def test_K23_K14_killed_at_every_write(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path, write: str, fault: str
) -> None:
    """Two pods with a volume of either kind each, in a gang: whatever stands when the process dies, the next one
    continues from there, and no volume is given twice.
    """
    nodes(cluster, "n1", "n2")
    (tmp_path / "policy.yaml").write_text(POLICY)
    with Storage(cluster) as storage, FaultProxy(installed) as proxy:
        run = RunProcess(
            tmp_path,
            "run",
            kubeconfig=str(proxy.kubeconfig(tmp_path)),
            schedulerNames=[cluster.scheduler],
            policy=str(tmp_path / "policy.yaml"),
            leaderElection={"enabled": False},
            gangBindTimeout=5,
        )
        proxy.kill = run.kill
        left = [1]

        def choose(asked: Asked) -> str:
            if not asked.is_write or WRITES[write] not in asked.path or not left[0]:
                return ""
            left[0] -= 1
            return fault

        proxy.choose = choose
        for i in (1, 2):
            storage.volume(f"pv{i}", f"{cluster.namespace}-n{i}", storage.local)
        gang(cluster, "g", 2)
        for i in (1, 2):
            storage.claim(f"a{i}", storage.local)
            storage.claim(f"b{i}", storage.disk)
            storage.user(f"g-{i}", f"a{i}", f"b{i}", schedulingGroup={"podGroupName": "g"})
        run.start()
        eventually(lambda: run.was_killed, "it was killed")
        run.start()
        eventually(lambda: all(cluster.places().values()), "the next one completes it")
        assert {storage.volume_of("a1"), storage.volume_of("a2")} == {"pv1", "pv2"}
        for i in (1, 2):
            place = cluster.places()[f"g-{i}"]
            assert storage.volume_of(f"a{i}") == f"pv{place[-1]}", "each is where its volume is"
        run.kill()
        assert run.problems() == []


def _waits(pod: Any) -> Any:
    found = pod["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "PodScheduled" and one["status"] == "False"), None)
