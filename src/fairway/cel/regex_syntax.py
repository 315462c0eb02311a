"""From the text of a regular expression to a small program: characters, marks, jumps and splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fairway.cel.errors import EvaluationError

MOST_STEPS: Final = 2_000
_MOST_REPEATS: Final = 1_000
_MOST_DEPTH: Final = 50


class Char(NamedTuple):
    accepts: Callable[[str], bool]


class Mark(NamedTuple):
    kind: str


class Jump(NamedTuple):
    by: int


class Split(NamedTuple):
    """Both ways are followed, the first is preferred."""

    first: int
    second: int


class Match(NamedTuple):
    pass


MATCH: Final = Match()
Step = Char | Mark | Jump | Split | Match
Code = list[Step]

_DIGIT = frozenset("0123456789")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SPACE = frozenset("\t\n\f\r ")
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX = {
    "alpha": frozenset(c for c in _WORD if c.isalpha()),
    "digit": _DIGIT,
    "alnum": _WORD - {"_"},
    "upper": frozenset(c for c in _WORD if c.isupper()),
    "lower": frozenset(c for c in _WORD if c.islower()),
    "space": frozenset("\t\n\v\f\r "),
    "punct": frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "xdigit": frozenset("0123456789abcdefABCDEF"),
    "word": _WORD,
    "blank": frozenset("\t "),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_MARKS = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}

_Set = Callable[[str], bool]


def compiled(pattern: str) -> Code:
    """EvaluationError where the pattern cannot be read, or is too large."""
    parser = _Parser(pattern)
    code = parser.alternatives(frozenset(), 0)
    if parser.place < len(pattern):
        raise parser.error("a bracket is closed that was not opened")
    return [*code, MATCH]


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.place = 0

    def error(self, what: str) -> EvaluationError:
        return EvaluationError(f"the pattern {self._pattern!r:.80} cannot be read: {what}")

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self.place + ahead : self.place + ahead + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise self.error("it ends too early")
        self.place += 1
        return char

    def alternatives(self, flags: frozenset[str], depth: int) -> Code:
        if depth > _MOST_DEPTH:
            raise self.error("brackets are too deep")
        left, flags = self._sequence(flags, depth)
        while self._peek() == "|":
            self.place += 1
            right, flags = self._sequence(flags, depth)
            left = self._small([Split(1, len(left) + 2), *left, Jump(len(right) + 1), *right])
        return left

    def _sequence(self, flags: frozenset[str], depth: int) -> tuple[Code, frozenset[str]]:
        code: Code = []
        while (char := self._peek()) and char not in "|)":
            if char == "(" and (changed := self._flags(flags)) is not None:
                flags = changed
                continue
            atom = self._atom(flags, depth)
            code = self._small([*code, *self._repeated(atom)])
        return code, flags

    def _small(self, code: Code) -> Code:
        if len(code) > MOST_STEPS:
            raise self.error("it is too large")
        return code

    def _flags(self, flags: frozenset[str]) -> frozenset[str] | None:
        """`(?i)` and its like, for what follows in the same bracket; None if that is not what stands here."""
        end = self._pattern.find(")", self.place)
        text = self._pattern[self.place + 2 : end] if self._pattern.startswith("(?", self.place) and end > 0 else ""
        if not text or not set(text) <= set("ims-"):
            return None
        self.place = end + 1
        return self._changed(flags, text)

    def _changed(self, flags: frozenset[str], text: str) -> frozenset[str]:
        on, _, off = text.partition("-")
        return (flags | set(on)) - set(off)

    def _atom(self, flags: frozenset[str], depth: int) -> Code:
        char = self._next()
        if char == "(":
            return self._group(flags, depth)
        if char == "[":
            return [Char(self._class(flags))]
        if char == ".":
            return [Char((lambda c: True) if "s" in flags else (lambda c: c != "\n"))]
        if char == "^":
            return [Mark("line start" if "m" in flags else "start")]
        if char == "$":
            return [Mark("line end" if "m" in flags else "end")]
        if char in "*+?":
            raise self.error(f"there is nothing to repeat before {char!r}")
        if char == "\\":
            if (mark := _MARKS.get(self._peek())) is not None:
                self.place += 1
                return [Mark(mark)]
            return [Char(_folded(self._escape(), flags))]
        return [Char(_folded(char.__eq__, flags))]

    def _group(self, flags: frozenset[str], depth: int) -> Code:
        if self._peek() == "?":
            self.place += 1
            if self._pattern.startswith(("P<", "<"), self.place):
                end = self._pattern.find(">", self.place)
                name = self._pattern[self.place : end].removeprefix("P")[1:]
                if end < 0 or not name.isidentifier():
                    raise self.error("the name of a group")
                self.place = end + 1
            else:
                end = self._pattern.find(":", self.place)
                text = self._pattern[self.place : end]
                if end < 0 or not set(text) <= set("ims-"):
                    raise self.error(f"(?{self._peek()} is not supported")
                self.place = end + 1
                flags = self._changed(flags, text)
        code = self.alternatives(flags, depth + 1)
        if self._next() != ")":
            raise self.error("a bracket is not closed")
        return code

    # -- repeats -----------------------------------------------------------------------------------------------

    def _repeated(self, atom: Code) -> Code:
        limits = self._limits()
        if limits is None:
            return atom
        least, most = limits
        lazy = self._peek() == "?"
        self.place += lazy
        if (self._peek() in ("*", "+", "?") and self._peek()) or self._limits() is not None:
            raise self.error("a repeat is repeated")
        if (least if most is None else most) * len(atom) > MOST_STEPS:
            raise self.error("it is too large")
        code = atom * least
        if most is None:
            return self._small([*code, *_either(atom, len(atom) + 2, lazy), *atom, Jump(-len(atom) - 1)])
        rest: Code = []
        for _ in range(most - least):
            rest = [*_either(atom, len(atom) + len(rest) + 1, lazy), *atom, *rest]
        return self._small([*code, *rest])

    def _limits(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char and char in "*+?":
            self.place += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        end = self._pattern.find("}", self.place)
        if char != "{" or end < 0:
            return None
        low, comma, high = self._pattern[self.place + 1 : end].partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            return None
        self.place = end + 1
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise self.error("the limits of a repeat")
        return least, most

    # -- sets of characters --------------------------------------------------------------------------------------

    def _escape(self) -> _Set:
        char = self._next()
        if char.lower() in _CLASSES:
            found = _CLASSES[char.lower()]
            return found.__contains__ if char.islower() else (lambda c: c not in found)
        return self._escaped(char).__eq__

    def _escaped(self, char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self._hex()
            return chr(int(digits, 16))
        if char.isascii() and char.isalnum():
            raise self.error(f"\\{char} is not supported")
        return char

    def _hex(self) -> str:
        end = self._pattern.find("}", self.place) if self._peek() == "{" else self.place + 2
        start = self.place + (self._peek() == "{")
        digits = self._pattern[start:end]
        valid = 0 < len(digits) <= 6 and all(c in _POSIX["xdigit"] for c in digits) and int(digits, 16) <= 0x10FFFF
        if not valid or (self._peek() != "{" and len(digits) != 2):
            raise self.error("the number of a character")
        self.place = end + (self._peek() == "{")
        return digits

    def _class(self, flags: frozenset[str]) -> _Set:
        negative = self._peek() == "^"
        self.place += negative
        sets: list[_Set] = []
        first = True
        while first or self._peek() != "]":
            sets.append(_folded(self._member(), flags))
            first = False
        self.place += 1
        return (lambda c: not any(s(c) for s in sets)) if negative else (lambda c: any(s(c) for s in sets))

    def _member(self) -> _Set:
        if self._pattern.startswith("[:", self.place):
            end = self._pattern.find(":]", self.place)
            name = self._pattern[self.place + 2 : end].removeprefix("^")
            if end < 0 or name not in _POSIX:
                raise self.error("a class of characters")
            inverse = self._peek(2) == "^"
            self.place = end + 2
            found = _POSIX[name]
            return (lambda c: c not in found) if inverse else found.__contains__
        if self._peek() == "\\" and self._peek(1).lower() in _CLASSES and self._peek(1):
            self.place += 1
            return self._escape()
        low = self._single()
        if self._peek() == "-" and self._peek(1) not in ("]", ""):
            self.place += 1
            high = self._single()
            if high < low:
                raise self.error("a range of characters")
            return lambda c: low <= c <= high
        return low.__eq__

    def _single(self) -> str:
        char = self._next()
        return self._escaped(self._next()) if char == "\\" else char


def _either(atom: Code, past: int, lazy: bool) -> Code:
    """Go into the atom that follows, or past it."""
    return [Split(past, 1) if lazy else Split(1, past)]


def _folded(accepts: _Set, flags: frozenset[str]) -> _Set:
    if "i" not in flags:
        return accepts
    return lambda c: accepts(c) or accepts(c.lower()) or accepts(c.upper())


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
