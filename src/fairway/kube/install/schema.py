"""OpenAPI schemas of custom resources, made from the structs that read them: the two cannot drift apart.

The server then refuses what the scheduler could not read: a wrong type, a number out of range, a missing field. What a
struct cannot say (rules over several fields, descriptions, list keys) is added by path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

Schema = dict[str, Any]

QUANTITY = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([kMGTPEnum]|[KMGTPE]i|[eE][+-]?([0-9]+[.]?[0-9]*|[.][0-9]+))?$"
MAX_NAME = 253
MAX_AMOUNTS = 64
"""Resources in one list of amounts: a bound that the cost of CEL rules is estimated by."""
_INT32 = (-(2**31), 2**31 - 1)


def struct_schema(struct: type[msgspec.Struct]) -> Schema:
    return _object(inspect.type_info(struct))


def _object(kind: inspect.Type) -> Schema:
    assert isinstance(kind, inspect.StructType)
    schema: Schema = {"type": "object", "properties": {one.encode_name: _schema(one.type) for one in kind.fields}}
    required = [one.encode_name for one in kind.fields if one.required]
    return {**schema, "required": required} if required else schema


def _schema(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.Metadata(inner, extra_json_schema=_, extra=extra):
            return (
                quantity() if (extra or {}).get("scalars") == "quantity" and _is_text(inner) else _amounts(inner, extra)
            )
        case inspect.StructType():
            return _object(kind)
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return _integer(kind)
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.LiteralType(values):
            return {"type": "string", "enum": [value for value in values if value != ""]}
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return {"type": "array", "items": _schema(item)}
        case inspect.DictType(_, value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case inspect.UnionType(types):
            return _union([one for one in types if not isinstance(one, inspect.NoneType)])
        case _:
            raise TypeError(f"no schema for {kind}")


def _union(types: list[inspect.Type]) -> Schema:
    if len(types) == 1:
        return _schema(types[0])
    if all(isinstance(one, inspect.IntType | inspect.FloatType) for one in types):
        return {"type": "number"}
    raise TypeError(f"no schema for one of {types}")


def _integer(kind: inspect.IntType) -> Schema:
    schema: Schema = {"type": "integer"}
    least, most = kind.ge, kind.le
    if least is not None and most is not None and least >= _INT32[0] and most <= _INT32[1]:
        schema["format"] = "int32"
    else:
        schema["format"] = "int64"
    if least is not None and least > _INT32[0]:
        schema["minimum"] = least
    return schema


def _is_text(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType)


def _amounts(kind: inspect.Type, extra: Mapping[str, Any] | None) -> Schema:
    if extra and extra.get("scalars") == "quantity" and isinstance(kind, inspect.DictType):
        return {"type": "object", "additionalProperties": quantity(), "maxProperties": MAX_AMOUNTS}
    return _schema(kind)


def quantity() -> Schema:
    """As Kubernetes takes quantities: a text, or a whole number."""
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY,
        "maxLength": 32,
    }


def at(schema: Schema, path: str) -> Schema:
    """The part of a schema that a path leads to: field names with dots, `[]` for the entries of a list."""
    for part in path.split(".") if path else ():
        name, _, rest = part.partition("[")
        schema = schema["properties"][name]
        if rest:
            schema = schema["items"]
    return schema


def rule(expression: str, message: str, **more: Any) -> Schema:
    return {"rule": expression, "message": message, **more}


def add_rules(schema: Schema, path: str, *rules: Schema) -> None:
    at(schema, path).setdefault("x-kubernetes-validations", []).extend(rules)


def describe(schema: Schema, texts: Mapping[str, str]) -> None:
    """Descriptions by path: what `kubectl explain` shows."""
    for path, text in texts.items():
        at(schema, path)["description"] = text


def bound_texts(schema: Schema) -> None:
    """Give every text, list and map without a bound one: names are short, and rules must have a cost."""
    if schema.get("type") == "string" and not {"enum", "maxLength", "format"} & schema.keys():
        schema["maxLength"] = MAX_NAME
    for part in schema.get("properties", {}).values():
        bound_texts(part)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            bound_texts(schema[name])
