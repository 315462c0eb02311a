"""Two nodes with simulated devices on a real cluster: plugins in Go, agents, stand-in kubelets, and what the claim
controller of Kubernetes does."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.peers import GoPlugin, build
from agent.players import Looped, looped
from fairway.kube.install.agent import agent
from fairway.kube.install.options import InstallOptions
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.kubectl import Kubectl
from kube.live import Live
from kube.servers import apply
from kube.standin import StandInKubelet
from kube.test_kube_agent import OnNode

GPU, NIC, CLASS = "example.com/gpu", "example.com/nic", "resourceclass.fairway.dev/"
CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"
OWN_CLASSES = ("fast-gpu", "any-gpu", "gpu-pair", "nic")
"""Other tests on the same server have others."""
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
            if one["metadata"]["name"] in OWN_CLASSES
        }

    def listed(self) -> dict[str, tuple[float, float]]:
        """What `kubectl get resclass` prints."""
        rows = Kubectl(self.plane, self.cluster.namespace).rows("get", "resclass")
        return {row[0]: (float(row[1]), float(row[2])) for row in rows[1:] if row[0] in OWN_CLASSES}

    def shown(self) -> dict[str, tuple[float, float]]:
        """What `fairway classes` says of the live cluster."""
        command = [sys.executable, "-m", "fairway.cli.main", "classes", "-o", "json"]
        config = ["--kubeconfig", str(self.plane.kubeconfig("admin"))]
        done = subprocess.run([*command, *config], capture_output=True, text=True, check=True)
        return {
            one["name"]: (one["allocatable"], one["requested"])
            for one in json.loads(done.stdout)["resourceClasses"]
            if one["name"] in OWN_CLASSES
        }


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@contextlib.contextmanager
def device_site(installed: ControlPlane, cluster: Cluster) -> Iterator[Site]:
    """All that the devices need, and four classes."""
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


def forbidden(live: Live) -> list[dict[str, Any]]:
    """By the server's word for it: its number may stand in a time or a port, too."""
    return [line for line in list(live.lines) if "forbidden" in str(line).lower()]


def why(site: Site, name: str) -> str:
    conditions = site.cluster.get(f"{site.cluster.pods}/{name}")["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")


def collect(site: Site) -> None:
    """What the garbage collector and the claim controller do: claims of pods that are gone go."""
    path = CLAIMS.format(site.cluster.namespace)
    pods = {one["metadata"]["uid"] for one in site.plane.call("GET", site.cluster.pods)["items"]}
    for claim in site.plane.call("GET", path)["items"]:
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ())}
        if owners and not owners & pods:
            name = claim["metadata"]["name"]
            site.plane.call("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, kind="merge")
            site.cluster.delete(f"{path}/{name}")


class ClaimController:
    """What Kubernetes' resource claim controller does, when it is told to: it makes claims from templates, takes pods
    that are gone out of `reservedFor`, and frees a claim that no pod uses any more.
    """

    def __init__(self, site: Site) -> None:
        self._cluster = site.cluster
        self._plane = site.plane
        self._site = site
        self._path = CLAIMS.format(site.cluster.namespace)

    def run(self) -> None:
        pods = self._plane.call("GET", self._cluster.pods)["items"]
        for pod in pods:
            made = {one["name"] for one in pod["status"].get("resourceClaimStatuses", ())}
            for entry in pod["spec"].get("resourceClaims", ()):
                if "resourceClaimTemplateName" in entry and entry["name"] not in made:
                    self._make(pod, entry)
        there = {pod["metadata"]["uid"] for pod in pods}
        for claim in self._plane.call("GET", self._path)["items"]:
            users = claim.get("status", {}).get("reservedFor", [])
            left = [user for user in users if user["uid"] in there]
            if len(left) < len(users):
                status = {"reservedFor": left or None, **({} if left else {"allocation": None})}
                path = f"{self._path}/{claim['metadata']['name']}"
                self._plane.call("PATCH", f"{path}/status", {"status": status}, kind="merge")
                if not left:
                    self._plane.call("PATCH", path, {"metadata": {"finalizers": None}}, kind="merge")
        collect(self._site)

    def _make(self, pod: dict[str, Any], entry: dict[str, Any]) -> None:
        templates = self._path.replace("resourceclaims", "resourceclaimtemplates")
        template = self._plane.call("GET", f"{templates}/{entry['resourceClaimTemplateName']}")
        meta = pod["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        notes = {"resource.kubernetes.io/pod-claim-name": entry["name"]}
        made = {
            "metadata": {
                "generateName": f"{meta['name']}-{entry['name']}-",
                "annotations": notes,
                "ownerReferences": [owner],
            },
            "spec": template["spec"]["spec"],
        }
        name = self._cluster.make(self._path, made)["metadata"]["name"]
        status = {"resourceClaimStatuses": [{"name": entry["name"], "resourceClaimName": name}]}
        self._plane.call("PATCH", f"{self._cluster.pods}/{meta['name']}/status", {"status": status}, kind="merge")
