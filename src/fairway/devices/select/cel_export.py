"""A class as one CEL expression for a DRA DeviceClass, so that a stock scheduler selects the same devices.

Kubernetes aborts an allocation if an expression fails, so every term looks whether the key is there and what
type it has before it compares. Numbers are compared in whole steps of what a driver can publish (integers, or
1e-9 of a quantity), which is exact for any operand.

CEL sees neither the node, pool and name of a device nor what a group is made of. A term that needs the former is left
out, which selects fewer devices and never others; of a class that includes others nothing would be left that is true,
so it has no expression at all. Both are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from fairway.api.devices import ResourceClassSpec
from fairway.cel import MAX_EXPRESSION
from fairway.devices.model.values import Dimension, Exact, Operand
from fairway.devices.select.selectors import ORDER, Finding, Matcher, Requirement
from fairway.resources.quantity import INT64_MAX, Format, Quantity

NOT_EXPORTED: Final = "NotExported"
"""CEL cannot express it; what depends on it was left out."""
SELECTS_NOTHING: Final = "SelectsNothing"
"""Exported, but no value that a driver can publish matches it."""

_TRUE, _FALSE = "true", "false"
_SIGNS = {"Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
_NANO = 10**9
_OWN = "device.attributes[device.driver]"
_KIND = (
    f'("kind" in {_OWN} && type({_OWN}["kind"]) in [string] && {_OWN}["kind"] != "" ? {_OWN}["kind"] : '
    f'"type" in {_OWN} && type({_OWN}["type"]) in [string] && {_OWN}["type"] != "" ? {_OWN}["type"] : '
    "device.driver)"
)
_VISIBLE = {"Kind": _KIND, "Type": _KIND, "driver": "device.driver"}
_INVISIBLE = ("pool", "device", "node")


@dataclass(frozen=True, slots=True)
class Export:
    """The expression, and what it does not express. None if no expression selects only what the class does."""

    expression: str | None
    findings: tuple[Finding, ...]


def export(spec: ResourceClassSpec) -> Export:
    """The DeviceClass selector that selects the same devices among those that drivers publish."""
    if spec.includes:
        message = "CEL does not see what the members of a group are, a DeviceClass would select other groups too"
        return Export(None, (Finding("includes", NOT_EXPORTED, message),))
    findings = _beyond_selectors(spec)
    terms = []
    for i, term in enumerate(Matcher(spec.resource_selector).terms):
        path = f"resourceSelector[{i}]"
        problems = [
            Finding(f"{path}.matchExpressions[{j}]", NOT_EXPORTED, problem)
            for j, requirement in enumerate(term)
            if (problem := _problem(requirement))
        ]
        findings += problems
        if problems or not term:
            continue
        expression = _all(list(map(_requirement, term)))
        if expression == _FALSE:
            findings.append(Finding(path, SELECTS_NOTHING, "no value that a driver can publish matches it"))
        terms.append(expression)
    expression = _any(terms)
    if len(expression) > MAX_EXPRESSION:
        size = f"{len(expression)} characters, Kubernetes takes {MAX_EXPRESSION}"
        findings.append(Finding("resourceSelector", NOT_EXPORTED, size))
        return Export(None, tuple(findings))
    lost = not terms and any(finding.path.startswith("resourceSelector") for finding in findings)
    return Export(None if lost else expression, tuple(findings))


def _beyond_selectors(spec: ResourceClassSpec) -> list[Finding]:
    findings = []
    if spec.allowed_namespaces is not None:
        findings.append(Finding("allowedNamespaces", NOT_EXPORTED, "a DeviceClass is open to every namespace"))
    return findings


def _problem(requirement: Requirement) -> str | None:
    if requirement.source.key in _INVISIBLE:
        return f"CEL does not see the {requirement.source.key} of a device, the term is left out"
    return requirement.problem


def _requirement(requirement: Requirement) -> str:
    key, operator, operands = requirement.source.key, requirement.source.operator, requirement.operands
    if key in _VISIBLE:
        return _text(_VISIBLE[key], operator, operands)
    domain, qualified, name = key.partition("/")
    place, name = (f"[{_quote(domain)}]", name) if qualified else ("[device.driver]", key)
    attributes, capacity = f"device.attributes{place}", f"device.capacity{place}"
    published, measured = f"{_quote(name)} in {attributes}", f"{_quote(name)} in {capacity}"
    if operator == "Exists":
        return _any([published, measured])
    if operator == "DoesNotExist":
        return f"{_not(published)} && {_not(measured)}"
    on_attribute = _bind("v", f"{attributes}[{_quote(name)}]", _attribute(operator, operands))
    on_capacity = _bind("q", f"{capacity}[{_quote(name)}]", _quantity("q", operator, operands))
    absent = _TRUE if operator == "NotIn" else _FALSE
    return _choose(published, on_attribute, _choose(measured, on_capacity, absent))


def _text(value: str, operator: str, operands: Sequence[Operand]) -> str:
    """A value that is always present and always a string."""
    if operator in ("In", "Eq", "NotIn"):
        listed = f"{value} in [{', '.join(_quote(o.text) for o in operands)}]"
        return _not(listed) if operator == "NotIn" else listed
    return _TRUE if operator == "Exists" else _FALSE


def _attribute(operator: str, operands: Sequence[Operand]) -> str:
    """`v` is an int, bool, string, version or a list of one of those."""
    if operator in ORDER:
        return _ordered(operator, operands[0])
    scalar = _not_in if operator == "NotIn" else _in
    if (item := scalar("e", operands)) == _FALSE:
        return _FALSE
    every = "all" if operator == "NotIn" else "exists"
    return _any([scalar("v", operands), f"type(v) in [list] && dyn(v).{every}(e, {item})"])


def _ordered(operator: str, operand: Operand) -> str:
    cases = []
    if (number := _int_operand(operand)) is not None:
        cases.append(_all(["type(v) in [int]", _compare_int("v", operator, number)]))
    if operand.version is not None:
        compared = f"v.compareTo({_version(operand)}) {_SIGNS[operator]} 0"
        cases.append(f"{_is_version('v')} && {compared}")
    return _any(cases)


def _in(value: str, operands: Sequence[Operand]) -> str:
    """Equal to one of the operands that can be read as the type of the value."""
    cases = []
    for is_type, read in _types(value):
        if literals := [text for text in dict.fromkeys(map(read, operands)) if text]:
            cases.append(f"{is_type} && {value} in [{', '.join(literals)}]")
    return _any(cases)


def _not_in(value: str, operands: Sequence[Operand]) -> str:
    """Of a type in which every operand can be read, and equal to none."""
    cases = []
    for is_type, read in _types(value):
        found = dict.fromkeys(map(read, operands))
        if None not in found:
            literals = [text for text in found if text]
            cases.append(f"{is_type} && !({value} in [{', '.join(literals)}])" if literals else is_type)
    return _any(cases)


def _types(value: str) -> list[tuple[str, Callable[[Operand], str | None]]]:
    """For each type of attribute: the type test, and its literal of an operand.

    No literal (None) means that the operand cannot be read as the type, an empty one that it can, but that no value of
    the type equals it.
    """
    return [
        (f"type({value}) in [string]", lambda o: _quote(o.text)),
        (f"type({value}) in [int]", _int_literal),
        (f"type({value}) in [bool]", lambda o: o.text if o.flag is not None else None),
        (_is_version(value), lambda o: _version(o) if o.version is not None else None),
    ]


def _quantity(value: str, operator: str, operands: Sequence[Operand]) -> str:
    numbers = [_quantity_operand(operand) for operand in operands]
    if operator in ORDER:
        return _FALSE if numbers[0] is None else _compare_quantity(value, operator, numbers[0])
    if operator == "NotIn" and None in numbers:
        return _FALSE
    steps = [_steps(number, _NANO) for number in numbers if number is not None]
    equal = _any([f"{value}.compareTo({_quantity_literal(n)}) == 0" for n, whole in steps if whole])
    return _not(equal) if operator == "NotIn" else equal


def _compare_quantity(value: str, operator: str, number: Exact) -> str:
    steps, whole = _steps(number, _NANO)
    return f"{value}.compareTo({_quantity_literal(steps)}) {_SIGNS[_rounded(operator, whole)]} 0"


def _compare_int(value: str, operator: str, number: Exact) -> str:
    steps, whole = _steps(number, 1)
    if not -INT64_MAX - 1 <= steps <= INT64_MAX:
        return _TRUE if (steps > 0) is operator.startswith("Lt") else _FALSE
    return f"{value} {_SIGNS[_rounded(operator, whole)]} {steps}"


def _steps(number: Exact, per_unit: int) -> tuple[int, bool]:
    """The number in whole steps, rounded down, and whether that is exact."""
    steps = floor(number * per_unit)
    return steps, steps == number * per_unit


def _rounded(operator: str, whole: bool) -> str:
    """The operator that has the same meaning after an operand between two steps was rounded down."""
    if whole:
        return operator
    return "Gt" if operator.startswith("Gt") else "LtEq"


def _int_operand(operand: Operand) -> Exact | None:
    number = operand.number
    return number.value if number is not None and number.dimension is Dimension.SCALAR else None


def _int_literal(operand: Operand) -> str | None:
    number = _int_operand(operand)
    if number is None:
        return None
    steps, whole = _steps(number, 1)
    return str(steps) if whole and -INT64_MAX - 1 <= steps <= INT64_MAX else ""


def _quantity_operand(operand: Operand) -> Exact | None:
    number = operand.number
    fits = number is not None and number.dimension in (Dimension.SCALAR, Dimension.BYTES)
    return number.value if number is not None and fits else None


def _quantity_literal(nanos: int) -> str:
    """The shorter of the two notations; Kubernetes caps binary ones at int64."""
    texts = [str(Quantity(nanos))]
    if abs(nanos) <= INT64_MAX * _NANO:
        texts.append(str(Quantity(nanos, Format.BINARY_SI)))
    return f'quantity("{min(texts, key=len)}")'


def _version(operand: Operand) -> str:
    assert operand.version is not None
    return f'semver("{operand.version.normal()}")'


def _is_version(value: str) -> str:
    return f'type({value}) in [type(semver("0.0.0"))]'


def _bind(name: str, value: str, body: str) -> str:
    return body if body in (_TRUE, _FALSE) else f"cel.bind({name}, {value}, {body})"


def _choose(condition: str, then: str, otherwise: str) -> str:
    if then == otherwise:
        return then
    if otherwise == _FALSE:
        return condition if then == _TRUE else f"({condition} && {then})"
    if then == _FALSE:
        return f"({_not(condition)} && {otherwise})"
    return f"({condition} ? {then} : {otherwise})"


def _all(parts: Sequence[str]) -> str:
    needed = [part for part in parts if part != _TRUE]
    if _FALSE in needed:
        return _FALSE
    return " && ".join(needed) if needed else _TRUE


def _not(part: str) -> str:
    return {_TRUE: _FALSE, _FALSE: _TRUE}.get(part, f"!({part})")


def _any(parts: Sequence[str]) -> str:
    possible = [part for part in dict.fromkeys(parts) if part != _FALSE]
    if _TRUE in possible or not possible:
        return _TRUE if possible else _FALSE
    return possible[0] if len(possible) == 1 else f"({' || '.join(possible)})"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
