"""Which line of a file is a place of an object on? Asked only when there is something to complain about.

An entry of a mapping is on the line of its key; what is missing is where its parent is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from fairway.api.shape import Path

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BETWEEN = re.compile(rb"[\s,]*")
_COLON = re.compile(rb"\s*:\s*")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

_Span = tuple[int, int, int]
"""Where an entry, its value, and its value's end are, in bytes."""


@dataclass(slots=True)
class _Mark:
    """A value's line, and those of the entries in it."""

    line: int
    entries: dict[str | int, _Mark] = field(default_factory=dict)


class YamlLines:
    """Lines in a YAML text, as far as it is known to be well formed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: Any = None
        self._anchors: dict[str, _Mark] = {}
        self._documents: list[_Mark] = []

    def line(self, document: int, path: Path) -> int:
        """0 where the text cannot be read as far as that: the parser looks ahead, and may stop at what comes next."""
        try:
            self._read(document)
        except yaml.YAMLError:
            if len(self._documents) <= document:
                return 0
        mark = self._documents[document]
        for step in path:
            inner = mark.entries.get(step)
            if inner is None:
                break
            mark = inner
        return mark.line

    def _read(self, document: int) -> None:
        if self._next is None:
            self._next = _LOADER(self._text).get_event
            self._next()
        while len(self._documents) <= document:
            self._next()
            self._documents.append(self._mark(self._next()))
            self._next()

    def _mark(self, event: Any) -> _Mark:
        if isinstance(event, yaml.AliasEvent):
            return self._anchors[str(event.anchor)]
        mark = _Mark(event.start_mark.line + 1)
        if isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(item := self._next(), yaml.SequenceEndEvent):
                mark.entries[len(mark.entries)] = self._mark(item)
        elif isinstance(event, yaml.MappingStartEvent):
            self._mark_entries(mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = mark
        return mark

    def _mark_entries(self, mark: _Mark) -> None:
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            value = self._mark(self._next())
            if key.value == "<<":
                merged = value.entries
                for mapping in merged.values() if 0 in merged else [value]:
                    mark.entries = {**mapping.entries, **mark.entries}
            else:
                mark.entries.setdefault(key.value, _Mark(key.start_mark.line + 1, value.entries))


class JsonLines:
    """Lines in a JSON text that is known to be well formed.

    Each level is cut into its entries by the decoder, so even a place far down a list of thousands costs a
    scan or two of the text and not a walk through its characters.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._levels: dict[tuple[int, int], Mapping[str | int, _Span]] = {}

    def line(self, start: int, end: int, path: Path) -> int:
        """The line of `path` in the document at these bytes."""
        entry = start
        for step in path:
            span = self._level(start, end).get(step)
            if span is None:
                break
            entry, start, end = span
        return self._data.count(b"\n", 0, entry) + 1

    def _level(self, start: int, end: int) -> Mapping[str | int, _Span]:
        if (start, end) not in self._levels:
            self._levels[start, end] = self._cut(start, end)
        return self._levels[start, end]

    def _cut(self, start: int, end: int) -> Mapping[str | int, _Span]:
        text = memoryview(self._data)[start:end]
        match self._data[start : start + 1]:
            case b"{":
                entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
                return self._members(entries, start + 1)
            case b"[":
                return self._items(msgspec.json.decode(text, type=list[msgspec.Raw]), start + 1)
        return {}

    def _items(self, items: list[msgspec.Raw], at: int) -> Mapping[str | int, _Span]:
        spans: dict[str | int, _Span] = {}
        for index, item in enumerate(items):
            at = self._after(_BETWEEN, at)
            spans[index] = at, at, at + len(memoryview(item))
            at = spans[index][2]
        return spans

    def _members(self, members: Mapping[str, msgspec.Raw], at: int) -> Mapping[str | int, _Span]:
        """A key that stands twice leaves fewer members than there are: those after it are not found."""
        spans: dict[str | int, _Span] = {}
        for key, value in members.items():
            entry = self._after(_BETWEEN, at)
            key_end = self._after(_STRING, entry)
            at = self._after(_COLON, key_end)
            if msgspec.json.decode(self._data[entry:key_end]) != key:
                break
            spans[key] = entry, at, at + len(memoryview(value))
            at = spans[key][2]
        return spans

    def _after(self, pattern: re.Pattern[bytes], at: int) -> int:
        found = pattern.match(self._data, at)
        return found.end() if found else at
