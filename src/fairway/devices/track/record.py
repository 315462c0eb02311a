"""The record of a choice, as annotations of the pod (spec D20):

    scheduler.alpha.kubernetes.io/resClass_<class>_<device> = <quantity>

Kubernetes allows letters, digits and `.`, `_`, `-` in the part behind the slash, with a letter or digit at its end,
and 63 characters in all. What a device's name has besides is written `_x` and two hexadecimal digits per byte, so that
every name can be read back. Where that does not fit, the key has a hash, and a second annotation the name in full:

    scheduler.alpha.kubernetes.io/resClass_SHA256_<hash> = <quantity>
    scheduler.alpha.kubernetes.io/resClass_NAME_<hash> = <class>_<device>

No class has a capital letter in its name. A hash without its name, or with another's, is no record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from fairway.devices.model.device import WHOLE
from fairway.errors import QuantityError
from fairway.resources.quantity import Quantity, parse_quantity
from fairway.state.device_requests import RECORD_PREFIX

PREFIX = RECORD_PREFIX
MAX_NAME = 63
"""For the part after the slash."""

_HASH, _NAME = f"{PREFIX}SHA256_", f"{PREFIX}NAME_"
_DIGITS = 40
_NANO_PER_MILLI = 10**6
_ESCAPE = re.compile(rb"_x([0-9a-f]{2})")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class DeviceUse(NamedTuple):
    """A pod has `milli` thousandths of a unit of a device, requested by a class."""

    class_name: str
    device: str
    milli: int


def key_of(class_name: str, device: str) -> str | None:
    """The annotation's key, or None if it would be too long for Kubernetes."""
    name = f"{PREFIX.rpartition('/')[2]}{class_name}_{escaped(device)}"
    return None if len(name) > MAX_NAME else f"{PREFIX.rpartition('/')[0]}/{name}"


def written(entries: Iterable[DeviceUse]) -> dict[str, str]:
    """The annotations for a pod's allocations; those of one class and device are added up."""
    total: dict[tuple[str, str], int] = {}
    for entry in sorted(entries):
        total[entry[:2]] = total.get(entry[:2], 0) + entry.milli
    found: dict[str, str] = {}
    for (class_name, device), milli in total.items():
        key = key_of(class_name, device)
        if key is None:
            name = f"{class_name}_{device}"
            key = _HASH + _digest(name)
            found[_NAME + _digest(name)] = name
        found[key] = quantity_text(milli)
    return found


def read(annotations: Mapping[str, str]) -> tuple[DeviceUse, ...]:
    """The allocations that a pod's annotations record. Malformed ones are ignored."""
    found = []
    for key, text in annotations.items():
        if not key.startswith(PREFIX) or key.startswith(_NAME):
            continue
        class_name, device = _hashed(key, annotations) if key.startswith(_HASH) else _spelled(key)
        milli = _milli(text)
        if class_name and device and milli:
            found.append(DeviceUse(class_name, device, milli))
    return tuple(sorted(found))


def _spelled(key: str) -> tuple[str, str]:
    class_name, _, device = key[len(PREFIX) :].partition("_")
    return class_name, unescaped(device)


def _hashed(key: str, annotations: Mapping[str, str]) -> tuple[str, str]:
    digest = key.removeprefix(_HASH)
    name = annotations.get(_NAME + digest, "")
    class_name, _, device = name.partition("_")
    return (class_name, device) if _digest(name) == digest else ("", "")


def _digest(name: str) -> str:
    return sha256(name.encode(errors="replace")).hexdigest()[:_DIGITS]


def quantity_text(milli: int) -> str:
    return str(Quantity(milli * _NANO_PER_MILLI))


def escaped(name: str) -> str:
    """The name in the characters that a key may have. An underscore that would look like an escape is escaped."""
    raw = name.encode()
    out = []
    for place, byte in enumerate(raw):
        looks = byte == ord("_") and _ESCAPE.match(raw, place)
        last = place == len(raw) - 1 and not chr(byte).isalnum()
        out.append(f"_x{byte:02x}" if byte not in _PLAIN or looks or last else chr(byte))
    return "".join(out)


def unescaped(text: str) -> str:
    raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text.encode())
    return raw.decode(errors="replace")


def _milli(text: str) -> int:
    try:
        nanos = parse_quantity(text).nanos
    except QuantityError:
        return 0
    milli, rest = divmod(nanos, _NANO_PER_MILLI)
    return milli if milli > 0 and not rest and milli <= WHOLE << 40 else 0
