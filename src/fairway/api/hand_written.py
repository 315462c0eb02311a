"""Files that people write by hand (policies, scenarios, the configurations of programs): one document each.

All of them are read here, so that they have the same syntax, the same limits and the same errors: `file:line: path:
what is wrong, what was expected`, every problem of a file at once, with a suggestion for a misspelt field. `text` reads
the YAML; `shape` compares the data with the structs that describe the file. Such a file is small: 1 MiB is a hundred
times the largest one known, and keeps `--policy /dev/zero` from filling the memory.

    document = read_document(text, "run.yaml", problems)      # None, with a problem added, where it is not YAML
    document.data                                             # plain values
    document.line(("spec", "weight"))                         # for problems that are found later
    document.as_struct(RunSettings)                           # typed, or a ProblemsError
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar

import msgspec

from fairway.api.shape import NO_CUSTOM_TYPES, CustomTypes, Finding, fit, path_text
from fairway.api.text import Mark, Path, YamlLines, YamlProblem, YamlReader
from fairway.errors import InputError, Problem, ProblemsError

MAX_BYTES = 1 << 20
MAX_PROBLEMS = 50
"""Problems shown in full; of the rest only their number."""

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Marked:
    """A value and its line, for readers that walk a file value by value. An entry of a mapping has its key's line."""

    line: int
    value: Any
    """A scalar, a tuple of Marked, or a dict of them."""

    def plain(self) -> object:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: entry.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        return self.value


class HandWritten:
    """The one document of a file."""

    def __init__(self, source: str, data: object, lines: YamlLines) -> None:
        self.source = source
        self.data = data
        self._lines = lines

    def line(self, path: Path) -> int:
        """The line of a place; for a missing place, that of what it is missing from."""
        return self._lines.line(0, path)

    @property
    def fields(self) -> dict[str, Any]:
        """The data of a document that is a mapping."""
        assert isinstance(self.data, dict)
        return self.data

    def marked(self) -> Marked:
        return _marked(self.data, self._lines.mark(0))

    def as_struct(self, struct: type[S], custom: CustomTypes = NO_CUSTOM_TYPES) -> S:
        """ProblemsError has everything in which the data differs from the struct."""
        made, findings = fit(self.data, struct, custom)
        if findings:
            raise self.refused(findings)
        return made

    def refused(self, findings: Sequence[Finding]) -> ProblemsError:
        """The findings as an error, in the order of their lines; duplicates are reported once."""
        problems = [
            Problem(self.source, self.line(path), path_text(path), message) for path, message in dict.fromkeys(findings)
        ]
        problems.sort(key=lambda problem: problem.line)
        return ProblemsError(problems[:MAX_PROBLEMS], max(0, len(problems) - MAX_PROBLEMS))


def _marked(value: object, mark: Mark) -> Marked:
    if isinstance(value, dict):
        return Marked(mark.line, {key: _marked(entry, mark.entries[key]) for key, entry in value.items()})
    if isinstance(value, list):
        return Marked(mark.line, tuple(_marked(item, mark.entries[index]) for index, item in enumerate(value)))
    return Marked(mark.line, value)


def read_text(path: FilePath, what: str) -> str:
    """The text of a file that should be `what`, for example a policy; InputError if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{path}: more than {MAX_BYTES} bytes, expected {what}")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: {error.reason} at byte {error.start}") from None


def read_document(text: str, source: str, problems: list[Problem], expected: str = "one") -> HandWritten | None:
    """The only document of `text`; None, with a problem added, where it cannot be read.

    A repeated key is a problem too, but its first value is taken, so that the rest of the file can be checked.
    """
    reader = YamlReader(text, letters=False)  # `tasks: n` names a column, it is not false
    try:
        if len(text) > MAX_BYTES:
            raise YamlProblem(0, f"{len(text)} characters, expected at most {MAX_BYTES}")
        documents = reader.documents()
        for data in documents:
            for _ in documents:
                raise YamlProblem(reader.line, f"a second document starts here, expected {expected}")
            problems += (Problem(source, line, "", message) for line, message in reader.repeated)
            return HandWritten(source, data, YamlLines(text))
        raise YamlProblem(1, "the file is empty")
    except YamlProblem as problem:
        problems.append(Problem(source, problem.line, "", problem.message))
    return None


def read_configuration(path: FilePath, api_version: str, kind: str) -> HandWritten:
    """A file with one object that configures a program, for example `kind: FairwayConfiguration`: its fields without
    apiVersion, kind and metadata. InputError says what is wrong, and where.
    """
    wanted = f"one object of kind {kind}"
    problems: list[Problem] = []
    document = read_document(read_text(path, wanted), str(path), problems, wanted)
    if document is None or problems:
        raise ProblemsError(problems)
    if not isinstance(document.data, dict):
        raise InputError(f"{path}: expected {wanted}")
    head = document.data.pop("apiVersion", None), document.data.pop("kind", None)
    if head != (api_version, kind):
        message = f"is {head[1]} of {head[0]}, expected {kind} of {api_version}"
        raise ProblemsError([Problem(str(path), document.line(("kind",)), "", message)])
    document.data.pop("metadata", None)
    return document
