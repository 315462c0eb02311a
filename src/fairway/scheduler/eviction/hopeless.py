"""Jobs for which nothing can be gained by evicting: they request more than any node has when it is empty.

Where all that waits is of that kind preempt and reclaim have nothing to do, however many jobs and queues there are.
Answers are exact: what is not sure to be without effect takes its ordinary course. A claimant that finds no victims
may still say when it is worth to look again (pods that are too young, or cooling), and external plugins may fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from fairway.api.arguments import EvictionArguments
from fairway.scheduler.eviction.index import victim_index
from fairway.scheduler.framework.candidates import is_for_backfill
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Job
from fairway.state.shapes import Shape
from fairway.state.waiting import GangTemplate


class Hopeless:
    """Asked in one cycle, by one action."""

    def __init__(self, session: Session, arguments: EvictionArguments) -> None:
        self._session = session
        self._arguments = arguments

    def is_all(self) -> bool:
        """Whether no job that waits after this cycle's placements can gain anything."""
        session = self._session
        if self._arguments.preemption_delay or not session.reservations.resumed:
            return False
        parking = session.nodes.kernel.parking
        bound = session.decisions.bound_jobs()
        looked = session.outcomes.parked is parking.parked()
        templates: Iterable[GangTemplate] = parking.active if looked else session.state.waiting.templates_in_use()
        if any(not self._exceeds(template) and _waits(template, bound) for template in templates):
            return False
        if any(
            job.left() and not session.reservations.has(job) and not self._exceeds(job.template)
            for job in session.outcomes.jobs
        ):
            return False
        if any(session.reservations.waiting_on_nodes(job) for job in session.reservations.reserving_jobs.values()):
            return False
        if looked and not parking.parked():
            return True
        return (not looked or parking.all_exceed(self._whole)) and self.are_silent

    @cached_property
    def are_silent(self) -> bool:
        """Whether claimants that can gain nothing leave nothing behind."""
        session = self._session
        if self._arguments.min_runtime or session.plugins.has_external:
            return False
        return not (victim_index(session.state).cooled > session.now).any()

    @cached_property
    def _whole(self) -> list[int]:
        """Of each resource, the most that any node has in all."""
        allocatable = self._session.nodes.snapshot.allocatable
        most: list[int] = allocatable.max(axis=1, initial=0).tolist()
        return most

    def exceeds(self, shape: Shape) -> bool:
        """Whether it requests more of something than any node has in all."""
        if self._session.nodes.devices.uses_devices(shape):
            return False
        return any(amount > self._whole[row] for row, amount in shape.vector)

    def _exceeds(self, template: GangTemplate) -> bool:
        """Whether each of its tasks does: which of them are claimed for does not matter then."""
        return bool(template.runs) and all(self.exceeds(run.shape) for run in template.runs)


def _waits(template: GangTemplate, bound: set[Job]) -> bool:
    """Whether some job of the template was not placed in this cycle."""
    return any(job not in bound for job in template.started) or any(
        each.job not in bound
        for job_class in template.classes.values()
        if not is_for_backfill(job_class)
        for each in job_class.jobs
    )
