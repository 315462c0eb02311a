"""The least that writing decisions can cost: a bare loop of the same HTTP client, with watches open.

    python -m benchmarks.place_loop KUBECONFIG NAMESPACE

It lists the Placements of a namespace and writes what a placer writes for each: a PlacementDecision, its status, the
status of the Placement; over 32 connections; and then, as a placer does, an event for each. Nothing is decided, decoded
or checked.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest
from fairway.kube.http.paths import UNCHECKED
from fairway.kube.server.kubeconfig import find_connection

WORKERS = 32
_VERSION = re.compile(rb'"resourceVersion":("\d+")')
"""The status of a decision is written over what was made, and names its version."""
API = "cluster.open-cluster-management.io/v1beta1"
_CLUSTERS = [{"clusterName": f"c{number:04}", "reason": "300 points: Balance 100"} for number in range(3)]
_CONDITION = {
    "type": "PlacementSatisfied",
    "status": "True",
    "reason": "AllDecisionsScheduled",
    "message": "3 clusters chosen of 1000",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def requests_of(namespace: str, name: str, uid: str, version: str) -> list[ApiRequest]:
    """In order, for one Placement."""
    decisions, slice_name = f"/apis/{API}/namespaces/{namespace}/placementdecisions", f"{name}-decision-1"
    owner = {"apiVersion": API, "kind": "Placement", "name": name, "uid": uid, "controller": True}
    labels = {f"cluster.open-cluster-management.io/{what}": name for what in ("placement", "decision-group-name")}
    meta = {"name": slice_name, "labels": labels, "ownerReferences": [owner]}
    head = {"apiVersion": API, "kind": "PlacementDecision", "metadata": meta}
    group = {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": [slice_name], "clusterCount": 3}
    status = {"numberOfSelectedClusters": 3, "decisionGroups": [group], "conditions": [_CONDITION]}
    chosen = {**head, "metadata": {"name": slice_name, "resourceVersion": "@"}, "status": {"decisions": _CLUSTERS}}
    event = {
        "metadata": {"name": f"{name}.1", "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "bare",
        "reportingInstance": "bare",
        "reason": "DecisionCreate",
        "action": "Deciding",
        "type": "Normal",
        "note": "3 clusters chosen",
        "regarding": {"apiVersion": API, "kind": "Placement", "namespace": namespace, "name": name, "uid": uid},
    }
    placement = f"/apis/{API}/namespaces/{namespace}/placements/{name}/status?{UNCHECKED}"
    own = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version}
    told = {"apiVersion": API, "kind": "Placement", "metadata": own, "status": status}
    return [
        ApiRequest("POST", f"{decisions}?{UNCHECKED}", _coded(head)),
        ApiRequest("PUT", f"{decisions}/{slice_name}/status?{UNCHECKED}", _coded(chosen)),
        ApiRequest("PUT", placement, _coded(told)),
        ApiRequest("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", _coded(event)),
    ]


def _coded(body: object) -> bytes:
    return json.dumps(body).encode()


async def _watch(client: ApiClient, what: str) -> None:
    async with client.stream(f"/apis/{API}/{what}", {"watch": "true"}, silence=600) as body:
        async for _ in body.iter_any():
            pass


async def main(kubeconfig: str, namespace: str) -> None:
    sys.stderr.write("ready\n")
    client = ApiClient(find_connection(kubeconfig))
    listed = json.loads(await client.request("GET", f"/apis/{API}/namespaces/{namespace}/placements"))
    metas = [one["metadata"] for one in listed["items"]]
    todo = [requests_of(namespace, one["name"], one["uid"], one["resourceVersion"]) for one in metas]
    watches = [asyncio.create_task(_watch(client, what)) for what in ("placements", "placementdecisions")]

    async def work(lists: list[list[ApiRequest]]) -> None:
        while lists:
            version = b""
            for request in lists.pop():
                body = (request.body or b"").replace(b'"@"', version)
                answer = await client.send(request._replace(body=body))
                assert answer.ok, answer
                version = version or _VERSION.findall(answer.body)[0]

    events = [[requests.pop()] for requests in todo]
    for lists in (todo, events):
        await asyncio.gather(*(work(lists) for _ in range(WORKERS)))
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
