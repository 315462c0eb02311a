"""What users and operators of a cluster do while Fairway schedules it, with kubectl, and what they see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.kubectl import Kubectl
from kube.live import Live

GROUPS = "podgroups.scheduling.volcano.sh"
PREEMPTING = """
actions: [enqueue, allocate, preempt, backfill]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
RESERVING = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate]
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@pytest.fixture(name="kubectl")
def a_user_of_kubectl(installed: ControlPlane, cluster: Cluster) -> Kubectl:
    return Kubectl(installed, cluster.namespace)


def gang(cluster: Cluster, name: str, minimum: int, pods: int, cpu: str = "1") -> None:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    cluster.make(path, {**head, "spec": {"minMember": minimum}})
    for number in range(pods):
        cluster.pod(f"{name}-{number}", cpu=cpu, metadata={"annotations": {"scheduling.k8s.io/group-name": name}})


def shown(kubectl: Kubectl, pod: str, *texts: str) -> str:
    """What `kubectl describe pod` says once it says all of this."""
    found = ""

    def says_so() -> bool:
        nonlocal found
        found = kubectl("describe", "pod", pod)
        return all(text in found for text in texts)

    eventually(says_so, f"{pod} shows {texts}")
    return found


def test_a_node_is_drained_and_its_pods_go_elsewhere(cluster: Cluster, kubectl: Kubectl) -> None:
    first = cluster.node("n1", cpu=2)
    with Live(cluster):
        cluster.pod("a")
        cluster.pod("b")
        eventually(lambda: cluster.places() == {"a": "n1", "b": "n1"})
        for name in ("a", "b"):
            cluster.runs(name)
        kubectl("drain", first, "--force", "--timeout=60s")
        eventually(lambda: cluster.places() == {})
        cluster.pod("a-2")  # as their controller makes them again
        text = shown(kubectl, "a-2", "FailedScheduling", "unschedulable")
        assert "PodScheduled" in text
        cluster.node("n2", cpu=1)
        eventually(lambda: cluster.places() == {"a-2": "n2"})
        shown(kubectl, "a-2", "Scheduled", f"Successfully assigned {cluster.namespace}/a-2 to {cluster.namespace}-n2")
        cluster.pod("b-2")
        shown(kubectl, "b-2", "FailedScheduling")
        kubectl("uncordon", first)
        eventually(lambda: cluster.places() == {"a-2": "n2", "b-2": "n1"})


def test_a_cordoned_node_takes_no_pod_and_keeps_those_it_has(cluster: Cluster, kubectl: Kubectl) -> None:
    node = cluster.node("n", cpu=4)
    with Live(cluster):
        cluster.pod("before")
        eventually(lambda: cluster.places() == {"before": "n"})
        kubectl("cordon", node)
        cluster.pod("after")
        shown(kubectl, "after", "unschedulable")
        assert cluster.places() == {"before": "n", "after": ""}
        kubectl("uncordon", node)
        kubectl("wait", "--for=condition=PodScheduled", "pod/after", "--timeout=60s")
        assert cluster.places() == {"before": "n", "after": "n"}


def test_a_node_is_deleted_and_what_it_had_counts_nowhere(cluster: Cluster, kubectl: Kubectl) -> None:
    node = cluster.node("n1", cpu=2)
    with Live(cluster):
        gang(cluster, "g", 2, 2)
        eventually(lambda: set(cluster.places().values()) == {"n1"})
        kubectl("delete", "node", node)
        for name in ("g-0", "g-1"):
            kubectl("delete", "pod", name, "--grace-period=0", "--force")  # as the collector of lost pods does
        cluster.node("n2", cpu=2)
        for name in ("g-2", "g-3"):
            cluster.pod(name, metadata={"annotations": {"scheduling.k8s.io/group-name": "g"}})
        eventually(lambda: cluster.places() == {"g-2": "n2", "g-3": "n2"})


def test_a_group_is_edited_and_starts_with_fewer_pods(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.node("n", cpu=2)
    with Live(cluster):
        gang(cluster, "g", 3, 3)
        row = eventually(lambda: _row(kubectl, "g", "Unschedulable"))
        assert row[:3] == ["g", "Inqueue", "3"] or row[:3] == ["g", "Pending", "3"]
        said = shown_group(kubectl, "g", "Unschedulable")
        assert "insufficient cpu" in said
        assert set(cluster.places().values()) == {""}
        kubectl("patch", f"{GROUPS}/g", "--type=merge", "-p", '{"spec": {"minMember": 2}}')
        assert "condition met" in kubectl("wait", "--for=condition=Scheduled", f"{GROUPS}/g", "--timeout=60s")
        eventually(lambda: sorted(cluster.places().values()) == ["", "n", "n"])
        eventually(lambda: kubectl.rows("get", GROUPS, "g")[1][1] == "Running")


def _row(kubectl: Kubectl, name: str, condition: str) -> list[str] | None:
    status = kubectl("get", GROUPS, name, "-o", "jsonpath={.status.conditions[*].type}")
    return kubectl.rows("get", GROUPS, name)[1] if condition in status else None


def shown_group(kubectl: Kubectl, name: str, *texts: str) -> str:
    def says_so() -> Any:
        found = kubectl("describe", GROUPS, name)
        return found if all(text in found for text in texts) else ""

    return str(eventually(says_so, f"{name} shows {texts}"))


def test_a_policy_is_broken_and_repaired(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    cluster.node("n")
    (tmp_path / "policy.yaml").write_text("actions: enqueue\n")
    kubectl("create", "configmap", "fairway-policy", f"--from-file={tmp_path / 'policy.yaml'}")
    with Live(cluster, policy_config_map=f"{cluster.namespace}/fairway-policy", policy_interval=0.1) as live:
        cluster.pod("p")
        eventually(lambda: live.cycles)
        broken = '{"data": {"policy.yaml": "actions: enqueue, alocate"}}'
        kubectl("patch", "configmap", "fairway-policy", "--type=merge", "-p", broken)
        said = eventually(lambda: kubectl("get", "events", "--field-selector=reason=PolicyRefused", "-o", "wide"))
        assert "alocate" in said
        assert "configmap/fairway-policy" in said
        repaired = '{"data": {"policy.yaml": "actions: enqueue, allocate"}}'
        kubectl("patch", "configmap", "fairway-policy", "--type=merge", "-p", repaired)
        kubectl("wait", "--for=condition=PodScheduled", "pod/p", "--timeout=60s")


def test_a_policy_that_adds_preemption_evicts_for_a_pod_that_waits(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(PREEMPTING.replace("preempt, ", ""))
    cluster.node("n", cpu=2)
    name = f"{cluster.namespace}-high"
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 1000})
    with Live(cluster, policy=str(policy), policy_interval=0.1):
        cluster.pod("low", cpu="2", terminationGracePeriodSeconds=30)
        eventually(lambda: cluster.places() == {"low": "n"})
        cluster.runs("low")
        cluster.pod("high", cpu="2", priorityClassName=name)
        shown(kubectl, "high", "FailedScheduling", "insufficient cpu")
        policy.write_text(PREEMPTING)
        shown(kubectl, "low", "Preempted", "DisruptionTarget", f"by preempt for {cluster.namespace}/high")
        cluster.delete(f"{cluster.pods}/low")
        eventually(lambda: cluster.places() == {"high": "n"})


def test_what_kubectl_gets_of_queues_groups_and_reservations(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    """As the scheduler writes them, not as a test does."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(RESERVING)
    cluster.node("n", cpu=2)
    with Live(cluster, policy=str(policy)):
        cluster.pod("runs", cpu="1")
        eventually(lambda: cluster.places() == {"runs": "n"})
        gang(cluster, "wide", 2, 2)
        head, row = eventually(lambda: _rows(kubectl, "reservations.fairway.dev"))
        assert (head[:3], row[:3]) == (["NAME", "KIND", "JOB"], ["wide", "PodGroup", "wide"])
        both = kubectl("get", f"{GROUPS},queues.scheduling.volcano.sh,reservations.fairway.dev")
        assert "podgroup.scheduling.volcano.sh/wide" in both
        assert "queue.scheduling.volcano.sh/default" in both
        queue = eventually(lambda: _queue(kubectl))
        assert queue[:3] == ["default", "1", "Open"]
        shown_group(kubectl, "wide", "Reserved")
        cluster.delete(f"{cluster.pods}/runs")
        assert "condition met" in kubectl("wait", "--for=condition=Scheduled", f"{GROUPS}/wide", "--timeout=60s")
        eventually(lambda: not _rows(kubectl, "reservations.fairway.dev"), "its reservation is released")


def _rows(kubectl: Kubectl, kind: str) -> Any:
    found = kubectl.rows("get", kind)
    return found if len(found) > 1 else None


def _queue(kubectl: Kubectl) -> Any:
    found = kubectl.rows("get", "queues.scheduling.volcano.sh", "default")[1]
    return found if "Open" in found else None
