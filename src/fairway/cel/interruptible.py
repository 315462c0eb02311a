"""The same evaluation as in `machine`, in parts: it can stop at each iteration of a loop and go on later.

What an expression costs beyond its length, it costs in loops (`cel.bind` is one, too), so all without a loop inside is
evaluated at once, by the functions of `machine`. Where a node needs the values of all its parts, the parts with loops
are evaluated first, as variables of the rest. `&&`, `||`, `?:`, `or` and loops do not need all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

from fairway.cel.machine import CONSTANTS, Scope, build
from fairway.cel.tree import Call, Loop, MakeList, MakeMap, Name, Node, Select, children
from fairway.cel.values import Budget, EvaluationError, Failed, OptionalValue, keys, true_or_false, type_of

Evaluating = Generator[None, None, Any]
"""Yields where it may be interrupted; returns the value."""
Steps = Callable[[Scope], Evaluating]

_DECIDING = {"_||_": True, "_&&_": False}
_NOT_FALSE = ("@not_strictly_false", "__not_strictly_false__")


def start(node: Node, variables: Mapping[str, Any], budget: Budget) -> Evaluating:
    value = yield from _steps(node)(Scope({**CONSTANTS, **variables}, budget))
    if isinstance(value, Failed):
        raise value.error
    return value


def _has_loop(node: Node) -> bool:
    return isinstance(node, Loop) or any(map(_has_loop, children(node)))


def _steps(node: Node) -> Steps:
    if not _has_loop(node):
        step = build(node)

        def at_once(scope: Scope) -> Evaluating:
            yield from ()
            return step(scope)

        return at_once
    match node:
        case Loop():
            return _loop(node)
        case Call(None, function, (left, right)) if function in _DECIDING:
            return _either(_steps(left), _steps(right), _DECIDING[function])
        case Call(None, "_?_:_", (condition, then, otherwise)):
            return _choice(_steps(condition), _steps(then), _steps(otherwise))
        case Call(None, function, (condition,)) if function in _NOT_FALSE:
            return _not_false(_steps(condition))
        case Call(target, ("or" | "orValue") as function, (other,)) if target is not None:
            return _or_else(_steps(target), _steps(other), function == "orValue")
    return _strict(node)


def _loop(node: Loop) -> Steps:
    over, begin, condition = _steps(node.over), _steps(node.start), _steps(node.condition)
    step, result = _steps(node.step), _steps(node.result)

    def go(scope: Scope) -> Evaluating:
        elements = yield from over(scope)
        if isinstance(elements, dict):
            elements = keys(elements)
        if not isinstance(elements, list):
            raise EvaluationError(f"a {type_of(elements).name} has no elements")
        variables = dict(scope.variables)
        inner = Scope(variables, scope.budget)
        variables[node.result_name] = yield from _tried(begin, scope)
        for element in elements:
            scope.budget.spend()
            yield
            variables[node.variable] = element
            if (yield from _tried(condition, inner)) is False:
                break
            variables[node.result_name] = yield from _tried(step, inner)
        variables.pop(node.variable, None)
        yield
        return (yield from result(inner))

    return go


def _tried(steps: Steps, scope: Scope) -> Evaluating:
    try:
        return (yield from steps(scope))
    except EvaluationError as error:
        return Failed(error)


def _either(left: Steps, right: Steps, decides: bool) -> Steps:
    def go(scope: Scope) -> Evaluating:
        scope.budget.spend()
        error = None
        for side in (left, right):
            try:
                if true_or_false((yield from side(scope))) is decides:
                    return decides
            except EvaluationError as failed:
                error = error or failed
        if error is not None:
            raise error
        return not decides

    return go


def _choice(condition: Steps, then: Steps, otherwise: Steps) -> Steps:
    def go(scope: Scope) -> Evaluating:
        scope.budget.spend()
        chosen = then if true_or_false((yield from condition(scope))) else otherwise
        return (yield from chosen(scope))

    return go


def _not_false(condition: Steps) -> Steps:
    def go(scope: Scope) -> Evaluating:
        return (yield from _tried(condition, scope)) is not False

    return go


def _or_else(target: Steps, other: Steps, gives_value: bool) -> Steps:
    def go(scope: Scope) -> Evaluating:
        scope.budget.spend()
        found = yield from target(scope)
        if not isinstance(found, OptionalValue):
            raise EvaluationError(f"a {type_of(found).name} is not an optional value")
        if not found.there:
            return (yield from other(scope))
        return found.value if gives_value else found

    return go


def _strict(node: Node) -> Steps:
    parts = {f"\0{place}": child for place, child in enumerate(children(node)) if _has_loop(child)}
    names = {id(child): Name(name) for name, child in parts.items()}
    rest = build(_with_children(node, lambda child: names.get(id(child), child)))
    first = {name: _steps(child) for name, child in parts.items()}

    def go(scope: Scope) -> Evaluating:
        variables = dict(scope.variables)
        for name, steps in first.items():
            variables[name] = yield from steps(scope)
        return rest(Scope(variables, scope.budget))

    return go


def _with_children(node: Node, other: Callable[[Node], Node]) -> Node:
    match node:
        case Select(operand):
            return replace(node, operand=other(operand))
        case Call(target, _, arguments):
            return replace(node, target=target and other(target), arguments=tuple(map(other, arguments)))
        case MakeList(elements):
            return replace(node, elements=tuple(map(other, elements)))
        case MakeMap(entries):
            return replace(node, entries=tuple((other(key), other(value), opt) for key, value, opt in entries))
    return node
