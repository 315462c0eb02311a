"""All jobs that wait after a cycle: in which order, and why.

The list of all jobs that wait, in the order of consideration: `Plan.pending`.

There may be a hundred thousand of them, of a few hundred classes. What jobs of a class have in common (their keys but
for the tie rule, the reason, the nodes that were counted) is worked out once for the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairway.clock import Micros, to_the_second
from fairway.scheduler.framework.accounts import NamespaceAccount
from fairway.scheduler.framework.candidates import admission, gated_verdict
from fairway.scheduler.framework.decisions import PlannedStart
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.framework.job_run import JobRun, gates_of
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    Pending,
)
from fairway.scheduler.report.explain import NOT_EXPLAINED, KeptReasons, Why, explain
from fairway.scheduler.reservations.between_cycles import wake_all
from fairway.scheduler.reservations.starvation import is_overdue, overdue
from fairway.scheduler.verdict import QUEUE_LIMITED, Reason, Verdict
from fairway.state.jobs import FINISHED, Job, JobOrder, Task, TaskState
from fairway.state.waiting import ClassKey, EquivalenceClass, GangTemplate, PendingJob, starvation_override

_NO_TEMPLATE = GangTemplate(((), 0, (), None, None))
_NO_CLASS = EquivalenceClass(ClassKey("", "", 0, False, "", True), _NO_TEMPLATE)


_ADMITTED_LATER = Verdict(
    False,
    Reason.NOT_ENQUEUED,
    detail="its queue had too little left at the start of the cycle; the next cycle considers it again",
)

_FREE_BY_NOW = "a limit blocked it at its turn and no longer does; the next cycle considers it again"
_FITS_BY_NOW = (
    "no node fit its pods at its turn, but one does after later placements; the next cycle considers it again"
)


_SAID_OF_EACH = frozenset({Reason.SCHEDULING_GATED, Reason.GANG_TOO_FEW_PODS})
"""Reasons whose texts are about the job's own pods: the first of a class cannot say them for all."""


class Row(NamedTuple):
    """A waiting job and what is known of why."""

    pending_job: PendingJob
    run: JobRun | None
    verdict: Verdict | None
    why: Why | None
    job_class: EquivalenceClass = _NO_CLASS

    @property
    def has_own_text(self) -> bool:
        """Whether what is said of a job of a class names its own group or counts its own pods."""
        if self.run is not None or self.verdict is None:
            return False
        return self.verdict.reason in _SAID_OF_EACH or not self.job_class.key.made


class WaitingBlock(NamedTuple):
    """Waiting jobs that are alike, in the order of the tie rule, and what is known of the first."""

    row: Row
    jobs: list[PendingJob]


class WaitingJobs:
    """All jobs that wait after the plan. Reasons about nodes are worked out now, per template; rows on demand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        wake_all(session)
        session.outcomes.notes |= {job: note() for job, note in session.outcomes.notes_to_make.items()}
        self._captured: list[tuple[GangTemplate, dict[ClassKey, EquivalenceClass]]] = [
            (template, template.classes) for template in session.state.waiting.templates()
        ]
        self._verdicts = self._class_verdicts()
        self._jobs: dict[Job, tuple[JobRun, Verdict | None]] = {
            run.job: (run, _final(session, run, verdict))
            for run, verdict in session.outcomes.jobs.items()
            if run.left() or session.reservations.of(run)  # one that was nominated may have been placed elsewhere since
        }
        started = session.state.waiting.started
        for job, template in session.outcomes.put_off.items():
            if job in started and job not in self._jobs:
                assert session.effort is not None
                self._jobs[job] = session.job_run(started[job][1], template), session.effort.verdicts[template]
        self._jobs |= self._parked_jobs(started.values())
        self._started = [pending_job for _, pending_job in started.values() if pending_job.job in self._jobs]
        self._empty = [*_without_pods(session), *_gated(session)]
        self._gates = {
            task.job: gates_of(session.state, task.job) for task in _gated_tasks(session) if task.job.pending
        }
        self._places = {job: _place_note(session, run) for job, run in session.reservations.reserving_jobs.items()}
        self._places |= {run.job: _planned_note(planned) for run, planned in session.decisions.planned.items()}
        self._reserved = {
            job: len(session.reservations.of(run)) for job, run in session.reservations.reserving_jobs.items()
        }
        """Pods that wait with a node reserved, or nominated, for them."""
        self._bound = {run.job for run, _, _ in session.decisions.bindings}
        reserve = session.policy.reserve
        self._overtaken: frozenset[Job] = frozenset()
        """The starving jobs, where being overtaken is a part of that."""
        if reserve is not None and reserve.only_if_overtaken:
            self._overtaken = frozenset(overdue(session.state, reserve, session.now))
        self._whys = {
            template: self._explained(template, classes)
            for template, classes in self._captured
            if self._has_no_capacity(template) or self._is_free_now(classes)
        }
        self._job_whys = self._explain_each()

    def _explained(self, template: GangTemplate, classes: dict[ClassKey, EquivalenceClass]) -> Why:
        """What the nodes say of a template. A namespace with very many kinds of pods that wait has that worked out for
        some of them in each cycle; the others are told what was found the last time.
        """
        session = self._session
        if session.effort is None:
            return explain(session, _sample(session, template, classes))
        known = session.state.derived.get(KeptReasons)
        if not session.effort.explains(template):
            return known.last(template) or NOT_EXPLAINED
        return known.keep(template, explain(session, _sample(session, template, classes)))

    def _has_no_capacity(self, template: GangTemplate) -> bool:
        return template in self._session.outcomes.no_capacity or template in self._session.outcomes.parked

    def _parked_jobs(
        self, started: Iterable[tuple[GangTemplate, PendingJob]]
    ) -> dict[Job, tuple[JobRun, Verdict | None]]:
        """Started jobs that were not looked at, for no node takes any of their pods: what stops them is said as
        things stand after the plan.
        """
        session, found = self._session, dict[Job, tuple[JobRun, Verdict | None]]()
        for template, pending_job in started:
            job = pending_job.job
            if (
                template in session.outcomes.parked
                and job not in self._jobs
                and job not in session.reservations.reserving_jobs
            ):
                run = session.job_run(pending_job, template)
                verdict: Verdict | None = admission(session, run)
                if verdict is not None and verdict.ok:
                    verdict = None if _may_grow(session, run) else QUEUE_LIMITED
                found[job] = run, _final(session, run, verdict)
        return found

    def _class_verdicts(self) -> dict[EquivalenceClass, Verdict | None]:
        """As things stand after the plan; the first job of a class stands for all. None: nodes are what is missing."""
        found: dict[EquivalenceClass, Verdict | None] = {}
        for job_class, verdict in self._session.outcomes.classes.items():
            run = self._session.job_run(job_class.jobs[0], job_class.template, job_class)
            found[job_class] = _final(self._session, run, verdict)
        return found

    def _is_free_now(self, classes: dict[ClassKey, EquivalenceClass]) -> bool:
        """Whether a limit that stopped one of these classes does so no more."""
        return any(job_class in self._verdicts and self._verdicts[job_class] is None for job_class in classes.values())

    def _explain_each(self) -> dict[Job, Why]:
        """Jobs that stand for themselves; those that have and need as much wait for the same. Where a job must be in
        one domain, it matters where it is.
        """
        known: dict[tuple[GangTemplate, int, object, object], Why] = {}
        whys: dict[Job, Why] = {}
        for job, (run, verdict) in self._jobs.items():
            if verdict is not None:
                continue
            untouched = run.ready == job.ready if job.topology is None else not job.ready and not run.ready
            alike = untouched and job not in self._session.reservations.reserving_jobs
            roles = None if run.role_ready is None else tuple(sorted(run.role_ready.items()))
            key = (
                run.template,
                run.ready,
                roles,
                self._session.nodes.caps_for(run) if self._session.nodes.caps_for else None,
            )
            why = known.get(key) if alike else None
            whys[job] = explain(self._session, run) if why is None else why
            if alike:
                known[key] = whys[job]
        return whys

    def blocks(self) -> Iterator[WaitingBlock]:
        """Jobs that wait, in no order yet: those of a class, of which all but their names is the same, together."""
        alike = self._session.order.can_group_equivalent_jobs
        for template, classes in self._captured:
            for job_class in classes.values():
                yield from (self._class_blocks if alike else self._single_blocks)(template, job_class)
        for pending_job in self._started:
            yield WaitingBlock(self._job_row(pending_job), [pending_job])
        for row in self._empty:
            yield WaitingBlock(row, [row.pending_job])

    def _class_blocks(self, template: GangTemplate, job_class: EquivalenceClass) -> Iterator[WaitingBlock]:
        verdict, jobs = self._verdicts.get(job_class), job_class.jobs
        if verdict is None and template in self._whys:
            verdict = self._kept_out(jobs[0], job_class)
        if self._jobs or self._bound:
            for pending_job in jobs:
                if pending_job.job in self._jobs:
                    yield WaitingBlock(self._job_row(pending_job), [pending_job])
            jobs = [each for each in jobs if each.job not in self._jobs and each.job not in self._bound]
        if jobs:
            yield WaitingBlock(
                Row(jobs[0], None, verdict, None if verdict else self._whys.get(template), job_class), jobs
            )

    def _single_blocks(self, template: GangTemplate, job_class: EquivalenceClass) -> Iterator[WaitingBlock]:
        """Where external plugins may tell jobs of one class apart each job is asked for by itself."""
        verdict = self._verdicts.get(job_class)
        kept_out = verdict is None and template in self._whys
        for pending_job in job_class.jobs:
            if kept_out:
                verdict = self._kept_out(pending_job, job_class)
            if pending_job.job in self._jobs:
                yield WaitingBlock(self._job_row(pending_job), [pending_job])
            elif pending_job.job not in self._bound:
                why = None if verdict else self._whys.get(template)
                yield WaitingBlock(Row(pending_job, None, verdict, why, job_class), [pending_job])

    def rows(self) -> Iterator[Row]:
        """Jobs that wait, one by one."""
        for row, jobs in self.blocks():
            for pending_job in jobs:
                yield row._replace(pending_job=pending_job)

    def _job_row(self, pending_job: PendingJob) -> Row:
        run, verdict = self._jobs[pending_job.job]
        return Row(pending_job, run, verdict, self._job_whys.get(pending_job.job))

    def _kept_out(self, pending_job: PendingJob, job_class: EquivalenceClass) -> Verdict | None:
        """A job that was never asked for, because nothing of its kind fits, may be kept out by what comes before nodes:
        then that is what it waits for.
        """
        run = self._session.job_run(pending_job, job_class.template, job_class)
        verdict = admission(self._session, run)
        if verdict.ok:
            return None if _is_allowed(self._session, run) else _final(self._session, run, QUEUE_LIMITED)
        return _final(self._session, run, verdict)

    def ordered(self) -> list[tuple[Key, JobRun, Row]]:
        """Queue by queue, in order of consideration."""
        standing = [(self._session.order.job_key(run), run, row) for run, row in self.standing()]
        put_heads((key, run) for key, run, _ in standing)
        keyed = (((run.queue.name, self.namespace_key(run), key), run, row) for key, run, row in standing)
        return sorted(keyed, key=lambda found: found[0])

    def namespace_key(self, run: JobRun) -> Key:
        run.account.top_priority = run.priority
        return self._session.order.namespace_key(run.account)

    def standing(self) -> Iterator[tuple[JobRun, Row]]:
        """The rows, each with the job as it stands after the plan."""
        return ((self.run(row), row) for row in self.rows())

    def run(self, row: Row) -> JobRun:
        """A job of a class is as its class says: nothing of it was placed."""
        if row.run is not None:
            return row.run
        key, template = row.job_class.key, row.job_class.template
        queue = self._session.accounts.queues[key.queue]
        run = JobRun(row.pending_job, queue, self._session.accounts.of(queue, key.namespace), template, row.job_class)
        run.priority, run.minimum, run.ready = key.priority, template.minimum, 0
        return run

    def entry(self, run: JobRun, row: Row, position: int) -> Pending:
        reason, message, nodes = self.reason(row)
        return Pending(
            job=run.key,
            reason=reason.value,
            message=message,
            nodes=nodes,
            queue=run.queue.name,
            namespace=run.namespace,
            position=position,
            waiting=run.left() + self._reserved.get(run.job, 0) if row.run else len(row.pending_job.tasks),
            ready=run.ready,
            minimum=run.minimum,
            priority=run.priority,
            starving=self.starves(run.job, run.ready),
            job_kind=run.job.kind,
        )

    def starves(self, job: Job, ready: int) -> bool:
        arguments = self._session.policy.reserve
        if arguments is None or ready >= job.minimum:
            return False
        if arguments.only_if_overtaken:
            return job in self._overtaken
        return is_overdue(job, starvation_override(job), arguments, self._session.now)

    def reason(self, row: Row) -> tuple[Reason, str, dict[str, int]]:
        reason, message, nodes = self.bare_reason(row)
        return reason, self.with_notes(message, row.pending_job.job), nodes

    @property
    def may_have_notes(self) -> bool:
        """Whether more is said of some job than what it waits for."""
        return bool(self._session.outcomes.notes or self._places or self._gates)

    def with_notes(self, message: str, job: Job) -> str:
        notes = [texts.get(job, "") for texts in (self._session.outcomes.notes, self._places, self._gates)]
        return "; ".join([message, *(note for note in notes if note and note not in message)])

    def bare_reason(self, row: Row) -> tuple[Reason, str, dict[str, int]]:
        if row.verdict is not None and row.has_own_text:
            own = self._session.job_run(row.pending_job, row.job_class.template)
            verdict = admission(self._session, own)
            return verdict.reason or Reason.PLUGIN_FAILED, verdict.detail, {}
        if row.verdict is not None:
            return row.verdict.reason or Reason.PLUGIN_FAILED, row.verdict.detail, {}
        if row.why is None:
            return Reason.NOT_ENQUEUED, _untouched(self._session), {}
        if row.why.placed >= row.why.needed > 0:
            if self._was_limited(row):
                return Reason.QUEUE_OVERUSED, _FREE_BY_NOW, {}
            return Reason.PREDICATE_FAILED, _FITS_BY_NOW, {}
        tasks = row.run.waiting if row.run else row.pending_job.tasks
        member = tasks[row.why.member].key if tasks else ""
        return row.why.reason, row.why.message(member), row.why.report.causes

    def _was_limited(self, row: Row) -> bool:
        """Whether a limit, and not the nodes, stopped it when it was its turn."""
        if row.run is not None:
            return self._session.outcomes.jobs.get(row.run) is not None
        return row.job_class in self._verdicts or not self._has_no_capacity(row.job_class.template)


def put_heads(jobs: Iterable[tuple[Key, JobRun]]) -> None:
    """Tell namespaces when the job at their head was created."""
    heads: dict[NamespaceAccount, tuple[Key, Micros]] = {}
    for key, run in jobs:
        if run.account not in heads or key < heads[run.account][0]:
            heads[run.account] = key, run.job.order[0]
    for account, (_, created) in heads.items():
        account.top_created = created


def _final(session: Session, job: JobRun, verdict: Verdict | None) -> Verdict | None:
    """A verdict whose numbers are those of the finished plan; None where only nodes are missing by now."""
    if verdict is QUEUE_LIMITED:
        now = session.rules.not_allowed(job)
        return None if now.ok else now
    if verdict is not None and verdict.plugin and verdict is _refusal(session, job):
        now = session.rules.enqueueable(job)
        return _ADMITTED_LATER if now.ok else now
    return verdict


def _refusal(session: Session, job: JobRun) -> Verdict | None:
    refused = session.outcomes.refused
    return refused.get(job.job) if job.job_class is None else refused.get(job.job_class, refused.get(job.job))


def _is_allowed(session: Session, job: JobRun) -> bool:
    """Whether its queue may take what the job needs at once, with what others lend."""
    missing = max(1, job.minimum - job.ready)
    lending = session.rules.lends()
    counts = ((run.shape, min(missing, run.left)) for run in job.runs)
    return all(session.rules.allocatable(job.queue, shape, count, lending) >= count for shape, count in counts)


def _may_grow(session: Session, job: JobRun) -> bool:
    """Whether its queue may take what the job needs at once, with what it deserves or with what others lend."""
    missing = max(1, job.minimum - job.ready)
    counts = [(run.shape, min(missing, run.left)) for run in job.runs]
    if all(session.rules.allocatable(job.queue, shape, count, False) >= count for shape, count in counts):
        return True
    return session.rules.lends() and _is_allowed(session, job)


def _without_pods(session: Session) -> Iterator[Row]:
    """Groups that wait for pods to be created, for all or for the rest of their minimum; those that ended do not."""
    waiting = session.state.waiting
    short = (job for job in waiting.short if not job.gated and any(task.state not in FINISHED for task in job.tasks))
    for job in (*waiting.empty, *short):
        if job.phase not in ("", "Pending", "Inqueue") and not (job.tasks and job.phase == "Unknown"):
            continue
        run = session.job_run(PendingJob(job, []), _NO_TEMPLATE, _NO_CLASS)
        verdict = admission(session, run)
        if verdict.reason is Reason.GANG_TOO_FEW_PODS:
            verdict = session.outcomes.refused.get(job, verdict)
        if not verdict.ok:
            yield Row(PendingJob(job, []), run, verdict, None)


def _gated_tasks(session: Session) -> Iterator[Task]:
    return (session.state.tasks[key] for key in session.state.gates)


def _gated(session: Session) -> Iterator[Row]:
    """Jobs of which nothing waits, after this cycle, but pods with scheduling gates."""
    placed: dict[Job, int] = {}
    for bound, bound_tasks, _ in session.decisions.bindings:
        if bound.job.gated:
            placed[bound.job] = placed.get(bound.job, 0) + len(bound_tasks)
    for job in [*session.state.waiting.gated, *(job for job, count in placed.items() if count == job.pending)]:
        tasks = sorted((task for task in job.tasks if task.state is TaskState.GATED), key=lambda task: task.key)
        run = session.job_run(PendingJob(job, tasks), _NO_TEMPLATE, _NO_CLASS)
        yield Row(PendingJob(job, tasks), run, gated_verdict(session, run), None)


def _place_note(session: Session, run: JobRun) -> str:
    """Where a job that waits has reservation."""
    reservations = session.reservations.of(run)
    if not reservations:
        return ""
    nodes = ", ".join(sorted({session.nodes.snapshot.names[reservation.row] for reservation in reservations}))
    if all(reservation.state is TaskState.PIPELINED for reservation in reservations):
        return f"it is nominated to {nodes} and starts when the pods evicted for it are gone"
    note = f"it has reserved {nodes} and waits for free capacity there"
    planned_start = next(
        (reservation.planned_start for reservation in reservations if reservation.planned_start is not None), None
    )
    return note if planned_start is None else f"{note}; {_planned_note(planned_start)}"


def _planned_note(planned: PlannedStart) -> str:
    sure = "is planned" if planned.hard else "is expected"
    mark = " (an estimate)" if planned.estimated else ""
    return f"it {sure} to start at {to_the_second(planned.start)}{mark}"


def _sample(session: Session, template: GangTemplate, classes: dict[ClassKey, EquivalenceClass]) -> JobRun:
    """Any job of the template: they are alike."""
    job_class = next(iter(classes.values()))
    return session.job_run(job_class.jobs[0], template, job_class)


def _untouched(session: Session) -> str:
    actions = ", ".join(action.name for action in session.policy.actions)
    return f"none of the policy's actions ({actions}) places it"


def pending_jobs(session: Session, waiting: WaitingJobs) -> list[Pending]:
    """Queue by queue, in order of consideration."""
    makers = [_EntryMaker(session, waiting, block) for block in waiting.blocks()]
    keys = [session.order.job_key(maker.run) for maker in makers]
    put_heads((key, maker.run) for key, maker in zip(keys, makers, strict=True))
    groups: dict[Key, list[_EntryMaker]] = {}
    for key, maker in zip(keys, makers, strict=True):
        run = maker.run
        groups.setdefault((run.queue.name, waiting.namespace_key(run), key[:-1]), []).append(maker)
    found: list[Pending] = []
    before, queue = 0, None
    for key in sorted(groups):
        if key[0] != queue:
            before, queue = len(found), key[0]
        for maker, job in _in_order(groups[key]):
            found.append(maker.entry(job, len(found) - before + 1))
    return found


def _in_order(group: list[_EntryMaker]) -> Iterator[tuple[_EntryMaker, PendingJob]]:
    """Jobs that only the tie rule tells apart."""
    if len(group) == 1:
        return ((group[0], job) for job in group[0].jobs)
    orders: list[tuple[JobOrder, _EntryMaker, PendingJob]] = [
        (job.job.order, maker, job) for maker in group for job in maker.jobs
    ]
    orders.sort(key=lambda found: found[0])
    return ((maker, job) for _, maker, job in orders)


class _EntryMaker:
    """Makes the entries of jobs that are alike."""

    __slots__ = ("_message", "_nodes", "_notes", "_reason", "_row", "_starving", "_waiting", "jobs", "run")

    def __init__(self, session: Session, waiting: WaitingJobs, block: WaitingBlock) -> None:
        self._waiting = waiting
        self._row, self.jobs = block
        self.run = waiting.run(self._row)
        reason, self._message, self._nodes = waiting.bare_reason(self._row)
        own = self._row.run is not None or reason is Reason.GANG_NOT_READY or self._row.has_own_text
        self._reason = "" if own else reason.value
        """Nothing where a job stands for itself, or where the message names its group or one of its pods."""
        self._notes = waiting.may_have_notes
        self._starving = session.policy.reserve is not None

    def entry(self, job: PendingJob, position: int) -> Pending:
        if not self._reason:
            row = self._row._replace(pending_job=job)
            return self._waiting.entry(self.run if row.run else self._waiting.run(row), row, position)
        run, own = self.run, job.job
        return Pending(
            own.key,
            self._reason,
            self._waiting.with_notes(self._message, own) if self._notes else self._message,
            self._nodes,
            run.queue.name,
            own.namespace,
            position,
            len(job.tasks),
            run.ready,
            run.minimum,
            run.priority,
            self._waiting.starves(own, run.ready) if self._starving else False,
            own.kind,
        )
