"""The functions for strings that Kubernetes and Open Cluster Management add."""

from __future__ import annotations

from typing import Any

from fairway.cel.errors import Budget, EvaluationError
from fairway.cel.functions import function
from fairway.cel.regex import find_all, search
from fairway.cel.values import Uint, is_number, type_of, weight

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MOST_PRECISION = 100


@function("charAt", "string int", "string", member=True)
def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index {place} is out of range")
    return text[place : place + 1]


@function("indexOf", "string string", "int", member=True)
def _index_of(text: str, part: str) -> int:
    return text.find(part)


@function("indexOf", "string string int", "int", member=True)
def _index_from(text: str, part: str, start: int) -> int:
    _in_text(text, start)
    return text.find(part, start)


@function("lastIndexOf", "string string", "int", member=True)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@function("lastIndexOf", "string string int", "int", member=True)
def _last_index_from(text: str, part: str, start: int) -> int:
    _in_text(text, start)
    return text.rfind(part, 0, start + len(part))


@function("lowerAscii", "string", "string", member=True)
def _lower(text: str) -> str:
    return text.translate(_LOWER)


@function("upperAscii", "string", "string", member=True)
def _upper(text: str) -> str:
    return text.translate(_UPPER)


@function("trim", "string", "string", member=True)
def _trim(text: str) -> str:
    return text.strip()


@function("reverse", "string", "string", member=True)
def _reverse(text: str) -> str:
    return text[::-1]


@function("replace", "string string string", "string", member=True, spends=True)
def _replace(budget: Budget, text: str, old: str, new: str) -> str:
    return _replace_some(budget, text, old, new, -1)


@function("replace", "string string string int", "string", member=True, spends=True)
def _replace_some(budget: Budget, text: str, old: str, new: str, most: int) -> str:
    budget.spend_size(len(text))
    times = text.count(old) if old else len(text) + 1
    times = times if most < 0 else min(times, most)
    budget.spend_size(len(text) + times * len(new))
    return text.replace(old, new, times)


@function("split", "string string", "list<string>", member=True, spends=True)
def _split(budget: Budget, text: str, separator: str) -> list[str]:
    return _split_some(budget, text, separator, -1)


@function("split", "string string int", "list<string>", member=True, spends=True)
def _split_some(budget: Budget, text: str, separator: str, most: int) -> list[str]:
    budget.spend_size(2 * len(text))
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    count = len(text) if most < 0 else min(most, len(text))
    return [*text[: max(0, count - 1)], text[count - 1 :]] if count > 0 else []


@function("substring", "string int", "string", member=True)
def _substring(text: str, start: int) -> str:
    return _between(text, start, len(text))


@function("substring", "string int int", "string", member=True)
def _between(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"range {start}..{end} is out of range")
    return text[start:end]


@function("join", "list", "string", member=True, spends=True)
def _join(budget: Budget, parts: list[Any]) -> str:
    return _join_with(budget, parts, "")


@function("join", "list string", "string", member=True, spends=True)
def _join_with(budget: Budget, parts: list[Any], separator: str) -> str:
    if not all(isinstance(part, str) for part in parts):
        raise EvaluationError("only strings can be joined")
    budget.spend_size(weight(parts) + len(parts) * len(separator))
    return separator.join(parts)


@function("strings.quote", "string", "string")
def _quote(text: str) -> str:
    marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(marks.get(char, char) for char in text) + '"'


@function("find", "string string", "string", member=True, spends=True)
def _find(budget: Budget, text: str, pattern: str) -> str:
    found = search(pattern, text, budget)
    return "" if found is None else text[found[0] : found[1]]


@function("findAll", "string string", "list<string>", member=True, spends=True)
def _find_all(budget: Budget, text: str, pattern: str) -> list[str]:
    return find_all(pattern, text, budget, -1)


@function("findAll", "string string int", "list<string>", member=True, spends=True)
def _find_some(budget: Budget, text: str, pattern: str, most: int) -> list[str]:
    return find_all(pattern, text, budget, most)


@function("format", "string list", "string", member=True, spends=True)
def _format(budget: Budget, pattern: str, values: list[Any]) -> str:
    parts: list[str] = []
    rest, given = pattern, iter(values)
    while "%" in rest:
        before, _, rest = rest.partition("%")
        parts.append(before)
        if rest.startswith("%"):
            parts.append("%")
            rest = rest[1:]
            continue
        precision, rest = _precision(rest)
        budget.spend_size(weight(parts[-1]))
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError("format has too few values") from None
        budget.spend_size(weight(value))
        parts.append(_clause(rest[:1], value, precision))
        budget.spend_size(len(parts[-1]))
        rest = rest[1:]
    budget.spend_size(len(rest) + sum(map(len, parts)))
    return "".join(parts) + rest


def _precision(rest: str) -> tuple[int, str]:
    if not rest.startswith("."):
        return 6, rest
    digits = ""
    for char in rest[1:4]:
        if not (char.isascii() and char.isdigit()):
            break
        digits += char
    if not digits or int(digits) > _MOST_PRECISION:
        raise EvaluationError(f"a precision in a format is not from 0 to {_MOST_PRECISION}")
    return int(digits), rest[1 + len(digits) :]


def _clause(kind: str, value: Any, precision: int) -> str:
    if kind == "s":
        return _shown(value)
    if is_number(value):
        whole = not isinstance(value, float)
        if kind == "d" and whole:
            return str(int(value))
        if kind in ("x", "X", "o", "b") and whole:
            return format(int(value), kind)
        if kind in ("f", "e"):
            return format(float(value), f".{precision}{kind}")
    if kind in ("x", "X") and isinstance(value, str | bytes):
        text = (value.encode(errors="replace") if isinstance(value, str) else value).hex()
        return text.upper() if kind == "X" else text
    if kind == "b" and isinstance(value, bool):
        return "1" if value else "0"
    raise EvaluationError(f"%{kind} cannot show a {type_of(value).name}")


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case str():
            return value
        case list():
            return "[" + ", ".join(map(_shown, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in sorted(value.items())) + "}"
        case int() | float() | Uint():
            return str(value)
    return str(value)


def _in_text(text: str, place: int) -> None:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index {place} is out of range")
