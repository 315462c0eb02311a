"""The page of `fairway run` on a real API server, as operators start it, and the users that ask it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.process import RunProcess

POLICY = """
actions: [enqueue, allocate, preempt]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}, {name: devices}]
"""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MARK = "zq9"
"""In all names of the other namespace."""


class PageReply(NamedTuple):
    status: int
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


class LivePageOf:
    """A scheduler and its page as `fairway install` sets them up: two processes with an account each, and a socket."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        *,
        web_access: str = "cluster",
        allow_actions: bool = False,
        hub: str = "",
        **settings: Any,
    ) -> None:
        (folder / "policy.yaml").write_text(POLICY)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.run = RunProcess(
            folder,
            "run",
            kubeconfig=str(cluster.plane.kubeconfig("scheduler")),
            schedulerNames=[cluster.scheduler],
            policy=str(folder / "policy.yaml"),
            leaderElection={"enabled": False},
            feedSocket=str(folder / "f.sock"),
            **settings,
        )
        self.run.start()
        self.log = folder / "page.log"
        self._command = [
            *(sys.executable, "-m", "fairway.cli.main", "web", "--log-format=json"),
            f"--feed={folder / 'f.sock'}",
            f"--web=127.0.0.1:{self.port}",
            f"--web-access={web_access}",
            f"--kubeconfig={cluster.plane.kubeconfig('page')}",
            *(["--allow-actions"] if allow_actions else []),
            *([f"--hub={hub}"] if hub else []),
        ]
        self.page: subprocess.Popen[bytes] | None = None
        self.start_page()

    def start_page(self) -> None:
        with self.log.open("ab") as log:
            self.page = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop_page(self, how: int = signal.SIGTERM) -> int:
        assert self.page is not None
        self.page.send_signal(how)
        return self.page.wait(60)

    def ask(self, path: str, token: str, body: Any = None, **headers: str) -> PageReply:
        data = None if body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, given)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return PageReply(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return PageReply(error.code, error.read().decode())
        except OSError as error:
            return PageReply(0, str(error))

    def job(self, job: str, token: str) -> Any:
        found = self.ask(f"/api/v1/jobs/{job}", token)
        return found.document if found.status == 200 else {}


class Tenancy(NamedTuple):
    own: str
    other: str
    token: str
    admin: str


def account(plane: ControlPlane, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
    """A token of a service account with these rights in its namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    plane.call("POST", path, {"metadata": {"name": name}})
    local = f"{RBAC}/namespaces/{namespace}"
    plane.call("POST", f"{local}/roles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    plane.call("POST", f"{local}/rolebindings", binding)
    token: str = plane.call("POST", f"{path}/{name}/token", {"spec": {}})["status"]["token"]
    return token


READING = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]}


@contextmanager
def tenants(plane: ControlPlane, cluster: Cluster) -> Iterator[Tenancy]:
    """Two namespaces; the token may list pods of one of them."""
    other = f"{MARK}-{cluster.namespace}"
    cluster.make("/api/v1/namespaces", {"metadata": {"name": other}})
    for namespace in (cluster.namespace, other):
        plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    token = account(plane, cluster.namespace, "tenant", [READING])
    yield Tenancy(cluster.namespace, other, token, plane.tokens["admin"])
    for pod in plane.call("GET", f"/api/v1/namespaces/{other}/pods")["items"]:
        cluster.delete(f"/api/v1/namespaces/{other}/pods/{pod['metadata']['name']}")


@contextmanager
def running_page(cluster: Cluster, folder: Path, **settings: Any) -> Iterator[LivePageOf]:
    """Ends it, and holds that it had no problem and ended cleanly."""
    page = LivePageOf(cluster, folder, **settings)
    try:
        yield page
    finally:
        codes = page.stop_page(), page.run.stop()
    assert page.run.problems() == []
    assert "traceback" not in page.log.read_text().lower()
    assert codes == (0, 0)


def their_pod(cluster: Cluster, namespace: str, name: str, **spec: Any) -> None:
    body = {
        "metadata": {"name": name, "labels": {f"{MARK}-label": MARK}},
        "spec": {
            "schedulerName": cluster.scheduler,
            "nodeSelector": {"test": cluster.namespace},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
            **spec,
        },
    }
    cluster.plane.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
