"""A small YAML document as plain values that remember their line, for files a person writes by hand.

The reader works on the parser's events and keeps count as it goes, so that a file made to hurt (deep nesting,
aliases that multiply, giant numbers) ends in a fault with a line, not in memory. Tags and merge keys are not
read: what a file means should be visible in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from fairway.errors import Problem

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 20_000
"""Values in one document, those that aliases repeat counted each time."""

MAX_NUMBER = 64
"""Characters of a number."""

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.SafeLoader("")
_SCALARS = {
    "tag:yaml.org,2002:null": _RESOLVER.construct_yaml_null,
    "tag:yaml.org,2002:bool": _RESOLVER.construct_yaml_bool,
    "tag:yaml.org,2002:int": _RESOLVER.construct_yaml_int,
    "tag:yaml.org,2002:float": _RESOLVER.construct_yaml_float,
}

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Marked:
    """A value and its line; an entry of a mapping has the line of its key."""

    line: int
    value: Scalar | tuple[Marked, ...] | dict[str, Marked]
    size: int = 1

    def plain(self) -> object:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: entry.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value


class _Unreadable(Exception):  # noqa: N818 - it never leaves this module
    """Reading cannot go on after this."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read_marked(text: str, source: str, problems: list[Problem]) -> Marked | None:
    """The only document of `text`; None, and a fault added, where it cannot be read."""
    try:
        if len(text) > MAX_CHARACTERS:
            raise _Unreadable(0, f"{len(text)} characters, expected at most {MAX_CHARACTERS}")
        return _YamlReader(text, source, problems).document()
    except _Unreadable as problem:
        problems.append(Problem(source, problem.line, "", problem.message))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems.append(Problem(source, mark.line + 1 if mark else 0, "", f"not YAML: {error.problem}"))
    except yaml.YAMLError as error:
        problems.append(Problem(source, 0, "", f"not YAML: {str(error).splitlines()[0]}"))
    return None


class _YamlReader:
    """Builds the value from the parser's events, one event at a time."""

    def __init__(self, text: str, source: str, problems: list[Problem]) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_Loader)
        self._source = source
        self._problems = problems
        self._anchors: dict[str, Marked] = {}
        self._values = 0

    def document(self) -> Marked:
        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _Unreadable(1, "the file is empty")
        root = self._value(next(self._events), 0)
        next(self._events)  # the document's end
        event = next(self._events)
        if isinstance(event, yaml.DocumentStartEvent):
            raise _Unreadable(_line(event), "a second document starts here, expected one")
        return root

    def _value(self, event: yaml.Event, depth: int) -> Marked:
        assert isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise _Unreadable(_line(event), f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._counted(self._alias(event))
        made = self._made(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = made
        return made

    def _made(self, event: yaml.Event, depth: int) -> Marked:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise _Unreadable(_line(event), f"the tag {tag} is not read, expected a plain value")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, depth)
        assert isinstance(event, yaml.ScalarEvent)
        return self._counted(Marked(_line(event), _scalar(event)))

    def _mapping(self, start: yaml.Event, depth: int) -> Marked:
        entries: dict[str, Marked] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _Unreadable(_line(event), "this key is not a text, expected a name")
            key, line = event.value, _line(event)
            value = self._value(next(self._events), depth + 1)
            if key in entries:
                message = f"the key {key!r} is here twice, first in line {entries[key].line}"
                self._problems.append(Problem(self._source, line, "", message))
            else:
                entries[key] = Marked(line, value.value, value.size)
        return self._counted(Marked(_line(start), entries, _sum(entries.values())), 1)

    def _sequence(self, start: yaml.Event, depth: int) -> Marked:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return self._counted(Marked(_line(start), tuple(items), _sum(items)), 1)

    def _alias(self, event: yaml.AliasEvent) -> Marked:
        if event.anchor not in self._anchors:
            raise _Unreadable(_line(event), f"the alias *{event.anchor} has no anchor before it")
        return self._anchors[event.anchor]

    def _counted(self, made: Marked, new: int | None = None) -> Marked:
        self._values += made.size if new is None else new
        if self._values > MAX_VALUES:
            raise _Unreadable(made.line, f"more than {MAX_VALUES} values, aliases counted each time")
        return made


def _sum(values: Iterable[Marked]) -> int:
    return 1 + sum(value.size for value in values)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    """The value as YAML 1.1 reads it; times and dates stay text."""
    if not event.implicit[0]:
        return str(event.value)
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
    construct = _SCALARS.get(tag)
    if construct is None:
        return str(event.value)
    if len(event.value) > MAX_NUMBER:
        raise _Unreadable(_line(event), f"a number of {len(event.value)} characters, expected at most {MAX_NUMBER}")
    value: Scalar = construct(yaml.ScalarNode(tag, event.value))
    return value
