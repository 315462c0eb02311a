"""Placing the next step of a job that asks for a topology: domain after domain, until one way works."""

from __future__ import annotations

from collections.abc import Callable

from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.placement.kernel import Kernel
from fairway.scheduler.topology.domains import Domains

Attempt = Callable[[], Step]
"""Places what it can on the nodes that are open to it. What does not suffice stays on the statement."""


def begin_in_domains(session: Session, job: JobRun, statement: Statement, begin: Attempt) -> Step:
    """The job's whole minimum in one domain (hard), or in few; NO_ROOM leaves the statement as it was."""
    domains = Domains(session, job)
    mark = statement.checkpoint()
    ways = ([domain.mask] for domain in domains.whole()) if domains.request.hard else domains.fewest()
    for way in ways:
        for mask in way:
            step = within(session.nodes.kernel, mask, begin)
            if step is not Step.NO_CAPACITY:
                return step
        statement.rollback(mark)
    return Step.NO_CAPACITY if domains.request.hard else begin()


def grow_in_domains(session: Session, job: JobRun, grow: Attempt) -> Step:
    """One more task: where the job is (hard), or there first and else anywhere."""
    domains = Domains(session, job)
    masks = (domain.mask for domain in domains.whole()) if domains.request.hard else domains.used()
    for mask in masks:
        step = within(session.nodes.kernel, mask, grow)
        if step is not Step.NO_CAPACITY:
            return step
    return Step.NO_CAPACITY if domains.request.hard else grow()


def within(kernel: Kernel, mask: BoolColumn, attempt: Attempt) -> Step:
    kernel.domain = mask
    step = attempt()
    kernel.domain = None
    return step
