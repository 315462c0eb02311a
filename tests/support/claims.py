"""Short ways to claim devices (dynamic resource allocation): classes, claims, templates and pods that name them."""

from __future__ import annotations

from typing import Any

from fairway.api.kinds import ApiObject
from support.devices import DRIVER, published
from support.objects import made, pod


def device_class(name: str = "gpu", *expressions: str) -> ApiObject:
    return made("DeviceClass", name, spec={"selectors": [{"cel": {"expression": text}} for text in expressions]})


def exactly(name: str = "r", device_class: str = "gpu", **rest: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": text}} for text in rest.pop("selectors", ())]
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": selectors, **rest}}


def claim(name: str, *requests: dict[str, Any], constraints: Any = (), status: Any = None) -> ApiObject:
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return made("ResourceClaim", name, "default", spec=spec, **({"status": status} if status else {}))


def template(name: str, *requests: dict[str, Any]) -> ApiObject:
    return made("ResourceClaimTemplate", name, "default", spec={"spec": {"devices": {"requests": list(requests)}}})


def claiming(name: str, claim: str = "", template: str = "", **rest: Any) -> ApiObject:
    entry = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    spec = {"resourceClaims": [{"name": "c", **entry}], **rest.pop("spec", {})}
    return pod(name, cpu=1, spec=spec, **rest)


def allocated(name: str, node: str, *devices: str, request: str = "r") -> dict[str, Any]:
    results = [{"request": request, "driver": DRIVER, "pool": node, "device": d} for d in devices]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}}


def gpu(name: str, memory: str = "40Gi", **attributes: Any) -> dict[str, Any]:
    typed = {key: {"string": value} if isinstance(value, str) else value for key, value in attributes.items()}
    return published(name, attributes={"kind": {"string": "gpu"}, **typed}, capacity={"memory": {"value": memory}})
