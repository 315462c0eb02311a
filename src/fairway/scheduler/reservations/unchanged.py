"""Reservations that stand as the last cycle left them, while nothing else can be done: told without a session.

A job that has a reservation waits until its node has the capacity. Until then cycle after cycle finds the same: the
reservation stands, its capacity is not there, and nothing that waits fits on the nodes that are not reserved. A full
cycle notes what that rests on (`note`); `still_stand` holds it against the state. Only lone pods go this way, and only
where no device and no external plugin has a say; what is not sure takes its ordinary course.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.arguments import ReserveArguments
from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.framework.candidates import may_fit
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Plan, Reservation
from fairway.scheduler.reservations.starving import overdue
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, Task, TaskState
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot, snapshot_of
from fairway.state.waiting import GangTemplate

MANY = 64
"""Of so many templates of jobs that wait, or reservations, each is looked at."""


class NotedPlace(NamedTuple):
    """Where a pod has its reservation."""

    row: int
    shape: Shape
    since: Micros


class UnchangedReservations:
    """What the last full cycle of a state left behind; nothing at first."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._basis = (-1, -1)
        self._places: dict[str, NotedPlace] = {}
        self._too_large: frozenset[GangTemplate] = frozenset()
        self.entries: tuple[Reservation, ...] = ()

    def note(self, session: Session, plan: Plan) -> None:
        """A cycle is over. If it has placed or ended something, the next one looks at everything. One with reasons also
        says when reservations will be filled: what was noted before is not changed by it.
        """
        if session.explains:
            return
        self._policy = None
        if not plan.reservations or len(plan.reservations) > MANY or session.plugins.has_external:
            return
        if plan.placed or plan.evictions or plan.released:
            return
        if session.effort is not None and session.effort.has_put_off:
            return
        awake, standing = session.reservations.awake(), session.reservations.standing.values()
        held = [(each.task, each.row, each.since) for each in awake] + [
            one for known in standing for one in known.places
        ]
        if all(each.state is TaskState.RESERVED for each in awake) and all(task.job.alone for task, _, _ in held):
            self._policy = session.policy
            self._basis = _basis(session.state)
            self._places = {task.key: NotedPlace(row, task.shape, since) for task, row, since in held}
            self._too_large = frozenset(session.reservations.too_large)
            self.entries = plan.reservations

    def still_stand(
        self, state: ClusterState, policy: Policy, arguments: ReserveArguments, now: Micros
    ) -> list[Micros] | None:
        """The moments at which these reservations end by themselves; None if anything may be otherwise than noted."""
        if self._policy is not policy or self._basis != _basis(state) or not self._are_all(state):
            return None
        if state.queues.restricted or state.reservations.with_overruns() or device_ledger(state).enabled:
            return None
        ends: list[Micros] = []
        if arguments.reservation_timeout:
            ends = [place.since + arguments.reservation_timeout * SECOND for place in self._places.values()]
            if min(ends) <= now:
                return None
        if self._may_start(state) or not all(
            self._cannot_reserve(state, job) for job in overdue(state, arguments, now)
        ):
            return None
        return ends

    def _are_all(self, state: ClusterState) -> bool:
        """Whether the state has these reservations, and no other job that has started waits."""
        waiting = state.waiting
        if not len(self._places) == len(waiting.started) == len(waiting.with_reservations):
            return False
        return all(len(job.tasks) == 1 and self._is_noted(state, job.tasks[0]) for job in waiting.with_reservations)

    def _is_noted(self, state: ClusterState, task: Task) -> bool:
        place, record = self._places.get(task.key), state.reservation_of(task)
        if place is None or record is None or task.state is not TaskState.RESERVED:
            return False
        return (task.node, task.shape, record.since) == place

    def _may_start(self, state: ClusterState) -> bool:
        """Whether capacity may be there: of a reservation on its node, of all that waits on the others."""
        snapshot = snapshot_of(state)
        for place in self._places.values():
            if may_fit(place.shape, snapshot.idle[:, place.row].tolist()):
                return True
        if state.waiting.template_count > MANY:
            return True
        shapes = [run.shape for template in state.waiting.templates() for run in template.runs]
        most = _max_idle(snapshot, {place.row for place in self._places.values()})
        if any(shape.best_effort or may_fit(shape, most) for shape in shapes):
            return True
        return any(may_fit(place.shape, most) for place in self._places.values())

    def _cannot_reserve(self, state: ClusterState, job: Job) -> bool:
        """Whether a job that starves has its reservation, or requests more than is left to reserve on any node."""
        waiting = state.waiting
        return job in waiting.started or waiting.position_of(job).template in self._too_large


def _basis(state: ClusterState) -> tuple[int, int]:
    """What decides, besides free capacity, whether a reservation may stand and where there may be others."""
    return state.nodes.reshaped.end, state.queues.generation


def _max_idle(snapshot: Snapshot, reserved: set[int]) -> list[int]:
    """Of every resource, the most that any one node without a reservation has free."""
    free = [row for row in range(snapshot.size) if row not in reserved] if snapshot.size > len(reserved) else []
    if not free:
        return [-1] * len(snapshot.idle)
    most: list[int] = snapshot.idle.take(free, axis=1).max(axis=1).tolist()
    return most


def unchanged(state: ClusterState) -> UnchangedReservations:
    return state.derived.of(UnchangedReservations, UnchangedReservations)
