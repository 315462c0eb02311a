"""Another allocator on the same claims and devices: what it wrote first stays, and leads to a new decision; what it
writes over devices that a pod has is said on the pod.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.intercepted import is_settled
from kube.live import Live
from kube.proxy import Asked, FaultProxy

DRA = "/apis/resource.k8s.io/v1"


class TwoNodes:
    """Each with devices of a driver of the test's own."""

    def __init__(self, cluster: Cluster, devices: int = 1) -> None:
        self.cluster = cluster
        self.driver = f"{cluster.namespace[:40]}.example".replace("-.", ".")
        selectors = [{"cel": {"expression": f"device.driver == '{self.driver}'"}}]
        self.device_class = cluster.namespace
        cluster.make(
            f"{DRA}/deviceclasses", {"metadata": {"name": self.device_class}, "spec": {"selectors": selectors}}
        )
        named = [{"name": f"d{number}"} for number in range(devices)]
        for name in ("n1", "n2"):
            node = cluster.node(name, cpu=32)
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": self.driver, "nodeName": node, "pool": pool, "devices": named}
            cluster.make(f"{DRA}/resourceslices", {"metadata": {"name": node}, "spec": spec})
        self.claims = f"{DRA}/namespaces/{cluster.namespace}/resourceclaims"

    def claim(self, name: str) -> None:
        request = {"name": "d", "exactly": {"deviceClassName": self.device_class}}
        self.cluster.make(self.claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})

    def allocation(self, node: str) -> dict[str, Any]:
        result = {"request": "d", "driver": self.driver, "pool": node, "device": "d0"}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        return {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}

    def write(self, claim: str, node: str) -> None:
        """As an allocator does that looks at nothing."""
        there = self.cluster.get(f"{self.claims}/{claim}")
        status = {"allocation": self.allocation(f"{self.cluster.namespace}-{node}")}
        self.cluster.plane.call("PUT", f"{self.claims}/{claim}/status", {**there, "status": status})

    def free(self, claim: str) -> None:
        self.cluster.plane.call(
            "PATCH", f"{self.claims}/{claim}/status", {"status": {"allocation": None}}, kind="merge"
        )

    def pod(self, name: str, **spec: Any) -> None:
        """With a claim of its name."""
        self.claim(name)
        self.cluster.pod(name, resourceClaims=[{"name": "d", "resourceClaimName": name}], **spec)

    def held(self, *names: str) -> list[str]:
        """The devices that claims have, or some of them, once for each claim that has one."""
        claims = [
            one for one in self.cluster.get(self.claims)["items"] if not names or one["metadata"]["name"] in names
        ]
        allocations = [one.get("status", {}).get("allocation") or {"devices": {"results": []}} for one in claims]
        return [f"{one['pool']}/{one['device']}" for found in allocations for one in found["devices"]["results"]]

    def conflict(self, pod: str) -> tuple[str, str]:
        conditions = self.cluster.get(f"{self.cluster.pods}/{pod}")["status"].get("conditions", ())
        found = (one for one in conditions if one["type"] == "fairway.dev/DeviceConflict")
        return next(((one["status"], one["message"]) for one in found), ("", ""))

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
            taken.append(f"{cluster.namespace}-n2")
            site.write("c", "n2")
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


def test_an_allocation_that_is_taken_back_before_it_was_seen_is_made_again(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """The watch shows nothing from the allocation on, and then all is listed: the pod must not be bound without."""
    site = TwoNodes(cluster)
    was_silenced, is_expired = threading.Event(), threading.Event()

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith("/resourceclaims/p/status") and not was_silenced.is_set():
            proxy.silence_watches()
            was_silenced.set()
        return "expired" if is_expired.is_set() and asked.is_watch and not asked.is_list else ""

    with FaultProxy(installed) as proxy:
        proxy.choose = choose
        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            site.pod("p")
            eventually(lambda: was_silenced.is_set() and site.held("p"), "the claim is allocated")
            nothing = {"status": {"allocation": None, "reservedFor": None}}
            cluster.plane.call("PATCH", f"{site.claims}/p/status", nothing, kind="merge")
            assert cluster.places() == {"p": ""}
            is_expired.set()
            proxy.cut_watches()
            eventually(lambda: cluster.places()["p"])
            assert site.held("p"), "it has its device"
            is_expired.clear()
            eventually(lambda: is_settled(live))
        refused = [line["why"] for line in live.logged("refused")]
    assert refused == ["claim p is no longer allocated"]


def test_a_device_that_another_allocates_to_its_own_claim_is_not_given_again(
    installed: ControlPlane, cluster: Cluster
) -> None:
    site = TwoNodes(cluster)
    site.claim("theirs")
    with Live(cluster):
        site.write("theirs", "n1")
        for name in ("ours", "late"):
            site.pod(name)
        eventually(lambda: sorted(cluster.places().values()) == ["", "n2"], "one is bound, one waits")
        site.free("theirs")
        eventually(lambda: sorted(cluster.places().values()) == ["n1", "n2"], "the device is free again")


def test_a_device_that_another_allocates_in_the_same_instant_is_given_back(
    installed: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Its write arrives just before ours, so no cycle can have seen it: the pod is not bound to that device."""
    site = TwoNodes(cluster)
    site.claim("theirs")
    written: list[str] = []
    bound: list[str] = []

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith("/resourceclaims/ours/status") and not written:
            written.append("theirs")
            site.write("theirs", "n1")
        if asked.is_write and asked.path.endswith("/pods/ours/binding"):
            bound.extend(site.held())
        return ""

    with FaultProxy(installed) as proxy:
        proxy.choose = choose
        with Live(cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            site.pod("ours")
            eventually(lambda: cluster.places()["ours"] == "n2", "the pod is bound elsewhere")
            assert site.pool("theirs") == f"{cluster.namespace}-n1", "what the other allocator wrote stands"
            assert sorted(bound) == [f"{cluster.namespace}-{name}/d0" for name in ("n1", "n2")], "each has one user"
            assert any("another claim was allocated device d0" in str(line) for line in live.lines)
            assert site.conflict("ours")[0] in ("", "False")  # a cycle in between may have seen both, and said so


def test_a_device_that_another_gives_away_under_a_bound_pod_is_said_on_the_pod(
    installed: ControlPlane, cluster: Cluster
) -> None:
    site = TwoNodes(cluster)
    site.claim("theirs")
    with Live(cluster):
        site.pod("ours", nodeSelector={"test": cluster.namespace})
        eventually(lambda: cluster.places()["ours"] == "n1")
        site.write("theirs", "n1")
        eventually(lambda: site.conflict("ours")[0] == "True", "the condition is set")
        said = f"device d0 of pool {cluster.namespace}-n1 is allocated to claim {cluster.namespace}/theirs too"
        assert site.conflict("ours")[1] == said
        assert cluster.places()["ours"] == "n1", "it is left alone"
        events = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        eventually(lambda: [e for e in cluster.get(events)["items"] if e["reason"] == "DeviceConflict"])
    with Live(cluster):  # another process takes it back
        site.free("theirs")
        eventually(lambda: site.conflict("ours")[0] == "False", "the condition is taken back")
        (event,) = (one for one in cluster.get(events)["items"] if one["reason"] == "DeviceConflict")
        assert (event["note"], event["regarding"]["name"]) == (said, "ours")


def test_two_schedulers_on_the_same_devices_never_share_one(installed: ControlPlane, cluster: Cluster) -> None:
    """Both have all pods before the nodes take any, and then decide about the same devices at the same time."""
    site = TwoNodes(cluster, devices=4)
    schedulers = [f"{cluster.namespace}-{name}" for name in ("one", "other")]
    for number in range(8):
        for place, scheduler in enumerate(schedulers):
            site.pod(f"p{number}-{place}", schedulerName=scheduler)

    def cordon(closed: bool) -> None:
        for name in ("n1", "n2"):
            path = f"/api/v1/nodes/{cluster.namespace}-{name}"
            cluster.plane.call("PATCH", path, {"spec": {"unschedulable": closed}}, kind="merge")

    cordon(True)
    with contextlib.ExitStack() as stack:
        for scheduler in schedulers:
            stack.enter_context(Live(cluster, scheduler_names=(scheduler,)))
        for _ in range(2):
            cordon(False)
            eventually(lambda: sum(map(bool, cluster.places().values())) == 8, "all devices are in use")
            bound = [name for name, node in cluster.places().items() if node]
            held = site.held(*bound)
            assert len(set(held)) == len(held) == 8, held
            cordon(True)
            for name in bound:
                cluster.delete(f"{cluster.pods}/{name}")
                cluster.plane.call("PATCH", f"{site.claims}/{name}", {"metadata": {"finalizers": None}}, kind="merge")
                cluster.delete(f"{site.claims}/{name}")
        assert cluster.places() == {}
