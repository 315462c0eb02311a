"""From what a user names (files, folders, patterns, standard input) to the bytes of each file.

There are limits, so that a wrong path or a hostile file ends in a sentence and not in swapped-out memory.
JSON may be 512 MiB: some 80,000 pods, and twice that memory while it is read. YAML takes twenty times as long
and, where all of it is one list, ten times its size, so it ends at 64 MiB: ten seconds or so. The bytes are not kept:
for an error that is found later the file is read again.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from fairway.errors import Problem

MAX_JSON_BYTES = 512 * 1024 * 1024
MAX_YAML_BYTES = 64 * 1024 * 1024
SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "standard input"

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Source:
    """One file's bytes under the name the user knows it by."""

    name: str
    data: bytes
    must_be_json: bool = False
    again: Callable[[], bytes | None] | None = None
    """Reads the same bytes again, None if they are no longer there; None where that cannot be (standard input)."""

    @property
    def looks_like_json(self) -> bool:
        return self.must_be_json or self.data[:4096].lstrip(_BLANKS)[:1] == b"{"


def read_sources(names: Sequence[str], stdin: BinaryIO, problems: list[Problem]) -> Iterator[Source]:
    """The files behind `names`, in that order, none twice; what cannot be read becomes a problem."""
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


def _paths(name: str, problems: list[Problem]) -> list[Path | None]:
    """None stands for standard input."""
    if name == "-":
        return [None]
    try:
        return _matching(name, problems)
    except (OSError, ValueError) as error:
        problems.append(Problem(f"{name:.60}", 0, "", f"not the name of a file: {error.args[-1]}"))
        return []


def _matching(name: str, problems: list[Problem]) -> list[Path | None]:
    if "\0" in name:
        raise ValueError("embedded null byte")
    given = Path(name)
    if given.is_dir():
        return _in_folder(given, problems)
    if given.exists() or not glob.has_magic(name):
        return [given]
    found: list[Path | None] = []
    for match in sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - patterns may be absolute
        path = Path(match)
        found += _in_folder(path, []) if path.is_dir() else [path]
    if not found:
        problems.append(Problem(name, 0, "", "no file matches this pattern, expected at least one"))
    return found


def _in_folder(folder: Path, problems: list[Problem]) -> list[Path | None]:
    """Hidden files and folders belong to tools, and are no manifests."""
    found: list[Path | None] = [
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


def _read_file(path: Path, problems: list[Problem]) -> Source | None:
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
    """A file that has been read, as long as it stays what it was."""

    path: Path
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
    """Only the first bytes are taken before the format, and with it the limit, is known."""
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
