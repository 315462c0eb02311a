"""A sandbox in which every view of the page has something to show: queues that borrow, evictions, devices, reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.browsing import ServedPage, eventually

Manifest = dict[str, Any]
VOLCANO = "scheduling.volcano.sh/v1beta1"
GPU = "nvidia.com/gpu"


def _devices(number: int) -> str:
    """Of one node: two models, and a card that several pods may share."""
    cards: list[Manifest] = [
        {"name": f"gpu-{card}", "kind": "nvidia-gpu", "attributes": {"model": "H100" if number < 4 else "L40S",
         "memory": "80G" if number < 4 else "48G", "numa": card // 2}}
        for card in range(4)
    ]  # fmt: skip
    cards.append({"name": "eth0", "kind": "nic", "quantity": 4, "attributes": {"speed": "100Gbps"}})
    if number == 5:
        cards[3]["healthy"] = False
    return json.dumps(cards)


def _node(number: int) -> Manifest:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = [{"type": "Ready", "status": "False" if number == 7 else "True"}]
    meta = {
        "name": f"gpu-{number}",
        "labels": {"pool": "h100" if number < 4 else "l40s"},
        "annotations": {"fairway.dev/devices": _devices(number)},
    }
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"unschedulable": number == 6},
        "status": status,
    }


def _class(name: str, *expressions: tuple[str, str, str]) -> Manifest:
    selector = [{"key": key, "operator": operator, "values": [value]} for key, operator, value in expressions]
    spec = {"resourceSelector": [{"matchExpressions": selector}]}
    return {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": name}, "spec": spec}


def _queue(name: str, **spec: Any) -> Manifest:
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(
    name: str, namespace: str, queue: str, *, pods: int = 1, minimum: int | None = None, run: str = "4h",
    gates: tuple[str, ...] = (), notes: Manifest | None = None, limits: Manifest | None = None, **requests: Any,
) -> list[Manifest]:  # fmt: skip
    """A group and its pods."""
    spec = {"minMember": pods if minimum is None else minimum, "queue": queue}
    meta = {"name": name, "namespace": namespace, "labels": {"app": name.partition("-")[0]}, "annotations": notes or {}}
    made: list[Manifest] = [{"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": spec}]
    given = {"scheduling.k8s.io/group-name": name, "fairway.dev/expected-runtime": run}
    for number in range(pods):
        pod = {"name": f"{name}-{number}", "namespace": namespace, "annotations": given, "labels": meta["labels"]}
        container = {"name": "main", "resources": {"requests": requests, "limits": limits or {}}}
        body = {"schedulerName": "fairway", "containers": [container]}
        body["schedulingGates"] = [{"name": gate} for gate in gates]
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": body})
    return made


def first() -> list[Manifest]:
    """The cluster, and work of which one queue has taken what the others do not use."""
    made = [_node(number) for number in range(8)]
    made += [
        _class("gpu.large", ("Kind", "In", "nvidia-gpu"), ("memory", "GtEq", "60G")),
        _class("gpu.any", ("Kind", "In", "nvidia-gpu")),
        _class("fast.nic", ("Kind", "In", "nic"), ("speed", "GtEq", "40Gbps")),
        _queue("science", weight=2),
        _queue("vision", weight=2, parent="science"),
        _queue("language", weight=1, parent="science"),
        _queue("production", weight=1, guarantee={"resource": {GPU: "8"}}),
        _queue("batch", weight=1, capability={"cpu": "300", GPU: "40"}),
    ]
    for name, weight in (("team-red", "2"), ("team-blue", "1")):
        quota = {"hard": {"volcano.sh/namespace.weight": weight}}
        meta = {"name": "share", "namespace": name}
        made.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": quota})
    one = {GPU: "1"}
    for number in range(30):
        made += job(f"fill-{number}", "team-blue", "batch", cpu="4", memory="24Gi", limits=one)
    for number in range(3):
        devices = {"resourceclass.fairway.dev/gpu.large": "1", "resourceclass.fairway.dev/fast.nic": "1"}
        made += job(f"render-{number}", "team-red", "vision", cpu="4", memory="16Gi", limits=devices)
    return made


def later() -> list[Manifest]:
    """Owners who want theirs back, and jobs that wait for various reasons."""
    made: list[Manifest] = []
    for number in range(12):
        limits = {GPU: "1"}
        made += job(f"serve-{number}", "team-red", "production", run="1h", cpu="4", memory="24Gi", limits=limits)
    made += job("pretrain", "team-red", "vision", pods=4, run="2h", cpu="40", memory="300Gi", limits={GPU: "8"})
    made += job("tune", "team-blue", "language", pods=3, minimum=2, cpu="16", memory="64Gi", limits={GPU: "4"})
    made += job("held", "team-blue", "language", notes={"fairway.dev/hold": "true"}, cpu="1")
    made += job("gated", "team-blue", "language", gates=("team.example/quota",), cpu="1")
    made += job("too-large", "team-red", "vision", cpu="999")
    made += job("over-capability", "team-blue", "batch", pods=8, cpu="30", memory="8Gi")
    made += job("nowhere", "team-blue", "no-such-queue", cpu="1")
    return made


def busy_sandbox(folder: Path) -> ServedPage:
    """It stands still once pods were evicted for others and jobs wait."""
    for name, things in (("first", first()), ("later", later())):
        document = {"apiVersion": "v1", "kind": "List", "items": things}
        (folder / f"{name}.json").write_text(json.dumps(document))
    served = ServedPage(folder, "sandbox", "--state", str(folder / "sandbox.db"))
    served.start("--port", "0", "-f", str(folder / "first.json"), "--speed", "60")
    try:
        eventually(lambda: served.ask("jobs?state=running")["total"] >= 30, "jobs that run")
        served.command("apply", "-f", str(folder / "later.json"))
        eventually(lambda: served.ask("evictions")["total"] > 0, "pods that are evicted")
        eventually(
            lambda: served.ask("jobs?state=running&search=serve")["total"] >= 8, "those that they were evicted for"
        )
        served.ask("pace", {"paused": True})
    except BaseException:
        served.stop()
        raise
    return served
