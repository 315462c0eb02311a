"""What changes something: objects and pace of a sandbox, and jobs of a cluster."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fairway.api import kinds
from fairway.api.manifests import parse_object
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.kind_names import kind_named
from fairway.app.view.models.commands import ApplyRequest, CommandResult, CommandResults, DeleteRequest
from fairway.app.view.models.job import JobActionAnswer
from fairway.app.view.models.session import PaceSetting
from fairway.errors import InputError
from fairway.web.answers.details import visible_job
from fairway.web.asking import Asked, RequestRefusedError
from fairway.web.shown import ShownCluster

MOST_OBJECTS = 10_000
"""Objects of one request."""
FASTEST = 1_000_000


def act(shown: ShownCluster, asked: Asked) -> JobActionAnswer:
    if shown.actions is None:
        raise RequestRefusedError(403, "this page is read-only: actions are allowed with --allow-actions")
    return JobActionAnswer(shown.actions.act(asked.viewer, visible_job(asked), asked.body))


def pace(shown: ShownCluster, asked: Asked) -> PaceSetting:
    if shown.pace is None:
        raise RequestRefusedError(404, "time cannot be scaled here")
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
    if objects > MOST_OBJECTS:
        raise InputError(f"{objects} objects in one request, expected at most {MOST_OBJECTS}")


ANSWERS: dict[str, Any] = {"act": act, "pace": pace, "apply": apply, "delete": delete}
