"""The objects in a text, whatever it is written in: one interface over JSON and YAML.

JSON stays bytes until the struct it belongs to is known, and is then decoded straight into that; this is what
makes large lists cheap. YAML is plain data from the start.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Generic, TypeVar

import msgspec

from fairway.api.json_text import TOO_DEEP, JsonProblem, first_byte, floating, integer, problem, spans
from fairway.api.shape import Path
from fairway.api.sources import MAX_YAML_BYTES, Source
from fairway.api.unknown_fields import refusing
from fairway.api.yaml_text import JsonLines, YamlLines, YamlProblem, YamlReader
from fairway.errors import Problem

LinesT = TypeVar("LinesT", JsonLines, YamlLines)


class Head(msgspec.Struct, rename="camel", gc=False):
    """What must be known of an object before it can be read; types are not yet checked."""

    kind: object = None
    api_version: object = None


class _ListHead(Head, gc=False):
    """The same, and the items still as bytes, so that a list is cut up in the same pass."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class Value(ABC):
    """One object, or a list of them, not yet decoded."""

    __slots__ = ()

    @abstractmethod
    def head(self) -> Head | None:
        """None where this is no object at all."""

    @abstractmethod
    def items(self) -> Sequence[Value] | None:
        """The entries of a list object; None where it has no list of items."""

    @abstractmethod
    def decoded(self, struct: type[msgspec.Struct]) -> msgspec.Struct | None:
        """The object, if it fits as it stands."""

    def may_have_unknown(self, kind: str, struct: type[msgspec.Struct]) -> bool:
        """False if it is sure that every field is known."""
        return True

    @abstractmethod
    def plain(self) -> object:
        """Plain data, to make allowances or to find out what is wrong."""


class Document(ABC):
    """One document of a source, which can say where things are."""

    def __init__(self, source: str, value: Value) -> None:
        self.source = source
        self.value = value
        self.repeated: tuple[Problem, ...] = ()
        """Keys that it has twice, so that it is not known which value is meant."""

    @abstractmethod
    def line(self, path: Path) -> int:
        """0 where there are no lines, or where the file has been changed since it was read."""

    def close(self) -> None:
        """All objects are made: what is needed for nothing but errors is read again if there are any."""
        self.value = PlainValue(None)


class PlainValue(Value):
    """Data that is already in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: object) -> None:
        self._data = data

    def head(self) -> Head | None:
        if not isinstance(self._data, Mapping):
            return None
        return Head(self._data.get("kind"), self._data.get("apiVersion"))

    def items(self) -> Sequence[Value] | None:
        items = self._data.get("items", False) if isinstance(self._data, Mapping) else False
        return [PlainValue(item) for item in items or ()] if items is None or isinstance(items, list) else None

    def decoded(self, struct: type[msgspec.Struct]) -> msgspec.Struct | None:
        return None

    def plain(self) -> object:
        return self._data


class PlainDocument(Document):
    def line(self, path: Path) -> int:
        return 0


class _SourceLines(Generic[LinesT]):
    """The lines of one source. Its text, which is larger than all that is made from it, goes when all is read."""

    def __init__(self, source: Source, make: Callable[[bytes], LinesT]) -> None:
        self._again = source.again
        self._make: Callable[[bytes], LinesT] = make
        self._made: LinesT | None = make(source.data)

    def get(self) -> LinesT | None:
        if self._made is None and self._again is not None:
            data = self._again()
            self._made = None if data is None else self._make(data)
        return self._made

    def forget(self) -> None:
        if self._again is not None:
            self._made = None


class _YamlDocument(Document):
    def __init__(self, source: str, value: Value, index: int, lines: _SourceLines[YamlLines]) -> None:
        super().__init__(source, value)
        self._index = index
        self._lines = lines

    def line(self, path: Path) -> int:
        lines = self._lines.get()
        return 0 if lines is None else lines.line(self._index, path)

    def close(self) -> None:
        super().close()
        self._lines.forget()


class _JsonValue(Value):
    __slots__ = ("_head", "_raw")

    def __init__(self, raw: msgspec.Raw | memoryview) -> None:
        self._raw = raw
        self._head: Head | None = None

    def head(self) -> Head | None:
        for decoder in (_LIST_HEADS, _HEADS) if self._head is None else ():
            try:
                self._head = decoder.decode(self._raw)
                break
            except msgspec.ValidationError:
                pass
        return self._head

    def items(self) -> Sequence[Value] | None:
        head = self.head()
        if not isinstance(head, _ListHead) or head.items is msgspec.UNSET:
            return None
        return [_JsonValue(item) for item in head.items or ()]

    def decoded(self, struct: type[msgspec.Struct]) -> msgspec.Struct | None:
        try:
            return _decoder(struct).decode(self._raw)
        except msgspec.DecodeError:
            return None

    def may_have_unknown(self, kind: str, struct: type[msgspec.Struct]) -> bool:
        try:
            refusing(kind, struct).decode(self._raw)
        except msgspec.DecodeError:
            return True
        return False

    def plain(self) -> object:
        """The fast decoder refuses numbers that do not fit; the slow one keeps them as they are written."""
        try:
            return msgspec.json.decode(self._raw)
        except msgspec.DecodeError:
            text = bytes(memoryview(self._raw)).decode()
            return json.loads(text, parse_int=integer, parse_float=floating)


_LIST_HEADS: msgspec.json.Decoder[Head] = msgspec.json.Decoder(_ListHead)
_HEADS = msgspec.json.Decoder(Head)


@cache
def _decoder(struct: type[msgspec.Struct]) -> msgspec.json.Decoder[msgspec.Struct]:
    return msgspec.json.Decoder(struct)


class _JsonDocument(Document):
    def __init__(self, source: str, value: Value, start: int, end: int, lines: _SourceLines[JsonLines]) -> None:
        super().__init__(source, value)
        self._span = start, end
        self._lines = lines

    def line(self, path: Path) -> int:
        lines = self._lines.get()
        return 0 if lines is None else lines.line(*self._span, path)

    def close(self) -> None:
        super().close()
        self._lines.forget()


def read_documents(source: Source) -> Iterator[Document | Problem]:
    """The documents of a source, and a fault where it stops being readable."""
    problem = _not_utf8(source)
    if problem is not None:
        yield problem
        return
    if not source.looks_like_json:
        yield from _yaml_documents(source)
        return
    try:
        documents = list(_json_documents(source))
    except JsonProblem as found:
        if source.must_be_json or len(source.data) > MAX_YAML_BYTES:
            yield Problem(source.name, found.line, "", found.message)
        else:
            yield from _yaml_documents(source)
        return
    yield from documents


def _not_utf8(source: Source) -> Problem | None:
    """Checked once for all decoders, which would each stop at another place and in another way."""
    if source.data.isascii():
        return None
    try:
        source.data.decode()
    except UnicodeDecodeError as error:
        line = source.data.count(b"\n", 0, error.start) + 1
        return Problem(source.name, line, "", f"byte {error.start} is not UTF-8, expected text in UTF-8")
    return None


def _json_documents(source: Source) -> Iterator[Document]:
    lines = _SourceLines(source, JsonLines)
    text = memoryview(source.data)
    start = first_byte(source.data)
    if start == len(source.data):
        raise JsonProblem(1, "the file is empty, expected a JSON object")
    try:
        value = _JsonValue(text)
        if value.head() is not None:
            yield _JsonDocument(source.name, value, start, len(text), lines)
            return
        # Not an object: the decoder stopped at its first byte, and the rest may not be JSON at all.
    except RecursionError:
        raise JsonProblem(1, TOO_DEEP) from None
    except msgspec.DecodeError:
        pass
    for start, end in spans(source.data):
        value = _JsonValue(text[start:end])
        try:
            value.head()
        except msgspec.DecodeError as error:
            line = JsonLines(source.data).line(start, end, ())
            raise problem(source.data[start:end], error, line) from None
        yield _JsonDocument(source.name, value, start, end, lines)


def _yaml_documents(source: Source) -> Iterator[Document | Problem]:
    text = source.data.decode()
    reader = YamlReader(text)
    lines = _SourceLines(source, lambda data: YamlLines(data.decode()))
    try:
        for index, data in enumerate(reader.documents()):
            repeated = tuple(Problem(source.name, line, "", message) for line, message in reader.repeated)
            reader.repeated.clear()
            if data is not None:
                document = _YamlDocument(source.name, PlainValue(data), index, lines)
                document.repeated = repeated
                yield document
    except YamlProblem as found:
        yield Problem(source.name, found.line, "", found.message)
