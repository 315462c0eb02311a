"""The least that binding pods can cost: a bare loop of the same HTTP client, with a watch on pods open.

    python -m benchmarks.bind_loop KUBECONFIG NODES

It lists the pods of all namespaces, binds them to nodes in turn over 32 connections, and prints how many it bound, in
how many seconds, and its own processor time for that. Nothing is decided, decoded or checked.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest
from fairway.kube.server.kubeconfig import find_connection

WORKERS = 32
LINGER = 2.0
"""Seconds that the process stays after its work, so that its CPU time can be read."""


async def bind_all(client: ApiClient, nodes: list[str]) -> tuple[int, float, float]:
    listed = json.loads(await client.request("GET", "/api/v1/pods"))
    version = listed["metadata"]["resourceVersion"]
    pods = [pod["metadata"] for pod in listed["items"]]
    watcher = asyncio.create_task(_watch(client, version))
    todo = [
        ApiRequest(
            "POST",
            f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/binding",
            _body(pod["name"], pod["uid"], nodes[index % len(nodes)]),
        )
        for index, pod in enumerate(pods)
    ]
    begin, cpu = time.monotonic(), time.process_time()

    async def work() -> None:
        while todo:
            answer = await client.send(todo.pop())
            assert answer.ok, answer

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    took, spent = time.monotonic() - begin, time.process_time() - cpu
    watcher.cancel()
    return len(pods), took, spent


async def _watch(client: ApiClient, version: str) -> None:
    query = {"watch": "true", "resourceVersion": version}
    async with client.stream("/api/v1/pods", query, silence=600) as body:
        async for _ in body.iter_any():
            pass


def _body(name: str, uid: str, node: str) -> bytes:
    meta = {"name": name, "uid": uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}).encode()


async def main(kubeconfig: str, count: int) -> None:
    sys.stderr.write("ready\n")
    client = ApiClient(find_connection(kubeconfig))
    pods, took, spent = await bind_all(client, [f"node-{index}" for index in range(count)])
    await client.close()
    print(json.dumps({"pods": pods, "seconds": took, "cpu": spent}), flush=True)
    await asyncio.sleep(LINGER)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
