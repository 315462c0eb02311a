"""Amounts for views: numbers in base units instead of the exact internal integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from fairway.app.view.models.common import Amounts
from fairway.devices.model.pools import KIND_PREFIX
from fairway.resources.columns import Axis
from fairway.resources.quantity import AmountUnit, parse_amount, unit_of
from fairway.state.device_requests import CLASS_PREFIX

_STEPS = {AmountUnit.MILLI: 1000, AmountUnit.BYTE: 1, AmountUnit.WHOLE: 1}


def base(name: str, amount: int) -> float:
    """An internal amount in base units: cores, bytes, or a count."""
    step = _STEPS[unit_of(name)]
    return amount if step == 1 else amount / step


def divisor(name: str) -> int:
    return _STEPS[unit_of(name)]


def base_of_text(quantities: Mapping[str, str]) -> Amounts:
    """Amounts of quantities as in plans and manifests."""
    return {name: base(name, parse_amount(name, text)) for name, text in quantities.items()}


def base_of_rows(axis: Axis, amounts: Iterable[int]) -> Amounts:
    """Amounts by row of an axis, without zeros, pods and devices."""
    return {
        name: base(name, amount)
        for name, amount in zip(axis.names, amounts, strict=False)
        if amount and is_resource(name)
    }


def unit_name(name: str) -> Literal["cores", "bytes", "count"]:
    if name == "cpu":
        return "cores"
    return "bytes" if unit_of(name) is AmountUnit.BYTE else "count"


def is_resource(name: str) -> bool:
    """Whether a row is a resource of nodes rather than a count of pods or devices."""
    return name != "pods" and not name.startswith((CLASS_PREFIX, KIND_PREFIX))


def rank(name: str) -> tuple[int, str]:
    """Scalar resources first, then cpu, then memory, then storage."""
    known = {"cpu": 1, "memory": 2, "ephemeral-storage": 3}
    return known.get(name, 0), name
