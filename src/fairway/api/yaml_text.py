"""YAML into plain data, as kubectl reads it, on guard against files made to hurt.

Plain scalars follow the parser behind kubectl, so that a file means here what it means there: `yes`, `no`,
`on`, `off` are booleans, `0644` is octal, `1e3` is a number, times stay text. Keys are always text. A key
that stands twice is an error, as in the API server's strict mode. Aliases and merge keys are followed; what
they would multiply is counted while the document is built, so an exploding file costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from fairway.api.json_text import MAX_DIGITS, LongNumber, floating

MAX_DEPTH = 100
"""Levels of nesting: three times what the deepest Kubernetes object has."""

MAX_ALIASED = 100_000
"""Values that the aliases of one document may add to it."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({"!", _TAG + "str", _TAG + "binary", _TAG + "timestamp"})
_PLAIN_TAGS = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))
_COLLECTION_TAGS = frozenset(_TAG + name for name in ("map", "seq", "omap", "set"))

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"), False),
}
_INTEGER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)


class YamlProblem(Exception):  # noqa: N818 - it is always turned into a problem
    """The rest of the text cannot be read."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class YamlReader:
    """Builds each document from the parser's events; `repeated` collects (line, message) of repeated keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.repeated: list[tuple[int, str]] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._values = 0
        self._aliased = 0

    def documents(self) -> Iterator[object]:
        """The documents in order; YamlProblem where the text stops making sense."""
        try:
            self._next = _LOADER(self._text).get_event
            self._next()
            while not isinstance(self._next(), yaml.StreamEndEvent):
                self._anchors, self._values, self._aliased = {}, 0, 0
                yield self._value(self._next(), 0)
                self._next()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = error.problem or error.context
            raise YamlProblem(mark.line + 1 if mark else 0, f"not YAML: {problem}") from None
        except yaml.reader.ReaderError as error:
            raise self._unprintable(error) from None
        except yaml.YAMLError as error:
            raise YamlProblem(0, f"not YAML: {' '.join(str(error).split())}") from None

    def _unprintable(self, error: yaml.reader.ReaderError) -> YamlProblem:
        """A character that YAML does not allow, and its line. The parser's own count is in characters or in bytes."""
        found = yaml.reader.Reader.NON_PRINTABLE.search(self._text)
        if found is None:
            return YamlProblem(0, f"not YAML: {error.reason}")
        code = ord(found[0])
        what = "control character" if code < 0xA0 else "character"
        line = self._text.count("\n", 0, found.start()) + 1
        return YamlProblem(line, f"not YAML: the {what} U+{code:04X} is not allowed in it")

    def _value(self, event: Any, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._values
        self._values += 1
        if isinstance(event, yaml.ScalarEvent):
            value: object = _scalar(event)
        elif depth >= MAX_DEPTH:
            raise YamlProblem(_line(event), f"nested deeper than {MAX_DEPTH} levels")
        else:
            if event.tag is not None and event.tag not in _COLLECTION_TAGS:
                raise _unknown_tag(event)
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            value = self._mapping(depth) if is_mapping else self._sequence(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._values - before
        return value

    def _alias(self, event: Any) -> object:
        if event.anchor not in self._anchors:
            raise YamlProblem(_line(event), f"the alias *{event.anchor} has no anchor before it")
        value, size = self._anchors[event.anchor]
        self._values += size
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise YamlProblem(_line(event), f"aliases add more than {MAX_ALIASED} values to the document")
        return value

    def _sequence(self, depth: int) -> list[object]:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, object]:
        entries: dict[str, object] = {}
        merged: list[object] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlProblem(_line(event), "the key is not a scalar, expected a name")
            value = self._value(self._next(), depth + 1)
            if event.value == "<<" and event.implicit[0]:
                merged += _mergeable(value, event)
            elif event.value in entries:
                self.repeated.append((_line(event), f"the key {event.value!r} is here twice, expected once"))
            else:
                entries[event.value] = value
        for mapping in merged:
            entries = {**mapping, **entries}  # type: ignore[dict-item]
        return entries


def _mergeable(value: object, event: Any) -> list[object]:
    """The mappings that a merge key brings in; of two that have a key, the first counts."""
    mappings = value if isinstance(value, list) else [value]
    if not all(isinstance(mapping, dict) for mapping in mappings):
        raise YamlProblem(_line(event), "the merge key << has no mapping, expected one or a list of them")
    return mappings


def _scalar(event: Any) -> object:
    text: str = event.value
    if event.tag is None:
        return _plain(text) if event.implicit[0] else text
    if event.tag in _TEXT_TAGS:
        return text
    if event.tag in _PLAIN_TAGS:
        return _plain(text)
    raise _unknown_tag(event)


def _plain(text: str) -> object:
    """The value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    bare = text.replace("_", "")
    if _INTEGER.fullmatch(bare):
        return LongNumber(text) if len(bare) > MAX_DIGITS else _integer(bare)
    return floating(bare) if _FLOAT.fullmatch(bare) else text


def _integer(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-")
    if digits[0] == "0" and digits.isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _unknown_tag(event: Any) -> YamlProblem:
    return YamlProblem(_line(event), f"the tag {event.tag} is not read, expected a plain value")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
