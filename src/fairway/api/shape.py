"""Compares plain data with the structs that describe it: what has the wrong shape, and which fields are unknown.

The decoder stops at its first error and cannot name the key of a map. `fit` walks the same struct definitions to the
end, names every place, and makes the allowances that Kubernetes makes: `null` is absent, a number is a quantity's text.
It reads whatever the decoder cannot take directly: YAML, files that people write by hand, and JSON that the decoder
refused. A struct that forbids unknown fields (`forbid_unknown_fields`) makes one an error with a suggestion; types that
only one kind of file has are passed in (`CustomTypes`).

Objects of Kubernetes are different: their APIs have many more fields than a scheduler reads. `unknown_fields` finds
fields that the object's API does not have, which are most often misspelt and silently do nothing. The known ones are
those in the table of `field_names` and in the structs. JSON is first given to a decoder that refuses unknown fields and
keeps every value as bytes; only an object that it refuses is walked field by field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from fairway.api.field_names import TABLE
from fairway.api.meta import Time
from fairway.api.text import LongNumber, Path

Finding = tuple[Path, str]
"""What is wrong there, and what was expected."""

_ABSENT = object()
_MACHINE_LIMITS = (2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1)
"""Upper bounds that come from a number's representation: naming one explains nothing, unless it is exceeded."""

S = TypeVar("S", bound=msgspec.Struct)


class CustomType(NamedTuple):
    """A type that is not the decoder's own: how it is read, how errors describe it, and a value to continue with."""

    read: Callable[[Any, Path, list[Finding]], object]
    """Adds a finding if the value cannot be read; its result is then ignored."""
    expected: str
    stand_in: object


CustomTypes = Mapping[type, CustomType]
NO_CUSTOM_TYPES: CustomTypes = MappingProxyType({})


def fit(data: object, struct: type[S], custom: CustomTypes = NO_CUSTOM_TYPES) -> tuple[S, list[Finding]]:
    """The object, and all that is wrong with the data's shape.

    Where something is wrong a stand-in takes its place, so that the rest can be checked too; whatever is then
    found at or below such a place has no meaning.
    """
    walk = _ShapeWalk(custom)
    fitted = walk.fit(data, _info(struct), ())
    try:
        return msgspec.convert(fitted, struct), walk.findings
    except msgspec.ValidationError as error:  # a constraint that the walk does not know, such as a pattern
        text, _, place = str(error).partition(" - at `$")
        steps = re.findall(r"[^.\[\]`]+", place)
        found = *walk.findings, (tuple(int(step) if step.isdigit() else step for step in steps), text)
        return msgspec.convert(walk.stand_in(_info(struct)), struct), list(found)


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


class _ShapeWalk:
    """One comparison of data with a struct; it never stops at an error."""

    def __init__(self, custom: CustomTypes) -> None:
        self.findings: list[Finding] = []
        self._custom = custom

    def fit(self, value: Any, kind: inspect.Type, path: Path) -> object:
        match kind:
            case inspect.Metadata():
                return self._fit_scalars(value, kind, path)
            case inspect.StructType():
                return self._fit_struct(value, kind, path)
            case inspect.DictType():
                return self._fit_map(value, kind, path)
            case inspect.VarTupleType():
                return self._fit_list(value, kind, path)
            case inspect.UnionType():
                return self._fit_union(value, kind, path)
            case inspect.CustomType():
                return self._fit_custom(value, kind, path)
        if problem := _scalar_problem(value, kind):
            self.findings.append((path, problem))
            return self.stand_in(kind)
        return int(value) if isinstance(kind, inspect.IntType) and isinstance(value, float) else value

    def _wrong(self, value: object, kind: inspect.Type, path: Path) -> object:
        self.findings.append((path, f"is {describe(value)}, expected {expected(kind, self._custom)}"))
        return self.stand_in(kind)

    def _fit_struct(self, value: Any, kind: inspect.StructType, path: Path) -> object:
        if not isinstance(value, Mapping):
            return self._wrong(value, kind, path)
        if kind.forbid_unknown_fields:
            known = {part.encode_name for part in kind.fields}
            unknown = [name for name in value if name not in known]
            self.findings += (((*path, name), f"is an unknown field{did_you_mean(name, known)}") for name in unknown)
        fitted = {}
        for part in kind.fields:
            name = part.encode_name
            given = value.get(name, _ABSENT)
            if given is _ABSENT or (given is None and not _takes_null(part.type)):
                if part.required:
                    text = f"is missing, expected {expected(part.type, self._custom)}"
                    self.findings.append(((*path, name), text))
                    fitted[name] = self.stand_in(part.type)
                continue
            fitted[name] = self.fit(given, part.type, (*path, name))
        return fitted

    def _fit_map(self, value: Any, kind: inspect.DictType, path: Path) -> object:
        if not isinstance(value, Mapping):
            return self._wrong(value, kind, path)
        texts = isinstance(kind.value_type, inspect.StrType)
        return {
            str(key): "" if item is None and texts else self.fit(item, kind.value_type, (*path, key))
            for key, item in value.items()
        }

    def _fit_list(self, value: Any, kind: inspect.VarTupleType, path: Path) -> object:
        if not isinstance(value, list | tuple):
            return self._wrong(value, kind, path)
        least, most = kind.min_length or 0, kind.max_length
        if len(value) < least or (most is not None and len(value) > most):
            wanted = f"at least {least}" if most is None else f"{least} to {most}"
            self.findings.append((path, f"has {len(value)} entries, expected {wanted}"))
            return self.stand_in(kind)
        return [self.fit(item, kind.item_type, (*path, index)) for index, item in enumerate(value)]

    def _fit_union(self, value: Any, kind: inspect.UnionType, path: Path) -> object:
        """Only the choice of the value's own kind is tried, if there is one: its findings are the useful ones."""
        if value is None:
            return None
        choices = [choice for choice in kind.types if not isinstance(choice, inspect.NoneType)]
        alike = [choice for choice in choices if _is_like(value, choice)] or choices
        if len(alike) == 1:
            return self.fit(value, alike[0], path)
        for choice in alike:
            attempt = _ShapeWalk(self._custom)
            fitted = attempt.fit(value, choice, path)
            if not attempt.findings:
                return fitted
        return self._wrong(value, kind, path)

    def _fit_custom(self, value: Any, kind: inspect.CustomType, path: Path) -> object:
        custom, before = self._custom[kind.cls], len(self.findings)
        made = custom.read(value, path, self.findings)
        return made if len(self.findings) == before else custom.stand_in

    def _fit_scalars(self, value: Any, kind: inspect.Metadata, path: Path) -> object:
        """Texts that files may write as numbers (quantities), or as any scalar."""
        rule = (kind.extra or {}).get("scalars")
        if rule is None:
            return self.fit(value, kind.type, path)
        if isinstance(kind.type, inspect.StrType):
            return self._text_of(value, rule, path)
        if not isinstance(value, Mapping):
            return self._wrong(value, kind.type, path)
        return {
            str(key): self._text_of(item, rule, (*path, key))
            for key, item in value.items()
            if item is not None or rule == "any"
        }

    def _text_of(self, value: Any, rule: str | None, path: Path) -> object:
        if rule == "any" and (value is None or isinstance(value, bool)):
            return "" if value is None else str(value).lower()
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return repr(value)
        self.findings.append((path, f"is {describe(value)}, expected a quantity such as 2, 500m or 1Gi"))
        return "0"

    def stand_in(self, kind: inspect.Type) -> object:
        """A valid value of the type."""
        match kind:
            case inspect.Metadata() if not (kind.extra or {}).get("scalars"):
                return self.stand_in(kind.type)
            case inspect.Metadata():
                return {} if isinstance(kind.type, inspect.DictType) else "0"
            case inspect.StructType():
                return {part.encode_name: self.stand_in(part.type) for part in kind.fields if part.required}
            case inspect.DictType():
                return {}
            case inspect.VarTupleType():
                return [self.stand_in(kind.item_type)] * (kind.min_length or 0)
            case inspect.StrType():
                return ""
            case inspect.IntType():
                return max(kind.ge or 0, 0)
            case inspect.BoolType():
                return False
            case inspect.LiteralType():
                return kind.values[0]
            case inspect.FloatType():
                return max(kind.ge or 0.0, 0.0)
            case inspect.CustomType():
                return self._custom[kind.cls].stand_in
            case inspect.UnionType() if not kind.includes_none:
                return self.stand_in(kind.types[0])
        return None


def _is_like(value: object, kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata():
            return _is_like(value, kind.type)
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, Mapping)
        case inspect.VarTupleType():
            return isinstance(value, list | tuple)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.StrType() | inspect.LiteralType():
            return isinstance(value, str) and not isinstance(value, LongNumber)
    return False


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
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return None if is_number and _is_within(value, kind) else _wrong(value, kind)
        case inspect.LiteralType():
            return None if value in kind.values else _wrong(value, kind)
        case inspect.DateTimeType():
            return _time_problem(value)
    return None


def _is_within(value: float, kind: inspect.FloatType) -> bool:
    return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)


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
    """A number that is too large needs the upper bound, even where usually only the lower one is named."""
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
    """The value as error messages name it."""
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


def expected(kind: inspect.Type, custom: CustomTypes = NO_CUSTOM_TYPES) -> str:
    """What a field accepts, in words."""
    match kind:
        case inspect.Metadata() if not (kind.extra or {}).get("scalars"):
            return expected(kind.type, custom)
        case inspect.Metadata():
            is_map = isinstance(kind.type, inspect.DictType)
            return "a mapping of names to quantities" if is_map else "a quantity such as 2, 500m or 1Gi"
        case inspect.CustomType():
            return custom[kind.cls].expected
        case inspect.FloatType():
            return "a number" if kind.ge is None else f"a number from {kind.ge:g} to {kind.le:g}"
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
            choices = [expected(t, custom) for t in kind.types if not isinstance(t, inspect.NoneType)]
            return " or ".join(choices)
    return "a mapping"


def _expected_int(kind: inspect.IntType) -> str:
    if kind.ge is None or kind.le is None:
        return "a whole number"
    if kind.le in _MACHINE_LIMITS:
        bits = f"a whole number that fits {kind.le.bit_length() + 1} bits"
        return bits if kind.ge < 0 else f"a whole number of at least {kind.ge}"
    return f"a whole number from {kind.ge} to {kind.le}"


def _expected_word(kind: inspect.LiteralType) -> str:
    words = [str(word) for word in kind.values if word != ""]
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


_HEAD = ("apiVersion", "kind")
_MANY = {"[": "list", "{": "map"}


@dataclass
class Fields:
    """The known fields of a mapping. `inner` has the types of values that are checked in turn."""

    names: set[str] = field(default_factory=set)
    inner: dict[str, tuple[str, Fields]] = field(default_factory=dict)
    closed: bool = False


def unknown_fields(data: object, kind: str, struct: type[msgspec.Struct]) -> Iterator[tuple[Path, str]]:
    """The path of every unknown field of an object, and the field that was probably meant ("" if none is near)."""
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
    """A decoder that fails if an object may have an unknown field."""
    return msgspec.json.Decoder(_mirror(_fields(kind, struct), {}))


# -- what is known -------------------------------------------------------------------------------------------------


@cache
def field_table() -> dict[str, tuple[bool, dict[str, str]]]:
    """The table of field names: by type, whether it is closed, and the type of each field."""
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
    """The fields of a type in the table, and those of its struct that the table lacks."""
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
    """The struct of a field, and whether the field holds one, a list or a map of them."""
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
    """The known field that is at most two edits away (one for short names); of several, the first by name."""
    best: tuple[int, str] | None = None
    for candidate in sorted(known):
        most = 2 if min(len(name), len(candidate)) > 5 else 1
        if abs(len(name) - len(candidate)) <= most:
            away = _slips(name.casefold(), candidate.casefold())
            if away <= most and (best is None or away < best[0]):
                best = away, candidate
    return best[1] if best else ""


def _slips(one: str, other: str) -> int:
    """Edit distance: letters to insert, delete, replace, or swap with the next one."""
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


def did_you_mean(name: str, known: Collection[str]) -> str:
    """`, did you mean 'gang'?` where a known name is near; else the known names."""
    folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    if near:
        return f", did you mean {folded[near[0]]!r}?"
    return f", expected one of {', '.join(sorted(known))}" if known else ", expected none"
