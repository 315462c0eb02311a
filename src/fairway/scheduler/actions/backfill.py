"""backfill: place lone BestEffort pods, which ask for nothing but a slot.

They are placed in the one order of queues, namespaces and jobs, on any node that takes them: a reservation does not
keep them away.
"""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.framework.candidates import best_effort_candidates
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer


def backfill(session: Session, arguments: Arguments) -> None:
    session.accounts.compute_deserved()
    jobs = best_effort_candidates(session)
    if not jobs:
        return
    placer = Placer(session)
    session.rules.lending = True
    order = Order(session.order, jobs)
    while order:
        job = order.top()
        step = placer.step(job)
        if step is Step.PLACED:
            order.replace_top(*placer.followers(job))
        else:
            order.replace_top(*placer.give_up(job, step))
    session.rules.lending = False
