"""The seed's record of a choice, as annotations of the pod:

    scheduler.alpha.kubernetes.io/resClass_<class>_<device> = <quantity>

Kubernetes allows letters, digits and `.`, `_`, `-` in the part behind the slash, with a letter or digit at its end,
and 63 characters in all. What a device's name has besides is written `_x` and two hexadecimal digits per byte, so that
every name can be read back; one that does not fit cannot be recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from fairway.devices.room import WHOLE
from fairway.errors import QuantityError
from fairway.resources.quantity import Quantity, parse_quantity
from fairway.state.asks import RECORD_PREFIX

PREFIX = RECORD_PREFIX
MAX_NAME = 63
"""Of the part behind the slash."""

_NANO_PER_MILLI = 10**6
_ESCAPE = re.compile(rb"_x([0-9a-f]{2})")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Entry(NamedTuple):
    """A pod holds `milli` thousandths of a unit of a device, asked for by a class."""

    class_name: str
    device: str
    milli: int


def key_of(class_name: str, device: str) -> str | None:
    """The annotation's key, or None if it would be too long for Kubernetes."""
    name = f"{PREFIX.rpartition('/')[2]}{class_name}_{escaped(device)}"
    return None if len(name) > MAX_NAME else f"{PREFIX.rpartition('/')[0]}/{name}"


@lru_cache(maxsize=65536)
def longest_class(device: str) -> int:
    """How long the name of a class may be for the choice of a device to be recorded."""
    return MAX_NAME - len(f"{PREFIX.rpartition('/')[2]}_{escaped(device)}")


def written(entries: Iterable[Entry]) -> dict[str, str]:
    """The annotations for a pod's holdings; those of one class and device are added up."""
    total: dict[str, int] = {}
    for entry in sorted(entries):
        key = key_of(entry.class_name, entry.device)
        assert key is not None, "devices that cannot be recorded are not chosen"
        total[key] = total.get(key, 0) + entry.milli
    return {key: quantity_text(milli) for key, milli in total.items()}


def read(annotations: Mapping[str, str]) -> tuple[Entry, ...]:
    """The holdings that a pod's annotations record. One that is malformed is none."""
    found = []
    for key, text in annotations.items():
        if not key.startswith(PREFIX):
            continue
        class_name, split, device = key[len(PREFIX) :].partition("_")
        milli = _milli(text)
        if split and class_name and device and milli:
            found.append(Entry(class_name, unescaped(device), milli))
    return tuple(sorted(found))


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
