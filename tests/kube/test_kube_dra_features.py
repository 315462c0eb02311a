"""What claims can ask for, each on a real API server: the allocation that is written passes the server's validation,
has what Kubernetes' own scheduler would write, and a kubelet accepts it.
"""

from __future__ import annotations

import types
import urllib.error
from typing import Any

import pytest

from fairway.kube.writing import world
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.standin import StandInKubelet

DRA = "/apis/resource.k8s.io/v1"
DRIVER = "features.example.com"


class AnyDriver:
    """Prepares whatever it is told."""

    info = types.SimpleNamespace(name=DRIVER)

    def prepare(self, words: str) -> dict[str, list[Any]]:
        return {words: []}

    def unprepare(self, words: str) -> dict[str, str]:
        return {words: ""}


class CheckingKubelet(StandInKubelet):
    """Only what is checked of claims; the devices are not there."""

    def __init__(self, plane: ControlPlane, node: str) -> None:
        self._plane = plane
        self.node = node
        self._driver = AnyDriver()  # type: ignore[assignment]
        self._claims = {}

    def _visible(self, cdi: list[str]) -> list[str]:
        return []


class FeatureSite:
    """A node whose devices are what a test says."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.node = cluster.node("n", cpu=64)
        self.kubelet = CheckingKubelet(self.plane, self.node)
        self.claims = f"{DRA}/namespaces/{cluster.namespace}/resourceclaims"
        self.device_class = f"{cluster.namespace[:30].rstrip('-')}.gpu"
        expression = f'device.driver == "{DRIVER}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        cluster.make(f"{DRA}/deviceclasses", {"metadata": {"name": self.device_class}, "spec": spec})

    def slice(self, *devices: dict[str, Any], suffix: str = "", slices: int = 1, **spec: Any) -> None:
        pool = {"name": self.node, "generation": 1, "resourceSliceCount": slices}
        named = {"name": f"{self.node}{suffix}"}
        body = {
            "driver": DRIVER,
            "nodeName": self.node,
            "pool": pool,
            **({"devices": list(devices)} if devices else {}),
        }
        self.cluster.make(f"{DRA}/resourceslices", {"metadata": named, "spec": {**body, **spec}})

    def claim(self, name: str, *requests: dict[str, Any], **devices: Any) -> None:
        self.cluster.make(
            self.claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests, **devices}}}
        )

    def exactly(self, name: str = "r", **more: Any) -> dict[str, Any]:
        return {"name": name, "exactly": {"deviceClassName": self.device_class, **more}}

    def pod(self, name: str, claim: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}]}}
        entry = {"name": "d", "resourceClaimName": claim}
        self.cluster.pod(name, containers=[container], resourceClaims=[entry])

    def status(self, claim: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get(f"{self.claims}/{claim}").get("status", {})
        return found

    def results(self, claim: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.status(claim)["allocation"]["devices"]["results"]
        return found

    def bound(self, *names: str) -> None:
        eventually(lambda: all(self.cluster.places().get(name) for name in names), f"{names} are bound")
        self.kubelet.sync()

    def says(self, claim: str, **conditions: str) -> None:
        """What the driver says of the claim's first device."""
        (result, *_) = self.results(claim)
        since = "2026-01-01T00:00:00Z"
        said = [
            {"type": kind, "status": status, "reason": "Test", "message": "", "lastTransitionTime": since}
            for kind, status in conditions.items()
        ]
        device = {key: result[key] for key in ("driver", "pool", "device")}
        status = {"status": {"devices": [{**device, "conditions": said}]}}
        self.plane.call("PATCH", f"{self.claims}/{claim}/status", status, kind="merge")


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster) -> FeatureSite:
    return FeatureSite(cluster)


def test_parts_of_a_shared_device_have_share_ids(site: FeatureSite) -> None:
    site.slice({"name": "big", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}})
    for name in ("a", "b", "c"):
        site.claim(name, site.exactly(capacity={"requests": {"memory": "40Gi"}}))
        site.pod(name, name)
    with Live(site.cluster, user="scheduler"):
        eventually(lambda: sum(map(bool, site.cluster.places().values())) == 2, "two parts are given")
        site.kubelet.sync()
        given = [site.results(name)[0] for name, node in site.cluster.places().items() if node]
        assert len({one["shareID"] for one in given}) == 2, given
        assert [one["consumedCapacity"] for one in given] == [{f"{DRIVER}/memory": "40Gi"}] * 2


def test_alternatives_counters_admin_access_and_tolerations(site: FeatureSite) -> None:
    consumes = [{"counterSet": "board", "counters": {"memory": {"value": "40Gi"}}}]
    sick = [{"key": "sick", "effect": "NoSchedule"}]
    devices = [
        {"name": "half-0", "consumesCounters": consumes, "attributes": {"half": {"bool": True}}},
        {"name": "half-1", "consumesCounters": consumes, "attributes": {"half": {"bool": True}}},
        {"name": "half-2", "consumesCounters": consumes, "attributes": {"half": {"bool": True}}},
        {"name": "tainted", "taints": sick, "attributes": {"half": {"bool": False}}},
    ]
    counters = [{"name": "board", "counters": {"memory": {"value": "80Gi"}}}]
    site.slice(suffix="-counters", sharedCounters=counters, slices=2)
    site.slice(*devices, slices=2)
    half: dict[str, Any] = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].half'}}]}
    whole: dict[str, Any] = {"selectors": [{"cel": {"expression": f'!device.attributes["{DRIVER}"].half'}}]}
    tolerations = [{"key": "sick", "operator": "Exists", "effect": "NoSchedule"}]
    sub = {"deviceClassName": site.device_class}
    alternatives = [{"name": "none", **sub, "count": 9}, {"name": "half", **sub, **half}]
    site.claim("either", {"name": "r", "firstAvailable": alternatives})
    site.claim("two", site.exactly(**half))
    site.claim("three", site.exactly(**half))
    site.claim("tolerant", site.exactly(tolerations=tolerations, **whole))
    site.claim("strict", site.exactly(**whole))
    with Live(site.cluster, user="scheduler"):
        site.pod("either", "either")
        site.bound("either")
        for name in ("two", "tolerant"):
            site.pod(name, name)
            site.bound(name)
        assert site.results("either")[0]["request"] == "r/half"
        assert {site.results(name)[0]["device"] for name in ("either", "two")} == {"half-0", "half-1"}
        assert site.results("tolerant")[0]["tolerations"] == tolerations
        for name in ("three", "strict"):
            site.pod(name, name)
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        site.plane.call("PATCH", f"/api/v1/namespaces/{site.cluster.namespace}", label, kind="merge")
        site.claim("look", site.exactly(adminAccess=True, allocationMode="All", tolerations=[{"operator": "Exists"}]))
        site.pod("look", "look")
        site.bound("look")
        assert [one["adminAccess"] for one in site.results("look")] == [True] * 4
        places = site.cluster.places()
        assert (places["three"], places["strict"]) == ("", ""), "counters are not exceeded, taints keep away"


def test_limits_have_no_fractions_on_a_server(site: FeatureSite) -> None:
    """Kubernetes takes whole numbers of such resources only: parts are claimed by capacity."""
    limits = {"resourceclass.fairway.dev/some": "500m"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        site.cluster.pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])
    assert b"must be an integer" in refused.value.read()


CONDITIONS = {"bindsToNode": True, "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}


def waits(site: FeatureSite, name: str) -> None:
    eventually(lambda: site.status(name).get("allocation"), f"claim {name} is allocated")
    assert site.cluster.places()[name] == ""


def test_a_pod_is_bound_when_its_devices_are_ready(site: FeatureSite) -> None:
    site.slice({"name": "slow", **CONDITIONS})
    site.claim("c", site.exactly())
    site.pod("c", "c")
    with Live(site.cluster, user="scheduler"):
        waits(site, "c")
        (result,) = site.results("c")
        assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["Ready"], ["Broken"])
        site.says("c", Ready="False")
    with Live(site.cluster, user="scheduler"):  # another leader waits for the same
        uid = site.cluster.get(f"{site.claims}/c")["metadata"]["uid"]
        assert site.cluster.places()["c"] == ""
        site.says("c", Ready="True")
        site.bound("c")
        assert site.cluster.get(f"{site.claims}/c")["metadata"]["uid"] == uid


def test_a_pod_that_waits_for_a_driver_holds_no_other_up(site: FeatureSite) -> None:
    """Though no more bindings may be under way than there are such pods."""
    site.slice({"name": "slow", **CONDITIONS})
    site.claim("c", site.exactly())
    site.pod("c", "c")
    with Live(site.cluster, user="scheduler", max_in_flight_binds=1) as live:
        waits(site, "c")
        for name in ("one", "two"):
            site.cluster.pod(name)
            eventually(lambda: site.cluster.places()[name])  # noqa: B023 - looked at before the next one
        site.says("c", Ready="True")
        site.bound("c")
        eventually(lambda: live.on_loop(lambda: live.scheduler._world.unanswered) == 0)


def test_a_device_that_cannot_be_used_is_given_back_and_another_is_chosen(site: FeatureSite) -> None:
    site.slice({"name": "a", **CONDITIONS}, {"name": "b"})
    site.claim("c", site.exactly())
    site.pod("c", "c")
    with Live(site.cluster, user="scheduler"):
        waits(site, "c")
        there = site.cluster.get(f"{DRA}/resourceslices/{site.node}")
        there["spec"]["devices"][0]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        there["spec"]["pool"]["generation"] = 2
        site.plane.call("PUT", f"{DRA}/resourceslices/{site.node}", there)
        site.says("c", Broken="True")
        site.bound("c")
        assert [one["device"] for one in site.results("c")] == ["b"]


def test_devices_that_do_not_become_ready_in_time_are_given_back(
    site: FeatureSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "BINDING_TIMEOUT", 1.0)
    site.slice({"name": "a", **CONDITIONS})
    site.claim("c", site.exactly())
    site.pod("c", "c")
    with Live(site.cluster, user="scheduler") as live:
        waits(site, "c")
        first = site.status("c")["allocation"]["allocationTimestamp"]
        eventually(lambda: site.status("c").get("allocation", {}).get("allocationTimestamp", first) != first, "again")
        assert site.cluster.places()["c"] == ""
        site.says("c", Ready="True")
        site.bound("c")
        assert any("is not ready" in str(line) for line in live.lines)
