"""What `fairway get` and other commands ask a sandbox for."""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.api import kinds
from fairway.app.records import written
from fairway.app.sandbox.kind_names import UnknownKindError, kind_named
from fairway.app.view.frame import Frame
from fairway.app.view.jobs import job_rows as rows_of_jobs
from fairway.app.view.models.commands import EventItems, JobItems, NodeItems, ObjectItems, WaitingItems
from fairway.web.answers.changes import sandbox_of
from fairway.web.answers.questions import in_turn
from fairway.web.asking import Asked, RequestRefusedError
from fairway.web.shown import ShownCluster

MOST_ROWS = 1_000
"""Events and outcomes of one answer."""


def frame(shown: ShownCluster, asked: Asked) -> Frame:
    return sandbox_of(shown).frame()


def job_rows(shown: ShownCluster, asked: Asked) -> JobItems:
    sandbox = sandbox_of(shown)
    return JobItems(rows_of_jobs(sandbox.frame(), sandbox.outcomes(MOST_ROWS)))


def node_rows(shown: ShownCluster, asked: Asked) -> NodeItems:
    return NodeItems(sandbox_of(shown).nodes())


def event_rows(shown: ShownCluster, asked: Asked) -> EventItems:
    return EventItems(sandbox_of(shown).happenings(MOST_ROWS))


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
    "frame": frame,
    "job_rows": job_rows,
    "node_rows": node_rows,
    "event_rows": event_rows,
    "waiting_rows": waiting_rows,
    "objects": objects,
}
