"""The OpenAPI 3.1 document, generated from the table of operations and from the models with the strings below their
fields.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args

import msgspec

from fairway import __version__
from fairway.app.view.models.common import ApiProblem
from fairway.web.contract import EMBEDDED, OPERATIONS, PREFIX, Operation, QueryParameter

REFERENCE = "#/components/schemas/{name}"
TEXT = """\
Everything that the page shows. Times are RFC 3339 text, or seconds since 1970 in charts; amounts are numbers in base \
units (cores, bytes, or a count) by resource name. An answer other than a success is `{"error": "what is wrong"}`. \
`revision` grows with every change of the shown cluster.

On the loopback address a random token grants access: the page takes it from its address (`/#token=...`, which no \
server sees) and exchanges it for a cookie with `POST /api/v1/login`. Commands send it as `Authorization: Bearer`. On \
a cluster the bearer token is a token of the API server. Tokens in the query of an address are ignored. Requests that \
change something need `Content-Type: application/json` and, from a browser, the Origin of the page.\
"""
TAGS = {
    "views": "Views of the page.",
    "changes": "Operations that change something.",
    "commands": "Operations for `fairway get` and other commands.",
}


def document(examples: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document; `examples` are answers by operation name."""
    types = _types()
    _, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    described = {kind.__name__: kind for kind in _structs(types)}
    for name, schema in components.items():
        if name in described:
            _describe(schema, described[name])
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        path = PREFIX + operation.path.replace(":path", "")
        example = (examples or {}).get(operation.name)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, example)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fairway", "version": __version__, "description": TEXT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "cookie": {"type": "apiKey", "in": "cookie", "name": "fairway"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"cookie": []}, {"bearer": []}],
    }


def _types() -> list[Any]:
    found: list[Any] = [ApiProblem, *EMBEDDED]
    for operation in OPERATIONS:
        for kind in (operation.answer, operation.body):
            if kind is not None and kind not in found:
                found.append(kind)
    return found


def _operation(operation: Operation, example: Any) -> dict[str, Any]:
    kind = "text/event-stream" if operation.streams else "application/json"
    content: dict[str, Any] = {"schema": _schema(operation.answer)}
    if example is not None:
        content["example"] = example
    made: dict[str, Any] = {
        "operationId": _camel(operation.name),
        "tags": [operation.tag],
        "summary": operation.text.split(". ")[0].rstrip("."),
        "description": operation.text,
        "parameters": [*_path_parameters(operation.path), *map(_parameter, operation.query)],
        "responses": {
            "200": {"description": "The answer.", "content": {kind: content}},
            "default": {
                "description": "The error.",
                "content": {"application/json": {"schema": _schema(ApiProblem)}},
            },
        },
    }
    if operation.body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(operation.body)}}}
    return made


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for part in path.split("/"):
        if part.startswith("{"):
            name, _, kind = part.strip("{}").partition(":")
            text = "`namespace/name`; its slash may be written as it is or as %2F." if kind else "Its name."
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": text}


def _parameter(given: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": given.kind}
    if given.values:
        schema["enum"] = list(given.values)
    if given.least is not None:
        schema["minimum"] = given.least
    if given.most is not None:
        schema["maximum"] = given.most
    if given.default is not None:
        schema["default"] = given.default
    if given.repeated:
        schema = {"type": "array", "items": schema}
    return {"name": given.name, "in": "query", "required": False, "schema": schema, "description": given.text}


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return dict(schema)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# -- texts -----------------------------------------------------------------------------------------------------


def _structs(types: list[Any]) -> list[type[msgspec.Struct]]:
    """All structs that occur in the types."""
    found: dict[type[msgspec.Struct], None] = {}
    ahead = list(types)
    while ahead:
        kind = ahead.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found[kind] = None
                ahead += [field.type for field in msgspec.structs.fields(kind)]
        else:
            ahead += get_args(kind)
    return list(found)


def _describe(schema: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    """The text of a struct and of its fields, each as one line."""
    if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
        schema["description"] = _one_line(kind.__doc__)
    properties = schema.get("properties", {})
    config = kind.__struct_config__
    if not config.omit_defaults and not config.forbid_unknown_fields:
        schema["required"] = list(properties)  # what is answered has every field
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for field, text in field_texts(kind).items():
        if names.get(field) in properties:
            properties[names[field]]["description"] = text


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The string below each field, as the source has it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            value = after.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = _one_line(value.value)
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())
