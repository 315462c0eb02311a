"""Text into plain data, with the line of every value: YAML as kubectl reads it, and JSON cut into documents.

YAML is read by one class for manifests and for files that people write by hand, so a file means the same everywhere.
Plain scalars follow the parser behind kubectl: `yes`, `no`, `on`, `off` are booleans, `0644` is octal, `1e3` is a
number, times stay text. Keys are always text. A key that stands twice is an error, as in the API server's strict mode.
Aliases and merge keys are followed. The reader works on the parser's events and counts what aliases multiply while it
builds, so a file made to hurt (deep nesting, aliases of aliases, giant numbers) ends in an error with a line and not in
memory.

Lines are computed on demand, by a second pass: most texts have no error, and a tree of lines would take more memory
than the data. JSON is cut into documents and entries by the decoder without building what is inside them. Numbers that
are too long to compute with are kept as text (`LongNumber`), so that the field that has one can be named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from typing import Any

import msgspec
import yaml

Path = tuple[str | int, ...]
"""Where in an object: field names, map keys and list positions."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_BYTE = re.compile(r"(.*) \(byte (\d+)\)")
_MALFORMED = "JSON is malformed: "
TOO_DEEP = "nested too deeply, expected an object as Kubernetes has them"


class JsonProblem(Exception):  # noqa: N818 - it is always turned into a problem
    """The text is not JSON from this line on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each document of a text with several documents begins and ends.

    Only for texts that are not a single document: it is slow, but its errors say what was expected where. Bytes are
    decoded as single characters, which does not change where strings and brackets end.
    """
    text = data.decode("latin-1")
    decoder = JSONDecoder(parse_int=str, parse_float=str)
    at = _after_blanks(text, 0)
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except JSONDecodeError as error:
            raise JsonProblem(error.lineno, f"not JSON: {_lower(error.msg)}") from None
        except RecursionError:
            raise JsonProblem(text.count("\n", 0, at) + 1, TOO_DEEP) from None
        yield at, end
        at = _after_blanks(text, end)


def first_byte(data: bytes) -> int:
    """The position of the first byte after white space."""
    return len(data) - len(data.lstrip(b" \t\r\n"))


def problem(data: bytes, error: msgspec.DecodeError, line: int) -> JsonProblem:
    """Why the decoder refused a document that looked well formed; it begins at `line`."""
    if found := _BYTE.fullmatch(str(error)):
        return JsonProblem(line + data.count(b"\n", 0, int(found[2])), f"not JSON: {found[1].removeprefix(_MALFORMED)}")
    return JsonProblem(line, f"not JSON: {error}")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


MAX_DIGITS = 64
"""Maximum characters of a number that is converted; numbers in Kubernetes objects need nineteen."""


class LongNumber(str):
    """The text of a number that is too long, or too large for a float. Text fields refuse it."""

    __slots__ = ()


def integer(text: str) -> int | LongNumber:
    """A decimal integer as JSON writes it."""
    return LongNumber(text) if len(text) > MAX_DIGITS else int(text)


def floating(text: str) -> float | LongNumber:
    """A number with a point or an exponent."""
    number = float(text)
    return LongNumber(text) if number in (float("inf"), float("-inf")) else number


MAX_DEPTH = 100
"""Maximum levels of nesting: three times those of the deepest Kubernetes object."""

MAX_ALIASED = 100_000
"""Maximum number of values that the aliases of one document may add to it."""

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
_LETTERS = frozenset("yYnN")
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

    def __init__(self, text: str, letters: bool = True) -> None:
        """With `letters`, a lone `y` or `n` is a boolean, as for kubectl."""
        self._text = text
        self._texts = frozenset() if letters else _LETTERS
        self.line = 1
        """Where the current document begins."""
        self.repeated: list[tuple[int, str]] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._values = 0
        self._aliased = 0

    def documents(self) -> Iterator[object]:
        """The documents in order; YamlProblem where the text is not valid."""
        try:
            self._next = _LOADER(self._text).get_event
            self._next()
            while not isinstance(start := self._next(), yaml.StreamEndEvent):
                self.line = _line(start)
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
        """The character that YAML does not allow, and its line. The parser's own position is in characters or
        in bytes.
        """
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
            value: object = event.value if event.value in self._texts else _scalar(event)
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
        events: dict[str, Any] = {}
        merged: list[object] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlProblem(_line(event), "the key is not a scalar, expected a name")
            value = self._value(self._next(), depth + 1)
            if event.value == "<<" and event.implicit[0]:
                merged += _mergeable(value, event)
            elif event.value in entries:
                said = f"the key {event.value!r} is here twice, first in line {_line(events[event.value])}"
                self.repeated.append((_line(event), said))
            else:
                entries[event.value] = value
                events[event.value] = event
        for mapping in merged:
            entries = {**mapping, **entries}  # type: ignore[dict-item]
        return entries


def _mergeable(value: object, event: Any) -> list[object]:
    """The mappings of a merge key; if two have the same key, the first wins."""
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
    return YamlProblem(_line(event), f"the tag {event.tag} is not supported, expected a plain value")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


_BETWEEN = re.compile(rb"[\s,]*")
_COLON = re.compile(rb"\s*:\s*")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

_Span = tuple[int, int, int]
"""The positions, in bytes, of an entry, its value, and the end of its value."""


@dataclass(slots=True)
class Mark:
    """The line of a value, and the lines of its entries."""

    line: int
    entries: dict[str | int, Mark] = field(default_factory=dict)


class YamlLines:
    """Lines in a YAML text, as far as it is valid."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: Any = None
        self._anchors: dict[str, Mark] = {}
        self._documents: list[Mark] = []

    def line(self, document: int, path: Path) -> int:
        """0 where the text cannot be read that far: the parser looks ahead, and may stop at what comes next."""
        try:
            mark = self.mark(document)
        except yaml.YAMLError:
            return 0
        for step in path:
            inner = mark.entries.get(step)
            if inner is None:
                break
            mark = inner
        return mark.line

    def mark(self, document: int) -> Mark:
        """The lines of a whole document."""
        try:
            self._read(document)
        except yaml.YAMLError:
            if len(self._documents) <= document:
                raise
        return self._documents[document]

    def _read(self, document: int) -> None:
        if self._next is None:
            self._next = _LOADER(self._text).get_event
            self._next()
        while len(self._documents) <= document:
            self._next()
            self._documents.append(self._mark(self._next()))
            self._next()

    def _mark(self, event: Any) -> Mark:
        if isinstance(event, yaml.AliasEvent):
            return self._anchors[str(event.anchor)]
        mark = Mark(event.start_mark.line + 1)
        if isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(item := self._next(), yaml.SequenceEndEvent):
                mark.entries[len(mark.entries)] = self._mark(item)
        elif isinstance(event, yaml.MappingStartEvent):
            self._mark_entries(mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = mark
        return mark

    def _mark_entries(self, mark: Mark) -> None:
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            value = self._mark(self._next())
            if key.value == "<<":
                merged = value.entries
                for mapping in merged.values() if 0 in merged else [value]:
                    mark.entries = {**mapping.entries, **mark.entries}
            else:
                mark.entries.setdefault(key.value, Mark(key.start_mark.line + 1, value.entries))


class JsonLines:
    """Lines in a JSON text that is known to be valid.

    The decoder splits each level into its entries, so even a place far down a list of thousands costs a scan or two of
    the text and not a walk through its characters.
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
        """After a repeated key there are fewer members than in the text: those after it are not found."""
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
