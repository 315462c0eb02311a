"""What kube-controller-manager and a provisioner do about volumes, as far as a scheduler can see it.

Volumes without a claim become Available. A claim that a volume names is bound to it. A claim with a selected node gets
a volume that only this node reaches, unless the provisioner is told to wait, or to give up: then it takes the selected
node off the claim, as provisioners do.
"""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.error
from types import TracebackType
from typing import Any

from kube.cluster import Cluster

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED = "volume.kubernetes.io/selected-node"
HOST = "kubernetes.io/hostname"


class Storage:
    """`with Storage(cluster) as storage:`; its volumes and classes are of this test alone."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.claims = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"
        self.local = self._class("local", "kubernetes.io/no-provisioner")
        self.disk = self._class("disk", "disk.example.com")
        self.provisions = True
        self.gives_up = 0
        """So many times the provisioner gives up."""
        self.given_up: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storage", daemon=True)

    def __enter__(self) -> Storage:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _class(self, name: str, provisioner: str) -> str:
        full = f"{self.cluster.namespace}-{name}"
        body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        self.cluster.make(CLASSES, {"metadata": {"name": full}, **body})
        return full

    def claim(self, name: str, storage_class: str, **spec: Any) -> None:
        body = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        self.cluster.make(self.claims, {"metadata": {"name": name}, "spec": body})

    def volume(self, name: str, node: str, storage_class: str, **spec: Any) -> None:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
        body = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **spec,
        }
        self.cluster.make(VOLUMES, {"metadata": {"name": f"{self.cluster.namespace}-{name}"}, "spec": body})

    def user(self, name: str, *claims: str, **spec: Any) -> None:
        volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
        self.cluster.pod(name, volumes=volumes, **spec)

    def volume_of(self, claim: str) -> str:
        """The volume of a claim that is bound; "" before."""
        found = self.cluster.get(f"{self.claims}/{claim}")
        bound = found["status"].get("phase") == "Bound"
        return str(found["spec"]["volumeName"]).removeprefix(f"{self.cluster.namespace}-") if bound else ""

    # -- controllers ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(urllib.error.HTTPError, OSError):  # another was first: it is looked at again
                self._turn()
            time.sleep(0.05)

    def _turn(self) -> None:
        own = (self.local, self.disk)
        volumes = [one for one in self.plane.call("GET", VOLUMES)["items"] if one["spec"]["storageClassName"] in own]
        claims = {one["metadata"]["name"]: one for one in self.plane.call("GET", self.claims)["items"]}
        for volume in volumes:
            path, named = f"{VOLUMES}/{volume['metadata']['name']}", volume["spec"].get("claimRef")
            if named is None and volume["status"].get("phase") != "Available":
                self.plane.call("PATCH", f"{path}/status", {"status": {"phase": "Available"}}, kind="merge")
            claim = None if named is None else claims.get(named["name"])
            if claim is not None and claim["metadata"]["uid"] == named.get("uid"):
                self._bind(claim, volume)
        for claim in claims.values():
            selected = claim["metadata"].get("annotations", {}).get(SELECTED)
            if selected and not claim["spec"].get("volumeName"):
                self._provision(claim, selected)

    def _bind(self, claim: dict[str, Any], volume: dict[str, Any]) -> None:
        name, path = volume["metadata"]["name"], f"{self.claims}/{claim['metadata']['name']}"
        if volume["status"].get("phase") != "Bound":
            self.plane.call("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}}, kind="merge")
        if not claim["spec"].get("volumeName"):
            notes = {"pv.kubernetes.io/bind-completed": "yes"}
            self.plane.call(
                "PATCH", path, {"metadata": {"annotations": notes}, "spec": {"volumeName": name}}, kind="merge"
            )
        if claim["status"].get("phase") != "Bound":
            self.plane.call("PATCH", f"{path}/status", {"status": {"phase": "Bound"}}, kind="merge")

    def _provision(self, claim: dict[str, Any], node: str) -> None:
        name = claim["metadata"]["name"]
        if self.gives_up:
            self.gives_up -= 1
            self.given_up.append(node)
            notes = {"metadata": {"annotations": {SELECTED: None}}}
            self.plane.call("PATCH", f"{self.claims}/{name}", notes, kind="merge")
        elif self.provisions and self.cluster.get(f"{VOLUMES}/{self.cluster.namespace}-pvc-{name}") is None:
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": self.cluster.namespace,
                "name": name,
                "uid": claim["metadata"]["uid"],
            }
            self.volume(f"pvc-{name}", node, self.disk, claimRef=reference)
