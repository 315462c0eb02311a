"""Does plain data have the shape of an object, and if not, where not?

The decoder stops at its first error and cannot name the key of a map. This walk of the same struct
definitions goes on to the end, names every place, and makes the allowances that Kubernetes makes: `null` is
absent, a number is a quantity's text. It serves whatever the decoder cannot take straight: YAML, and JSON
that it refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from fairway.api.json_text import LongNumber
from fairway.api.meta import Time

Path = tuple[str | int, ...]
"""Where in an object: field names, map keys and list positions."""

Finding = tuple[Path, str]
"""What is wrong there, and what was expected."""

_ABSENT = object()


def fit(data: object, struct: type[msgspec.Struct]) -> tuple[msgspec.Struct, list[Finding]]:
    """The object, and all that is wrong with the data's shape.

    Where something is wrong a stand-in takes its place, so that the rest can be checked too; whatever is then
    found at or below such a place means nothing.
    """
    findings: list[Finding] = []
    fitted = _fit(data, _info(struct), (), findings)
    return msgspec.convert(fitted, struct), findings


def path_text(path: Path) -> str:
    """`spec.containers[0].resources.requests[nvidia.com/gpu]`"""
    text = ""
    for step in path:
        if isinstance(step, int) or not step.replace("_", "").replace("-", "").isalnum():
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


@cache
def _info(struct: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(struct)


def _fit(value: Any, kind: inspect.Type, path: Path, findings: list[Finding]) -> object:
    match kind:
        case inspect.Metadata():
            return _fit_scalars(value, kind, path, findings)
        case inspect.StructType():
            return _fit_struct(value, kind, path, findings)
        case inspect.DictType():
            return _fit_map(value, kind, path, findings)
        case inspect.VarTupleType():
            return _fit_list(value, kind, path, findings)
        case inspect.UnionType():
            return _fit_union(value, kind, path, findings)
    if problem := _scalar_problem(value, kind):
        findings.append((path, problem))
        return _stand_in(kind)
    return int(value) if isinstance(kind, inspect.IntType) and isinstance(value, float) else value


def _fit_struct(value: Any, kind: inspect.StructType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, Mapping):
        findings.append((path, _wrong(value, kind)))
        return _stand_in(kind)
    fitted = {}
    for field in kind.fields:
        name = field.encode_name
        given = value.get(name, _ABSENT)
        if given is _ABSENT or (given is None and not _takes_null(field.type)):
            if field.required:
                findings.append(((*path, name), f"is missing, expected {expected(field.type)}"))
                fitted[name] = _stand_in(field.type)
            continue
        fitted[name] = _fit(given, field.type, (*path, name), findings)
    return fitted


def _fit_map(value: Any, kind: inspect.DictType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, Mapping):
        findings.append((path, _wrong(value, kind)))
        return _stand_in(kind)
    texts = isinstance(kind.value_type, inspect.StrType)
    return {
        str(key): "" if item is None and texts else _fit(item, kind.value_type, (*path, key), findings)
        for key, item in value.items()
    }


def _fit_list(value: Any, kind: inspect.VarTupleType, path: Path, findings: list[Finding]) -> object:
    if not isinstance(value, list | tuple):
        findings.append((path, _wrong(value, kind)))
        return _stand_in(kind)
    return [_fit(item, kind.item_type, (*path, index), findings) for index, item in enumerate(value)]


def _fit_union(value: Any, kind: inspect.UnionType, path: Path, findings: list[Finding]) -> object:
    if value is None:
        return None
    choices = [choice for choice in kind.types if not isinstance(choice, inspect.NoneType)]
    if len(choices) == 1:
        return _fit(value, choices[0], path, findings)
    attempts: list[list[Finding]] = []
    for choice in choices:
        attempts.append([])
        fitted = _fit(value, choice, path, attempts[-1])
        if not attempts[-1]:
            return fitted
    number = isinstance(value, int) and not isinstance(value, bool)
    problem = attempts[0][0][1] if number else _wrong(value, kind)
    findings.append((path, problem))
    return _stand_in(kind)


def _fit_scalars(value: Any, kind: inspect.Metadata, path: Path, findings: list[Finding]) -> object:
    """Texts that files may write as numbers (quantities), or as any scalar."""
    rule = (kind.extra or {}).get("scalars")
    if isinstance(kind.type, inspect.StrType):
        return _text_of(value, rule, path, findings)
    if not isinstance(value, Mapping):
        return _fit(value, kind.type, path, findings)
    return {
        str(key): _text_of(item, rule, (*path, key), findings)
        for key, item in value.items()
        if item is not None or rule == "any"
    }


def _text_of(value: Any, rule: str | None, path: Path, findings: list[Finding]) -> object:
    if rule == "any" and (value is None or isinstance(value, bool)):
        return "" if value is None else str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    findings.append((path, f"is {describe(value)}, expected a quantity such as 2, 500m or 1Gi"))
    return "0"


def _stand_in(kind: inspect.Type) -> object:
    match kind:
        case inspect.Metadata():
            return {} if isinstance(kind.type, inspect.DictType) else "0"
        case inspect.StructType():
            return {f.encode_name: _stand_in(f.type) for f in kind.fields if f.required}
        case inspect.DictType():
            return {}
        case inspect.VarTupleType():
            return []
        case inspect.StrType():
            return ""
        case inspect.IntType():
            return max(kind.ge or 0, 0)
        case inspect.BoolType():
            return False
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.FloatType():
            return 0.0
        case inspect.UnionType() if not kind.includes_none:
            return _stand_in(kind.types[0])
    return None


def _scalar_problem(value: Any, kind: inspect.Type) -> str | None:
    match kind:
        case inspect.StrType():
            is_text = isinstance(value, str) and not isinstance(value, LongNumber)
            return None if is_text else f"is {describe(value)}, expected {_quoted(value)}"
        case inspect.BoolType():
            return None if isinstance(value, bool) else _wrong(value, kind)
        case inspect.IntType():
            return _int_problem(value, kind)
        case inspect.FloatType():
            return None if isinstance(value, int | float) and not isinstance(value, bool) else _wrong(value, kind)
        case inspect.LiteralType():
            return None if value in kind.values else _wrong(value, kind)
        case inspect.DateTimeType():
            return _time_problem(value)
    return None


def _int_problem(value: Any, kind: inspect.IntType) -> str | None:
    low, high = kind.ge, kind.le
    if isinstance(value, LongNumber):
        return _wrong(value, kind) if value.startswith("-") else _too_large(value, kind)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        return _wrong(value, kind)
    if high is not None and value > high:
        return _too_large(value, kind)
    return None if low is None or value >= low else _wrong(value, kind)


def _too_large(value: object, kind: inspect.IntType) -> str:
    """A giant is not short of a lower bound: where only that is usually said, the upper one is."""
    text = expected(kind)
    return f"is {describe(value)}, expected " + (f"a whole number of at most {kind.le}" if "at least" in text else text)


def _time_problem(value: object) -> str | None:
    try:
        msgspec.convert(value, Time)
    except msgspec.ValidationError:
        return f"is {describe(value)}, expected a time such as 2026-01-31T12:00:00Z"
    return None


def _wrong(value: object, kind: inspect.Type) -> str:
    return f"is {describe(value)}, expected {expected(kind)}"


def _quoted(value: object) -> str:
    is_number = isinstance(value, int | float | LongNumber)
    return "a string: write it in quotes" if is_number else "a string"


def _takes_null(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.UnionType) and kind.includes_none


def describe(value: object) -> str:
    """What a user wrote, in the words of the file."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case LongNumber():
            return f"a number of {len(value)} characters" if len(value) > 60 else f"the number {value}"
        case int() | float():
            return f"the number {value!r}"
        case str():
            return f"{value!r}" if len(value) <= 60 else f"{value[:57]!r}..."
        case Mapping():
            return "a mapping"
    return "a list"


def expected(kind: inspect.Type) -> str:
    """The words for what a field takes."""
    match kind:
        case inspect.Metadata():
            is_map = isinstance(kind.type, inspect.DictType)
            return "a mapping of names to quantities" if is_map else "a quantity such as 2, 500m or 1Gi"
        case inspect.StrType():
            return "a string"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return _expected_int(kind)
        case inspect.LiteralType():
            return _expected_word(kind)
        case inspect.DateTimeType():
            return "a time such as 2026-01-31T12:00:00Z"
        case inspect.VarTupleType():
            return "a list"
        case inspect.UnionType():
            choices = [expected(t) for t in kind.types if not isinstance(t, inspect.NoneType)]
            return " or ".join(choices)
    return "a mapping"


def _expected_int(kind: inspect.IntType) -> str:
    if kind.ge is None or kind.le is None:
        return "a whole number"
    if kind.ge < 0:
        return f"a whole number that fits {kind.le.bit_length() + 1} bits"
    if kind.ge in (0, 1) and kind.le > 65535:
        return f"a whole number of at least {kind.ge}"
    return f"a whole number from {kind.ge} to {kind.le}"


def _expected_word(kind: inspect.LiteralType) -> str:
    words = [str(word) for word in kind.values if word != ""]
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
