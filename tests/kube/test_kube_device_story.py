"""Devices on a real cluster, end to end: plugins in Go, agents, the scheduler under its access, stand-in kubelets."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.peers import GoPlugin, build
from agent.players import Looped, eventually, looped
from fairway.api.pods import Pod
from fairway.drive.class_claims import class_claim
from fairway.kube.install.agent import agent
from fairway.kube.install.options import InstallOptions
from fairway.scheduler.plan import Binding, DeviceChoice
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.servers import apply
from kube.standin import StandInKubelet
from kube.test_kube_agent import OnNode

GPU, NIC, CLASS = "example.com/gpu", "example.com/nic", "resourceclass.fairway.dev/"
CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"

MAPPING = """
apiVersion: fairway.dev/v1alpha1
kind: DeviceMapping
resources:
- resource: example.com/gpu
  kind: gpu
  attributes: {model: a100}
  capacity: {memory: 40Gi}
  devices:
  - {ids: ["GPU-0", "GPU-1"], attributes: {model: h100}, capacity: {memory: 80Gi}}
  groups:
  - {name: pair-0, members: [GPU-0, GPU-1], attributes: {pair: true, model: pair}}
- resource: example.com/nic
  kind: nic
"""


class Site:
    """Two nodes, each with an agent, two plugins and a kubelet."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.kubelets: dict[str, StandInKubelet] = {}

    def start(self, name: str, stack: contextlib.ExitStack, players: Looped) -> None:
        node = self.cluster.node(name, cpu=32)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fw", dir="/tmp")))
        (folder / "map.yaml").write_text(MAPPING)
        stack.enter_context(OnNode(folder, self.plane, node, mapping=folder / "map.yaml"))
        stack.enter_context(GoPlugin(folder / "dp", GPU, count=4))
        stack.enter_context(GoPlugin(folder / "dp", NIC, count=2, prefix="nic-"))
        self.kubelets[name] = StandInKubelet(self.plane, node, players, folder)

    def sync(self) -> dict[str, dict[str, list[str]]]:
        """What the containers of every pod have."""
        return {
            f"{name}/{pod}": given for name, kubelet in self.kubelets.items() for pod, given in kubelet.sync().items()
        }

    def status(self) -> dict[str, tuple[float, float]]:
        found = self.plane.call("GET", CLASSES)["items"]
        return {
            one["metadata"]["name"]: (one.get("status", {}).get("allocatable"), one.get("status", {}).get("requested"))
            for one in found
        }

    def shown(self) -> dict[str, tuple[float, float]]:
        """What `fairway classes` says of the live cluster."""
        command = [sys.executable, "-m", "fairway.cli.main", "classes", "-o", "json"]
        config = ["--kubeconfig", str(self.plane.kubeconfig("admin"))]
        done = subprocess.run([*command, *config], capture_output=True, text=True, check=True)
        return {
            one["name"]: (one["allocatable"], one["requested"]) for one in json.loads(done.stdout)["resourceClasses"]
        }


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster) -> Iterator[Site]:
    problem = build()
    if problem:
        pytest.skip(problem)
    apply(installed, agent(InstallOptions()))
    for name, *terms in (
        ("fast-gpu", expression("Kind", "gpu"), expression("memory", "60Gi", operator="GtEq")),
        ("any-gpu", expression("Kind", "gpu"), expression("memory", "1Gi", operator="GtEq")),
        ("gpu-pair", expression("pair", "true")),
        ("nic", expression("Kind", "nic")),
    ):
        includes = {"includes": [{"class": "fast-gpu", "count": 2}]} if name == "gpu-pair" else {}
        spec = {"resourceSelector": [{"matchExpressions": terms}], **includes}
        cluster.make(
            CLASSES,
            {
                "apiVersion": "fairway.dev/v1alpha1",
                "kind": "ResourceClass",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
    with contextlib.ExitStack() as stack:
        players = stack.enter_context(looped())
        site = Site(cluster)
        for name in ("n1", "n2"):
            site.start(name, stack, players)
        yield site


def pod(site: Site, name: str, *containers: dict[str, int], **spec: Any) -> None:
    """Each container asks for so many of each class."""
    made = [
        {
            "name": f"c{number}",
            "image": "i",
            "resources": {"limits": {CLASS + one: str(count) for one, count in classes.items()}},
        }
        for number, classes in enumerate(containers)
    ]
    site.cluster.pod(name, containers=made, **spec)


def devices(site: Site) -> dict[str, list[list[str]]]:
    """The devices of each pod's containers, in their order."""
    return {name.partition("/")[2]: [given[one] for one in sorted(given)] for name, given in site.sync().items()}


def test_devices_by_class_reach_the_containers_that_were_meant(site: Site) -> None:
    with Live(site.cluster, user="scheduler") as live:
        free = {"fast-gpu": (4, 0), "any-gpu": (8, 0), "gpu-pair": (2, 0), "nic": (4, 0)}
        eventually(lambda: site.status() == free, "all classes count their devices")
        assert site.shown() == free

        pod(site, "one", {"fast-gpu": 1, "nic": 1}, {"any-gpu": 2})
        eventually(lambda: site.cluster.places()["one"])
        given = devices(site)["one"]
        fast, any_gpu = given[0], given[1]
        assert len(fast) == 2, "a GPU and a NIC for the first container"
        assert {one.partition("-")[0] for one in fast} == {"GPU", "nic"}
        assert next(one for one in fast if one.startswith("GPU")) in ("GPU-0", "GPU-1")
        assert len(any_gpu) == 2
        assert not set(fast) & set(any_gpu)
        used = site.status
        eventually(lambda: used()["nic"] == (4, 1) and used()["any-gpu"] == (8, 3), "the pod is counted")
        assert used() == site.shown()

        # the pair of the other node is whole; two are not to be had any more
        pod(site, "pair", {"gpu-pair": 1})
        eventually(lambda: site.cluster.places()["pair"])
        assert devices(site)["pair"] == [["GPU-0", "GPU-1"]]
        pod(site, "waits", {"gpu-pair": 1})
        pod(site, "unknown", {"no-such-class": 1})
        eventually(lambda: _why(site, "waits") and _why(site, "unknown"))
        assert "no-such-class" in _why(site, "unknown")

        eventually(lambda: site.status() == site.shown(), "kubectl and fairway agree")
        site.cluster.delete(f"{site.cluster.pods}/one", grace=None)
        site.cluster.delete(f"{site.cluster.pods}/pair", grace=None)
        eventually(lambda: site.sync() is not None and "pair" not in site.cluster.places())
        _collect(site)
        eventually(lambda: site.cluster.places()["waits"], "the next pair is given out")
        assert devices(site)["waits"] == [["GPU-0", "GPU-1"]]
        for name in ("waits", "unknown"):
            site.cluster.delete(f"{site.cluster.pods}/{name}", grace=None)
        eventually(lambda: site.sync() == {} and not site.cluster.places())
        _collect(site)
        try:
            eventually(lambda: site.status() == free, "everything is free again")
        except AssertionError:
            left = site.plane.call("GET", CLAIMS.format(site.cluster.namespace))["items"]
            names = [one["metadata"]["name"] for one in left]
            kept = [key for key, _ in live.store.of_kind("ResourceClaim")]
            raise AssertionError(f"{site.status()}, by fairway {site.shown()}, claims {names}, known {kept}") from None
        assert site.shown() == free
        assert forbidden(live) == []


def forbidden(live: Live) -> list[dict[str, Any]]:
    return [line for line in live.lines if "403" in str({**line, "time": ""})]


def _why(site: Site, name: str) -> str:
    conditions = site.cluster.get(f"{site.cluster.pods}/{name}")["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")


def _collect(site: Site) -> None:
    """What the garbage collector and the claim controller do: claims of pods that are gone go."""
    path = CLAIMS.format(site.cluster.namespace)
    pods = {one["metadata"]["uid"] for one in site.plane.call("GET", site.cluster.pods)["items"]}
    for claim in site.plane.call("GET", path)["items"]:
        if not {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())} & pods:
            name = claim["metadata"]["name"]
            site.plane.call("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, kind="merge")
            site.cluster.delete(f"{path}/{name}")


def test_a_claim_of_an_attempt_that_ended_in_a_crash_is_replaced(site: Site) -> None:
    """It was allocated for the pod with devices of another node, and the pod was never bound."""
    pod(site, "p", {"nic": 1}, nodeSelector={"kubernetes.io/hostname": "n1"})
    uid = site.cluster.get(f"{site.cluster.pods}/p")["metadata"]["uid"]
    node = f"{site.cluster.namespace}-n2"
    choice = DeviceChoice("nic", "nic-1", 1, driver="devices.fairway.dev", pool=f"{node}/{NIC}")
    waiting = msgspec.convert(site.cluster.get(f"{site.cluster.pods}/p"), Pod)
    made = class_claim(waiting, Binding("p", node, (choice,)), 0)
    assert made is not None
    claim = msgspec.to_builtins(made[0])
    path = CLAIMS.format(site.cluster.namespace)
    there = site.cluster.make(path, claim)
    site.plane.call("PUT", f"{path}/{there['metadata']['name']}/status", {**there, "status": claim["status"]})
    labels = {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}
    site.plane.call("PATCH", f"/api/v1/nodes/{site.cluster.namespace}-n1", labels, kind="merge")
    with Live(site.cluster, user="scheduler") as live:
        eventually(lambda: site.cluster.places() == {"p": "n1"}, "the pod is bound where it belongs")
        assert devices(site) == {"p": [["nic-0"]]}
        assert len(site.plane.call("GET", path)["items"]) == 1
        eventually(lambda: site.status()["nic"] == (4, 1), "it is counted once")
        assert forbidden(live) == []
    assert site.cluster.get(f"{site.cluster.pods}/p")["metadata"]["uid"] == uid
    site.cluster.delete(f"{site.cluster.pods}/p")
    site.sync()
