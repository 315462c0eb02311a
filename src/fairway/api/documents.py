"""From what a user names (files, folders, patterns, standard input) to the objects in it: one interface over JSON and
YAML.

JSON stays bytes until its struct is known, and is then decoded straight into that; this makes large lists cheap. YAML
is plain data from the start.

Sizes are limited, so that a wrong path or a hostile file ends in an error and not in swapped-out memory. JSON may be
512 MiB: some 80,000 pods, and twice that memory while it is read. YAML takes twenty times as long and, where all of it
is one list, ten times its size, so it ends at 64 MiB: about ten seconds. The bytes are not kept: for an error that is
found later, the file is read again.
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import BinaryIO, Generic, TypeVar

import msgspec

from fairway.api.shape import refusing
from fairway.api.text import (
    TOO_DEEP,
    JsonLines,
    JsonProblem,
    Path,
    YamlLines,
    YamlProblem,
    YamlReader,
    first_byte,
    floating,
    integer,
    problem,
    spans,
)
from fairway.errors import Problem

MAX_JSON_BYTES = 512 * 1024 * 1024
MAX_YAML_BYTES = 64 * 1024 * 1024
SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "standard input"

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Source:
    """One file's bytes under the name that the user gave."""

    name: str
    data: bytes
    must_be_json: bool = False
    again: Callable[[], bytes | None] | None = None
    """Reads the same bytes again; returns None if they have changed. None for standard input, which cannot be read
    twice.
    """

    @property
    def looks_like_json(self) -> bool:
        return self.must_be_json or self.data[:4096].lstrip(_BLANKS)[:1] == b"{"


def read_sources(names: Sequence[str], stdin: BinaryIO, problems: list[Problem]) -> Iterator[Source]:
    """The files that `names` stand for, in that order, each once; a file that cannot be read becomes a problem."""
    seen: set[str] = set()
    for name in names:
        for path in _paths(name, problems):
            identity = os.path.realpath(path) if path else "-"
            if identity in seen:
                continue
            seen.add(identity)
            source = _read_file(path, problems) if path else _read(STANDARD_INPUT, stdin, "", problems)
            if source:
                yield source


def _paths(name: str, problems: list[Problem]) -> list[pathlib.Path | None]:
    """None stands for standard input."""
    if name == "-":
        return [None]
    try:
        return _matching(name, problems)
    except (OSError, ValueError) as error:
        problems.append(Problem(f"{name:.60}", 0, "", f"not the name of a file: {error.args[-1]}"))
        return []


def _matching(name: str, problems: list[Problem]) -> list[pathlib.Path | None]:
    if "\0" in name:
        raise ValueError("embedded null byte")
    given = pathlib.Path(name)
    if given.is_dir():
        return _in_folder(given, problems)
    if given.exists() or not glob.has_magic(name):
        return [given]
    found: list[pathlib.Path | None] = []
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - patterns may be absolute
        path = pathlib.Path(match)
        found += _in_folder(path, []) if path.is_dir() else [path]
    if not found:
        problems.append(Problem(name, 0, "", "no file matches this pattern, expected at least one"))
    return found


def _in_folder(folder: pathlib.Path, problems: list[Problem]) -> list[pathlib.Path | None]:
    """Hidden files and folders belong to tools and are skipped."""
    found: list[pathlib.Path | None] = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        expected = f"at least one file named {', '.join('*' + suffix for suffix in SUFFIXES)}"
        problems.append(Problem(str(folder), 0, "", f"no manifests in this folder, expected {expected}"))
    return found


def _read_file(path: pathlib.Path, problems: list[Problem]) -> Source | None:
    try:
        with path.open("rb") as stream:
            source = _read(str(path), stream, path.suffix, problems)
            status = os.fstat(stream.fileno())
            if source is None or not stat.S_ISREG(status.st_mode):
                return source
            return replace(source, again=_Again(path, _version(status)))
    except FileNotFoundError:
        problems.append(Problem(str(path), 0, "", "no such file, expected a file, a folder, a pattern or -"))
    except OSError as error:
        problems.append(Problem(str(path), 0, "", f"cannot be read: {error.strerror}"))
    return None


@dataclass(frozen=True, slots=True)
class _Again:
    """A file that has been read, while it is unchanged."""

    path: pathlib.Path
    version: tuple[int, ...]

    def __call__(self) -> bytes | None:
        try:
            with self.path.open("rb") as stream:
                data = stream.read(MAX_JSON_BYTES + 1)
                return data.removeprefix(_BOM) if _version(os.fstat(stream.fileno())) == self.version else None
        except OSError:
            return None


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _read(name: str, stream: BinaryIO, suffix: str, problems: list[Problem]) -> Source | None:
    """Reads only as much as YAML may have until the format, and with it the limit, is known."""
    data = stream.read(MAX_YAML_BYTES + 1)
    source = Source(name, data.removeprefix(_BOM), suffix == ".json")
    limit, kind = (MAX_JSON_BYTES, "JSON") if source.looks_like_json else (MAX_YAML_BYTES, "YAML")
    if limit > MAX_YAML_BYTES:
        data += stream.read(limit + 1 - len(data))
    if len(data) > limit:
        hint = "; JSON may be larger" if kind == "YAML" else ""
        expected = f"at most {limit // 2**20} MiB of {kind}{hint}"
        problems.append(Problem(name, 0, "", f"the file is too large, expected {expected}"))
        return None
    return Source(name, data.removeprefix(_BOM), suffix == ".json")


LinesT = TypeVar("LinesT", JsonLines, YamlLines)


class Head(msgspec.Struct, rename="camel", gc=False):
    """The fields that decide how an object is read; their types are not checked yet."""

    kind: object = None
    api_version: object = None


class _ListHead(Head, gc=False):
    """A head with the items still as bytes, so that a list is split in the same pass."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class Value(ABC):
    """One object, or a list of them, not yet decoded."""

    __slots__ = ()

    @abstractmethod
    def head(self) -> Head | None:
        """None if this is not an object."""

    @abstractmethod
    def items(self) -> Sequence[Value] | None:
        """The entries of a list object; None if it has no list of items."""

    @abstractmethod
    def decoded(self, struct: type[msgspec.Struct]) -> msgspec.Struct | None:
        """The object, if the decoder accepts it."""

    def may_have_unknown(self, kind: str, struct: type[msgspec.Struct]) -> bool:
        """False only if every field is certainly known."""
        return True

    @abstractmethod
    def plain(self) -> object:
        """Plain data, for allowances and for error messages."""


class Document(ABC):
    """One document of a source, which can locate its values."""

    def __init__(self, source: str, value: Value) -> None:
        self.source = source
        self.value = value
        self.repeated: tuple[Problem, ...] = ()
        """Repeated keys: it is ambiguous which value is meant."""

    @abstractmethod
    def line(self, path: Path) -> int:
        """0 if there are no lines, or if the file has changed since it was read."""

    def close(self) -> None:
        """All objects are decoded. What only errors need is dropped, and read again if there are any."""
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
    """The lines of one source. Its text is larger than everything decoded from it, so it is dropped after reading."""

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
    """The documents of a source, and a problem where it stops being readable."""
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
    """Checked once for all decoders, each of which would stop at another byte with another message."""
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
