"""What a CEL expression may cost, worked out before it is run.

The library stops comprehensions that go on for too long, and nothing else: `cel.bind(b, a + a, cel.bind(c, b + b, ..`
doubles a text at each step and takes all memory there is. Here the size of every value is estimated from above: a
variable is as large as what it stands for, `+` and literals add up, a comparison gives one value, and the body of a
comprehension counts once for each element. An expression that nobody writes by hand comes out below a million.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from fairway.errors import InputError

MAX_COST: Final = 10_000_000
"""In characters and values handled by one evaluation."""
MAX_DEPTH: Final = 64
"""Of brackets; the library takes fewer."""

_OUTSIDE = 4096
"""The size of what an expression is given; what is looked up in it is smaller."""
_SMALLER = 32
_ITERATIONS = 10_000
"""Steps after which the library stops."""

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<text>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>\d[\w.]*(?:(?<=[eE])[+-]\d+)?|\.\d\w*)
    |(?P<name>[A-Za-z_]\w*|`[^`]*`)
    |(?P<sign>&&|\|\||==|!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TO_ONE = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"))
_COMPREHENSIONS = frozenset(
    ("all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap", "transformMapEntry")
)
_MULTIPLYING = frozenset(("replace", "join", "format"))


def estimate(text: str, variables: Collection[str]) -> int:
    """An upper bound of what one evaluation handles, where `variables` are given to it.

    InputError where it is above MAX_COST, or brackets are too deep or do not match.
    """
    tokens = [(m.lastgroup or "", m.group()) for m in _TOKEN.finditer(text) if m.lastgroup != "blank"]
    reader = _Estimate(tokens, frozenset(variables))
    reader.expression("", {}, 1, 0)
    return reader.cost


class _Estimate:
    """Reads tokens from left to right. `cost` grows by the size of every value that is made."""

    def __init__(self, tokens: list[tuple[str, str]], variables: frozenset[str]) -> None:
        self._tokens = tokens
        self._variables = variables
        self._place = 0
        self.cost = 0

    def expression(self, closing: str, known: Mapping[str, int], times: int, depth: int) -> int:
        """The size of all that stands before a closing bracket (or the end), separated by operators and commas."""
        if depth > MAX_DEPTH:
            raise InputError(f"brackets are nested more than {MAX_DEPTH} deep")
        size, to_one, grows = 0, False, False
        while True:
            kind, token = self._next()
            if not kind or token == closing:
                if token != closing:
                    raise InputError("brackets do not match")
                return 1 if to_one else max(size, 1)
            if token in _TO_ONE:
                to_one = True
            elif kind != "sign" or token in _CLOSING:
                operand = self._operand(kind, token, known, times, depth)
                size += operand
                self._spend((size if grows else operand) * times)
            grows |= token == "+"

    def _operand(self, kind: str, token: str, known: Mapping[str, int], times: int, depth: int) -> int:
        """A literal, a variable or a bracket, with all the fields, indexes and calls that follow it."""
        outside = token in self._variables and token not in known
        if kind == "name":
            size = known.get(token, _OUTSIDE if outside else 1)
        elif token in _CLOSING:
            size = self.expression(_CLOSING[token], known, times, depth + 1)
        else:
            size = len(token)
        name = token
        while (following := self._peek()) in (".", "[", "("):
            self._next()
            if following == ".":
                name = f"{name}.{self._next()[1]}" if name == "cel" else self._next()[1]
                if name == "?":  # an optional field
                    name = self._next()[1]
            elif following == "[":
                self.expression("]", known, times, depth + 1)
            else:
                size = self._call(name, size, known, times, depth)
                continue
            if outside:
                size = max(size // _SMALLER, 64)
        return size

    def _call(self, name: str, receiver: int, known: Mapping[str, int], times: int, depth: int) -> int:
        """Everything between the brackets of a call, and the size of what it gives."""
        if name == "cel.bind":
            variable = self._variable()
            value = self._argument(known, times, depth)
            return self.expression(")", {**known, variable: value}, times, depth + 1)
        if name in _COMPREHENSIONS:
            elements = min(receiver, _ITERATIONS)
            inner = {**known, self._variable(): receiver}
            return elements * self.expression(")", inner, times * elements, depth + 1)
        arguments = self.expression(")", known, times, depth + 1)
        return receiver * arguments if name in _MULTIPLYING else receiver + arguments

    def _spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > MAX_COST:
            raise InputError(f"one evaluation may handle more than {MAX_COST} characters and values")

    def _variable(self) -> str:
        """The name that a macro binds, and the comma after it."""
        name = self._next()[1]
        if self._peek() == ",":
            self._next()
        return name

    def _argument(self, known: Mapping[str, int], times: int, depth: int) -> int:
        """One argument, up to its comma: read as if it were in brackets of its own."""
        end, open_ = self._place, 0
        while end < len(self._tokens) and (open_ or self._tokens[end][1] != ","):
            kind, token = self._tokens[end]
            if kind == "sign":
                open_ += (token in _CLOSING) - (token in _CLOSING.values())
            end += 1
        part = _Estimate(self._tokens[self._place : end], self._variables)
        part.cost = self.cost
        size = part.expression("", known, times, depth + 1)
        self.cost = part.cost
        self._place = min(end + 1, len(self._tokens))
        return size

    def _peek(self) -> str:
        kind, token = self._tokens[self._place] if self._place < len(self._tokens) else ("", "")
        return token if kind == "sign" else ""

    def _next(self) -> tuple[str, str]:
        if self._place == len(self._tokens):
            return "", ""
        self._place += 1
        return self._tokens[self._place - 1]
