"""A request as views receive it: validated against the table of operations, with the permissions of its user."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from threading import Event
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.datastructures import QueryParams

from fairway.errors import InputError
from fairway.web.contract import Operation, QueryParameter

T = TypeVar("T")
LONGEST_NUMBER = 18


class RequestRefusedError(InputError):
    """A refused request, with the status and the reason of its answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


NEVER = Event()
"""The user of paths that need no token."""


class Viewer(NamedTuple):
    """The user of a request, and what the user may see."""

    name: str
    namespaces: frozenset[str] | None = None
    """Namespaces whose jobs and pods the user may see; None for all."""
    nodes: bool = True
    queues: bool = True
    token: str = ""
    """The bearer token, for actions with the user's own permissions; "" if there is none."""

    def sees(self, job: str) -> bool:
        """Whether the user may see a job or pod, given as `namespace/name`."""
        return self.namespaces is None or job.partition("/")[0] in self.namespaces


class Asked(NamedTuple):
    viewer: Viewer
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None
    gone: Event = NEVER
    """Set when the client disconnects before the answer."""


def read_query(operation: Operation, given: QueryParams) -> dict[str, Any]:
    """Raises RequestRefusedError for an unknown or invalid parameter."""
    known = {one.name: one for one in operation.query}
    for name in given:
        if name not in known:
            expected = ", ".join(known) or "none"
            raise RequestRefusedError(422, f"{name}: there is no such parameter, expected {expected}")
    return {one.name: _read(one, given.getlist(one.name)) for one in operation.query}


def _read(one: QueryParameter, texts: list[str]) -> Any:
    if one.repeated:
        return tuple(_value(one, text) for text in texts)
    if len(texts) > 1:
        raise RequestRefusedError(422, f"{one.name}: repeated {len(texts)} times, expected once")
    return one.default if not texts else _value(one, texts[0])


def _value(one: QueryParameter, text: str) -> Any:
    if one.values and text not in one.values:
        raise RequestRefusedError(422, f"{one.name}={text}: expected one of {', '.join(one.values)}")
    if one.kind == "string":
        return text
    if one.kind == "boolean":
        if text not in ("true", "false", ""):
            raise RequestRefusedError(422, f"{one.name}={text}: expected true or false")
        return text != "false"
    try:
        number = int(text[:LONGEST_NUMBER]) if one.kind == "integer" else float(text)
    except ValueError:
        number = float("nan")
    low, high = one.least, one.most
    if (
        len(text) > LONGEST_NUMBER
        or not isfinite(number)
        or (low is not None and number < low)
        or (high is not None and number > high)
    ):
        bounds = f" from {low} to {high}" if high is not None else "" if low is None else f" of at least {low}"
        raise RequestRefusedError(422, f"{one.name}={text}: expected a number{bounds}")
    return number


def read_body(kind: type[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefusedError(422, f"the request cannot be read: {error}") from None
    except RecursionError:
        raise RequestRefusedError(422, "the request cannot be read: it is nested too deeply") from None
