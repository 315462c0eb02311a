"""Requests to an API server as values, what their answers mean for a write, and how long to wait after a failure.
Nothing here touches a socket.

A write is a *script*: a generator that yields a request, receives the answer, yields the next request if it needs one,
and returns how the write ended. The owner of a connection runs it (`perform`); tests feed it answers by hand.

    script --ApiRequest--> sender --ApiAnswer--> script ... --> Ending

An answer that never arrived (a lost connection, a time limit) is an answer too: `NO_ANSWER`. The server may have done
the work or may still do it, so a script reads the object again before it decides how the write ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple

import msgspec

from fairway.api.meta import ApiStruct, ObjectMeta

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

FIRST_WAIT, LONGEST_WAIT = 0.2, 30.0
"""Seconds of back-off after the first failure, and at most."""
MAX_OBEYED = 300.0
"""Seconds that a server may ask for: one odd answer of a gateway must not stop a scheduler for days."""
PAUSE = 1.0
"""Seconds before a write is retried where the server does not say how long."""
LONG_PAUSE = 5.0
"""Seconds before a refusal is reported that the next decision would only run into again."""
NO_STATUS = 0
_BUDGET = "DisruptionBudget"


class ApiRequest(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON


class ApiAnswer(NamedTuple):
    """`status` is the HTTP status; 0 if no answer came."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    """Seconds, from the header of that name."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


NO_ANSWER = ApiAnswer(NO_STATUS)


class WriteResult(StrEnum):
    DONE = "done"
    """The server has made the change, or its object is gone."""
    REFUSED = "refused"
    """The server has not made the change and will not: decide again without it."""
    AGAIN = "again"
    """The outcome is unknown, or the server was too busy: run the script again after `wait` seconds."""


class Ending(NamedTuple):
    """How a script ended. With REFUSED, `wait` is how long to hold the refusal back before it is reported."""

    result: WriteResult
    why: str = ""
    wait: float = 0.0
    by_budget: bool = False
    """Whether a PodDisruptionBudget is why an eviction was refused."""
    version: str = ""
    """The resource version that the write gave the object, where it is checked afterwards."""


DONE = Ending(WriteResult.DONE)

Script = Generator[ApiRequest, ApiAnswer, Ending]
"""One write to one object."""

Sender = Callable[[ApiRequest], Awaitable[ApiAnswer]]
"""Sends a request and never raises: a failure on the way is `NO_ANSWER`."""

MayLeave = Callable[[], bool]
"""Whether a request may still leave. Called when its bytes are about to: opening a connection and getting credentials
may have taken long.
"""

GuardedSender = Callable[[ApiRequest, MayLeave | None], Awaitable[ApiAnswer]]
"""A sender of requests that may leave only while a condition holds; None: at any time."""


async def perform(script: Script, send: Sender) -> Ending:
    """Run a script to its end."""
    answer: ApiAnswer | None = None
    while True:
        try:
            request = next(script) if answer is None else script.send(answer)
        except StopIteration as end:
            ending: Ending = end.value
            return ending
        answer = await send(request)


def refused(why: str, wait: float = 0.0) -> Ending:
    return Ending(WriteResult.REFUSED, why, wait)


def again(answer: ApiAnswer) -> Ending:
    """Not done, as far as is known: retry after the time that the server asks for."""
    return Ending(WriteResult.AGAIN, explained(answer), pause_of(answer))


def pause_of(answer: ApiAnswer) -> float:
    """Seconds that the server asks to wait, within reason."""
    if answer.retry_after is not None:
        return min(MAX_OBEYED, answer.retry_after)
    details = status_of(answer).details
    asked = 0 if details is None else details.retry_after_seconds
    return float(min(MAX_OBEYED, asked)) if asked > 0 else PAUSE


class ReadMetadata(ApiStruct, frozen=True):
    """An object in an answer of which only the identity and version matter."""

    metadata: ObjectMeta


def done_as(answer: ApiAnswer) -> Ending:
    """Done, with the version in the server's answer. A truncated answer means that the write is retried."""
    try:
        now = msgspec.json.decode(answer.body, type=ReadMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(answer)
    return Ending(WriteResult.DONE, version=now.metadata.resource_version)


# -- errors ------------------------------------------------------------------------------------------------------


class StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class StatusDetails(msgspec.Struct, rename="camel", frozen=True):
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ErrorStatus(msgspec.Struct, rename="camel", frozen=True):
    """An API server's description of an error (`kind: Status`)."""

    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None


_UNREADABLE = ErrorStatus()


def status_of(answer: ApiAnswer) -> ErrorStatus:
    """The server's description; empty where a proxy answered in a form of its own."""
    try:
        return msgspec.json.decode(answer.body, type=ErrorStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _UNREADABLE


def explained(answer: ApiAnswer) -> str:
    """An answer that is an error, in one line."""
    if answer.status == NO_STATUS:
        return "no answer from the API server"
    message = " ".join(status_of(answer).message.split())
    return f"{answer.status}: {message}" if message else f"{answer.status} from the API server"


def is_unsure(answer: ApiAnswer) -> bool:
    """Whether the server may have done the work although the answer is an error."""
    if answer.status >= 500:
        return not is_webhook_failure(answer)
    return answer.status in (NO_STATUS, 408, 499)


def is_webhook_failure(answer: ApiAnswer) -> bool:
    """Whether an admission webhook could not be called. That happens before anything is done, and may last: a write
    that waited for it would count as in flight for ever.
    """
    return answer.status == 500 and "failed calling webhook" in status_of(answer).message


def is_rejected_unread(answer: ApiAnswer) -> bool:
    """Whether the request was rejected before anything was done: too many requests, or an expired token."""
    return answer.status in (401, 429)


def is_budget_refusal(answer: ApiAnswer) -> bool:
    """Whether an eviction was refused because of a PodDisruptionBudget, and not because the server is busy."""
    if answer.status != 429:
        return False
    details = status_of(answer).details
    return details is not None and any(cause.reason == _BUDGET for cause in details.causes)


def plain_ending(answer: ApiAnswer) -> Ending:
    """The ending of a write that may simply be repeated if its outcome is unknown."""
    if answer.ok:
        return DONE
    if is_rejected_unread(answer) or is_unsure(answer):
        return again(answer)
    if answer.status == 404:
        return refused("the object is gone")
    if answer.status == 409:
        return refused(explained(answer))
    return refused(explained(answer), LONG_PAUSE)


def encoded(body: Any) -> bytes:
    return msgspec.json.encode(body)


# -- back-off ----------------------------------------------------------------------------------------------------


class Backoff:
    """The waits after repeated failures: twice as long each time, with jitter, and never less than the server asks."""

    def __init__(self, random: Random, first: float = FIRST_WAIT, longest: float = LONGEST_WAIT) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self, at_least: float | None = None) -> float:
        """Seconds, between the step and twice the step, so that many clients that failed together do not return
        together. Never less than the first step, nor more than the longest unless the server asks for it.
        """
        step: float = min(self._longest / 2, self._first * 2 ** min(self._failures, 30))
        self._failures += 1
        return max(min(at_least or 0.0, MAX_OBEYED), step * (1 + self._random.random()))
