"""What users of kubectl see: columns, short names, explanations, and `kubectl wait`."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.controlplane.plane import SCHEDULER, ControlPlane
from kube.kubectl import Kubectl
from kube.servers import apply, ask, create, eventually, namespace, pod

SPACE = "kubectl"
VOLCANO = "scheduling.volcano.sh/v1beta1"


class KubectlUser(Kubectl):
    """Who also plays the scheduler."""

    def status(self, path: str, status: dict[str, Any]) -> None:
        kind = "application/merge-patch+json"
        ask(self.plane, "PATCH", f"{path}/status", {"status": status}, kind=kind, user=SCHEDULER)


@pytest.fixture(name="kubectl", scope="module")
def a_user_of_kubectl(plane: ControlPlane) -> KubectlUser:
    apply(plane, objects(InstallOptions()))
    namespace(plane, SPACE)
    return KubectlUser(plane, SPACE)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_queues_and_groups_have_useful_columns(kubectl: KubectlUser) -> None:
    queue = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "columns"}, "spec": {"weight": 3}}
    meta = {"name": "g", "namespace": SPACE}
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 2, "queue": "columns"}}
    create(kubectl.plane, queue)
    create(kubectl.plane, group)
    kubectl.status(
        f"/apis/{VOLCANO}/queues/columns",
        {"state": "Open", "pending": 1, "inqueue": 2, "running": 4, "allocated": {"cpu": "7"}},
    )
    waits = {"type": "Unschedulable", "status": "True", "reason": "GangNotReady", "message": "0/1 nodes fit"}
    kubectl.status(f"/apis/{VOLCANO}/namespaces/{SPACE}/podgroups/g", {"phase": "Inqueue", "conditions": [waits]})
    head, line = rows(kubectl("get", "q", "columns"))
    assert head == ["NAME", "WEIGHT", "STATE", "PARENT", "PENDING", "INQUEUE", "RUNNING", "AGE"]
    assert line[:6] == ["columns", "3", "Open", "1", "2", "4"]  # it has no parent
    assert "7" in rows(kubectl("get", "q", "columns", "-o", "wide"))[1]
    head, line = rows(kubectl("get", "pg", "g", "-o", "wide"))
    assert head == ["NAME", "STATUS", "MINMEMBER", "RUNNING", "QUEUE", "REASON", "AGE"]
    assert line[:5] == ["g", "Inqueue", "2", "columns", "GangNotReady"]  # none runs
    assert "0/1 nodes fit" in kubectl("describe", "podgroups.scheduling.volcano.sh", "g")


def test_reservations_and_classes_have_useful_columns(kubectl: KubectlUser) -> None:
    reference = {"kind": "PodGroup", "name": "train", "uid": "u1"}
    thing = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "train", "namespace": SPACE},
        "spec": {"jobRef": reference},
    }
    eventually(lambda: create(kubectl.plane, thing, user=SCHEDULER))
    head, line = rows(kubectl("get", "rsv", "train"))
    assert head == ["NAME", "KIND", "JOB", "AGE"]
    assert line[:3] == ["train", "PodGroup", "train"]
    terms = [{"key": "Kind", "operator": "In", "values": ["gpu"]}, {"key": "memory", "operator": "Exists"}]
    spec = {"resourceSelector": [{"matchExpressions": terms}]}
    named = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ResourceClass",
        "metadata": {"name": "columns"},
        "spec": spec,
    }
    create(kubectl.plane, named)
    status = {"allocatable": 8, "requested": 3, "selector": "Kind In (gpu)"}
    kubectl.status("/apis/fairway.dev/v1alpha1/resourceclasses/columns", status)
    head, line = rows(kubectl("get", "resclass", "columns"))
    assert head == ["NAME", "ALLOCATABLE", "REQUESTED", "SELECTOR", "AGE"]
    assert line[:3] == ["columns", "8", "3"]
    assert "Kind In (gpu)" in kubectl("get", "resclass", "columns")


def test_kubectl_waits_for_a_condition(kubectl: KubectlUser) -> None:
    meta = {"name": "w", "namespace": SPACE}
    create(kubectl.plane, {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": 1}})
    placed = {"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""}
    kubectl.status(f"/apis/{VOLCANO}/namespaces/{SPACE}/podgroups/w", {"phase": "Running", "conditions": [placed]})
    said = kubectl("wait", "--for=condition=Scheduled", "podgroups.scheduling.volcano.sh/w", "--timeout=30s")
    assert "condition met" in said


def test_kubectl_explains_fields(kubectl: KubectlUser) -> None:
    said = eventually(lambda: kubectl("explain", "reservations.spec.places.state"))
    assert "has free capacity there" in said


def test_a_pod_shows_its_event(kubectl: KubectlUser) -> None:
    made = create(kubectl.plane, pod("shown", SPACE))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "shown.1", "namespace": SPACE},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "fairway.dev/scheduler",
        "reportingInstance": "test",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "shown",
            "namespace": SPACE,
            "uid": made["metadata"]["uid"],
        },
        "message": "InsufficientResources: 0/1 nodes fit: 1 insufficient cpu",
        "type": "Warning",
    }
    eventually(lambda: create(kubectl.plane, event, user=SCHEDULER))
    said = kubectl("describe", "pod", "shown")
    assert "FailedScheduling" in said
    assert "1 insufficient cpu" in said
