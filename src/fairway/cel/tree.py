"""A checked expression as a tree, read from the bytes in which the library returns it (protocol buffers), and the parts
of its input that it can read.

Two inputs that agree in these parts give the same result, so an expression is evaluated once for all of them. A part is
a path: a variable, and the keys that are looked up in it one after the other. `device.driver` has one step,
`device.attributes["gpu.example.com"].model` three. A key may be the value of another variable
(`device.attributes[device.driver]`); any other computed key ends the path: everything below may be read. A path that is
too short costs evaluations; one that is too long would give wrong results.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairway.cel.values import Uint


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a map; with `test`, whether it is present."""

    operand: Node
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """`target` is the receiver of a member function."""

    target: Node | None
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MakeList:
    elements: tuple[Node, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class MakeMap:
    """Key, value and whether the value is optional."""

    entries: tuple[tuple[Node, Node, bool], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """What macros such as `all` and `map` expand to."""

    variable: str
    over: Node
    result_name: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node = Literal | Name | Select | Call | MakeList | MakeMap | Loop

_Fields = dict[int, list[Any]]


def read(serialized: bytes) -> Node:
    """The tree of a checked expression, as `Expression.serialize` writes it."""
    checked = _message(_message(serialized)[2][0])
    names = dict[int, str]()
    for entry in map(_message, checked.get(2, [])):
        reference = _message(entry.get(2, [b""])[0])
        if 1 in reference and 3 not in reference:
            names[entry.get(1, [0])[0]] = reference[1][0].decode()
    return _NodeReader(names).node(checked[4][0])


class _NodeReader:
    """`names` are the variables that nodes refer to, by the number of the node: `device.driver` is one."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names

    def node(self, data: bytes) -> Node:
        fields = _message(data)
        if (name := self._names.get(fields.get(2, [0])[0])) is not None and (4 in fields or 5 in fields):
            return Name(name)
        for number, read_as in _KINDS.items():
            if number in fields:
                found: Node = read_as(self, _message(fields[number][0]))
                return found
        raise ValueError("an expression of an unknown kind")

    def _nodes(self, datas: list[bytes]) -> tuple[Node, ...]:
        return tuple(map(self.node, datas))

    def _literal(self, fields: _Fields) -> Node:
        for number, convert in _CONSTANTS.items():
            if number in fields:
                return Literal(convert(fields[number][0]))
        raise ValueError("a literal of an unknown type")

    def _name(self, fields: _Fields) -> Node:
        return Name(_text(fields, 1))

    def _select(self, fields: _Fields) -> Node:
        return Select(self.node(fields[1][0]), _text(fields, 2), bool(fields.get(3, [0])[0]))

    def _call(self, fields: _Fields) -> Node:
        target = self.node(fields[1][0]) if 1 in fields else None
        return Call(target, _text(fields, 2), self._nodes(fields.get(3, [])))

    def _list(self, fields: _Fields) -> Node:
        optional = {index for part in fields.get(2, []) for index in _packed(part)}
        return MakeList(self._nodes(fields.get(1, [])), frozenset(optional))

    def _map(self, fields: _Fields) -> Node:
        if fields.get(1):
            raise ValueError("messages cannot be made in an expression")
        entries = map(_message, fields.get(2, []))
        return MakeMap(
            tuple((self.node(entry[3][0]), self.node(entry[4][0]), bool(entry.get(5, [0])[0])) for entry in entries)
        )

    def _loop(self, fields: _Fields) -> Node:
        if 8 in fields:
            raise ValueError("macros of two variables are not supported")
        over, start, condition, step, result = (self.node(fields[number][0]) for number in (2, 4, 5, 6, 7))
        return Loop(_text(fields, 1), over, _text(fields, 3), start, condition, step, result)


_KINDS = {
    3: _NodeReader._literal,
    4: _NodeReader._name,
    5: _NodeReader._select,
    6: _NodeReader._call,
    7: _NodeReader._list,
    8: _NodeReader._map,
    9: _NodeReader._loop,
}


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_CONSTANTS: dict[int, Any] = {
    1: lambda _: None,
    2: bool,
    3: _signed,
    4: Uint,
    5: lambda data: struct.unpack("<d", data)[0],
    6: bytes.decode,
    7: bytes,
}


def _text(fields: _Fields, number: int) -> str:
    found: str = fields.get(number, [b""])[0].decode()
    return found


def _message(data: bytes) -> _Fields:
    """The fields of one message by number: numbers, or the bytes of nested messages."""
    fields: _Fields = {}
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, place = _varint(data, place)
        else:
            size, place = (8, place) if kind == 1 else (4, place) if kind == 5 else _varint(data, place)
            value, place = data[place : place + size], place + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _packed(part: Any) -> Iterator[int]:
    if isinstance(part, int):
        yield part
        return
    place = 0
    while place < len(part):
        value, place = _varint(part, place)
        yield value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7


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
    """The path of a chain of fields and indexes; None if it is not one."""
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
