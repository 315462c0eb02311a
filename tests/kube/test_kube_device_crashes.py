"""Killed before and after every write that gives a pod its devices: the next process goes on, each device is given
once, and a kubelet accepts what is written in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.proxy import FaultProxy
from kube.test_kube_crashes import KilledOnce
from kube.test_kube_dra_features import DRA, DRIVER, CheckingKubelet

CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"


class CrashSite:
    """Two nodes with one device each, and a process that is killed once."""

    def __init__(self, cluster: Cluster, killed: KilledOnce) -> None:
        self.cluster, self.plane, self.killed = cluster, cluster.plane, killed
        self.claims = f"{DRA}/namespaces/{cluster.namespace}/resourceclaims"
        self.name = cluster.namespace[:40].rstrip("-")
        self.kubelets = {}
        for short in ("n1", "n2"):
            node = cluster.node(short, cpu=2)
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            attributes = {"kind": {"string": self.name}}
            devices = [{"name": "d0", "attributes": attributes}]
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
            cluster.make(f"{DRA}/resourceslices", {"metadata": {"name": node}, "spec": spec})
            self.kubelets[short] = CheckingKubelet(self.plane, node)

    def by_limits(self) -> None:
        term = {"matchExpressions": [{"key": "Kind", "operator": "In", "values": [self.name]}]}
        self.cluster.make(
            CLASSES,
            {
                "apiVersion": "fairway.dev/v1alpha1",
                "kind": "ResourceClass",
                "metadata": {"name": self.name},
                "spec": {"resourceSelector": [term]},
            },
        )
        limits = {f"resourceclass.fairway.dev/{self.name}": "1"}
        self.cluster.pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])

    def by_claim(self) -> None:
        expression = f'device.attributes["{DRIVER}"].kind == "{self.name}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        self.cluster.make(f"{DRA}/deviceclasses", {"metadata": {"name": self.name}, "spec": spec})
        request = {"name": "r", "exactly": {"deviceClassName": self.name}}
        self.cluster.make(self.claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}]}}
        self.cluster.pod("p", containers=[container], resourceClaims=[{"name": "d", "resourceClaimName": "c"}])

    def own_claim(self) -> str:
        """The name of the claim that is made for the pod's limits."""
        uid = self.cluster.get(f"{self.cluster.pods}/p")["metadata"]["uid"]
        return f"p-extended-resources-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"

    def allocated(self) -> list[str]:
        """The nodes whose device a claim has, once for each claim."""
        found = [one.get("status", {}).get("allocation") for one in self.cluster.get(self.claims)["items"]]
        return [result["pool"] for one in found if one for result in one["devices"]["results"]]

    def close(self, node: str) -> None:
        self.plane.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, kind="merge")

    def ends_well(self) -> None:
        eventually(lambda: self.cluster.places()["p"], "the pod is bound")
        node = self.cluster.places()["p"]
        assert self.allocated() == [f"{self.cluster.namespace}-{node}"], "one claim has one device, where the pod is"
        self.kubelets[node].sync()
        claims = [one["metadata"]["name"] for one in self.cluster.get(self.claims)["items"]]
        assert len(claims) == 1, claims
        self.killed.run.kill()
        self.cluster.delete(f"{self.cluster.pods}/p")
        self.plane.call("PATCH", f"{self.claims}/{claims[0]}", {"metadata": {"finalizers": None}}, kind="merge")
        self.cluster.delete(f"{self.claims}/{claims[0]}")


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[CrashSite]:
    with FaultProxy(installed) as proxy:
        killed = KilledOnce(cluster, proxy, tmp_path)
        yield CrashSite(cluster, killed)
        killed.run.kill()
        assert killed.run.problems() == []


LIMITS = ("/resourceclaims", "/resourceclaims/own/status", "/pods/p/status", "/pods/p/binding")
CLAIM = ("/resourceclaims/c", "/resourceclaims/c/status", "/pods/p/binding")


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("fault", ["kill-before", "kill-after"])
@pytest.mark.parametrize(("form", "end"), [*(("limits", end) for end in LIMITS), *(("claim", end) for end in CLAIM)])
def test_K14_a_pod_gets_its_device_once_whatever_write_the_process_is_killed_at(
    site: CrashSite, form: str, end: str, fault: str, elsewhere: bool
) -> None:
    """`elsewhere`: meanwhile the pod may not go any more to the node whose device was chosen."""
    bound = (end, fault) == ("/pods/p/binding", "kill-after")
    if elsewhere and (bound or (fault == "kill-before" and end in ("/resourceclaims", "/resourceclaims/c"))):
        pytest.skip("nothing was chosen yet, or the pod is bound")
    (site.by_limits if form == "limits" else site.by_claim)()
    site.killed.at(end.replace("/resourceclaims/own", f"/resourceclaims/{site.own_claim()}"), fault)
    site.killed.run.start()
    site.killed.dies()
    first = site.allocated()
    assert len(first) <= 1
    if elsewhere:
        site.close(first[0] if first else f"{site.cluster.namespace}-n1")
    site.killed.run.start()
    site.ends_well()
