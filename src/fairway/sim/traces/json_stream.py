"""Reads one large JSON object member by member, and its arrays item by item, without holding it whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

_MAX_DIGITS = 1000


def _whole(text: str) -> int | str:
    """A number that is too long to be one of ours stays text, which costs nothing."""
    return int(text) if len(text) <= _MAX_DIGITS else text


_DECODER = json.JSONDecoder(parse_float=str, parse_int=_whole)
"""Numbers with a fraction stay text, so that their digits are read exactly."""

_BLANKS = " \t\r\n"
LONGEST_VALUE = 16 * 1024 * 1024
"""Characters of one member or item; a longer one means that the file is not what it should be."""


class NotJsonError(ValueError):
    """The text is not a JSON object."""


def members(chunks: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """(name, value) of each member; a member that is an array gives one pair for each of its items."""
    stream = _Stream(chunks)
    stream.expect("{")
    while not stream.take("}"):
        name = stream.value()
        if not isinstance(name, str):
            raise NotJsonError("a member's name is not a text")
        stream.expect(":")
        if not stream.take("["):
            yield name, stream.value()
        else:
            while not stream.take("]"):
                yield name, stream.value()
                stream.take(",")
        stream.take(",")


class _Stream:
    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = iter(chunks)
        self._text = ""
        self._at = 0

    def take(self, sign: str) -> bool:
        """Pass `sign` if it comes next."""
        found = self._next() == sign
        self._at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise NotJsonError(f"{self._next()!r} where {sign!r} was expected")

    def value(self) -> Any:
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._twice_as_much():
                    raise NotJsonError(f"{error.msg} after {self._text[self._at :][:40]!r}") from None
                continue
            except RecursionError:
                raise NotJsonError("nested too deeply") from None
            # A number at the very end of what was read may go on in the next chunk.
            if end < len(self._text) or not self._more():
                self._at = end
                return value

    def _next(self) -> str:
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                raise NotJsonError("the text ends too early")

    def _twice_as_much(self) -> bool:
        """Read on until there is twice as much, so that trying again and again costs no more than reading."""
        wanted = 2 * (len(self._text) - self._at)
        found = self._more()
        while found and len(self._text) - self._at < wanted and self._more():
            pass
        return found

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._text = self._text[self._at :] + chunk
        self._at = 0
        if len(self._text) > LONGEST_VALUE:
            raise NotJsonError(f"a value of more than {LONGEST_VALUE} characters")
        return True
