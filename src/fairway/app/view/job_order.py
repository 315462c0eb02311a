"""The queue position of a pending job, key by key, beside the jobs before and after it."""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from fairway.app.explain.situation import Situation
from fairway.errors import InputError
from fairway.scheduler.decide import consider
from fairway.scheduler.report.order_keys import ConsideredJob, KeyPart


class OrderKey(msgspec.Struct, rename="camel", frozen=True):
    """One comparison, with the values of the three jobs."""

    level: str
    plugin: str
    key: str
    own: str
    before: str | None = None
    after: str | None = None
    decides: tuple[str, ...] = ()
    """`before` if this key puts the job behind the previous one, `after` if it puts it ahead of the next."""


class JobOrder(msgspec.Struct, rename="camel", frozen=True):
    job: str
    queue: str
    namespace: str
    position: int
    """Position in its queue."""
    of: int
    place: int
    """Position over all queues."""
    places: int
    before: str | None
    after: str | None
    keys: tuple[OrderKey, ...]


def job_order(situation: Situation, name: str) -> JobOrder:
    """Raises InputError for an unknown job, or one that is not pending."""
    job = situation.find_job(name)
    jobs = consider(situation.state, situation.policy, situation.now)
    place = next((number for number, one in enumerate(jobs) if one.job == job), None)
    if place is None:
        raise InputError(
            f"{job} is not pending: only jobs that remain pending after the next cycle have a queue position"
        )
    own = jobs[place]
    before = jobs[place - 1] if place else None
    after = jobs[place + 1] if place + 1 < len(jobs) else None
    return JobOrder(
        job=job,
        queue=own.queue,
        namespace=own.namespace,
        position=own.position,
        of=sum(one.queue == own.queue for one in jobs),
        place=place + 1,
        places=len(jobs),
        before=None if before is None else before.job,
        after=None if after is None else after.job,
        keys=tuple(_keys(own, before, after)),
    )


def _keys(own: ConsideredJob, before: ConsideredJob | None, after: ConsideredJob | None) -> list[OrderKey]:
    others = [() if other is None else other.parts for other in (before, after)]
    decisive = [_first_difference(own.parts, parts) for parts in others]
    rows = []
    for number, (part, one, two) in enumerate(zip_longest(own.parts, *others)):
        if part is None:
            break
        marks = tuple(name for name, at in zip(("before", "after"), decisive, strict=True) if at == number)
        before_text, after_text = (None if other is None else other.text for other in (one, two))
        rows.append(OrderKey(part.level, part.plugin, part.key, part.text, before_text, after_text, marks))
    return rows


def _first_difference(own: tuple[KeyPart, ...], other: tuple[KeyPart, ...]) -> int | None:
    pairs = zip(own, other, strict=False)
    return next((number for number, (mine, theirs) in enumerate(pairs) if mine.value != theirs.value), None)
