"""What devices cost in writes to the API server, against those that claims need at least.

A pod without devices needs its binding. With a claim by name it needs two more: the finalizer and the allocation; so do
ten pods that share a claim. With limits of a class it needs three: the claim is made and allocated, and the pod's
status names it. All else that is written more than without devices (statuses of classes, what is tried again) is what
Fairway adds.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE, SCHEDULER, BenchCluster
from benchmarks.on_server.watching import PodWatch
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.access import grant
from kube.servers import apply

DEVICES_OF_A_NODE = 8
SETTLED = 15.0
"""Seconds in which nothing more is written after the last binding but what statuses need."""
TARGET = 1.5
COUNTED = ("pods", "events", "resourceclaims", "resourceclasses")
"""Not the lease, nor queues, which cost the same without devices."""
_DRA = "/apis/resource.k8s.io/v1"
_DRIVER = "bench.example.com"
SHARING = 10
"""Pods of one claim."""
NEEDED = {"no devices": 0.0, "claims by name": 2.0, "shared claims": 2 / SHARING, "limits of a class": 3.0}
"""Writes of a pod besides its binding."""


async def measure(cluster: BenchCluster, nodes: int, pods: int) -> None:
    apply(cluster.plane, objects(InstallOptions()))
    grant(cluster.plane)
    await cluster.namespaces([NAMESPACE])
    await cluster.nodes(nodes)
    await _devices(cluster, nodes)
    plain = 0
    for form, needed in NEEDED.items():
        written = await _once(cluster, form, pods)
        if not needed:
            plain = written
        ratio = (written - plain) / (pods * needed) if needed else 0.0
        told = f"  {ratio:.2f} of what claims need (wanted: {TARGET})" if needed else ""
        print(f"{form:18} {pods} pods: {written} writes, {written / pods:.2f} a pod{told}", flush=True)


async def _devices(cluster: BenchCluster, nodes: int) -> None:
    kind = {"kind": {"string": "gpu"}}
    for number in range(nodes):
        devices = [{"name": f"gpu-{place}", "attributes": kind} for place in range(DEVICES_OF_A_NODE)]
        pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": _DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
        await cluster.client.request(
            "POST", f"{_DRA}/resourceslices", {"metadata": {"name": f"node-{number}"}, "spec": spec}
        )
    expressions = [{"key": "Kind", "operator": "In", "values": ["gpu"]}]
    body = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ResourceClass",
        "metadata": {"name": "gpu"},
        "spec": {"resourceSelector": [{"matchExpressions": expressions}]},
    }
    await cluster.client.request("POST", "/apis/fairway.dev/v1alpha1/resourceclasses", body)


async def _once(cluster: BenchCluster, form: str, pods: int) -> int:
    await asyncio.gather(*(_pod(cluster, form, number) for number in range(pods)))
    watch = PodWatch(cluster.client)
    await watch.start()
    before = _written(cluster)
    program = await programs.fairway(cluster.plane, "--no-leader-elect", user="scheduler")
    try:
        await program.until(watch.wait_for(pods))
        await asyncio.sleep(SETTLED)
        return _written(cluster) - before
    finally:
        await program.stop()
        await watch.stop()
        await _empty(cluster, form, pods)


async def _pod(cluster: BenchCluster, form: str, number: int) -> None:
    name = _name(form, number)
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container], "terminationGracePeriodSeconds": 0}
    if form == "limits of a class":
        container["resources"] = {"limits": {"resourceclass.fairway.dev/gpu": "1"}}
    elif form != "no devices":
        first = number - number % SHARING if form == "shared claims" else number
        claim_name = _name(form, first)
        if first == number:
            request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
            claim = {"metadata": {"name": claim_name}, "spec": {"devices": {"requests": [request]}}}
            await cluster.client.request("POST", f"{_DRA}/namespaces/{NAMESPACE}/resourceclaims", claim)
        spec["resourceClaims"] = [{"name": "d", "resourceClaimName": claim_name}]
        container["resources"] = {"claims": [{"name": "d"}]}
    await cluster.client.request(
        "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": {"name": name}, "spec": spec}
    )


def _name(form: str, number: int) -> str:
    return f"{form.replace(' ', '-')}-{number}"


async def _empty(cluster: BenchCluster, form: str, pods: int) -> None:
    for number in range(pods):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{_name(form, number)}"
        await cluster.client.request("DELETE", path, {"gracePeriodSeconds": 0})
    claims = f"{_DRA}/namespaces/{NAMESPACE}/resourceclaims"
    for claim in json.loads(await cluster.client.request("GET", claims))["items"]:
        path = f"{claims}/{claim['metadata']['name']}"
        body = {"metadata": {"finalizers": None}}
        await cluster.client.request("PATCH", path, body, content_type="application/merge-patch+json")
        await cluster.client.request("DELETE", path)


def _written(cluster: BenchCluster) -> int:
    """Requests of Fairway that the server's audit log has, and that change something."""
    events = map(json.loads, cluster.plane.audit_file.read_text().splitlines())
    return sum(_is_write(event) for event in events)


def _is_write(event: dict[str, Any]) -> bool:
    target = event.get("objectRef", {})
    return (
        event.get("userAgent", "").startswith("fairway/")
        and event["verb"] in ("create", "update", "patch", "delete")
        and target.get("resource") in COUNTED
    )
