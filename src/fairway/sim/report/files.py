"""Files that appear together when all of them are written, or not at all."""

from __future__ import annotations

from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, TextIO

from fairway.errors import InputError


class OutputFiles:
    """The results of one run in a folder. Until it is left without an error they have other names; where a disk is full
    or a name is taken by a folder, none of them appears, and InputError says why.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[IO[Any]] = []
        self._names: list[str] = []

    def create(self, name: str) -> BinaryIO:
        """A new file, to be written to until the end."""
        target = self.folder / name
        if target.is_dir():
            raise InputError(f"{target}: is a folder, expected the name of a file")
        try:
            file = self._part(name).open("wb")
        except OSError as error:
            raise InputError(f"{target}: {error.strerror}, expected a file that can be written") from None
        self._names.append(name)
        self._open.append(file)
        return file

    def create_text(self, name: str) -> TextIO:
        """The same, of text."""
        file = TextIOWrapper(self.create(name), encoding="utf-8", newline="")
        self._open.insert(0, file)
        return file

    def write(self, name: str, data: bytes) -> None:
        self.create(name).write(data)

    @property
    def paths(self) -> list[Path]:
        return [self.folder / name for name in self._names]

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self._open:
                file.close()
            if kind is None:
                for name in self._names:
                    self._part(name).replace(self.folder / name)
        except OSError as problem:
            error = problem
        if error is not None:
            self._discard()
        if isinstance(error, OSError):
            raise InputError(f"{error.filename or self.folder}: {error.strerror}: nothing was written") from None

    def _part(self, name: str) -> Path:
        return self.folder / f"{name}.part"

    def _discard(self) -> None:
        for file in self._open:
            with suppress(OSError):
                file.close()
        for name in self._names:
            with suppress(OSError):
                self._part(name).unlink()
