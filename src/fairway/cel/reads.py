"""Which parts of its input an expression can read: two inputs that agree in these give the same answer.

A part is a path: a variable, and the keys that are looked up in it one after the other. `device.driver` is one of one
step, `device.attributes["gpu.example.com"].model` one of three. A key may be the value of another variable
(`device.attributes[device.driver]`); any other key that is not written out ends the path: all that is below may be
read. A path that is too short costs evaluations; one that is too long would give wrong answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from fairway.cel.nodes import Call, Literal, Loop, MakeList, MakeMap, Name, Node, Select


class ValueOf(NamedTuple):
    """A key that is the value of a variable."""

    variable: str


Path = tuple[str | ValueOf, ...]


def reads(node: Node, variables: Collection[str]) -> frozenset[Path]:
    return frozenset(_reads(node, variables))


def _reads(node: Node, variables: Collection[str]) -> Iterator[Path]:
    path = _path(node, variables)
    if path is not None:
        yield path
        yield from ((key.variable,) for key in path if isinstance(key, ValueOf))
        return
    for child in children(node):
        yield from _reads(child, variables)


def _path(node: Node, variables: Collection[str]) -> Path | None:
    """The path that a chain of fields and indexes is; None if it is no such chain."""
    key: str | ValueOf
    match node:
        case Name(name):
            return (name,) if name in variables else None
        case Select(operand, field):
            key = field
        case Call(None, "_[_]", (operand, Literal(str(text)))) | Call(None, "@in", (Literal(str(text)), operand)):
            key = text
        case Call(None, "_[_]", (operand, Name(name))) if name in variables:
            key = ValueOf(name)
        case _:
            return None
    above = _path(operand, variables)
    return None if above is None else (*above, key)


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Select(operand):
            return (operand,)
        case Call(target, _, arguments):
            return arguments if target is None else (target, *arguments)
        case MakeList(elements):
            return elements
        case MakeMap(entries):
            return tuple(part for key, value, _ in entries for part in (key, value))
        case Loop(_, over, _, start, condition, step, result):
            return (over, start, condition, step, result)
    return ()
