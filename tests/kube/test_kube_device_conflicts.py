"""Another allocator on the same claims: what it wrote first stays, and leads to a new decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.proxy import Asked, FaultProxy

DRA = "/apis/resource.k8s.io/v1"


class TwoNodes:
    """Each with one device of a driver of the test's own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.driver = f"{cluster.namespace[:40]}.example".replace("-.", ".")
        selectors = [{"cel": {"expression": f"device.driver == '{self.driver}'"}}]
        self.device_class = cluster.namespace
        cluster.make(
            f"{DRA}/deviceclasses", {"metadata": {"name": self.device_class}, "spec": {"selectors": selectors}}
        )
        for name in ("n1", "n2"):
            node = cluster.node(name)
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": self.driver, "nodeName": node, "pool": pool, "devices": [{"name": "d0"}]}
            cluster.make(f"{DRA}/resourceslices", {"metadata": {"name": node}, "spec": spec})
        self.claims = f"{DRA}/namespaces/{cluster.namespace}/resourceclaims"

    def claim(self, name: str) -> None:
        request = {"name": "d", "exactly": {"deviceClassName": self.device_class}}
        self.cluster.make(self.claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})

    def allocation(self, node: str) -> dict[str, Any]:
        result = {"request": "d", "driver": self.driver, "pool": node, "device": "d0"}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        return {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}

    def pool(self, claim: str) -> str:
        status = self.cluster.get(f"{self.claims}/{claim}").get("status", {})
        results = (status.get("allocation") or {}).get("devices", {}).get("results", ())
        return str(results[0]["pool"]) if results else ""


def test_a_claim_that_another_allocates_first_keeps_what_it_got(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Its write comes between the two requests of ours: the pod follows the devices to the other node."""
    site = TwoNodes(cluster)
    site.claim("c")
    taken: list[str] = []

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith("/resourceclaims/c/status") and not taken:
            there = cluster.get(f"{site.claims}/c")
            taken.append(f"{cluster.namespace}-n2")
            status = {"allocation": site.allocation(taken[0])}
            cluster.plane.call("PUT", f"{site.claims}/c/status", {**there, "status": status})
        return ""

    with FaultProxy(installed) as proxy:
        proxy.choose = choose
        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            cluster.pod("p", resourceClaims=[{"name": "d", "resourceClaimName": "c"}])
            eventually(lambda: cluster.places()["p"] == "n2", "the pod goes where the devices are")
            assert taken
            assert site.pool("c") == taken[0], "what the other allocator wrote stands"
            users = cluster.get(f"{site.claims}/c")["status"]["reservedFor"]
            assert [user["name"] for user in users] == ["p"]
            assert any("other devices were allocated" in str(line) for line in live.lines)


def test_a_device_that_another_allocates_to_its_own_claim_is_not_given_again(
    installed: ControlPlane, cluster: Cluster
) -> None:
    site = TwoNodes(cluster)
    site.claim("theirs")
    with Live(cluster):
        there = cluster.get(f"{site.claims}/theirs")
        status = {"allocation": site.allocation(f"{cluster.namespace}-n1")}
        cluster.plane.call("PUT", f"{site.claims}/theirs/status", {**there, "status": status})
        for name in ("ours", "late"):
            site.claim(name)
            cluster.pod(name, resourceClaims=[{"name": "d", "resourceClaimName": name}])
        eventually(lambda: sorted(cluster.places().values()) == ["", "n2"], "one is bound, one waits")
        cluster.plane.call("PATCH", f"{site.claims}/theirs/status", {"status": {"allocation": None}}, kind="merge")
        eventually(lambda: sorted(cluster.places().values()) == ["n1", "n2"], "the device is free again")
