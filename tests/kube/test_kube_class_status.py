"""The status of classes on a real server: after any history it is what obvious code makes of the server's objects."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fairway.clock import SECOND
from fairway.kube import throttle
from fairway.kube.status import status_writer as status
from kube.cluster import Cluster, eventually
from kube.controlplane.build import cache_folder
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from support.effort import examples

CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASS, RECORD = "resourceclass.fairway.dev/", "scheduler.alpha.kubernetes.io/resClass_"
DRIVER = "status.example.com"

Predicate = Callable[[dict[str, Any]], bool]
MEANINGS: dict[str, tuple[list[dict[str, Any]], Predicate]] = {
    "st-gpu": ([{"key": "Kind", "operator": "In", "values": ["gpu"]}], lambda device: device["kind"] == "gpu"),
    "st-big": (
        [
            {"key": "Kind", "operator": "In", "values": ["gpu"]},
            {"key": "memory", "operator": "GtEq", "values": ["60"]},
        ],
        lambda device: device["kind"] == "gpu" and device["memory"] >= 60,
    ),
    "st-nic": ([{"key": "Kind", "operator": "In", "values": ["nic"]}], lambda device: device["kind"] == "nic"),
}
HARDWARE: list[dict[str, Any]] = [
    {"name": "g0", "kind": "gpu", "memory": 80},
    {"name": "g1", "kind": "gpu", "memory": 40},
    {"name": "n0", "kind": "nic", "memory": 0},
]


class ClassWorld:
    """What happens to the cluster, and what the classes' statuses should be then."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self._pods = 0
        self._generation = 0

    # -- what happens ----------------------------------------------------------------------------------------

    def play(self, what: str, number: int, more: int) -> None:
        getattr(self, f"_{what}")(number, more)
        self._collect_claims()

    def _node(self, number: int, more: int) -> None:
        """A node comes, or goes."""
        name = f"{self.cluster.namespace}-n{number % 2}"
        if self.cluster.get(f"/api/v1/nodes/{name}"):
            self.cluster.delete(f"/api/v1/nodes/{name}")
        else:
            self.cluster.node(f"n{number % 2}")
            if more % 2:
                self._annotate(name, more)

    def _annotate(self, node: str, more: int) -> None:
        devices = [
            {"name": f"a-{one['name']}", "kind": one["kind"], "attributes": {"memory": one["memory"]}}
            for place, one in enumerate(HARDWARE)
            if more >> place & 1
        ]
        notes = {"metadata": {"annotations": {"fairway.dev/devices": json.dumps(devices)}}}
        self.plane.call("PATCH", f"/api/v1/nodes/{node}", notes, kind="merge")

    def _slice(self, number: int, more: int) -> None:
        """The devices of a node are others, or break."""
        node = f"{self.cluster.namespace}-n{number % 2}"
        name = f"{node}-slice"
        self._generation += 1
        devices = [
            {
                "name": one["name"],
                "attributes": {"kind": {"string": one["kind"]}, "memory": {"int": one["memory"]}},
                **({"taints": [{"key": "broken", "effect": "NoSchedule"}]} if more >> (place + 3) & 1 else {}),
            }
            for place, one in enumerate(HARDWARE)
            if more >> place & 1
        ]
        pool = {"name": node, "generation": self._generation, "resourceSliceCount": 1}
        body: dict[str, Any] = {
            "metadata": {"name": name},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
        }
        there = self.cluster.get(f"{SLICES}/{name}")
        if there is None:
            self.cluster.make(SLICES, body)
        elif more == 0:
            self.cluster.delete(f"{SLICES}/{name}")
        else:
            body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            self.plane.call("PUT", f"{SLICES}/{name}", body)

    def _resource_class(self, number: int, more: int) -> None:
        name = list(MEANINGS)[number % len(MEANINGS)]
        if self.cluster.get(f"{CLASSES}/{name}"):
            self.cluster.delete(f"{CLASSES}/{name}")
        else:
            spec = {"resourceSelector": [{"matchExpressions": MEANINGS[name][0]}]}
            body = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": name}}
            self.cluster.make(CLASSES, {**body, "spec": spec})

    def _pod(self, number: int, more: int) -> None:
        self._pods += 1
        limits = {CLASS + list(MEANINGS)[number % len(MEANINGS)]: str(1 + more % 2)}
        containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
        self.cluster.pod(f"p{self._pods}", containers=containers)

    def _gone(self, number: int, more: int) -> None:
        names = sorted(self.cluster.places())
        if names:
            self.cluster.delete(f"{self.cluster.pods}/{names[number % len(names)]}")

    def _collect_claims(self) -> None:
        """What Kubernetes does with claims whose pod is gone."""
        pods = {one["metadata"]["uid"] for one in self.plane.call("GET", self.cluster.pods)["items"]}
        for claim in self._claims():
            if claim["metadata"]["ownerReferences"][0]["uid"] not in pods:
                path = f"{self._claim_path}/{claim['metadata']['name']}"
                with contextlib.suppress(OSError):
                    self.plane.call("PATCH", path, {"metadata": {"finalizers": None}}, kind="merge")
                self.cluster.delete(path)

    # -- what should be --------------------------------------------------------------------------------------

    @property
    def _claim_path(self) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/{self.cluster.namespace}/resourceclaims"

    def _claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.call("GET", self._claim_path)["items"]
        return found

    def recomputed(self) -> dict[str, tuple[int, int]]:
        """From nothing but the server's objects, by counting devices one by one."""
        nodes = {
            one["metadata"]["name"]: one
            for one in self.plane.call("GET", "/api/v1/nodes")["items"]
            if one["metadata"]["name"].startswith(self.cluster.namespace)
        }
        devices: dict[tuple[str, str], dict[str, Any]] = {}
        for name, node in nodes.items():
            for one in json.loads(node["metadata"].get("annotations", {}).get("fairway.dev/devices", "[]")):
                devices[name, one["name"]] = {"kind": one["kind"], "memory": one["attributes"]["memory"], "ok": True}
        for one in self.plane.call("GET", SLICES)["items"]:
            if one["spec"]["driver"] == DRIVER and one["spec"]["nodeName"] in nodes:
                for device in one["spec"].get("devices") or ():
                    values = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
                    devices[one["spec"]["nodeName"], device["name"]] = {**values, "ok": not device.get("taints")}
        used = {
            (result["pool"], result["device"])
            for claim in self._claims()
            for result in (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", ())
        }
        lost: list[str] = []
        for pod in self.plane.call("GET", self.cluster.pods)["items"]:
            node = pod["spec"].get("nodeName")
            for key, amount in pod["metadata"].get("annotations", {}).items():
                if key.startswith(RECORD) and node in nodes:
                    assert amount == "1"
                    class_name, _, device = key.removeprefix(RECORD).partition("_")
                    if (node, device) in devices:
                        used.add((node, device))
                    else:
                        lost.append(class_name)
        found = {}
        for name, (_, selects) in MEANINGS.items():
            mine = {key for key, device in devices.items() if selects(device)}
            found[name] = (sum(devices[key]["ok"] for key in mine), len(mine & used) + lost.count(name))
        return found

    def written(self) -> dict[str, tuple[int, int]]:
        return {
            one["metadata"]["name"]: (one.get("status", {}).get("allocatable"), one.get("status", {}).get("requested"))
            for one in self.plane.call("GET", CLASSES)["items"]
        }

    def agrees(self) -> bool:
        should = self.recomputed()
        return {name: should[name] for name in self.written()} == self.written()

    def clear(self) -> None:
        for name in self.cluster.places():
            self.cluster.delete(f"{self.cluster.pods}/{name}")
        self._collect_claims()
        for number in range(2):
            node = f"{self.cluster.namespace}-n{number}"
            self.cluster.delete(f"{SLICES}/{node}-slice")
            self.cluster.delete(f"/api/v1/nodes/{node}")
        for name in MEANINGS:
            self.cluster.delete(f"{CLASSES}/{name}")


@pytest.fixture(name="world")
def a_world(installed: ControlPlane, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClassWorld]:
    """Statuses are written as often as they change; else a history would take minutes."""
    monkeypatch.setattr(throttle.StatusThrottle.__init__, "__defaults__", (SECOND // 20,))
    monkeypatch.setattr(status, "INTERVAL", SECOND // 20)
    world = ClassWorld(cluster)
    yield world
    world.clear()


EVENTS = st.tuples(
    st.sampled_from(["node", "slice", "slice", "resource_class", "pod", "pod", "gone"]),
    st.integers(0, 5),
    st.integers(0, 63),
)


@pytest.mark.hypothesis
def test_after_any_history_the_status_is_what_obvious_code_counts(world: ClassWorld) -> None:
    with Live(world.cluster, user="scheduler"):

        @settings(
            max_examples=examples(4),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(EVENTS, min_size=6, max_size=12))
        def histories(events: list[tuple[str, int, int]]) -> None:
            world.clear()
            for what, number, more in [("resource_class", 0, 0), ("node", 0, 1), ("slice", 0, 7), *events]:
                world.play(what, number, more)
                eventually(world.agrees, f"after {what} {number} {more}: {world.recomputed()}, {world.written()}")

        histories()


def _says(lines: list[list[str]], want: tuple[str, str]) -> bool:
    return bool(lines) and lines[-1][1:3] == list(want)


def test_a_watch_of_kubectl_shows_the_status_move(world: ClassWorld) -> None:
    command = [str(cache_folder() / "kubectl"), "--kubeconfig", str(world.plane.kubeconfig("admin"))]
    world.play("resource_class", 0, 0)
    with Live(world.cluster, user="scheduler"):
        watch = subprocess.Popen([*command, "get", "resclass", "-w"], stdout=subprocess.PIPE, text=True)
        assert watch.stdout is not None
        lines: list[list[str]] = []
        reader = threading.Thread(target=lambda out: lines.extend(map(str.split, out)), args=(watch.stdout,))
        reader.start()
        try:
            for event, want in (
                (("node", 0, 0), ("0", "0")),
                (("slice", 0, 7), ("2", "0")),
                (("pod", 0, 1), ("2", "2")),
                (("gone", 0, 0), ("2", "0")),
                (("node", 0, 0), ("0", "0")),
            ):
                world.play(*event)
                eventually(partial(_says, lines, want), f"the watch says {want}: {lines}")
        finally:
            watch.terminate()
            reader.join(30)
            watch.stdout.close()
            watch.wait(30)
