"""A tree of an expression as a function of its input, with a budget, and the table of functions that it calls.

Every node becomes one Python function, so a tree is walked once, when it is compiled. An error is an exception; `&&`,
`||` and macros continue where the failed value is not needed, as CEL requires.

The table has the overloads of each function by name, each with its types and its implementation. A function whose first
parameter is `budget: Budget` gets the budget and spends what it makes itself. For all others the size of the arguments
is spent before the call, and that of the result after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from fairway.cel.tree import Call, Literal, Loop, MakeList, MakeMap, Name, Node, Select
from fairway.cel.values import (
    NOTHING,
    Budget,
    DefaultMap,
    EvaluationError,
    Failed,
    Implementation,
    OptionalValue,
    TypeValue,
    Uint,
    equal,
    key_of,
    keys,
    true_or_false,
    type_of,
    weight,
)

F = TypeVar("F", bound=Callable[..., Any])

_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "dyn": lambda value: True,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool | Uint),
    "uint": lambda value: isinstance(value, Uint),
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "list": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
    "optional": lambda value: isinstance(value, OptionalValue),
    "timestamp": lambda value: isinstance(value, datetime),
    "duration": lambda value: isinstance(value, timedelta),
}


class Overload(NamedTuple):
    parameters: tuple[str, ...]
    result: str
    member: bool
    call: Implementation
    spends: bool
    declared: bool
    """False for functions that the library declares itself."""


TABLE: dict[str, list[Overload]] = {}


def register_kind(name: str, python: type) -> None:
    """Registers a type that parameters may have."""
    _ACCEPTS[name] = lambda value: isinstance(value, python)


def function(
    name: str,
    parameters: str,
    result: str,
    *,
    member: bool = False,
    spends: bool = False,
    declared: bool = True,
) -> Callable[[F], F]:
    """Adds a function to the table; `parameters` are type names separated by spaces."""

    def put(call: F) -> F:
        made = Overload(tuple(parameters.split()), result, member, call, spends, declared)
        TABLE.setdefault(name, []).append(made)
        return call

    return put


def caller(name: str, member: bool, count: int) -> Callable[[Budget, list[Any]], Any] | None:
    """The implementation for this name and number of arguments; None if there is no such function."""
    overloads = [o for o in TABLE.get(name, ()) if o.member is member and len(o.parameters) == count]
    if not overloads:
        return None
    overloads.sort(key=lambda overload: overload.parameters.count("dyn"))
    checked = [(o, [_ACCEPTS[kind] for kind in o.parameters]) for o in overloads]

    def call(budget: Budget, arguments: list[Any]) -> Any:
        for overload, accepts in checked:
            if all(accept(value) for accept, value in zip(accepts, arguments, strict=True)):
                if overload.spends:
                    return overload.call(budget, *arguments)
                budget.spend_size(sum(map(weight, arguments)))
                found = overload.call(*arguments)
                budget.spend_size(weight(found))
                return found
        kinds = ", ".join(type_of(value).name for value in arguments)
        raise EvaluationError(f"no such overload: {name}({kinds})")

    return call


class Scope(NamedTuple):
    """The state of an evaluation: variables by name, and the budget."""

    variables: dict[str, Any]
    budget: Budget


Step = Callable[[Scope], Any]

_TYPE_NAMES = ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type")
CONSTANTS = {name: TypeValue(name) for name in (*_TYPE_NAMES, "google.protobuf.Timestamp", "google.protobuf.Duration")}


def build(node: Node) -> Step:
    """Raises ValueError for an unknown function."""
    match node:
        case Literal(value):
            return lambda frame: value
        case Name(name):
            return _name(name)
        case Select():
            return _select(node)
        case MakeList():
            return _list(node)
        case MakeMap():
            return _map(node)
        case Loop():
            return _loop(node)
    return _call(node)


def run(step: Step, variables: Mapping[str, Any], budget: Budget) -> Any:
    found = step(Scope({**CONSTANTS, **variables}, budget))
    if isinstance(found, Failed):
        raise found.error
    return found


def _name(name: str) -> Step:
    def get(frame: Scope) -> Any:
        frame.budget.spend()
        try:
            found = frame.variables[name]
        except KeyError:
            raise EvaluationError(f"no such variable: {name}") from None
        if isinstance(found, Failed):
            raise found.error
        return found

    return get


def _select(node: Select) -> Step:
    operand, field, test = build(node.operand), node.field, node.test

    def get(frame: Scope) -> Any:
        frame.budget.spend()
        found = operand(frame)
        if isinstance(found, OptionalValue):
            return _optional_field(found, field) if not test else _optional_field(found, field).there
        if not isinstance(found, dict):
            raise EvaluationError(f"a {type_of(found).name} has no field {field!r}")
        return field in found if test else look_up(found, field)

    return get


def _optional_field(found: OptionalValue, field: Any) -> OptionalValue:
    """A field of an optional value, if both are present; `a.?b` does the same for a plain value."""
    if not found.there:
        return NOTHING
    return optional_index(found.value, field)


def look_up(found: Any, key: Any) -> Any:
    if isinstance(found, dict):
        name = key_of(key)
        if name in found:
            value = found[name]
            if isinstance(value, Failed):
                raise value.error
            return value
        if isinstance(found, DefaultMap):
            return {}
        raise EvaluationError(f"no such key: {key!r:.80}")
    if isinstance(found, list):
        place = key if not isinstance(key, bool) and isinstance(key, int | float) and key == int(key) else None
        if place is None:
            raise EvaluationError(f"a list has no element {key!r:.80}")
        if 0 <= place < len(found):
            return found[int(place)]
        raise EvaluationError(f"index {int(place)} is out of range")
    raise EvaluationError(f"a {type_of(found).name} has no elements")


def optional_index(found: Any, key: Any) -> OptionalValue:
    if isinstance(found, OptionalValue):
        return _optional_field(found, key)
    if isinstance(found, dict):
        name = key_of(key)
        return OptionalValue(True, found[name]) if name in found else NOTHING
    if isinstance(found, list):
        inside = isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(found)
        return OptionalValue(True, found[key]) if inside else NOTHING
    raise EvaluationError(f"a {type_of(found).name} has no elements")


def _list(node: MakeList) -> Step:
    elements = [(build(element), index in node.optional) for index, element in enumerate(node.elements)]

    def make(frame: Scope) -> Any:
        frame.budget.spend(1 + len(elements))
        found = []
        for element, optional in elements:
            value = element(frame)
            if not optional:
                found.append(value)
            elif value.there:
                found.append(value.value)
        return found

    return make


def _map(node: MakeMap) -> Step:
    entries = [(build(key), build(value), optional) for key, value, optional in node.entries]

    def make(frame: Scope) -> Any:
        frame.budget.spend(1 + len(entries))
        found: dict[Any, Any] = {}
        for key, value, optional in entries:
            name, given = key_of(key(frame)), value(frame)
            if optional and not given.there:
                continue
            if name in found:
                raise EvaluationError("a key occurs twice in a map")
            found[name] = given.value if optional else given
        return found

    return make


def _loop(node: Loop) -> Step:
    """Errors of a step become values of the accumulator: later steps may make them irrelevant."""
    over, start, condition = build(node.over), build(node.start), build(node.condition)
    step, result = build(node.step), build(node.result)
    variable, result_name = node.variable, node.result_name

    def go(frame: Scope) -> Any:
        elements = over(frame)
        if isinstance(elements, dict):
            elements = keys(elements)
        if not isinstance(elements, list):
            raise EvaluationError(f"a {type_of(elements).name} has no elements")
        variables = dict(frame.variables)
        inner = Scope(variables, frame.budget)
        variables[result_name] = _tried(start, frame)
        for element in elements:
            frame.budget.spend()
            variables[variable] = element
            if _tried(condition, inner) is False:
                break
            variables[result_name] = _tried(step, inner)
        variables.pop(variable, None)
        return result(inner)

    return go


def _tried(step: Step, frame: Scope) -> Any:
    try:
        return step(frame)
    except EvaluationError as error:
        return Failed(error)


def _call(node: Call) -> Step:
    special = _SPECIAL.get(node.function)
    if special is not None and node.target is None:
        return special(list(map(build, node.arguments)))
    if isinstance(node.target, Name | Select) and (name := _qualified(node.target)) is not None:
        namespaced = caller(f"{name}.{node.function}", False, len(node.arguments))
        if namespaced is not None:
            return _with(namespaced, list(map(build, node.arguments)))
    if node.function in ("or", "orValue") and node.target is not None and len(node.arguments) == 1:
        return _or_else(build(node.target), build(node.arguments[0]), node.function == "orValue")
    targets = [] if node.target is None else [build(node.target)]
    arguments = [*targets, *map(build, node.arguments)]
    call = caller(node.function, node.target is not None, len(arguments))
    if call is None:
        raise ValueError(f"there is no function {node.function}")
    return _with(call, arguments)


def _qualified(node: Node) -> str | None:
    match node:
        case Name(name):
            return name
        case Select(operand, field, False) if (above := _qualified(operand)) is not None:
            return f"{above}.{field}"
    return None


def _with(call: Callable[[Budget, list[Any]], Any], arguments: list[Step]) -> Step:
    def go(frame: Scope) -> Any:
        frame.budget.spend()
        return call(frame.budget, [argument(frame) for argument in arguments])

    return go


# -- what does not need all its arguments ------------------------------------------------------------------


def _either(steps: list[Step], decides: bool) -> Step:
    """`||` (decided by true) and `&&` (decided by false): one side may fail if the other decides."""
    left, right = steps

    def go(frame: Scope) -> Any:
        frame.budget.spend()
        error = None
        for side in (left, right):
            try:
                if true_or_false(side(frame)) is decides:
                    return decides
            except EvaluationError as failed:
                error = error or failed
        if error is not None:
            raise error
        return not decides

    return go


def _or_else(target: Step, other: Step, value: bool) -> Step:
    """`or` and `orValue` of an optional value: the alternative is evaluated only if it is absent."""

    def go(frame: Scope) -> Any:
        frame.budget.spend()
        found = target(frame)
        if not isinstance(found, OptionalValue):
            raise EvaluationError(f"a {type_of(found).name} is not an optional value")
        if not found.there:
            return other(frame)
        return found.value if value else found

    return go


def _choice(steps: list[Step]) -> Step:
    condition, then, otherwise = steps

    def go(frame: Scope) -> Any:
        frame.budget.spend()
        return then(frame) if true_or_false(condition(frame)) else otherwise(frame)

    return go


def _not_false(steps: list[Step]) -> Step:
    (condition,) = steps
    return lambda frame: _tried(condition, frame) is not False


def _same(steps: list[Step], wanted: bool) -> Step:
    left, right = steps

    def go(frame: Scope) -> Any:
        one, other = left(frame), right(frame)
        frame.budget.spend_size(min(weight(one), weight(other)))
        return equal(one, other) is wanted

    return go


_SPECIAL: dict[str, Callable[[list[Step]], Step]] = {
    "_||_": lambda steps: _either(steps, True),
    "_&&_": lambda steps: _either(steps, False),
    "_?_:_": _choice,
    "_==_": lambda steps: _same(steps, True),
    "_!=_": lambda steps: _same(steps, False),
    "@not_strictly_false": _not_false,
    "__not_strictly_false__": _not_false,
}
