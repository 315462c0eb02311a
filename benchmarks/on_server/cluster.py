"""A cluster of nodes and pods on a real API server, made and emptied quickly.

One object of a shape is made through the API, so that it has all that the server adds (defaults, managedFields); its
copies are put into etcd, where the server finds them. Emptying takes the keys out again. Thousands of objects cost a
second, and the server spends its time on the programs that are measured.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient
from fairway.kube.server.kubeconfig import find_connection
from kube.controlplane.plane import ControlPlane

NAMESPACE = "bench"
SCHEDULER = "bench"
KUBE_GROUP = "scheduling.k8s.io/v1alpha2"
VOLCANO_GROUP = "scheduling.volcano.sh/v1beta1"
TOGETHER = 100
"""Keys that are put in one transaction; etcd allows 128."""
_PODS = {"cpu": "500m", "memory": "512Mi"}


class BenchCluster:
    """Objects on the server, written through etcd."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.client = ApiClient(find_connection(str(plane.kubeconfig())), time_limit=120)  # some lists are long
        self._rounds = count(1)
        self._prefixes = {"/registry/pods/"}
        self._has_nodes = False

    async def nodes(self, number: int) -> None:
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        node = {
            "metadata": {"name": "node-0", "labels": {"kubernetes.io/hostname": "node-0"}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        if not self._has_nodes:
            await self.copies("/api/v1/nodes", node, [("", f"node-{index}") for index in range(number)], _as_node)
        self._has_nodes = True

    async def namespaces(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                await self.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            except ApiError as error:
                if error.status != 409:
                    raise

    async def pods(
        self,
        number: int,
        *,
        gang: int = 1,
        scheduler: str = SCHEDULER,
        nodes: int = 0,
        api: str = KUBE_GROUP,
        namespaces: Sequence[str] = (NAMESPACE,),
        queues: Sequence[str] = (),
    ) -> None:
        """Pods that wait, in gangs where `gang` is more than one; with `nodes` they run there already. Gangs take turns
        in namespaces and queues.
        """
        turn = next(self._rounds)
        if gang > 1:
            await self._groups(turn, number // gang, gang, api, namespaces, queues)
        wheres = [namespaces[index // gang % len(namespaces)] for index in range(number)]
        pod = waiting_pod(scheduler)

        def changed(thing: dict[str, Any], index: int) -> None:
            if nodes:
                thing["spec"]["nodeName"] = f"node-{index % nodes}"
                thing["status"]["phase"] = "Running"
            if gang > 1:
                group = f"g{turn}-{index // gang}"
                if api == KUBE_GROUP:
                    thing["spec"]["schedulingGroup"] = {"podGroupName": group}
                else:
                    thing["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}

        names = [(where, f"p{turn}-{index}") for index, where in enumerate(wheres)]
        await self.copies(f"/api/v1/namespaces/{NAMESPACE}/pods", pod, names, changed)

    async def _groups(
        self, turn: int, number: int, size: int, api: str, namespaces: Sequence[str], queues: Sequence[str]
    ) -> None:
        spec: dict[str, Any] = {"minMember": size, "queue": "default"}
        if api == KUBE_GROUP:
            spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
        body = {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "shape"}, "spec": spec}

        def changed(thing: dict[str, Any], index: int) -> None:
            if queues:
                thing["spec"]["queue"] = queues[index % len(queues)]

        names = [(namespaces[index % len(namespaces)], f"g{turn}-{index}") for index in range(number)]
        await self.copies(f"/apis/{api}/namespaces/{NAMESPACE}/podgroups", body, names, changed)

    async def empty(self, programs_of: Sequence[str] = (NAMESPACE,)) -> None:
        """Delete everything except nodes, namespaces and queues."""
        for prefix in sorted(self._prefixes):
            await self._without(prefix)
        for namespace in programs_of:
            await self._without(f"/registry/events/{namespace}/")
        await self.until("/api/v1/pods", 0)

    def also_empties(self, prefix: str) -> None:
        """Etcd prefixes of objects that the programs themselves create."""
        self._prefixes.add(prefix)

    async def until(self, path: str, number: int) -> None:
        """Wait until the server sees this many objects."""
        while True:
            listed = json.loads(await self.client.request("GET", path, query={"limit": "1"}))
            if len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0) == number:
                return
            await asyncio.sleep(0.2)

    # -- etcd ----------------------------------------------------------------------------------------------

    async def copies(self, path: str, body: dict[str, Any], names: list[tuple[str, str]], changed: Any) -> None:
        """Copies of one object under other names."""
        shape = json.loads(await self.client.request("POST", path, {**body, "metadata": {**body["metadata"]}}))
        name = shape["metadata"]["name"]
        prefix = await asyncio.to_thread(self._prefix_of, name, shape["metadata"].get("namespace", ""))
        if "namespace" in shape["metadata"]:
            self._prefixes.add(prefix)
        shape["metadata"].pop("resourceVersion", None)
        await asyncio.to_thread(self._delete, f"{prefix}{_place(shape['metadata'].get('namespace', ''), name)}")
        text = json.dumps(shape)
        await asyncio.to_thread(self.put, self._written(text, prefix, names, changed))
        everywhere = path.replace(f"/namespaces/{NAMESPACE}", "")
        await self.until(everywhere, len(names))

    @staticmethod
    def _written(text: str, prefix: str, names: list[tuple[str, str]], changed: Any) -> Iterator[tuple[str, str]]:
        for index, (namespace, name) in enumerate(names):
            thing = json.loads(text)
            thing["metadata"] |= {"name": name, "uid": str(uuid4())}
            if namespace:
                thing["metadata"]["namespace"] = namespace
            changed(thing, index)
            yield f"{prefix}{_place(namespace, name)}", json.dumps(thing)

    def put(self, pairs: Iterable[tuple[str, str]]) -> None:
        batch: list[dict[str, Any]] = []
        for key, value in pairs:
            batch.append({"request_put": {"key": _coded(key), "value": _coded(value)}})
            if len(batch) == TOGETHER:
                self.plane.etcd("/v3/kv/txn", {"success": batch})
                batch = []
        if batch:
            self.plane.etcd("/v3/kv/txn", {"success": batch})

    def _prefix_of(self, name: str, namespace: str) -> str:
        """The etcd prefix of a kind, found by one of its objects."""
        place = "/" + _place(namespace, name)
        found = self.plane.etcd(
            "/v3/kv/range", {"key": _coded("/registry/"), "range_end": _coded("/registry0"), "keys_only": True}
        )
        keys = [base64.b64decode(one["key"]).decode() for one in found.get("kvs", ())]
        return next(key for key in keys if key.endswith(place))[: -len(place) + 1]

    def _delete(self, key: str) -> None:
        self.plane.etcd("/v3/kv/deleterange", {"key": _coded(key)})

    async def _without(self, prefix: str) -> None:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": _coded(prefix), "range_end": _coded(end)}
        await asyncio.to_thread(self.plane.etcd, "/v3/kv/deleterange", body)


def heartbeats(cluster: BenchCluster, number: int) -> Iterator[tuple[str, str]]:
    """All nodes with a new heartbeat time, as stored in etcd."""
    found = cluster.plane.call("GET", f"/api/v1/nodes?limit={number}")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for node in found["items"]:
        node |= {"apiVersion": "v1", "kind": "Node"}
        node["metadata"].pop("resourceVersion", None)
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = now
        yield f"/registry/minions/{node['metadata']['name']}", json.dumps(node)


def waiting_pod(scheduler: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": _PODS}}]
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": containers}
    return {"metadata": {"name": "shape"}, "spec": spec}


def _as_node(thing: dict[str, Any], index: int) -> None:
    thing["metadata"]["labels"] = {"kubernetes.io/hostname": thing["metadata"]["name"]}


def _place(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
