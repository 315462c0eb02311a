"""Parameters that users hand to the drivers of their devices: JSON of any depth, which an API server does not look into
and nothing here reads. It is only copied into the allocation.

A value that is nested deep enough cannot be decoded, compared or encoded: one user's claim could end the reading of all
claims. So what is nested deeper than a driver can want is not kept. A claim that has such parameters is left out, but
for one that has its devices already: those must not be given to another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from fairway.api.devices import DeviceClass, DeviceConfiguration, ResourceClaim, ResourceClaimTemplate
from fairway.api.kinds import ApiObject

DEEPEST = 32
"""Levels of parameters."""
DEEPEST_TEXT = 100
"""Levels of a list of objects with such parameters, and more: no field that is read is as deep."""
KINDS = (ResourceClaim, ResourceClaimTemplate, DeviceClass)

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def cut(text: bytes, deepest: int = DEEPEST_TEXT) -> bytes:
    """JSON with null in place of each value that is nested deeper than that. It does not recurse."""
    parts, kept, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        character = text[token.start() : token.start() + 1]
        if character in b"[{":
            depth += 1
            if depth == deepest + 1:
                parts += [text[kept : token.start()], b"null"]
        elif character in b"]}":
            depth -= 1
            if depth == deepest:
                kept = token.end()
    return b"".join([*parts, text[kept:]])


def bounded(thing: ApiObject) -> ApiObject | None:
    """The object, if its parameters are not nested too deep; without them if it is a claim that has its devices; None
    if it cannot be used.
    """
    if isinstance(thing, ResourceClaim):
        allocation = thing.status.allocation
        asked = thing.spec.devices.config
        given = () if allocation is None else allocation.devices.config
        if not is_too_deep((*asked, *given)):
            return thing
        if allocation is None:
            return None
        devices = replace(allocation.devices, config=())
        status = replace(thing.status, allocation=replace(allocation, devices=devices))
        spec = replace(thing.spec, devices=replace(thing.spec.devices, config=()))
        return replace(thing, spec=spec, status=status)
    if isinstance(thing, ResourceClaimTemplate):
        return None if is_too_deep(thing.spec.spec.devices.config) else thing
    return None if isinstance(thing, DeviceClass) and is_too_deep(thing.spec.config) else thing


def is_too_deep(config: Iterable[DeviceConfiguration]) -> bool:
    level = [entry.opaque.parameters for entry in config if entry.opaque is not None]
    for _ in range(DEEPEST + 1):
        nested = [value for value in level if isinstance(value, dict | list)]
        if not nested:
            return False
        level = [inner for value in nested for inner in (value.values() if isinstance(value, dict) else value)]
    return True
