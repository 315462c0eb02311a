"""Objects that a hostile or careless tenant could write: every kind, every field, made from the structs themselves.

For each field there is one object of its kind that is plain but for that field. So a field that is added to a struct is
attacked from that day on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from fairway.api.kinds import KINDS, Kind
from support.bombs import BOMBS

EVIL = "evil"
"""The namespace of all that is namespaced, and the beginning of every name."""
ODD = "evil.example.com/odd"
Path = tuple[str, ...]

TEXTS: list[str] = [
    "",
    " ",
    "x",
    "-1",
    "0",
    "1e99999",
    "9" * 5000,
    "x" * 70_000,
    "\x1b]52;c;eA==\x07",
    "a\0b\r\n",
    "\ud800",
    "\u202e\u2066",
    "*",
    "../../x",
    "a/b/c",
    "{" * 2000,
    "[" * 2000,
    '{"a": [1, {"b": null}]}',
    '[{"pod": 1, "node": [], "state": {}, "since": -1}]',
    "(a+)+$",
    "true",
    "1.5.5.5",
    "2026-13-45T99:99:99Z",
    "evil",
    "good",
]
NUMBERS: list[Any] = [0, -1, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30, 1.5, 1e308, True]
TIMES: list[str] = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00+14:00"]
SHAPES: list[Any] = [None, [], {}, [None], [[[]]], {"": ""}, {"a": None}, {"a": {"b": {"c": {}}}}]

PLAIN: dict[str, Any] = {
    "cel": {"expression": "true"},
    "expression": "true",
    "schedulerName": "fairway",
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", ODD: "1"}, "limits": {ODD: "1"}}}],
    "queue": "default",
    "driver": "evil.example.com",
    "clusterSet": "global",
    "topologyKey": "zone",
    "selectorType": "LabelSelector",
    "ResourceSliceSpec.nodeName": "evil",
    "ResourceSliceSpec.pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
}
"""What fields of these names are where they are not the one that is attacked."""


class Attack(NamedTuple):
    kind: Kind
    path: Path
    data: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind.name} {'.'.join(self.path)}"


def attacks(part: int = 1) -> Iterator[Attack]:
    """Every kind, every field, every value that is bad in some way, or one of so many of them. Each has a name of its
    own. Only those are built: that costs more than all the rest of a test.
    """
    number = 0
    for kind in KINDS:
        info = inspect.type_info(kind.struct)
        for path, variants in _hostile(info, ()):
            for value in variants:
                number += 1
                if number % part:
                    continue
                data = _object(kind, info, path, value, f"{EVIL}-{number}")
                yield Attack(kind, path, data)


def _object(kind: Kind, info: inspect.Type, path: Path, value: Any, name: str) -> dict[str, Any]:
    assert isinstance(info, inspect.StructType)
    data = _built(info, path, value)
    head = {"name": name, **({"namespace": EVIL} if kind.namespaced else {})}
    meta = data.get("metadata")
    if path[0] != "metadata":
        data["metadata"] = head
    elif isinstance(meta, dict) and len(path) > 1:
        data["metadata"] = {**head, **meta}
    return {"apiVersion": kind.api_versions[0], "kind": kind.name, **data}


def decoded(attack: Attack) -> msgspec.Struct | None:
    """The object as if it had not been checked; None if it does not have the struct's types."""
    try:
        return msgspec.convert(attack.data, attack.kind.struct)
    except (msgspec.ValidationError, OverflowError, UnicodeError):
        return None


# -- from types to values ------------------------------------------------------------------------------------------


def _hostile(info: inspect.Type, path: Path, depth: int = 0) -> Iterator[tuple[Path, list[Any]]]:
    """Where something bad can be, and what."""
    info = _bare(info)
    match info:
        case inspect.StructType(fields=fields):
            if path:
                yield path, SHAPES
            for field in fields:
                yield from _hostile(field.type, (*path, field.encode_name), depth + 1)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield path, [None, {}, [None], [_example(item)] * 2000]
            if depth < 12:
                yield from _hostile(item, (*path, "[]"), depth + 1)
        case inspect.DictType(value_type=inner):
            sample = _example(inner)
            many = {f"evil.example.com/odd-{i}": sample for i in range(2000)}
            keys = [{text: sample} for text in TEXTS]
            values = [{ODD: text} for text in (*TEXTS, *TIMES, *NUMBERS[:4], None)]
            yield path, [None, [], many, *keys, *values]
        case inspect.StrType() | inspect.LiteralType():
            bombs = list(BOMBS.values()) if path[-1] == "expression" or "CelExpressions" in path else []
            yield path, [*TEXTS, *TIMES, *bombs, None, 1, [], {}]
        case inspect.DateTimeType():
            yield path, [*TIMES, *TEXTS[:8], None, 0]
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType():
            yield path, [*NUMBERS, "1", None, {}]
        case _:
            yield path, [*SHAPES, *NUMBERS, *TEXTS]


def _built(info: inspect.Type, path: Path, value: Any) -> Any:
    """A plain example with the value at the path."""
    if not path:
        return value
    info = _bare(info)
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        return [_built(info.item_type, path[1:], value)]
    assert isinstance(info, inspect.StructType)
    made = _example(info)
    field = next(field for field in info.fields if field.encode_name == path[0])
    below = _built(field.type, path[1:], value)
    return {**made, path[0]: below}


def _example(info: inspect.Type) -> Any:
    info = _bare(info)
    match info:
        case inspect.StructType():
            return {
                field.encode_name: _plain(info, field)
                for field in info.fields
                if field.required or _plain(info, field) != _example(field.type) or field.encode_name == "spec"
            }
        case inspect.ListType() | inspect.VarTupleType():
            return []
        case inspect.DictType():
            return {}
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return False
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
    return "1"


def _plain(struct: inspect.StructType, field: inspect.Field) -> Any:
    named = PLAIN.get(f"{struct.cls.__name__}.{field.encode_name}", PLAIN.get(field.encode_name))
    return _example(field.type) if named is None else named


def _bare(info: inspect.Type) -> inspect.Type:
    """Without annotations, and of a choice what is not nothing."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        there = [inner for inner in info.types if not isinstance(inner, inspect.NoneType)]
        return _bare(there[0])
    return info
