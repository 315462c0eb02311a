"""The table of functions: under each name its overloads, each with its types and what it does.

A function whose first parameter is `budget: Budget` is given the budget and spends what it makes itself. For all
others the size of the arguments is spent before the call, and that of the result after it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from fairway.cel.errors import Budget, EvaluationError
from fairway.cel.values import Implementation, OptionalValue, Uint, type_of, weight

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
    """False for what the library declares itself."""


TABLE: dict[str, list[Overload]] = {}


def register_kind(name: str, python: type) -> None:
    """A type of a library that parameters may have."""
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
    """Put a function into the table; `parameters` are names of types with blanks between them."""

    def put(call: F) -> F:
        made = Overload(tuple(parameters.split()), result, member, call, spends, declared)
        TABLE.setdefault(name, []).append(made)
        return call

    return put


def caller(name: str, member: bool, count: int) -> Callable[[Budget, list[Any]], Any] | None:
    """What a call by this name with so many arguments does; None if there is no such function."""
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
