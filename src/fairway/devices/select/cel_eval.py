"""CEL selectors of claims and DeviceClasses on devices.

An expression sees `device.driver`, `device.attributes`, `device.capacity` and `device.allowMultipleAllocations`, as in
Kubernetes. A domain that a device does not have is an empty map there. Versions and quantities are values of their own.
An expression that fails on a device does not select it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fairway.cel import Environment, Evaluation
from fairway.cel.errors import EvaluationError
from fairway.cel.kube import CelQuantity, version_of
from fairway.cel.values import DefaultMap, Failed
from fairway.devices.model.device import Device
from fairway.devices.model.units import Number
from fairway.devices.model.values import Flag, Many, Unreadable, Value
from fairway.devices.model.versions import Version

ENVIRONMENT = Environment(
    {
        "device.driver": "string",
        "device.attributes": "map<map<dyn>>",
        "device.capacity": "map<map<Quantity>>",
        "device.allowMultipleAllocations": "bool",
    },
    extra=["includes"],
    probe={
        "device.driver": "",
        "device.attributes": DefaultMap(),
        "device.capacity": DefaultMap(),
        "device.allowMultipleAllocations": False,
    },
)
_KEPT = 8192


class Expression:
    """One compiled expression. `InputError` where it cannot be used or the library is missing."""

    def __init__(self, text: str) -> None:
        self._program = ENVIRONMENT.program(text)

    def answer(self, device: Device) -> Evaluation:
        """What it says of a device: `True` selects it, everything else does not."""
        return self._program.run(_document(device))


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    return Expression(text)


_documents: dict[int, tuple[Device, dict[str, Any]]] = {}


def _document(device: Device) -> dict[str, Any]:
    """`document`, kept for devices that are asked about again; a device never changes."""
    known = _documents.get(id(device))
    if known is None or known[0] is not device:
        if len(_documents) >= _KEPT:
            _documents.clear()
        known = _documents[id(device)] = (device, document(device))
    return known[1]


def document(device: Device) -> dict[str, Any]:
    """The device as an expression sees it."""
    attributes = DefaultMap()
    for name, value in device.attributes.items():
        domain, _, key = name.rpartition("/")
        attributes.setdefault(domain or device.driver, {})[key] = _value(value)
    capacity = DefaultMap()
    for name, quantity in device.capacity.items():
        domain, _, key = name.rpartition("/")
        capacity.setdefault(domain or device.driver, {})[key] = CelQuantity(quantity.nanos)
    return {
        "device.driver": device.driver,
        "device.attributes": attributes,
        "device.capacity": capacity,
        "device.allowMultipleAllocations": device.shareable,
    }


def _value(value: Value) -> Any:
    match value:
        case Many(items):
            return [_value(item) for item in items]
        case Number():
            return int(value.value) if value.value == int(value.value) else float(value.value)
        case Version():
            return version_of(value.normal())
        case Flag():
            return value.value
        case Unreadable():
            return Failed(EvaluationError(f"{value.text!r:.80} is not a semantic version"))
        case _:
            return value.text
