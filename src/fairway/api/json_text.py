"""JSON cut into documents and objects without decoding what is inside them, and numbers that are too long to compute
with, kept as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

import msgspec

_BLANKS = re.compile(r"[ \t\r\n]*")
_BYTE = re.compile(r"(.*) \(byte (\d+)\)")
_MALFORMED = "JSON is malformed: "
TOO_DEEP = "nested too deeply, expected an object as Kubernetes has them"


class JsonProblem(Exception):  # noqa: N818 - it is always turned into a problem
    """The text is not JSON from here on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each document of a text that holds several begins and ends.

    Only for texts that are not one document: it takes its time, but says what it expected where. Bytes are
    taken as single characters, which changes nothing about where strings and brackets end.
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
    """Where the text begins, after blanks."""
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
"""Characters of a number that is read as one; what Kubernetes has in its objects takes nineteen."""


class LongNumber(str):
    """The text of a number that is too long, or too large for a float. No text field takes it."""

    __slots__ = ()


def integer(text: str) -> int | LongNumber:
    """A decimal integer as JSON writes it."""
    return LongNumber(text) if len(text) > MAX_DIGITS else int(text)


def floating(text: str) -> float | LongNumber:
    """A number with a point or an exponent."""
    number = float(text)
    return LongNumber(text) if number in (float("inf"), float("-inf")) else number
