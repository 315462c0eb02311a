"""CEL expressions that users write, compiled and run so that none can do harm: the one place that calls the library.

An expression that is too long, may cost too much or does not compile is an `InputError` for whoever wrote it. One that
fails while it runs gives an `Answer` with an error. Nothing that an expression says raises anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairway.devices.cel_cost import estimate
from fairway.errors import InputError

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

MAX_EXPRESSION: Final = 10 * 1024
"""The longest expression that Kubernetes takes."""
_SHOWN = 200


class Answer(NamedTuple):
    """What an expression gives. With an `error` there is no value."""

    value: Any = None
    error: str = ""
    failed: bool = False
    """Whether the evaluation was given up (a budget was exceeded), which no other input would have changed."""


class Program:
    """One compiled expression."""

    def __init__(self, environment: cel.Env, text: str, variables: Collection[str]) -> None:
        """`variables` are the names of what the environment gives to expressions."""
        if len(text) > MAX_EXPRESSION:
            raise _refused(text, f"is {len(text)} characters long, expected at most {MAX_EXPRESSION}")
        try:
            self._compiled = environment.compile(text)
        except Exception as error:
            raise _refused(text, f"does not compile: {_first_line(error)}") from None
        try:
            estimate(text, variables)
        except InputError as error:
            raise _refused(text, f"costs too much: {error}") from None

    @property
    def type_name(self) -> str:
        """The type of what it gives, as far as that is known without running it."""
        return str(self._compiled.return_type().name())

    def run(self, data: Mapping[str, Any]) -> Answer:
        try:
            found = self._compiled.eval(data=data)
            if found.type().name() == "ERROR":
                return Answer(error=_line(str(found.value())))
            return Answer(found.value())
        except Exception as error:
            return Answer(error=_first_line(error), failed=True)


def shown(text: str) -> str:
    """An expression as messages quote it."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _refused(text: str, why: str) -> InputError:
    return InputError(f"CEL expression {shown(text)} {why}")


def _first_line(error: Exception) -> str:
    return _line(str(error).replace("INVALID_ARGUMENT: ERROR: <input>:", "", 1)) or type(error).__name__


def _line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:_SHOWN]
