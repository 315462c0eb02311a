"""Short ways to make devices, classes and those that ask for them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairway.api.kinds import ApiObject
from fairway.devices.model.device import WHOLE
from fairway.devices.track.ledger import DeviceLedger, device_ledger
from fairway.state.cluster import ClusterState
from support.objects import Manifest, made, node, pod

ANNOTATION = "fairway.dev/devices"
PREFIX = "resourceclass.fairway.dev/"
DRIVER = "gpu.example.com"


def gpu(name: str, quantity: int = 1, kind: str = "nvidia-gpu", **more: Any) -> Manifest:
    """An entry of the node annotation; keywords that it has no field for are attributes."""
    fields = {key: more.pop(key) for key in ("members", "healthy", "taints") if key in more}
    return {"name": name, "kind": kind, "quantity": quantity, "attributes": more, **fields}  # type: ignore[dict-item]


def device_node(name: str, *devices: Manifest, **allocatable: Any) -> ApiObject:
    found = node(name, **{"cpu": 64, "memory": "64Gi", "pods": 110, **allocatable})
    notes = {ANNOTATION: json.dumps(devices)} if devices else {}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=notes))


def term(*expressions: tuple[str, str, Sequence[str]]) -> Manifest:
    return {"matchExpressions": [{"key": k, "operator": o, "values": list(v)} for k, o, v in expressions]}


def resource_class(name: str, *terms: Manifest, **spec: Any) -> ApiObject:
    return made("ResourceClass", name, spec={"resourceSelector": list(terms), **spec})


def kind_class(name: str, *kinds: str, **spec: Any) -> ApiObject:
    return resource_class(name, term(("Kind", "In", kinds)), **spec)


def memory_class(name: str, least: str, **spec: Any) -> ApiObject:
    """nvidia-gpus with at least this much memory."""
    return resource_class(name, term(("Kind", "In", ["nvidia-gpu"]), ("memory", "GtEq", [least])), **spec)


def asking(name: str, namespace: str = "default", *, record: Mapping[str, Any] | None = None, **rest: Any) -> ApiObject:
    """A pod; keyword `classes` are amounts by class, `record` what it was given: {"class_device": quantity}."""
    classes: Mapping[str, Any] = rest.pop("classes", {})
    notes = {f"scheduler.alpha.kubernetes.io/resClass_{key}": str(n) for key, n in (record or {}).items()}
    asked = {PREFIX + key: amount for key, amount in classes.items()}
    return pod(name, namespace, annotations={**notes, **rest.pop("annotations", {})}, **{"cpu": 1, **asked, **rest})


def resource_slice(
    name: str,
    on: str,
    *devices: Manifest,
    driver: str = DRIVER,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    counters: Mapping[str, Mapping[str, Any]] | None = None,
) -> ApiObject:
    shared = [
        {"name": key, "counters": {n: {"value": str(v)} for n, v in values.items()}}
        for key, values in (counters or {}).items()
    ]
    return made(
        "ResourceSlice",
        name,
        spec={
            "driver": driver,
            "nodeName": on,
            "pool": {"name": pool or on, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            "sharedCounters": shared,
        },
    )


def published(name: str, /, **rest: Any) -> Manifest:
    """A device of a slice; keywords in capitals apart, attributes are given by their type: {"memory": {"int": 4}}."""
    return {"name": name, **rest}


def book_of(state: ClusterState) -> DeviceLedger:
    return device_ledger(state)


def standings(state: ClusterState) -> dict[str, tuple[float, float]]:
    """Allocatable and requested units of every class."""
    ledger = device_ledger(state)
    return {
        known.name: (ledger.standing(known.name).allocatable / WHOLE, ledger.standing(known.name).requested / WHOLE)
        for known in ledger.classes
    }


def held(state: ClusterState) -> dict[str, list[tuple[str, float]]]:
    """By device (`node/name`): who holds how many units."""
    found: dict[str, list[tuple[str, float]]] = {}
    for row, there in device_ledger(state).nodes.items():
        for allocation in there.allocations:
            name = f"{state.nodes.names[row]}/{there.inventory.slots[allocation.slot].device.name}"
            amount = allocation.portion.units + allocation.portion.milli / WHOLE
            found.setdefault(name, []).append((allocation.holder.removeprefix("default/"), amount))
    return {name: sorted(holders) for name, holders in sorted(found.items())}
