"""The agent on a real API server, under exactly the access that `fairway install --agent` gives it."""

from __future__ import annotations

import json
import shutil
import ssl
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.players import PlayedAgent, PlayedKubelet, PlayedPlugin, eventually, looped
from fairway.agent.mapping import fits_text
from fairway.kube.http.client import ApiClient
from fairway.kube.install.agent import NAME, agent, agent_rules
from fairway.kube.install.options import InstallOptions
from fairway.kube.server.kubeconfig import find_connection
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.servers import Refused, apply, ask

GPU = "example.com/gpu"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(name="given", scope="module")
def what_is_installed(plane: ControlPlane) -> ControlPlane:
    apply(plane, agent(InstallOptions()))
    return plane


@pytest.fixture(name="host")
def a_folder_of_sockets() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fw", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def config(plane: ControlPlane, folder: Path, node: str) -> Path:
    """A kubeconfig with a token as the kubelet gives one to the agent's pod: bound to its node."""
    uid = plane.call("GET", f"/api/v1/nodes/{node}")["metadata"]["uid"]
    bound = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": uid}
    path = f"/api/v1/namespaces/{NAME}/serviceaccounts/{NAME}/token"
    token = plane.call("POST", path, {"spec": {"boundObjectRef": bound, "audiences": []}})["status"]["token"]
    text = json.loads(plane.kubeconfig().read_text())
    text["users"][0]["user"]["token"] = token
    made = folder / "kubeconfig"
    made.write_text(json.dumps(text))
    return made


class OnNode(PlayedAgent):
    """An agent with the identity of a node's agent; its requests are remembered."""

    def __init__(self, folder: Path, plane: ControlPlane, node: str, **settings: Any) -> None:
        super().__init__(folder, plane.url, node=node, **settings)
        self.connection = find_connection(str(config(plane, folder, node)), None)


def devices(plane: ControlPlane, node: str) -> dict[str, Any]:
    found = plane.call("GET", f"{SLICES}?fieldSelector=spec.nodeName%3D{node}")["items"]
    newest = max((one["spec"]["pool"]["generation"] for one in found), default=0)
    current = [one["spec"] for one in found if one["spec"]["pool"]["generation"] == newest]
    if not current or len(current) != current[0]["pool"]["resourceSliceCount"]:
        return {}
    return {device["name"]: device for spec in current for device in spec.get("devices", ())}


@pytest.fixture(name="requests")
def the_requests_of_agents(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    seen: set[tuple[str, str]] = set()
    real = ApiClient._answer
    lock = threading.Lock()

    async def remembered(self: ApiClient, request: Any, may_leave: Any = None) -> Any:
        answer = await real(self, request, may_leave)
        path = request.path.partition("?")[0]
        with lock:
            seen.add((request.method, path))
            if answer.status == 403:
                seen.add(("403", path))
        return answer

    monkeypatch.setattr(ApiClient, "_answer", remembered)
    return seen


def test_an_agent_under_the_access_that_is_installed(
    given: ControlPlane, cluster: Cluster, host: Path, requests: set[tuple[str, str]]
) -> None:
    """From a plugin's devices to a prepared claim; nothing is refused."""
    node = cluster.node("n1")
    pool = f"{node}/{GPU}"
    with looped() as players, OnNode(host, given, node, plugin_grace=2.0) as one:
        plugin = PlayedPlugin(players, host / "dp", GPU, [f"GPU-{number}" for number in range(130)]).start()
        eventually(lambda: len(devices(given, node)) == 130, "all devices are there")
        kubelet = PlayedKubelet(players, host / "kr").register()
        plugin.change(**{"GPU-7": "Unhealthy"})
        eventually(lambda: _unhealthy(given, node) == ["GPU-7"], "one is unhealthy")
        name = next(
            key for key, value in devices(given, node).items() if value["attributes"]["id"]["string"] == "GPU-9"
        )
        claim = _allocated(cluster, "c", pool, name, node)
        (found,) = kubelet.prepare(claim).values()
        assert found == [("r", f"{pool}/{name}", (f"devices.fairway.dev/claim={claim.split(' ')[2]}-0",))]
        assert plugin.calls == ["allocate GPU-9"]
        assert list(kubelet.unprepare(claim).values()) == [""]
        plugin.stop()
        eventually(lambda: not devices(given, node), "its devices are withdrawn")
        assert one.logged("publishing failed, it is tried again") == []
    assert [path for method, path in requests if method == "403"] == []
    used = {_verb(method, path) for method, path in requests} - {None}
    granted = {(resource, verb) for rule in agent_rules() for resource in rule["resources"] for verb in rule["verbs"]}
    assert used <= granted  # that all of it is used is looked at over all tests, in `kube.audit`


def _verb(method: str, path: str) -> tuple[str, str] | None:
    parts = path.split("/")
    for resource in ("nodes", "resourceclaims", "resourceslices"):
        if resource in parts:
            named = parts[-1] != resource
            verbs = {"GET": "get" if named else "list", "POST": "create", "PUT": "update", "DELETE": "delete"}
            return resource, verbs[method]
    return None


def _unhealthy(plane: ControlPlane, node: str) -> list[str]:
    found = devices(plane, node).values()
    return [one["attributes"]["id"]["string"] for one in found if one["attributes"].get("healthy") == {"bool": False}]


def _allocated(cluster: Cluster, name: str, pool: str, device: str, node: str) -> str:
    """As a scheduler does it."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{cluster.namespace}/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    made = cluster.make(claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    results = [{"request": "r", "driver": "devices.fairway.dev", "pool": pool, "device": device}]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    made["status"] = {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}}
    cluster.plane.call("PUT", f"{claims}/{name}/status", made)
    return f"{cluster.namespace} {name} {made['metadata']['uid']}"


def test_an_agent_cannot_write_slices_of_another_node_or_driver(given: ControlPlane, cluster: Cluster) -> None:
    mine, other = cluster.node("n1"), cluster.node("n2")
    user = f"system:serviceaccount:{NAME}:{NAME}"

    def body(node: str, driver: str, pool_of: str = "") -> dict[str, Any]:
        pool = {"name": f"{pool_of or node}/example.com/gpu", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": []}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-x"},
            "spec": spec,
        }

    def is_refused() -> bool:  # a policy takes a moment to be in force
        try:
            made = as_agent(given, "POST", SLICES, body(other, "devices.fairway.dev"), user, mine)
        except Refused:
            return True
        given.call("DELETE", f"{SLICES}/{made['metadata']['name']}")
        return False

    eventually(is_refused)
    for node, driver, words in (
        (other, "devices.fairway.dev", "an agent writes the slices of its own node only"),
        (mine, "gpu.example.com", "of the driver devices.fairway.dev only"),
    ):
        with pytest.raises(Refused, match=words):
            as_agent(given, "POST", SLICES, body(node, driver), user, mine)
    with pytest.raises(Refused, match="to pools of its own node only"):
        as_agent(given, "POST", SLICES, body(mine, "devices.fairway.dev", pool_of=other), user, mine)
    as_agent(given, "POST", SLICES, body(mine, "devices.fairway.dev"), user, mine)
    with pytest.raises(Refused, match="own node only"):
        as_agent(given, "DELETE", f"{SLICES}/{mine}-x", None, user, other)
    with pytest.raises(Refused, match="own node only"):
        ask(given, "DELETE", f"{SLICES}/{mine}-x", user=user)
    as_agent(given, "DELETE", f"{SLICES}/{mine}-x", None, user, mine)


def test_a_server_counts_the_bytes_of_a_text(given: ControlPlane, cluster: Cluster) -> None:
    """As `fits_text` does: else one device of a plugin would have the slices of its pool refused."""
    node = cluster.node("n1")
    for text in ("x" * 64, "ü" * 32, "x" * 65, "ü" * 33):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "d", "attributes": {"id": {"string": text}}}]
        spec = {"driver": "bytes.example.com", "pool": pool, "nodeName": node, "devices": devices}
        try:
            given.call("POST", SLICES, {"metadata": {"name": f"{node}-bytes"}, "spec": spec})
            given.call("DELETE", f"{SLICES}/{node}-bytes")
            status = 200
        except urllib.error.HTTPError as refused:
            status = refused.code
        assert status == (200 if fits_text(text) else 422), text


def as_agent(
    plane: ControlPlane, method: str, path: str, body: Any, user: str, node: str, kind: str = "application/json"
) -> Any:
    headers = {
        "Authorization": f"Bearer {plane.tokens['admin']}",
        "Content-Type": kind,
        "Impersonate-User": user,
        "Impersonate-Group": "system:serviceaccounts",
        "Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node,
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(plane.url + path, data, headers, method=method)
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(error.code, json.loads(error.read())["message"]) from None
