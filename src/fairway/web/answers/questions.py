"""Questions that are put to a copy of the cluster: they decide many times, so few are answered at once.

Looks ahead (`start`, `what_if`) take longest: they have threads of their own, and no other question waits for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fairway.app.explain import explain
from fairway.app.view.models.job import JobExplanation, JobPlaceInOrder, JobStart
from fairway.app.view.models.what_if import WhatIfAnswer
from fairway.app.view.order import job_order
from fairway.web.answers.details import visible_job
from fairway.web.asking import Asked, RequestRefusedError
from fairway.web.concealing import order_for, start_for
from fairway.web.shown import ShownCluster

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for one's turn."""


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
    """For users who may see all: the answer speaks of every job."""
    if shown.what_if is None:
        raise RequestRefusedError(404, "questions are not answered here")
    if asked.viewer.namespaces is not None:
        raise RequestRefusedError(403, "only a user who may list the pods of all namespaces may ask this")
    return shown.what_if.ask(shown.situation(), asked.body, asked.gone, asked.viewer.name)


ANSWERS: dict[str, Any] = {"explanation": explanation, "start": start, "order": order, "what_if": what_if}
