"""Does the plain data of a scenario have the shape of its types, and if not, where not?

One walk over the struct definitions finds everything that is wrong, in the words that manifests use too. A key that is
not known is an error with a suggestion: a scenario is written by hand, and a misspelt key would test another cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from fairway.api.meta import Time
from fairway.api.settings import did_you_mean
from fairway.api.shape import Finding, Path, describe, expected, path_text
from fairway.api.validation.labels import check_amounts
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.sim.scenario.model import Span
from fairway.sim.spans import Drawn, parse_drawn, parse_span

__all__ = ["Finding", "Path", "fit", "path_text"]

S = TypeVar("S", bound=msgspec.Struct)

_WRONG = object()
"""Stands for a value that could not be made; there is a finding for it."""


def fit(data: object, struct: type[S], findings: list[Finding]) -> S | None:
    """The data as a struct; None where something is wrong, and everything that is wrong in `findings`."""
    made = _fit(data, inspect.type_info(struct), (), findings)
    return made if isinstance(made, struct) and not findings else None


def amounts(value: object, path: Path, findings: list[Finding]) -> Resource | None:
    """A map of quantities; None where it is not one."""
    if not isinstance(value, Mapping):
        findings.append((path, f"is {describe(value)}, expected amounts, for example {{cpu: 64, memory: 256Gi}}"))
        return None
    texts: dict[str, str] = {}
    before = len(findings)
    for name, amount in value.items():
        if isinstance(amount, str) or (isinstance(amount, int | float) and not isinstance(amount, bool)):
            texts[name] = amount if isinstance(amount, str) else repr(amount)
        elif amount is not None:
            findings.append(((*path, name), f"is {describe(amount)}, expected a quantity such as 2, 500m or 1Gi"))
    check_amounts(texts, path, findings)
    return Resource.parse(texts) if len(findings) == before else None


def _fit(value: Any, kind: inspect.Type, path: Path, findings: list[Finding]) -> object:
    match kind:
        case inspect.AnyType():
            return value
        case inspect.Metadata():
            return _fit(value, kind.type, path, findings)
        case inspect.StructType():
            return _fit_struct(value, kind, path, findings)
        case inspect.DictType():
            return _fit_map(value, kind, path, findings)
        case inspect.VarTupleType():
            return _fit_list(value, kind, path, findings)
        case inspect.UnionType():
            return _fit_union(value, kind, path, findings)
        case inspect.CustomType():
            return _fit_custom(value, kind.cls, path, findings)
    return _fit_scalar(value, kind, path, findings)


def _fit_struct(value: Any, kind: inspect.StructType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, Mapping):
        return _wrong(value, kind, path, findings)
    known = {field.encode_name: field for field in kind.fields}
    unknown = [name for name in value if name not in known]
    findings += (((*path, name), f"is an unknown field{did_you_mean(name, known)}") for name in unknown)
    made: dict[str, object] = {}
    for name, field in known.items():
        if value.get(name) is not None:
            made[field.name] = _fit(value[name], field.type, (*path, name), findings)
        elif field.required:
            findings.append(((*path, name), f"is missing, expected {_expected(field.type)}"))
            made[field.name] = _WRONG
    return _WRONG if any(entry is _WRONG for entry in made.values()) else kind.cls(**made)


def _fit_map(value: Any, kind: inspect.DictType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, Mapping):
        return _wrong(value, kind, path, findings)
    made = {key: _fit(item, kind.value_type, (*path, key), findings) for key, item in value.items()}
    return _WRONG if any(entry is _WRONG for entry in made.values()) else made


def _fit_list(value: Any, kind: inspect.VarTupleType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, list | tuple):
        return _wrong(value, kind, path, findings)
    made = [_fit(item, kind.item_type, (*path, index), findings) for index, item in enumerate(value)]
    return _WRONG if any(entry is _WRONG for entry in made) else tuple(made)


def _fit_union(value: Any, kind: inspect.UnionType, path: Path, findings: list[Finding]) -> object:
    """What the value is decides which of the choices it is held against."""
    choices = [choice for choice in kind.types if not isinstance(choice, inspect.NoneType)]
    chosen = next((choice for choice in choices if _is_like(value, choice)), None)
    if len(choices) == 1 or chosen is not None:
        return _fit(value, chosen or choices[0], path, findings)
    return _wrong(value, kind, path, findings)


def _is_like(value: object, kind: inspect.Type) -> bool:
    if isinstance(value, Mapping):
        return isinstance(kind, inspect.StructType)
    if isinstance(value, list | tuple):
        return isinstance(kind, inspect.VarTupleType)
    return isinstance(value, str) and isinstance(kind, inspect.StrType | inspect.LiteralType)


def _fit_custom(value: Any, cls: type, path: Path, findings: list[Finding]) -> object:
    if cls is Resource:
        found = amounts(value, path, findings)
        return _WRONG if found is None else found
    try:
        return Span(parse_span(value)) if cls is Span else parse_drawn(value)
    except InputError as error:
        findings.append((path, str(error)))
        return _WRONG


def _fit_scalar(value: Any, kind: inspect.Type, path: Path, findings: list[Finding]) -> object:
    match kind:
        case inspect.StrType() if isinstance(value, str):
            return value
        case inspect.BoolType() if isinstance(value, bool):
            return value
        case inspect.LiteralType() if value in kind.values:
            return value
        case inspect.FloatType() if _is_number(value) and _is_within(value, kind):
            return float(value)
        case inspect.IntType() if _is_whole(value) and _is_within(value, kind):
            return int(value)
        case inspect.DateTimeType():
            try:
                return msgspec.convert(value, Time)
            except msgspec.ValidationError:
                pass
    return _wrong(value, kind, path, findings)


def _is_whole(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_within(value: int | float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)


def _wrong(value: object, kind: inspect.Type, path: Path, findings: list[Finding]) -> object:
    findings.append((path, f"is {describe(value)}, expected {_expected(kind)}"))
    return _WRONG


def _expected(kind: inspect.Type) -> str:
    """As of manifests, but for numbers, whose bounds are small here and always named, and for types of its own."""
    match kind:
        case inspect.Metadata():
            return _expected(kind.type)
        case inspect.IntType():
            return f"a whole number from {kind.ge} to {kind.le}"
        case inspect.FloatType():
            return "a number" if kind.ge is None else f"a number from {kind.ge} to {kind.le}"
        case inspect.UnionType():
            return " or ".join(_expected(choice) for choice in kind.types if not isinstance(choice, inspect.NoneType))
        case inspect.CustomType():
            return _CUSTOM[kind.cls]
    return expected(kind)


_CUSTOM = {
    Span: "a duration such as 90s, 1h30m or 2d",
    Drawn: "a duration such as 90s, or exponential 5m, or uniform 1m 10m",
    Resource: "amounts, for example {cpu: 64, memory: 256Gi}",
}
