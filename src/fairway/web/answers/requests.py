"""Answers to questions that decide on a copy, to changes, and to the other commands of `fairway`.

Questions decide many times, so only a few are answered at once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from fairway.api import kinds
from fairway.api.manifests import parse_object
from fairway.app.explain import explain
from fairway.app.records import written
from fairway.app.sandbox import Sandbox, UnknownKindError, kind_named
from fairway.app.view.frame import Frame
from fairway.app.view.frame import job_rows as rows_of_jobs
from fairway.app.view.job_order import job_order
from fairway.app.view.models.commands import (
    ApplyRequest,
    CommandResult,
    CommandResults,
    DeleteRequest,
    EventItems,
    JobItems,
    NodeItems,
    ObjectItems,
    WaitingItems,
)
from fairway.app.view.models.jobs import JobActionAnswer, JobExplanation, JobPlaceInOrder, JobStart
from fairway.app.view.models.session import PaceSetting
from fairway.app.view.models.what_if import WhatIfAnswer
from fairway.errors import InputError
from fairway.web.answers.views import visible_job
from fairway.web.asking import Asked, RequestRefusedError
from fairway.web.concealing import order_for, start_for
from fairway.web.shown import ShownCluster

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for a turn."""


def explanation(shown: ShownCluster, asked: Asked) -> JobExplanation:
    name, revision = visible_job(asked), shown.watch.picture.revision
    found = in_turn(shown, asked, lambda: explain(shown.situation(), name, with_forecast=False))
    return JobExplanation(revision, found)


def start(shown: ShownCluster, asked: Asked) -> JobStart:
    name = visible_job(asked)
    situation, revision = shown.situation(), shown.watch.picture.revision
    found = shown.ahead.start(situation, name, bounds=asked.query["bounds"], gone=asked.gone, user=asked.viewer.name)
    return start_for(JobStart(revision, found.forecast, found.interval), asked.viewer)


def order(shown: ShownCluster, asked: Asked) -> JobPlaceInOrder:
    name = visible_job(asked)
    revision = shown.watch.picture.revision
    found = JobPlaceInOrder(revision, in_turn(shown, asked, lambda: job_order(shown.situation(), name)))
    return order_for(found, asked.viewer)


def in_turn(shown: ShownCluster, asked: Asked, ask: Callable[[], T]) -> T:
    shown.asking.take(asked.viewer.name, PATIENCE, asked.gone)
    try:
        return ask()
    finally:
        shown.asking.give_back()


def what_if(shown: ShownCluster, asked: Asked) -> WhatIfAnswer:
    """Only for users who may see all namespaces: the answer is about every job."""
    if shown.what_if is None:
        raise RequestRefusedError(404, "what-if questions are not available here")
    if asked.viewer.namespaces is not None:
        raise RequestRefusedError(403, "this requires permission to list pods in all namespaces")
    return shown.what_if.ask(shown.situation(), asked.body, asked.gone, asked.viewer.name)


MAX_OBJECTS = 10_000
"""Maximum number of objects in one request."""
FASTEST = 1_000_000


def act(shown: ShownCluster, asked: Asked) -> JobActionAnswer:
    if shown.actions is None:
        raise RequestRefusedError(403, "this page is read-only: actions are allowed with --allow-actions")
    return JobActionAnswer(shown.actions.act(asked.viewer, visible_job(asked), asked.body))


def pace(shown: ShownCluster, asked: Asked) -> PaceSetting:
    if shown.pace is None:
        raise RequestRefusedError(404, "the speed cannot be changed here")
    given: PaceSetting = asked.body
    if given.speed is not None:
        if not 0 < given.speed <= FASTEST:
            raise InputError(f"speed is {given.speed:g}, expected more than 0 and at most {FASTEST}")
        shown.pace.speed = Fraction(str(given.speed))
    if given.paused is not None:
        shown.pace.paused = given.paused
    return PaceSetting(float(shown.pace.speed), shown.pace.paused)


def sandbox_of(shown: ShownCluster) -> Sandbox:
    if shown.sandbox is None:
        raise RequestRefusedError(404, "this is not a sandbox")
    return shown.sandbox


def apply(shown: ShownCluster, asked: Asked) -> CommandResults:
    sandbox, given = sandbox_of(shown), asked.body
    assert isinstance(given, ApplyRequest)
    _limit(len(given.objects))
    objects = [parse_object(thing, f"objects[{index}]") for index, thing in enumerate(given.objects)]
    return CommandResults([CommandResult(one.object, one.result) for one in sandbox.apply(objects)])


def delete(shown: ShownCluster, asked: Asked) -> CommandResults:
    sandbox, given = sandbox_of(shown), asked.body
    assert isinstance(given, DeleteRequest)
    _limit(len(given.objects))
    keys = []
    for name in given.objects:
        namespaced = name.kind == "Job" or kind_named(name.kind).namespaced
        keys.append((name.kind, (name.namespace or kinds.DEFAULT_NAMESPACE) if namespaced else "", name.name))
    return CommandResults([CommandResult(title, "deleted") for title in sandbox.delete(keys)])


def _limit(objects: int) -> None:
    if objects > MAX_OBJECTS:
        raise InputError(f"{objects} objects in one request, expected at most {MAX_OBJECTS}")


MAX_ROWS = 1_000
"""Maximum number of events and finished jobs in one answer."""


def frame(shown: ShownCluster, asked: Asked) -> Frame:
    return sandbox_of(shown).frame()


def job_rows(shown: ShownCluster, asked: Asked) -> JobItems:
    sandbox = sandbox_of(shown)
    return JobItems(rows_of_jobs(sandbox.frame(), sandbox.outcomes(MAX_ROWS)))


def node_rows(shown: ShownCluster, asked: Asked) -> NodeItems:
    return NodeItems(sandbox_of(shown).nodes())


def event_rows(shown: ShownCluster, asked: Asked) -> EventItems:
    return EventItems(sandbox_of(shown).happenings(MAX_ROWS))


def waiting_rows(shown: ShownCluster, asked: Asked) -> WaitingItems:
    return WaitingItems(in_turn(shown, asked, sandbox_of(shown).waiting))


def objects(shown: ShownCluster, asked: Asked) -> ObjectItems:
    sandbox = sandbox_of(shown)
    rest = [part for part in asked.path["which"].split("/") if part]
    if not 1 <= len(rest) <= 3:
        raise RequestRefusedError(404, "expected objects/KIND, objects/KIND/NAME or objects/KIND/NAMESPACE/NAME")
    try:
        kind = kind_named(rest[0])
    except UnknownKindError as error:
        raise RequestRefusedError(404, str(error)) from None
    found = [
        thing
        for thing in sandbox.objects()
        if kinds.key(thing)[0] == kind.name and _matches(kinds.key(thing), rest[1:])
    ]
    if len(rest) > 1 and not found:
        raise RequestRefusedError(404, f"there is no {kind.name} {'/'.join(rest[1:])}")
    return ObjectItems([_plain(thing) for thing in sorted(found, key=kinds.key)])


def _plain(thing: kinds.ApiObject) -> dict[str, Any]:
    return msgspec.json.decode(written(thing), type=dict[str, Any])


def _matches(key: kinds.ObjectKey, wanted: list[str]) -> bool:
    _, namespace, name = key
    if not wanted:
        return True
    return name == wanted[-1] and (len(wanted) == 1 or namespace == wanted[0])


ANSWERS: dict[str, Any] = {
    "act": act,
    "pace": pace,
    "apply": apply,
    "delete": delete,
    "explanation": explanation,
    "start": start,
    "order": order,
    "what_if": what_if,
    "frame": frame,
    "job_rows": job_rows,
    "node_rows": node_rows,
    "event_rows": event_rows,
    "waiting_rows": waiting_rows,
    "objects": objects,
}
"""The function for each operation, by its name in the contract."""
