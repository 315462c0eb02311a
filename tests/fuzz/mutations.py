"""Ways to spoil an input: bytes of a text, and values of a document that stays well formed."""

import copy
import json
from random import Random
from typing import Any

BYTES = (b"\x00", b"\x01", b"\x7f", b"\xc2\x80", b"\xff", b"\xef\xbb\xbf", b"\t", b"\r", b"{", b"}", b"[", b"]", b":",
         b"-", b"&a ", b"*a", b"!!x ", b"<<: ", b"'", b'"', b"#", b"%YAML 9\n", b"---\n", b"...\n", b"\xe2\x80\xae",
         b"9" * 5000, b"1e999", b"0x", b"\n" * 3, b"- " * 200, b"[" * 2000, b"{a: " * 300)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**300, 1.5, 1e308, -0.0, "", "x", "0", "-1",
    "\x1b[0m", "\u202e", "\ud800", "9" * 300, "1Ei", "1e400", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
    "x" * 70_000, [], {}, [None], [[]], {"": None}, {"x": {}}, [{}], [0, "x"], {"a/b/c": "d"}, "a\nb", "../..", "In",
    "Exists",
)  # fmt: skip


def spoiled_bytes(data: bytes, random: Random) -> bytes:
    """The text with a few places cut out, repeated, changed or filled with something nasty."""
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0:
                data = data[:at] + data[at + random.randint(1, 20) :]
            case 1:
                data = data[:at] + random.choice(BYTES) + data[at:]
            case 2:
                data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
            case 3:
                piece = data[at : at + random.randint(1, 60)]
                data = data[:at] + piece * random.randint(2, 3) + data[at:]
            case 4:
                data = data[:at]
            case 5:
                other = random.randrange(len(data) + 1)
                data = data[:at] + data[other : other + 40] + data[at:]
    return data


def spoiled_value(document: Any, random: Random) -> Any:
    """A copy in which a few values have another type or size, or fields are gone, twice or elsewhere."""
    spoiled = copy.deepcopy(document)
    for _ in range(random.randint(1, 3)):
        places = list(_places(spoiled))
        if not places:
            break
        holder, key = random.choice(places)
        match random.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[f"{key}{random.choice(('s', 'x', ' ', chr(27)))}"] = holder.pop(key)
            case 2:
                other, place = random.choice(places)
                if place in other if isinstance(other, dict) else place < len(other):
                    holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = random.choice(VALUES)
    return spoiled


def text_of(document: Any) -> bytes:
    """JSON, with halves of characters as they come."""
    return json.dumps(document, default=str).encode()


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key, inner in list(value.items()):
            yield value, key
            yield from _places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from _places(inner)
