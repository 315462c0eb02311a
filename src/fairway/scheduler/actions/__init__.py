"""The actions of a cycle, by name: each is a step that works on a session through statements."""

from __future__ import annotations

from collections.abc import Callable

from fairway.api.settings import Arguments
from fairway.scheduler.actions.allocate import allocate, backfill
from fairway.scheduler.actions.enqueue import enqueue
from fairway.scheduler.actions.preempt import preempt
from fairway.scheduler.actions.reclaim import reclaim
from fairway.scheduler.actions.reserve import reserve
from fairway.scheduler.framework.session import Session

Action = Callable[[Session, Arguments], None]

ACTIONS: dict[str, Action] = {
    "enqueue": enqueue,
    "reserve": reserve,
    "allocate": allocate,
    "preempt": preempt,
    "reclaim": reclaim,
    "backfill": backfill,
}
