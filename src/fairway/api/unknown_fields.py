"""Which fields of an object does its API not have? Most often they are misspelt, and silently do nothing.

What is known is the table of `field_names` and the structs that objects are decoded into. For JSON the question is put
to the decoder: a struct that refuses unknown fields and keeps every value as bytes. Only where it refuses, which is
where something may be to be said, is the object looked through field by field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from fairway.api.field_names import TABLE
from fairway.api.shape import Path

_HEAD = ("apiVersion", "kind")
_MANY = {"[": "list", "{": "map"}


@dataclass
class Fields:
    """What a mapping may hold. `inner` has the types of values that are looked into."""

    names: set[str] = field(default_factory=set)
    inner: dict[str, tuple[str, Fields]] = field(default_factory=dict)
    closed: bool = False


def unknown_fields(data: object, kind: str, struct: type[msgspec.Struct]) -> Iterator[tuple[Path, str]]:
    """The path of every unknown field of an object, and the field that was probably meant, "" if none is near."""
    return _walk(data, _fields(kind, struct), ())


def _walk(value: object, fields: Fields, path: Path) -> Iterator[tuple[Path, str]]:
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if name not in fields.names:
            meant = _meant(str(name), fields.names)
            if meant or fields.closed:
                yield (*path, str(name)), meant
        elif name in fields.inner:
            many, below = fields.inner[name]
            for place, item in _items(inner, many):
                yield from _walk(item, below, (*path, name, *place))


def _items(value: object, many: str) -> Iterator[tuple[Path, object]]:
    if many == "one":
        yield (), value
    elif many == "list" and isinstance(value, list | tuple):
        yield from (((index,), item) for index, item in enumerate(value))
    elif many == "map" and isinstance(value, Mapping):
        yield from (((str(key),), item) for key, item in value.items())


@cache
def refusing(kind: str, struct: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    """A decoder that fails where an object may have an unknown field."""
    return msgspec.json.Decoder(_mirror(_fields(kind, struct), {}))


# -- what is known -------------------------------------------------------------------------------------------------


@cache
def field_table() -> dict[str, tuple[bool, dict[str, str]]]:
    """The table of field names: by type, whether it is closed, and what each of its fields has."""
    found: dict[str, tuple[bool, dict[str, str]]] = {}
    for line in re.sub(r"\n  +", " ", TABLE).strip().splitlines():
        if line:
            name, _, fields = line.partition(":")
            parts = (text.partition("=") for text in fields.split())
            found[name.rstrip("!")] = name.endswith("!"), {part: kind for part, _, kind in parts}
    return found


@cache
def _fields(kind: str, struct: type[msgspec.Struct]) -> Fields:
    found = _joined(kind, inspect.type_info(struct), {})
    found.names.update(_HEAD)
    return found


def _joined(name: str, info: inspect.Type | None, known: dict[tuple[str, str], Fields]) -> Fields:
    """What the table says of a type, and what the struct that it is decoded into has besides."""
    struct = info if isinstance(info, inspect.StructType) else None
    key = name, struct.cls.__name__ if struct else ""
    if key in known:
        return known[key]
    closed, table = field_table().get(name, (False, {}))
    made = known[key] = Fields(closed=closed)
    decoded = {part.encode_name: struct_in(part.type) for part in struct.fields} if struct else {}
    for part in {*table, *decoded}:
        made.names.add(part)
        many, inner = decoded.get(part, ("", None))
        if text := table.get(part, ""):
            made.inner[part] = _MANY.get(text[0], "one"), _joined(text.strip("[]{}"), inner, known)
        elif part not in table and inner is not None:
            made.inner[part] = many, _joined("", inner, known)
    return made


def struct_in(kind: inspect.Type) -> tuple[str, inspect.StructType | None]:
    """The struct that a field has, and whether it has one, a list or a map of them."""
    if isinstance(kind, inspect.UnionType):
        choices = [choice for choice in kind.types if not isinstance(choice, inspect.NoneType)]
        return struct_in(choices[0]) if len(choices) == 1 else ("", None)
    if isinstance(kind, inspect.StructType):
        return "one", kind
    if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
        return "list", kind.item_type
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StructType):
        return "map", kind.value_type
    return "", None


def _mirror(fields: Fields, made: dict[int, type[msgspec.Struct]]) -> type[msgspec.Struct]:
    if id(fields) not in made:
        names = sorted(fields.names)
        parts = [(f"f{place}", _mirrored(fields.inner.get(name), made), None) for place, name in enumerate(names)]
        made[id(fields)] = msgspec.defstruct(
            "Mirror",
            parts,
            rename={f"f{place}": name for place, name in enumerate(names)},
            forbid_unknown_fields=True,
            gc=False,
        )
    return made[id(fields)]


def _mirrored(inner: tuple[str, Fields] | None, made: dict[int, type[msgspec.Struct]]) -> Any:
    if inner is None:
        return msgspec.Raw
    many, fields = inner
    mirror = _mirror(fields, made)
    return {"one": mirror | None, "list": list[mirror] | None, "map": dict[str, mirror] | None}[many]  # type: ignore[valid-type]


# -- what was meant ------------------------------------------------------------------------------------------------


def _meant(name: str, known: set[str]) -> str:
    """The known field that is at most two slips away, of short names one; the first by name of several."""
    best: tuple[int, str] | None = None
    for candidate in sorted(known):
        most = 2 if min(len(name), len(candidate)) > 5 else 1
        if abs(len(name) - len(candidate)) <= most:
            away = _slips(name.casefold(), candidate.casefold())
            if away <= most and (best is None or away < best[0]):
                best = away, candidate
    return best[1] if best else ""


def _slips(one: str, other: str) -> int:
    """Letters to insert, leave out, replace or swap with the next to make one text the other."""
    rows = [list(range(len(other) + 1))]
    for i, mine in enumerate(one, 1):
        row = [i]
        for j, theirs in enumerate(other, 1):
            cost = min(row[j - 1] + 1, rows[i - 1][j] + 1, rows[i - 1][j - 1] + (mine != theirs))
            if i > 1 and j > 1 and mine == other[j - 2] and one[i - 2] == theirs:
                cost = min(cost, rows[i - 2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
