"""Placing one step of a job: its whole minimum or nothing; once it is ready, one task at a time."""

from __future__ import annotations

from functools import cached_property, partial

from fairway.scheduler.framework.candidates import feasibility_is_monotone, next_in_class
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.effort import out_of_budget
from fairway.scheduler.framework.job_run import JobRun, TaskRun, missing_of
from fairway.scheduler.framework.reservation_ledger import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.unevictable import Unevictable
from fairway.scheduler.placement.kernel import LENDING, Placing
from fairway.scheduler.topology.domains import begin_in_domains, grow_in_domains
from fairway.scheduler.verdict import QUEUE_LIMITED, Verdict
from fairway.state.derived import shortcut
from fairway.state.jobs import TaskState
from fairway.state.shapes import Shape

LONE_PODS = shortcut(
    "lone-pods",
    holds="nothing: a lone pod limited only by capacity, devices and its queue is placed without a statement",
    inputs=("policy",),
    saves="a statement for each such pod",
)


class Placer:
    """Takes steps on a session, and remembers what has been found not to fit."""

    def __init__(self, session: Session, *, remembers: bool = True) -> None:
        """Where what fits depends on more than the shape (run times), nothing can be remembered."""
        self._session = session
        self._remembers = remembers
        self._takes_shortcut = remembers and LONE_PODS not in session.state.derived.off
        self._not_lent: dict[JobRun, Verdict] = {}
        """Jobs that may not borrow, and why."""
        self._capacity: dict[Shape, int] = {}
        """Exact capacity of a shape, where it was found to be less than asked for. It only shrinks."""

    @cached_property
    def _unevictable(self) -> Unevictable:
        """Needed only where something is lent: in most cycles nothing is."""
        return Unevictable(self._session.state)

    def step(self, job: JobRun, placing: Placing) -> Step:
        if placing.lending and self._may_not_borrow(job):
            return Step.NOT_ALLOWED
        if self._session.effort is not None and not self._session.effort.affords(job):
            return Step.PUT_OFF
        if self._session.nodes.caps_for is None:
            return self._place_lone(job, placing) if self._is_lone(job) else self._step(job, placing)
        return self._step(job, self._session.nodes.beside_planned_starts(job, placing))

    def _may_not_borrow(self, job: JobRun) -> bool:
        """Whether nothing could evict what the job places next: such pods are never placed on what is lent. Of a job
        that grows some pods may be evictable.
        """
        verdict_of = self._unevictable.verdict
        if self._session.rules.job_ready(job):
            verdicts = [verdict_of(job, run.tasks[run.placed : run.placed + 1], together=False) for run in job.runs]
            verdict = None if None in verdicts else verdicts[0] if verdicts else None
        else:
            verdict = verdict_of(job, missing_of(job), together=True)
        if verdict is not None:
            self._not_lent[job] = verdict
        return verdict is not None

    def _step(self, job: JobRun, placing: Placing) -> Step:
        statement = self._session.statement()
        if self._session.rules.job_ready(job):
            if job.job.topology is None:
                return self._grow(job, statement, placing)
            return grow_in_domains(self._session, job, placing, partial(self._grow, job, statement))
        step = self._begin(job, statement, placing)
        if step is Step.PLACED:
            statement.commit()
            self._session.reservations.bind(job)
        else:
            statement.rollback()
        return step

    def _is_lone(self, job: JobRun) -> bool:
        """Whether a job is one pod that only capacity, devices and its queue decide about: then its step has but one
        task, and there is nothing that would have to be undone.
        """
        session = self._session
        if not self._takes_shortcut or job.ready or job.minimum != 1 or len(job.waiting) != 1:
            return False
        shape = job.waiting[0].shape
        return not (
            job.role_ready is not None
            or job.job.topology is not None
            or shape.has_pod_rules
            or shape.ports
            or session.plugins.has_external
            or session.reservations.has(job)
            or session.rules.job_ready(job)
        )

    def _place_lone(self, job: JobRun, placing: Placing) -> Step:
        """What `_step` does for such a job, without a statement."""
        session = self._session
        if job.template in session.outcomes.no_capacity and not job.started:
            return Step.NO_CAPACITY
        run = job.runs[0]
        shape = run.shape
        if session.rules.allocatable(job.queue, shape, 1, placing.lending) < 1:
            return Step.NOT_ALLOWED
        if self._capacity.get(shape, 1) < 1:
            return Step.NO_CAPACITY
        nodes = session.nodes
        rows = nodes.kernel.choose(shape, 1, placing)
        if not rows:
            self._capacity[shape] = 0  # a lone pod is looked for on all nodes: that none takes it holds for the shape
            return Step.NO_CAPACITY
        nodes.write_room(shape, rows, 1)
        if shape.has_volumes and not nodes.volumes.is_idle(shape):
            nodes.stand_in(run.tasks[0], rows[0], 1)
        run.placed = 1
        job.charge(run, 1)
        if nodes.devices.uses_devices(shape):
            job.charge_more(nodes.devices.give(shape, run.tasks[0], rows[0]), 1)
        session.rules.on_allocate(job, shape, 1)
        session.decisions.bind(job, run.tasks, rows)
        return Step.PLACED

    def is_too_large(self, job: JobRun, placing: Placing) -> bool:
        """Whether one look at the largest free amounts shows that a step of the job would find no free capacity. False
        where that takes more than a look; most jobs that wait behind others are sorted out here.
        """
        session, runs = self._session, job.runs
        if len(runs) != 1 or job.job.topology is not None or job.role_ready is not None:
            return False
        shape, left = runs[0].shape, len(runs[0].tasks) - runs[0].placed
        if session.nodes.kernel.may_fit(shape) or session.reservations.has(job):
            return False
        count = 1 if session.rules.job_ready(job) else min(job.minimum - job.ready, left)
        return 0 < count == session.rules.allocatable(job.queue, shape, count, placing.lending)

    def would_fit_if_lent(self, job: JobRun) -> bool:
        """Whether a job that its share does not allow could start on what others leave idle. Nothing is placed."""
        session = self._session
        if self.is_too_large(job, LENDING):
            return False
        statement = session.statement()
        placing = session.nodes.beside_planned_starts(job, LENDING)
        if session.rules.job_ready(job):
            fits = any(run.left and statement.allocate(job, run, 1, placing) for run in job.runs)
        else:
            fits = self._begin(job, statement, placing) is not Step.NO_CAPACITY
        statement.rollback()
        return bool(fits)

    def would_place(self, job: JobRun, placing: Placing) -> bool:
        """Whether the next step of a job that has not started finds its nodes. Nothing is placed."""
        statement = self._session.statement()
        fits = self._begin(job, statement, placing) is Step.PLACED
        statement.rollback()
        return fits

    def followers(self, job: JobRun) -> list[JobRun]:
        """After a placed step: the job itself if more of it waits, and the job behind it."""
        following = [] if job.job_class is None else self._behind(job)
        job.job_class = None
        if job.left():
            following.append(job)
        return following

    def give_up(self, job: JobRun, step: Step) -> list[JobRun]:
        """The job is out for this cycle, and with it those of its class; returns those of them that are not."""
        verdict = self._not_lent.get(job, QUEUE_LIMITED) if step is Step.NOT_ALLOWED else None
        if step is Step.PUT_OFF:
            verdict = out_of_budget(job.namespace)
        if job.job_class is None:
            self._session.outcomes.jobs[job] = verdict
            return []
        if verdict is not None:
            self._session.outcomes.classes[job.job_class] = verdict
            return []
        if job.template.uniform and self._feasibility_is_monotone(job.template.runs[0].shape):
            self._session.outcomes.no_capacity.add(job.template)
            return []
        self._session.outcomes.jobs[job] = None
        return self._behind(job)

    def defer(self, job: JobRun) -> list[JobRun]:
        """The job is out for this pass; returns the next of its class, if that one may fare otherwise."""
        if job.job_class is None or (job.template.uniform and job not in self._not_lent):
            return []
        following = self._behind(job)
        job.job_class = None
        return following

    def _behind(self, job: JobRun) -> list[JobRun]:
        assert job.job_class is not None
        following = next_in_class(self._session, job.job_class, job.position + 1)
        return [] if following is None else [following]

    def _feasibility_is_monotone(self, shape: Shape) -> bool:
        return self._remembers and feasibility_is_monotone(shape)

    def _begin(self, job: JobRun, statement: Statement, placing: Placing) -> Step:
        """A job that is not ready: roles first, then the rest of the minimum, in task order."""
        if job.template in self._session.outcomes.no_capacity and not job.started:
            return Step.NO_CAPACITY
        if job.job.topology is None:
            return self._begin_here(job, statement, placing)
        return begin_in_domains(self._session, job, statement, placing, partial(self._begin_here, job, statement))

    def _begin_here(self, job: JobRun, statement: Statement, placing: Placing) -> Step:
        allowed = True
        self._take_nominated(job, statement, placing)
        for role, least in job.job.role_minimums:
            missing = least - (job.role_ready or {}).get(role, 0)
            allowed &= self._place(job, statement, placing, missing, role)
        allowed &= self._place(job, statement, placing, job.minimum - job.ready, None)
        if not self._session.rules.job_ready(job):
            self._place_reserved(job, statement, placing)
            if not self._session.rules.job_ready(job):
                return Step.NO_CAPACITY if allowed else Step.NOT_ALLOWED
        if statement.checkpoint():
            return Step.PLACED
        return Step.NO_CAPACITY if allowed else Step.NOT_ALLOWED

    def _place(self, job: JobRun, statement: Statement, placing: Placing, missing: int, role: str | None) -> bool:
        """Place up to `missing` tasks (of a role); False if the queue did not allow all that was tried."""
        allowed = True
        for run in job.runs:
            if missing <= 0:
                break
            if role is not None and run.role != role:
                continue
            count = min(missing, run.left)
            may = self._session.rules.allocatable(job.queue, run.shape, count, placing.lending)
            if may < count:
                allowed = False
                if run.left == job.left():
                    break  # no other task of the job could make up for it
            missing -= self._try(job, run, may, statement, placing)
        return allowed

    def _take_nominated(self, job: JobRun, statement: Statement, placing: Placing) -> None:
        """Capacity that was made for some of its tasks counts while places for the others are looked for: a gang may
        have lost the node of one nomination and keeps the rest.
        """
        reservations, domain = self._session.reservations, placing.domain
        if not reservations.has(job):
            return

        def is_there(reservation: TaskReservation) -> bool:
            return self._session.nodes.kernel.fits_now(reservation.task.shape, reservation.row, placing)

        for reservation in reservations.of(job):
            carried = reservation.state is TaskState.PIPELINED and reservation.task.state is TaskState.PIPELINED
            if carried and (domain is None or domain[reservation.row]):
                statement.take_nominated(reservation, is_there)

    def _place_reserved(self, job: JobRun, statement: Statement, placing: Placing) -> None:
        """Tasks that wait for capacity on one node may find some on another."""
        for reservation in self._session.reservations.of(job):
            if reservation.state is not TaskState.ALLOCATED and not self._session.rules.job_ready(job):
                run = TaskRun(reservation.task.shape, reservation.task.traits.role, [reservation.task], charged=False)
                statement.allocate(job, run, 1, placing)

    def _try(self, job: JobRun, run: TaskRun, count: int, statement: Statement, placing: Placing) -> int:
        known = self._capacity.get(run.shape, count)
        if count <= 0 or known == 0 or (count > known and len(job.runs) == 1):
            return 0
        fresh = statement.checkpoint() == 0
        placed = statement.allocate(job, run, count, placing)
        if fresh and placing.domain is None and placed < count and self._feasibility_is_monotone(run.shape):
            self._capacity[run.shape] = placed
        return placed

    def _grow(self, job: JobRun, statement: Statement, placing: Placing) -> Step:
        """A ready job: the first waiting task that is allowed and fits."""
        allowed = True
        for run in job.runs:
            if not run.left:
                continue
            if not self._may_grow(job, run, placing):
                allowed = False
            elif self._try(job, run, 1, statement, placing):
                statement.commit()
                return Step.PLACED
        return Step.NO_CAPACITY if allowed else Step.NOT_ALLOWED

    def _may_grow(self, job: JobRun, run: TaskRun, placing: Placing) -> bool:
        if placing.lending and self._unevictable.why(job, [run.tasks[run.placed]], together=False):
            return False
        return self._session.rules.allocatable(job.queue, run.shape, 1, placing.lending) > 0
