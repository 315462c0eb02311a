"""Claims, templates and slices that are wrong, too large or gone at the wrong moment, on a real server: the tenant
beside them gets its devices all the same.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.proxy import Asked, FaultProxy
from kube.test_kube_dra_features import DRA, DRIVER, FeatureSite

HUGE = str(2**62)


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster) -> FeatureSite:
    return FeatureSite(cluster)


def bad_claims(site: FeatureSite) -> Iterator[tuple[str, dict[str, Any]]]:
    def cel(text: str) -> dict[str, Any]:
        return {"selectors": [{"cel": {"expression": text}}]}

    own = f'device.attributes["{DRIVER}"]'
    yield "giant-count", site.exactly(count=2**31)
    yield "negative-count", site.exactly(count=-1)
    yield "no-such-class", {"name": "r", "exactly": {"deviceClassName": "no-such-class"}}
    yield "giant-capacity", site.exactly(capacity={"requests": {"memory": f"{HUGE}Ei"}})
    yield "not-a-quantity", site.exactly(capacity={"requests": {"memory": "many"}})
    yield "fails-on-all", site.exactly(**cel(f"{own}.missing == 1"))
    yield "fails-on-some", site.exactly(**cel(f"{own}.index == 99"))
    yield "not-cel", site.exactly(**cel("device.("))
    yield "costs-too-much", site.exactly(**cel("[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, a*b)).size() > 9"))
    yield "no-bool", site.exactly(**cel("device.driver"))
    yield "all-of-nothing", site.exactly(allocationMode="All", **cel("false"))


def make(cluster: Cluster, path: str, body: dict[str, Any]) -> bool:
    """False if the server refuses it, which is as good."""
    try:
        cluster.make(path, body)
    except urllib.error.HTTPError as refused:
        if refused.code not in (400, 422):
            raise
        return False
    return True


def test_claims_that_cannot_be_served_wait_and_harm_no_other(site: FeatureSite) -> None:
    memory = {"memory": {"value": "80Gi"}}
    with_index = {"attributes": {"index": {"int": 1}}, "capacity": memory}
    site.slice({"name": "d0", **with_index}, {"name": "d1", "capacity": memory})
    with Live(site.cluster, user="scheduler"):
        taken = []
        for name, request in bad_claims(site):
            body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
            if make(site.cluster, site.claims, body):
                site.pod(name, name)
                taken.append(name)
        assert {"giant-count", "no-such-class", "fails-on-all", "giant-capacity"} <= set(taken), taken
        site.claim("good", site.exactly())
        site.pod("good", "good")
        site.bound("good")
        assert {name for name, node in site.cluster.places().items() if node} == {"good"}
        site.claim("negative", site.exactly(capacity={"requests": {"memory": "-1"}}))
        site.pod("negative", "negative")
        site.bound("negative")
        given = [site.results(name)[0]["device"] for name in ("good", "negative")]
        assert len(set(given)) == 2, "less than nothing is a whole device, and no more"

        def explained() -> bool:
            pods = site.cluster.get(site.cluster.pods)["items"]
            conditions = {pod["metadata"]["name"]: pod["status"].get("conditions", ()) for pod in pods}
            return all(any(one.get("message") for one in conditions[name]) for name in taken)

        eventually(explained, "each pod says why it waits")


def test_slices_that_contradict_each_other_harm_no_other_pool(site: FeatureSite) -> None:
    def slice_of(name: str, pool: str, generation: int, slices: int, *devices: dict[str, Any], **more: Any) -> bool:
        body = {
            "driver": DRIVER,
            "nodeName": site.node,
            "pool": {"name": f"{site.node}-{pool}", "generation": generation, "resourceSliceCount": slices},
            "devices": list(devices),
            **more,
        }
        path = f"{DRA}/resourceslices"
        return make(site.cluster, path, {"metadata": {"name": f"{site.node}-{name}"}, "spec": body})

    huge = {"memory": {"value": f"{HUGE}Ei"}, "least": {"value": "-5"}, "small": {"value": "1n"}}
    with Live(site.cluster, user="scheduler") as live:
        assert slice_of("half", "half", 1, 2, {"name": "h0"})
        assert slice_of("new", "back", 5, 1, {"name": "b5"})
        assert slice_of("old", "back", 3, 1, {"name": "b3"})
        assert slice_of("twice-0", "twice", 1, 2, {"name": "t0"})
        assert slice_of("twice-1", "twice", 1, 2, {"name": "t0"})
        slice_of("huge", "huge", 1, 1, {"name": "x0", "capacity": huge})
        assert not slice_of("odd", "odd", 1, 1, {"name": "o0"}, driver="Odd_Driver!/x")
        assert slice_of("good", "good", 1, 1, {"name": "g0"})
        for number in range(6):
            site.claim(f"c{number}", site.exactly())
            site.pod(f"c{number}", f"c{number}")
        usable = {"b5", "g0", "x0"} if site.cluster.get(f"{DRA}/resourceslices/{site.node}-huge") else {"b5", "g0"}
        eventually(lambda: sum(map(bool, site.cluster.places().values())) == len(usable), "what can be used is used")
        given = {site.results(name)[0]["device"] for name, node in site.cluster.places().items() if node}
        assert given == usable, "no device of a pool that is incomplete, older, or contradicts itself"
        path = f"{DRA}/resourceslices/{site.node}-half"  # the driver publishes the rest
        half = site.cluster.get(path)
        half["spec"]["pool"]["resourceSliceCount"] = 1
        half["spec"]["pool"]["generation"] = 2
        site.plane.call("PUT", path, half)
        eventually(lambda: sum(map(bool, site.cluster.places().values())) == len(usable) + 1)
        assert live.logged("this is an error in Fairway, please report it") == []


def test_a_thousand_devices_on_a_node(site: FeatureSite) -> None:
    for number in range(8):
        devices = [{"name": f"d{number * 125 + one}"} for one in range(125)]
        site.slice(*devices, suffix=f"-{number}", slices=8)
    with Live(site.cluster, user="scheduler"):
        for number in range(3):
            site.claim(f"c{number}", site.exactly(count=32))
            site.pod(f"c{number}", f"c{number}")
        site.bound("c0", "c1", "c2")
        given = [one["device"] for number in range(3) for one in site.results(f"c{number}")]
        assert len(set(given)) == len(given) == 96


def test_a_shared_claim_outlives_a_user_that_is_deleted_by_force(site: FeatureSite) -> None:
    site.slice({"name": "d0"})
    site.claim("shared", site.exactly())
    with Live(site.cluster, user="scheduler"):
        for name in ("a", "b"):
            site.pod(name, "shared")
            site.bound(name)
        site.cluster.delete(f"{site.cluster.pods}/a")  # grace period 0: its kubelet is not asked
        site.pod("c", "shared")
        site.bound("c")
        users = [user["name"] for user in site.status("shared")["reservedFor"]]
        assert {"b", "c"} <= set(users)
        assert [one["device"] for one in site.results("shared")] == ["d0"]
        site.claim("other", site.exactly())
        site.pod("other", "other")
        eventually(lambda: site.cluster.get(f"{site.cluster.pods}/other")["status"].get("conditions"))
        assert site.cluster.places()["other"] == "", "the device is in use"


def test_a_template_that_is_replaced_after_the_claim_was_made(site: FeatureSite) -> None:
    """The claim has one request; the template of today has another, and more of it."""
    site.slice({"name": "d0"}, {"name": "d1"}, {"name": "d2"})
    cluster = site.cluster
    templates = site.claims.replace("resourceclaims", "resourceclaimtemplates")

    def template(*requests: dict[str, Any]) -> None:
        cluster.delete(f"{templates}/tpl")
        cluster.make(templates, {"metadata": {"name": "tpl"}, "spec": {"spec": {"devices": {"requests": requests}}}})

    template(site.exactly("r"))
    pods = {}
    for name in ("replaced", "gone"):
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}]}}
        entry = {"name": "d", "resourceClaimTemplateName": "tpl"}
        gates = [{"name": "test.example.com/later"}]
        pods[name] = cluster.pod(name, containers=[container], resourceClaims=[entry], schedulingGates=gates)
        site.claim(f"{name}-d", site.exactly("r"))
        status = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": f"{name}-d"}]}
        site.plane.call("PATCH", f"{cluster.pods}/{name}/status", {"status": status}, kind="merge")
    with Live(cluster, user="scheduler"):
        template(site.exactly("other", count=2))
        cluster.plane.call("PATCH", f"{cluster.pods}/replaced", {"spec": {"schedulingGates": None}}, kind="merge")
        eventually(lambda: cluster.places()["replaced"])
        assert [one["request"] for one in site.results("replaced-d")] == ["r"]
        cluster.delete(f"{templates}/tpl")
        cluster.plane.call("PATCH", f"{cluster.pods}/gone", {"spec": {"schedulingGates": None}}, kind="merge")
        eventually(lambda: cluster.places()["gone"])
        assert [one["request"] for one in site.results("gone-d")] == ["r"]


def test_a_namespace_that_is_deleted_while_its_claims_are_written(site: FeatureSite, tmp_path: Path) -> None:
    """Between two writes of ours the namespace is being deleted, and the pod and the claim in it are gone."""
    site.slice({"name": "d0"}, {"name": "d1"})
    doomed = f"{site.cluster.namespace[:40]}-doomed"
    site.cluster.make("/api/v1/namespaces", {"metadata": {"name": doomed}})
    claims = f"{DRA}/namespaces/{doomed}/resourceclaims"
    pods = f"/api/v1/namespaces/{doomed}/pods"
    ended = threading.Event()

    def choose(asked: Asked) -> str:
        if asked.is_write and asked.path.endswith(f"{doomed}/resourceclaims/c/status") and not ended.is_set():
            ended.set()
            with contextlib.suppress(urllib.error.HTTPError):
                site.plane.call("DELETE", f"/api/v1/namespaces/{doomed}")
            site.cluster.delete(f"{pods}/p")
            site.plane.call("PATCH", f"{claims}/c", {"metadata": {"finalizers": None}}, kind="merge")
            site.cluster.delete(f"{claims}/c")
        return ""

    with FaultProxy(site.plane) as proxy:
        proxy.choose = choose
        with Live(site.cluster, kubeconfig=str(proxy.kubeconfig(tmp_path))) as live:
            request = site.exactly()
            site.plane.call("POST", claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
            spec = {
                "schedulerName": site.cluster.scheduler,
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "d", "resourceClaimName": "c"}],
            }
            site.plane.call("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
            eventually(ended.is_set, "the claim is being written")
            for name in ("good-0", "good-1"):
                site.claim(name, site.exactly())
                site.pod(name, name)
            eventually(lambda: all(site.cluster.places().values()), "both devices serve the others")
            assert live.logged("this is an error in Fairway, please report it") == []


def test_a_claim_that_is_reserved_for_as_many_pods_as_the_server_takes(site: FeatureSite) -> None:
    site.slice({"name": "d0"})
    site.claim("shared", site.exactly())
    with Live(site.cluster, user="scheduler") as live:
        site.pod("first", "shared")
        site.bound("first")
        users = [{"resource": "pods", "name": f"u{number}", "uid": f"u{number}"} for number in range(254)]
        users += site.status("shared")["reservedFor"]
        path = f"{site.claims}/shared/status"
        site.plane.call("PATCH", path, {"status": {"reservedFor": users}}, kind="merge")
        site.pod("last", "shared")
        site.bound("last")
        assert len(site.status("shared")["reservedFor"]) == 256
        site.pod("late", "shared")

        def why() -> str:
            conditions = site.cluster.get(f"{site.cluster.pods}/late")["status"].get("conditions", ())
            return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

        eventually(lambda: "is reserved for 256 pods, 1 more would exceed 256" in why(), "it says why it waits")
        left = site.status("shared")["reservedFor"][100:]  # as the claim controller does when pods are gone
        site.plane.call("PATCH", path, {"status": {"reservedFor": left}}, kind="merge")
        site.bound("late")
        assert [line for line in live.lines if "Too many" in str(line) or line["message"] == "refused"] == []
