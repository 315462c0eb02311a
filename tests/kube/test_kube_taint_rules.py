"""DeviceTaintRule on a real API server: a device that an administrator taints by a rule is not given away."""

from __future__ import annotations

from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.test_kube_dra_features import DRIVER, FeatureSite

RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"


class TaintingSite(FeatureSite):
    def taint(self, name: str, effect: str, device: str, key: str = "example.com/sick") -> str:
        """The path of the rule."""
        selector = {"driver": DRIVER, "pool": self.node, "device": device}
        full = f"{self.cluster.namespace}-{name}"
        spec = {"deviceSelector": selector, "taint": {"key": key, "effect": effect}}
        self.cluster.make(RULES, {"metadata": {"name": full}, "spec": spec})
        return f"{RULES}/{full}"

    def start(self, *names: str, **request: Any) -> None:
        for name in names:
            self.claim(name, self.exactly(**request))
            self.pod(name, name)

    def waits(self, name: str) -> None:
        def why() -> str:
            conditions = self.cluster.get(f"{self.cluster.pods}/{name}")["status"].get("conditions", [])
            return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")

        eventually(why, f"{name} says why it waits")
        assert self.cluster.places()[name] == ""


@pytest.fixture(name="site")
def a_tainting_site(installed: ControlPlane, cluster: Cluster) -> TaintingSite:
    site = TaintingSite(cluster)
    site.slice({"name": "a"}, {"name": "b"})
    return site


def test_a_device_with_a_rule_is_not_allocated_until_the_rule_goes(site: TaintingSite) -> None:
    rule = site.taint("r", "NoSchedule", "a")
    with Live(site.cluster, user="scheduler"):
        site.start("one", "two")
        eventually(lambda: sum(map(bool, site.cluster.places().values())) == 1, "one device is given")
        (waiting,) = (name for name, node in site.cluster.places().items() if not node)
        (bound,) = {"one", "two"} - {waiting}
        assert [result["device"] for result in site.results(bound)] == ["b"]
        site.waits(waiting)
        site.cluster.delete(rule)
        site.bound(waiting)
        assert [result["device"] for result in site.results(waiting)] == ["a"]


def test_what_tolerates_a_rule_is_given_the_device(site: TaintingSite) -> None:
    for device in ("a", "b"):
        site.taint(device, "NoExecute", device)
    with Live(site.cluster, user="scheduler"):
        site.start("strict")
        site.waits("strict")
        site.start("tolerant", tolerations=[{"operator": "Exists", "effect": "NoExecute"}])
        site.bound("tolerant")
        assert site.cluster.places()["strict"] == ""


def test_a_rule_that_comes_later_moves_no_pod(site: TaintingSite) -> None:
    """NoExecute: kube-controller-manager deletes such pods, for every scheduler; Fairway only gives nothing more. A
    rule whose effect is None only informs.
    """
    with Live(site.cluster, user="scheduler"):
        site.start("first")
        site.bound("first")
        (used,) = (result["device"] for result in site.results("first"))
        (free,) = {"a", "b"} - {used}
        site.taint("used", "NoExecute", used)
        silent = site.taint("free", "None", free)
        site.start("second")
        site.bound("second")
        assert [result["device"] for result in site.results("second")] == [free]
        assert site.cluster.places()["first"] == "n"
        site.plane.call("PATCH", silent, {"spec": {"taint": {"effect": "NoExecute"}}}, kind="merge")
        for name in ("first", "second"):
            site.cluster.delete(f"{site.cluster.pods}/{name}")
            site.cluster.delete(f"{site.claims}/{name}")
        site.start("third")
        site.waits("third")


def test_the_status_of_a_class_leaves_tainted_devices_out(site: TaintingSite) -> None:
    path = f"/apis/fairway.dev/v1alpha1/resourceclasses/{site.cluster.namespace}"
    values = [
        {"key": "Kind", "operator": "In", "values": [DRIVER]},
        {"key": "pool", "operator": "In", "values": [site.node]},
    ]
    spec = {"resourceSelector": [{"matchExpressions": values}]}
    site.cluster.make(path.rpartition("/")[0], {
        "apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass",
        "metadata": {"name": site.cluster.namespace}, "spec": spec,
    })  # fmt: skip

    def allocatable() -> Any:
        return site.cluster.get(path).get("status", {}).get("allocatable")

    with Live(site.cluster, user="scheduler"):
        eventually(lambda: allocatable() == 2, "both count")
        rule = site.taint("r", "NoSchedule", "a")
        eventually(lambda: allocatable() == 1, "one is tainted")
        site.cluster.delete(rule)
        eventually(lambda: allocatable() == 2, "both count again")
