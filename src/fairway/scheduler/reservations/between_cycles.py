"""Capacity for the missing pods of broken gangs (spec S5.5), before anything else is placed.

A gang that has lost pods a short time ago has what they left: pods that were recreated are placed at once, and for
those that are still missing as much as a pod that is left requests is kept free, wherever it fits. What terminating
pods of the gang will leave is not lent to claimants. All that lasts for `gangRepairTimeout`.

Where planned starts are hard or soft (`backfill` with run times) nothing is kept, for that could delay them: there a
broken gang only goes first among the jobs of its queue.

What becomes of the reservations that the state carries: once per cycle, before anything is placed.

Reservations that may not stand any longer end, those whose capacity is there take it, and gangs that are ready by it
are bound. What is left stands as it did.

Which jobs' reservations are left standing for the next cycles (see `framework.standing`).

Reservations that stand as the last cycle left them, while nothing else can be done: told without a session.

A job that has a reservation waits until its node has the capacity. Until then cycle after cycle finds the same: the
reservation stands, its capacity is not there, and nothing that waits fits on the nodes that are not reserved. A full
cycle notes what that rests on (`note`); `still_stand` holds it against the state. Only lone pods go this way, and only
where no device and no external plugin has a say; what is not sure takes its ordinary course.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fairway.api.arguments import AllocateArguments, ReserveArguments
from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.framework.candidates import admission, may_fit
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun, alike, broken_since, is_repaired_by, missing_of
from fairway.scheduler.framework.reservation_ledger import StandingJob, TaskReservation, standing_reservations
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.placement.kernel import LENDING, PLAIN
from fairway.scheduler.plan import Plan, Reservation
from fairway.scheduler.reservations.reserving import max_reserved
from fairway.scheduler.reservations.starvation import condition_ready, overdue
from fairway.scheduler.verdict import Reason
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations
from fairway.state.jobs import RUNS, Job, Task, TaskState
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot, snapshot_of
from fairway.state.waiting import GangTemplate


def keep_for_broken(session: Session) -> None:
    """For every gang that broke not too long ago, in the order of the tie rule."""
    policy = session.policy
    arguments = policy.arguments("allocate")
    backfill = policy.backfill
    if policy.action("allocate") is None or (backfill is not None and backfill.needs_run_times):
        return
    timeout = (arguments if isinstance(arguments, AllocateArguments) else AllocateArguments()).gang_repair_timeout
    for job in sorted(session.state.broken_gangs, key=lambda job: job.order):
        since = broken_since(job, session.now)
        until = None if since is None else since + timeout * SECOND
        if until is not None and session.now < until:
            session.decisions.rechecks.append(until)
            _keep(session, job, until)


def _keep(session: Session, job: Job, until: Micros) -> None:
    found = session.state.waiting.started.get(job)
    if found is not None:
        template, pending_job = found
        run = session.reservations.awake_jobs.get(job) or session.job_run(pending_job, template)
        verdict = admission(session, run)
        if verdict.ok:
            if not is_repaired_by(job, missing_of(run)) or _place(session, run):
                return
        elif verdict.reason is not Reason.GANG_TOO_FEW_PODS:
            return
    session.outcomes.notes[job] = f"capacity for its missing pods is kept until {format_rfc3339(until)}"
    session.reservations.repairing += [task for task in job.tasks if task.state is TaskState.RELEASING]
    nodes = session.nodes
    for task in _like_missing(job):
        rows = [] if nodes.devices.uses_devices(task.shape) else nodes.kernel.choose(task.shape, 1, PLAIN)
        if rows:
            nodes.write_room(task.shape, rows, 1)


def _place(session: Session, run: JobRun) -> bool:
    """Place what is missing, on what is lent too: the queue had it before."""
    session.reservations.begin(run)  # from here on every action works with this run
    return Placer(session).step(run, LENDING if session.rules.lends() else PLAIN) is Step.PLACED


def _like_missing(job: Job) -> Iterator[Task]:
    """For each pod that is neither there nor terminating, one that is left and has its role."""
    left = [task for task in job.tasks if task.state in RUNS]
    have = {**job.ready_by_role()}
    missing = job.minimum - job.ready
    for task in job.tasks:
        if task.state is TaskState.RELEASING:  # its capacity is not free yet
            have[task.traits.role] = have.get(task.traits.role, 0) + 1
            missing -= 1
    for role, least in job.role_minimums:
        for _ in range(least - have.get(role, 0)):
            missing -= 1
            yield alike(left, role)[0]
    for _ in range(missing):
        yield left[0]


INCOMPLETE = "the job no longer has nodes for its minimum"

Broken = list[tuple[TaskReservation, str]]
"""Reservations that may not stand any longer, and why."""


def resume(session: Session, ending: Broken | None = None) -> None:
    """Asked by every action that places; the first one does it. `ending` are those that are `broken`, if that was
    asked before.
    """
    reservations = session.reservations
    if reservations.resumed:
        return
    reservations.resumed = True
    for reservation, reason in broken(session) if ending is None else ending:
        reservations.release(reservation, reason)
    if reservations.standing and _is_above_limit(session):
        reservations.wake()
    jobs = sorted(reservations.awake_jobs.values(), key=lambda job: _rank(session, job))
    _lose_capacity(session, jobs)
    _keep_limit(session, jobs)
    for job in sorted(jobs, key=lambda job: _nominated_since(session, job)):
        _settle(session, job)
    if session.state.broken_gangs:
        keep_for_broken(session)


def broken(session: Session) -> Broken:
    """The reservations that may not stand any longer, and why."""
    found = ((reservation, _broken(session, reservation)) for reservation in session.reservations.awake())
    return [(reservation, reason) for reservation, reason in found if reason]


def _rank(session: Session, job: JobRun) -> tuple[object, ...]:
    since = min((reservation.since for reservation in session.reservations.of(job)), default=0)
    return -job.priority, since, job.job.order


def _nominated_since(session: Session, job: JobRun) -> tuple[int, Micros]:
    """Those that pods were evicted for come first, the longest nominated before others: what is free on a node by now
    was left by the pods that were evicted first, and a later claimant waits for its own, whatever its priority.
    """
    since = [each.since for each in session.reservations.of(job) if each.state is TaskState.PIPELINED]
    return (0, min(since)) if since else (1, 0)


def _lose_capacity(session: Session, jobs: list[JobRun]) -> None:
    """Where a node has become too small for what is reserved there, the last in order wait for capacity again."""
    idle = session.nodes.snapshot.idle
    for job in reversed(jobs):
        for reservation in session.reservations.of(job):
            if reservation.state is TaskState.ALLOCATED and any(
                idle[row, reservation.row] < 0 for row, _ in reservation.task.shape.vector
            ):
                session.reservations.revert(reservation, TaskState.RESERVED)


def _keep_limit(session: Session, jobs: list[JobRun]) -> None:
    """Nodes have gone, or the policy has changed: the last in order give up what is above its limit."""
    if session.policy.reserve is None:
        return
    most = max_reserved(session.nodes.snapshot, session.policy.reserve)
    for job in reversed(jobs):
        if len(session.reservations.rows()) <= most:
            return
        for reservation in session.reservations.of(job):
            if reservation.state is not TaskState.PIPELINED:
                session.reservations.release(reservation, f"more than {most} nodes would be reserved")


def _is_above_limit(session: Session) -> bool:
    arguments = session.policy.reserve
    return arguments is not None and len(session.reservations.rows()) > max_reserved(session.nodes.snapshot, arguments)


def _settle(session: Session, job: JobRun) -> None:
    """Reservations that can take their capacity do; if that makes the job ready it is bound."""

    def is_there(reservation: TaskReservation) -> bool:
        return _is_known(session, reservation) and session.nodes.kernel.fits_now(
            reservation.task.shape, reservation.row
        )

    nominated = session.statement()
    for reservation in session.reservations.of(job):
        if reservation.state is TaskState.PIPELINED:
            nominated.take_nominated(reservation, is_there)
        elif reservation.state is TaskState.RESERVED:
            session.reservations.allocate(reservation, is_there)
    if session.reservations.of(job) and session.rules.job_ready(job):
        nominated.commit()
        session.reservations.bind(job)
    else:
        nominated.rollback()


def release_incomplete(session: Session) -> None:
    """All or nothing: a gang that lost a nomination, and that no action has found another place for, gives up the
    rest, so that the capacity does not stand empty until the nominations time out.
    """
    reservations = session.reservations
    for job in list(reservations.awake_jobs.values()):
        if reservations.is_nominated(job) and not condition_ready(session, job):
            for reservation in reservations.of(job):
                reservations.release(reservation, INCOMPLETE)
            session.decisions.rechecks.append(session.now + 1)  # what it kept is there for others


def _broken(session: Session, reservation: TaskReservation) -> str:
    """Why a reservation may not stand any longer; "" if it may."""
    nodes, row = session.state.nodes, reservation.row
    if not nodes.alive[row]:
        return "its node is gone"
    if not nodes.ready[row]:
        return "its node is not ready"
    if not nodes.schedulable[row]:
        return "its node is cordoned"
    admitted = admission(session, reservation.job)
    if not admitted.ok:
        return admitted.detail
    if reservation.state is TaskState.PIPELINED:
        return _nomination_broken(session, reservation)
    return _reservation_broken(session, reservation)


def _nomination_broken(session: Session, reservation: TaskReservation) -> str:
    timeout = session.policy.nomination_timeout
    if session.now - reservation.since >= timeout * SECOND:
        return f"not bound within {timeout} s"
    return _no_longer_fits(session, reservation)


def _reservation_broken(session: Session, reservation: TaskReservation) -> str:
    arguments = session.policy.reserve
    if arguments is None:
        return "the policy reserves nothing"
    timeout = arguments.reservation_timeout
    if session.reservations.is_nominated(reservation.job):
        timeout = 0  # pods are evicted for the rest of its gang: it waits for those as long as a nomination does
    if timeout and session.now - reservation.since >= timeout * SECOND:
        session.reservations.given_up.setdefault(reservation.job, set()).add(reservation.row)
        return f"not used within {timeout} s"
    return _no_longer_fits(session, reservation)


def _no_longer_fits(session: Session, reservation: TaskReservation) -> str:
    if not _is_known(session, reservation):
        return ""
    fits = session.nodes.kernel.fits_when_empty(reservation.task.shape, reservation.row)
    return "" if fits else "it no longer fits its node"


def _is_known(session: Session, reservation: TaskReservation) -> bool:
    """Whether the expressions by which a pod requests devices are evaluated: until they are, it seems to fit nowhere.
    That belongs to the pod, which has a place, and not to its template, which counts what still needs one.
    """
    effort = session.effort
    return effort is None or effort.prepares(reservation.job, reservation.task.shape)


_NOT_TRIED = object()


def leave_standing(session: Session, entries: Mapping[TaskReservation, Reservation]) -> None:
    """As all actions have run: those that waited for capacity before and after. `entries` is what the plan says."""
    kept = standing_reservations(session.state)
    for job, run in session.reservations.awake_jobs.items():
        reservations = session.reservations.of(run)
        if reservations and _stands(session, run, reservations):
            places = tuple((each.task, each.row, each.since) for each in reservations)
            made = tuple(entries[each] for each in reservations)
            until = _until(session, reservations)
            shapes = frozenset(each.task.shape for each in reservations)
            kept.add(job, StandingJob(shapes, places, made, until, session.explains))
        else:
            kept.discard(job)


def wake_all(session: Session) -> None:
    """Reasons are asked for: what stands waits for free capacity, as it did when it was last tried."""
    standing = list(session.reservations.standing)
    session.reservations.wake()
    for job in standing:
        session.outcomes.jobs.setdefault(session.reservations.awake_jobs[job], None)


def _stands(session: Session, run: JobRun, reservations: list[TaskReservation]) -> bool:
    """Whether the job had these reservations before, all that it waits for is reserved, and no node takes it."""
    return (
        session.outcomes.jobs.get(run, _NOT_TRIED) is None
        and run.job in session.state.waiting.with_reservations
        and run.job.topology is None
        and not run.left()
        and len(reservations) == len(list(run.job.reserved_tasks()))
        and all(_is_as_before(session, reservation) for reservation in reservations)
    )


def _is_as_before(session: Session, reservation: TaskReservation) -> bool:
    task, shape = reservation.task, reservation.task.shape
    record = session.state.reservation_of(task)
    return (
        reservation.state is TaskState.RESERVED is task.state
        and reservation.row == task.node
        and reservation.planned_start is None
        and record is not None
        and record.since == reservation.since
        and not (shape.has_pod_rules or shape.has_volumes or shape.ports or shape.best_effort)
        and not session.nodes.devices.uses_devices(shape)
    )


def _until(session: Session, reservations: list[TaskReservation]) -> Micros | None:
    arguments = session.policy.reserve
    if arguments is None or not arguments.reservation_timeout:
        return None
    return min(each.since for each in reservations) + arguments.reservation_timeout * SECOND


MANY = 64
"""Of so many templates of jobs that wait, or reservations, each is looked at."""


class NotedPlace(NamedTuple):
    """Where a pod has its reservation."""

    row: int
    shape: Shape
    since: Micros


class UnchangedReservations(
    DerivedValue,
    name="unchanged-reservations",
    holds="reservations of a cycle that could do nothing else, and the conditions for that",
    inputs=("node labels and sizes", "queues", "policy", "time"),
    saves="the session of a cycle that changes no reservation",
):
    """What the last full cycle of a state left behind; nothing at first."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.nodes.reshaped)
        self._queues = state.queues
        self._policy: Policy | None = None
        self._places: dict[str, NotedPlace] = {}
        self._too_large: frozenset[GangTemplate] = frozenset()
        self.entries: tuple[Reservation, ...] = ()

    @classmethod
    def make(cls, state: ClusterState) -> UnchangedReservations:
        return cls(state)

    def generations(self) -> Generations:
        """What decides, besides free capacity, whether a reservation may stand and where there may be others."""
        return (self._queues.generation,)

    def rebuild(self) -> None:
        """Nothing is noted: the next full cycle does."""
        self._policy = None

    def note(self, session: Session, plan: Plan) -> None:
        """A cycle is over. If it has placed or ended something, the next one looks at everything. One with reasons also
        says when reservations will be filled: what was noted before is not changed by it.
        """
        if session.explains:
            return
        self.sync()
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
            self._places = {task.key: NotedPlace(row, task.shape, since) for task, row, since in held}
            self._too_large = frozenset(session.reservations.too_large)
            self.entries = plan.reservations

    def still_stand(
        self, state: ClusterState, policy: Policy, arguments: ReserveArguments, now: Micros
    ) -> list[Micros] | None:
        """The moments at which these reservations end by themselves; None if anything may be otherwise than noted."""
        self.sync()
        if self._policy is not policy or not self._are_all(state):
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


def _max_idle(snapshot: Snapshot, reserved: set[int]) -> list[int]:
    """Of every resource, the most that any one node without a reservation has free."""
    free = [row for row in range(snapshot.size) if row not in reserved] if snapshot.size > len(reserved) else []
    if not free:
        return [-1] * len(snapshot.idle)
    most: list[int] = snapshot.idle.take(free, axis=1).max(axis=1).tolist()
    return most


def unchanged(state: ClusterState) -> UnchangedReservations:
    return state.derived.get(UnchangedReservations)
