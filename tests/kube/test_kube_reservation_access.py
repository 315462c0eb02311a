"""A scheduler whose Reservations the server refuses keeps none, and says so: it does not pretend for some seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.servers import apply

POLICY = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 1}}, allocate]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
POLICIES = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(name="policy")
def a_policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


def _message(cluster: Cluster, pod: str) -> str:
    found = cluster.get(f"{cluster.pods}/{pod}")["status"].get("conditions", [])
    return next((one["message"] for one in found if one["type"] == "PodScheduled" and one["status"] == "False"), "")


def _fill(cluster: Cluster) -> None:
    cluster.node("n", cpu=2)
    cluster.pod("first")
    cluster.pod("second")
    eventually(lambda: set(cluster.places().values()) == {"n"})
    cluster.pod("large", cpu="2")


def _events(cluster: Cluster) -> Any:
    return cluster.get(f"/api/v1/namespaces/{cluster.namespace}/events")["items"]


def test_an_identity_that_the_admission_policy_refuses_reserves_nothing(
    installed: ControlPlane, cluster: Cluster, policy: str
) -> None:
    """An administrator may do everything, but the installed policy accepts Reservations of the scheduler only."""
    with Live(cluster, user="admin", policy=policy) as live:
        (warning,) = eventually(
            lambda: live.logged("not reserving nodes for starving jobs, because Reservations cannot be written")
        )
        assert (warning["level"], "only Fairway writes reservations" in warning["why"]) == ("warning", True)
        _fill(cluster)
        eventually(lambda: "no node is reserved for it: Reservations cannot be written" in _message(cluster, "large"))
        cluster.delete(f"{cluster.pods}/first")
        cluster.pod("small")
        eventually(lambda: cluster.places() == {"second": "n", "large": "", "small": "n"}, "the node is not kept free")
        assert [line for line in live.logged("refused") if line["change"] == "WriteReservation"] == []
        assert not [one for one in _events(cluster) if one["reason"] == "Reserved"]


def test_reservations_that_are_refused_later_are_given_up_and_made_again_when_they_may_be(
    installed: ControlPlane, cluster: Cluster, policy: str
) -> None:
    name = f"{cluster.namespace}-none"
    deny = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["fairway.dev"],
                        "apiVersions": ["*"],
                        "resources": ["reservations"],
                        "operations": ["CREATE", "UPDATE"],
                    }
                ]
            },
            "validations": [{"expression": "false", "message": "no reservations today"}],
        },
    }
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    with Live(cluster, policy=policy) as live:
        assert not live.logged("not reserving nodes for starving jobs, because Reservations cannot be written")
        apply(cluster.plane, [deny, bound])
        try:
            eventually(lambda: not _may_write(cluster), "the policy is in effect")
            _fill(cluster)
            eventually(lambda: "no reservations today" in _message(cluster, "large"), "the pod says so")
            refusals = len(live.logged("refused"))
            time.sleep(7)
            assert len(live.logged("refused")) == refusals, "it is not tried again and again"
        finally:
            for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
                cluster.delete(f"{POLICIES}/{kind}/{name}")
        path = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations"
        eventually(lambda: cluster.get(path)["items"], "a minute later at most, it reserves")


def _may_write(cluster: Cluster) -> bool:
    path = f"/apis/fairway.dev/v1alpha1/namespaces/{cluster.namespace}/reservations?dryRun=All"
    head = {"apiVersion": "fairway.dev/v1alpha1", "kind": "Reservation", "metadata": {"name": "x"}}
    spec = {"jobRef": {"kind": "PodGroup", "name": "x", "uid": "x"}, "places": []}
    try:
        cluster.plane.call("POST", path, {**head, "spec": spec}, user="scheduler")
    except OSError as error:
        return "no reservations today" not in str(error)
    return True
