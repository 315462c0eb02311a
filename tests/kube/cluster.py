"""What tests do to a real cluster, without any code of Fairway's: make nodes and pods, look at them, wait, clean up."""

from __future__ import annotations

import contextlib
import itertools
import time
import urllib.error
from collections.abc import Callable
from typing import Any

from kube.controlplane.plane import ControlPlane

PATIENCE = 120.0
"""Seconds after which what was waited for will not come, on a machine that does much else."""
_PASSING = (409, 429, 500, 503, 504)
"""Answers of a busy server to a deletion, which mean nothing a moment later."""
_NUMBERS = itertools.count()


class Cluster:
    """One namespace and the nodes of one test. Pods name a scheduler of the test's own, so that tests do not meet."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane = plane
        self.namespace = f"{name[:40].rstrip('-')}-{next(_NUMBERS)}"
        self.scheduler = self.namespace
        self._made: list[str] = []
        self.make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    # -- objects -------------------------------------------------------------------------------------------

    def make(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = self.plane.call("POST", path, body)
        self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    def node(self, name: str, *, cpu: float = 4, memory: str = "8Gi", pods: int = 110, **labels: str) -> str:
        """Ready, and of this test alone: its pods select it by the label `test`."""
        full = f"{self.namespace}-{name}"
        labels = {"test": self.namespace, **labels}
        self.make("/api/v1/nodes", {"metadata": {"name": full, "labels": labels}})
        amounts = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
        self.plane.call("PATCH", f"/api/v1/nodes/{full}/status", status, kind="strategic")
        return full

    def pod(self, name: str, *, cpu: str = "1", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "schedulerName": self.scheduler,
                "nodeSelector": {"test": self.namespace},
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
                **spec,
            },
        }
        return self.make(self.pods, body)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def get(self, path: str) -> Any:
        """None if it is not there."""
        try:
            return self.plane.call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def delete(self, path: str, *, grace: int | None = 0) -> None:
        """A pod that was never started goes at once with a grace period of zero."""
        for patience in (0.1, 0.5, 2.0, 0.0):
            try:
                self.plane.call("DELETE", path, {} if grace is None else {"gracePeriodSeconds": grace})
            except urllib.error.HTTPError as error:
                if error.code in (404, 405):  # gone, as its kind may be
                    return
                if error.code not in _PASSING or not patience:
                    raise
                time.sleep(patience)
            else:
                return

    def places(self) -> dict[str, str]:
        """The node of each pod, without the test's name; "" waits."""
        found = self.plane.call("GET", self.pods)["items"]
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "").removeprefix(f"{self.namespace}-") for pod in found
        }

    def summary(self) -> str:
        """A line for each pod, for people."""
        try:
            found = self.plane.call("GET", self.pods)["items"]
        except OSError as error:
            return f"cannot be read: {error}"
        return "\n".join(map(_summary, found)) or "none"

    def runs(self, name: str, phase: str = "Running") -> None:
        """What a kubelet would report."""
        self.plane.call("PATCH", f"{self.pods}/{name}/status", {"status": {"phase": phase}}, kind="merge")

    def bind(self, name: str, node: str) -> None:
        """As another scheduler does."""
        target = {"kind": "Node", "name": node}
        body = {"metadata": {"name": name}, "target": target}
        self.plane.call("POST", f"{self.pods}/{name}/binding", body)

    def clean(self) -> None:
        for pod in self.plane.call("GET", self.pods)["items"]:
            self._remove(f"{self.pods}/{pod['metadata']['name']}")
        for path in reversed(self._made):
            if not path.startswith(self.pods):
                self._remove(path)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError):
            self.delete(path)


def _summary(pod: dict[str, Any]) -> str:
    meta, status = pod["metadata"], pod["status"]
    conditions = (f"{one['type']}={one['status']} {one.get('message', '')}" for one in status.get("conditions", ()))
    node, leaves = pod["spec"].get("nodeName", "-"), meta.get("deletionTimestamp", "")
    nominated = status.get("nominatedNodeName", "")
    facts = (f"nominated {nominated}" if nominated else "", f"leaves {leaves}" if leaves else "", *conditions)
    return "; ".join([f"{meta['name']} on {node}, {status.get('phase')}", *filter(None, facts)])


def eventually(holds: Callable[[], Any], what: str = "") -> Any:
    """Wait for something that must come true; the value it has then."""
    end = time.monotonic() + PATIENCE
    value = holds()
    while not value:
        assert time.monotonic() < end, f"{what or holds} did not come true; at the end: {value!r}"
        time.sleep(0.05)
        value = holds()
    return value


def crd(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> dict[str, Any]:
    """A kind without a schema: the server takes any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [served],
        },
    }
