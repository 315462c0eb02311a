"""CEL selectors of claims and DeviceClasses on devices, through the library that the extra `cel` installs.

An expression sees `device.driver`, `device.attributes`, `device.capacity` and `device.allowMultipleAllocations`, as in
Kubernetes. A domain that a device does not have is an empty map there. Versions and quantities are values of their own,
compared by `compareTo`, `isLessThan` and `isGreaterThan`. An expression that fails on a device does not select it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fairway.devices.cel_program import Answer, Program
from fairway.devices.device import Device
from fairway.devices.units import Number
from fairway.devices.values import Flag, Many, Value
from fairway.devices.versions import Version, parse_version
from fairway.errors import InputError
from fairway.resources.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

_LITERAL = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")
_VERSION, _QUANTITY = b"v:", b"q:"
"""The library has no types of one's own: both travel as bytes, told apart by how they begin."""


class Expression:
    """One compiled expression. `InputError` where it cannot be used or the library is missing."""

    def __init__(self, text: str) -> None:
        self._program = Program(_environment(), text, ("device",))
        self._domains = [first or second for first, second in _LITERAL.findall(text)]

    def answer(self, device: Device) -> Answer:
        """What it says of a device: `True` selects it, everything else does not."""
        return self._program.run(document(device, self._domains))


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    return Expression(text)


def document(device: Device, domains: list[str]) -> dict[str, Any]:
    """The device as an expression sees it."""
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, device.driver)}
    for name, value in device.attributes.items():
        domain, _, key = name.rpartition("/")
        attributes.setdefault(domain or device.driver, {})[key] = _value(value)
    capacity: dict[str, dict[str, bytes]] = {domain: {} for domain in (*domains, device.driver)}
    for name, quantity in device.capacity.items():
        domain, _, key = name.rpartition("/")
        capacity.setdefault(domain or device.driver, {})[key] = _quantity(quantity)
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
            return _VERSION + value.normal().encode()
        case Flag():
            return value.value
        case _:
            return value.text


def _quantity(quantity: Quantity) -> bytes:
    return _QUANTITY + str(quantity).encode()


def _semver(text: str) -> bytes:
    version = parse_version(text)
    if version is None:
        raise ValueError(f"{text} is no version")
    return _VERSION + version.normal().encode()


def _key(value: bytes) -> Any:
    text = value[2:].decode()
    if value.startswith(_QUANTITY):
        return parse_quantity(text).nanos
    version = parse_version(text)
    assert version is not None  # it was written by _semver or _value
    return version.precedence


def _compare(left: bytes, right: bytes) -> int:
    if left[:2] != right[:2]:
        raise ValueError("a version and a quantity cannot be compared")
    a, b = _key(left), _key(right)
    return int(a > b) - int(a < b)


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("CEL selectors of claims need the extra cel: pip install 'fairway[cel]'") from None
    kinds = cel.Type

    def function(
        name: str, result: cel.Type, parameters: list[cel.Type], call: Callable[..., Any], *, member: bool = True
    ) -> cel.FunctionDecl:
        overload = cel.Overload(f"{name}_1", result, parameters, is_member=member, impl=call)
        return cel.FunctionDecl(name, [overload])

    both = [kinds.BYTES, kinds.BYTES]
    return cel.NewEnv(
        variables={
            "device.driver": kinds.STRING,
            "device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN)),
            "device.capacity": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.BYTES)),
            "device.allowMultipleAllocations": kinds.BOOL,
        },
        extensions=[ext_bindings.ExtBindings()],
        functions=[
            function("semver", kinds.BYTES, [kinds.STRING], _semver, member=False),
            function(
                "quantity",
                kinds.BYTES,
                [kinds.STRING],
                lambda text: _quantity(parse_quantity(text)),
                member=False,
            ),
            function("compareTo", kinds.INT, both, _compare),
            function("isGreaterThan", kinds.BOOL, both, lambda left, right: _compare(left, right) > 0),
            function("isLessThan", kinds.BOOL, both, lambda left, right: _compare(left, right) < 0),
        ],
    )
