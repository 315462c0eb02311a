"""From a finished session to a plan: bindings, reasons, standings, statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from fairway.clock import format_rfc3339
from fairway.resources.quantity import format_amount
from fairway.scheduler.actions.enqueue import ADMITTED_PHASES
from fairway.scheduler.admission import admission
from fairway.scheduler.ahead import promise_reservations
from fairway.scheduler.books import SHARE_BITS, UNLIMITED, QueueBook, share
from fairway.scheduler.devicechoice import NO_CHOICES, choices, class_standings, given
from fairway.scheduler.explain import Why, explain
from fairway.scheduler.hooks import Key
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.plan import (
    Binding,
    GroupStatus,
    NamespaceStanding,
    Nomination,
    Pending,
    Plan,
    QueueStanding,
    QueueStatus,
    Reservation,
    Sources,
    Status,
)
from fairway.scheduler.plugins.queuelimits import queue_share
from fairway.scheduler.recheck import recheck_at
from fairway.scheduler.session import Session
from fairway.scheduler.starving import is_starving
from fairway.scheduler.timeline import Promise
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.cluster import PODS
from fairway.state.jobs import Job
from fairway.state.tasks import Task, TaskState
from fairway.state.waiting import Entry, Line, LineKey, Signature, patience


def make_plan(session: Session) -> Plan:
    session.divide()
    promise_reservations(session)
    names = session.snapshot.names
    chunks = [(tasks, [names[row] for row in rows]) for _, tasks, rows in session.bindings]
    waiting = _Waiting(session)
    standings = _Standings(session)
    running = {queue.name: sum(account.tasks for account in queue.accounts.values()) for queue in session.state.queues}

    devices_of = given(session)

    def binding(task: Task, node: str) -> Binding:
        found = devices_of.get(task)
        devices, annotations = NO_CHOICES if found is None else choices(*found)
        return Binding(pod=task.key, node=node, devices=devices, annotations=annotations, job=task.job.key)

    def bindings() -> list[Binding]:
        return [binding(task, node) for tasks, nodes in chunks for task, node in zip(tasks, nodes, strict=True)]

    warnings = [
        *session.state.warnings(),
        *session.devices.book.warnings(),
        *session.warnings,
        *session.failures.texts.values(),
    ]
    return Plan(
        Sources(
            bindings=bindings,
            pending=waiting.pending,
            queues=standings.queues,
            namespaces=standings.namespaces,
            resource_classes=class_standings(session),
            status=lambda: _status(session, waiting, running),
        ),
        placed=sum(len(tasks) for tasks, _ in chunks),
        evictions=session.evictions,
        reservations=_reservations(session),
        nominations=_nominations(session),
        released=session.holds.released,
        recheck_at=recheck_at(session),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _reservations(session: Session) -> list[Reservation]:
    """All that stand after the plan, by job and pod."""
    names = session.snapshot.names
    standing = [hold for hold in session.holds if hold.state is not TaskState.PIPELINED]
    promised = [
        Reservation(
            pod=task.key,
            job=job.key,
            node=names[row],
            state="reserved",
            since=format_rfc3339(session.now),
            anew=True,
            **_promised(promise),
        )
        for job, promise in sorted(session.promises.items(), key=lambda item: item[0].key)
        for task, row in promise.places
    ]
    return promised + [
        Reservation(
            pod=hold.task.key,
            job=hold.job.key,
            node=names[hold.row],
            state="allocated" if hold.state is TaskState.ALLOCATED else "reserved",
            since=format_rfc3339(hold.since),
            **_promised(hold.promise if hold.state is TaskState.RESERVED else None),
        )
        for hold in sorted(standing, key=lambda hold: (hold.job.key, hold.task.key))
    ]


def _promised(promise: Promise | None) -> dict[str, Any]:
    if promise is None:
        return {}
    return {
        "promised_start": format_rfc3339(promise.start),
        "soft": promise.soft,
        "estimated": promise.estimated,
    }


def _nominations(session: Session) -> list[Nomination]:
    names = session.snapshot.names
    standing = [hold for hold in session.holds if hold.state is TaskState.PIPELINED]
    return [
        Nomination(pod=hold.task.key, node=names[hold.row], since=format_rfc3339(hold.since))
        for hold in sorted(standing, key=lambda hold: (hold.job.key, hold.task.key))
    ]


_NO_SIGNATURE = Signature(((), 0, (), None))
_NO_LINE = Line(LineKey("", "", 0, False, "", True), _NO_SIGNATURE)


class _Row(NamedTuple):
    """A waiting job and what is known of why."""

    entry: Entry
    run: JobRun | None
    verdict: Verdict | None
    why: Why | None
    line: Line = _NO_LINE


class _Waiting:
    """Everybody who waits after the plan. Reasons about nodes are worked out now, per signature; rows on demand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._captured: list[tuple[Signature, dict[LineKey, Line]]] = [
            (signature, signature.capture()) for signature in session.state.waiting.signatures()
        ]
        self._lines = session.outcomes.lines
        self._jobs: dict[Job, tuple[JobRun, Verdict | None]] = {
            run.job: (run, verdict) for run, verdict in session.outcomes.jobs.items()
        }
        started = session.state.waiting.started.values()
        self._started = [entry for _, entry in started if entry.job in self._jobs]
        self._empty = list(_without_pods(session))
        self._places = {job: _place_note(session, run) for job, run in session.holders.items()}
        self._places |= {run.job: _promise_note(promise) for run, promise in session.promises.items()}
        self._bound = {run.job for run, _, _ in session.bindings}
        self._whys = {
            signature: explain(session, _sample(session, signature, lines))
            for signature, lines in self._captured
            if signature in session.outcomes.no_room
        }
        self._job_whys = self._explain_each()

    def _explain_each(self) -> dict[Job, Why]:
        """Jobs that stand for themselves; those that have nothing yet and need the same wait for the same."""
        known: dict[tuple[Signature, object], Why] = {}
        whys: dict[Job, Why] = {}
        for job, (run, verdict) in self._jobs.items():
            if verdict is not None:
                continue
            alike = not job.ready and not run.ready and job not in self._session.holders
            key = (run.signature, self._session.caps_for(run) if self._session.caps_for else None)
            why = known.get(key) if alike else None
            whys[job] = explain(self._session, run) if why is None else why
            if alike:
                known[key] = whys[job]
        return whys

    def rows(self) -> Iterator[_Row]:
        """Those who wait, in no order yet."""
        for signature, lines in self._captured:
            for line in lines.values():
                verdict = self._lines.get(line)
                kept_out = verdict is None and signature in self._whys
                for place, entry in enumerate(line.entries):
                    if kept_out and (not place or not self._session.lines_are_alike):
                        verdict = self._kept_out(entry, line)
                    if entry.job in self._jobs:
                        yield self._job_row(entry)
                    elif entry.job not in self._bound:
                        yield _Row(entry, None, verdict, None if verdict else self._whys.get(signature), line)
        for entry in self._started:
            yield self._job_row(entry)
        yield from self._empty

    def _job_row(self, entry: Entry) -> _Row:
        run, verdict = self._jobs[entry.job]
        return _Row(entry, run, verdict, self._job_whys.get(entry.job))

    def _kept_out(self, entry: Entry, line: Line) -> Verdict | None:
        """A job that was never asked for, because nothing of its kind fits, may be kept out for other reasons too."""
        verdict = admission(self._session, self._session.job_run(entry, line.signature, line))
        return None if verdict.ok else verdict

    def pending(self) -> list[Pending]:
        ordered = sorted(((self._key(run), run, row) for run, row in self.standing()), key=lambda found: found[0])
        found: list[Pending] = []
        position, queue = 0, None
        for _, run, row in ordered:
            position = position + 1 if run.queue is queue else 1
            queue = run.queue
            found.append(self._entry(run, row, position))
        return found

    def _key(self, run: JobRun) -> Key:
        run.account.top_priority = run.priority
        return run.queue.name, self._session.namespace_key(run.account), self._session.job_key(run)

    def standing(self) -> Iterator[tuple[JobRun, _Row]]:
        """The rows, each with the job as it stands after the plan."""
        return ((row.run or self._run(row), row) for row in self.rows())

    def _run(self, row: _Row) -> JobRun:
        """A job of a line as it was: what its line says counts, for the job itself may have changed since."""
        key, signature = row.line.key, row.line.signature
        queue = self._session.queues[key.queue]
        run = JobRun(row.entry, queue, self._session.account(queue, key.namespace), signature, row.line)
        run.priority, run.minimum, run.ready = key.priority, signature.minimum, 0
        return run

    def _entry(self, run: JobRun, row: _Row, position: int) -> Pending:
        reason, message, nodes = self._reason(row)
        return Pending(
            job=run.key,
            reason=reason.value,
            message=message,
            nodes=nodes,
            queue=run.queue.name,
            namespace=run.namespace,
            position=position,
            waiting=run.left() if row.run else len(row.entry.tasks),
            ready=run.ready,
            minimum=run.minimum,
            priority=run.priority,
            starving=self._starves(run.job, run.ready),
        )

    def _starves(self, job: Job, ready: int) -> bool:
        arguments = self._session.reserve_arguments
        if arguments is None or ready >= job.minimum:
            return False
        return is_starving(job, patience(job), arguments, self._session.now)

    def _reason(self, row: _Row) -> tuple[Reason, str, dict[str, int]]:
        reason, message, nodes = self._bare_reason(row)
        notes = [message, self._session.notes.get(row.entry.job, ""), self._places.get(row.entry.job, "")]
        return reason, "; ".join(note for note in notes if note), nodes

    def _bare_reason(self, row: _Row) -> tuple[Reason, str, dict[str, int]]:
        if row.verdict is not None:
            return row.verdict.reason or Reason.PLUGIN_FAILED, row.verdict.detail, {}
        if row.why is None:
            return Reason.NOT_ENQUEUED, _untouched(self._session), {}
        tasks = row.run.waiting if row.run else row.entry.tasks
        member = tasks[row.why.member].key if tasks else ""
        return row.why.reason, row.why.message(member), row.why.report.causes


def _without_pods(session: Session) -> Iterator[_Row]:
    """Groups that wait for their pods to be made; those that were let in and ended do not."""
    for job in session.state.waiting.empty:
        if job.phase not in ("", "Pending", "Inqueue"):
            continue
        run = session.job_run(Entry(job, []), _NO_SIGNATURE, _NO_LINE)
        verdict = admission(session, run)
        if not verdict.ok:
            yield _Row(Entry(job, []), run, verdict, None)


def _place_note(session: Session, run: JobRun) -> str:
    """Where a job that waits has claims to room."""
    holds = session.holds.of(run)
    if not holds:
        return ""
    nodes = sorted({session.snapshot.names[hold.row] for hold in holds})
    note = f"it has places on {', '.join(nodes)} and waits for room there"
    promise = next((hold.promise for hold in holds if hold.promise is not None), None)
    return note if promise is None else f"{note}; {_promise_note(promise)}"


def _promise_note(promise: Promise) -> str:
    sure = "is expected" if promise.soft else "is promised"
    mark = " (an estimate)" if promise.estimated else ""
    return f"it {sure} to start at {format_rfc3339(promise.start)}{mark}"


def _sample(session: Session, signature: Signature, lines: dict[LineKey, Line]) -> JobRun:
    """Any job of the signature: they are alike."""
    line = next(iter(lines.values()))
    return session.job_run(line.entries[0], signature, line)


def _untouched(session: Session) -> str:
    actions = ", ".join(action.name for action in session.policy.actions)
    return f"none of the policy's actions ({actions}) places it"


class _Standings:
    """What queues and namespaces hold and deserve, after the plan."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows = [
            (row, name)
            for row, name in enumerate(session.state.axis.names)
            if row != PODS and row < len(session.total) and session.total[row] > 0
        ]
        self._infos = [
            (book, book.info.weight, book.info.parent, "Open" if book.info.open else "Closed")
            for _, book in sorted(session.queues.items())
            if book.info.exists or any(book.held)
        ]

    def queues(self) -> list[QueueStanding]:
        return [
            QueueStanding(
                name=book.name,
                weight=weight,
                deserved=self._amounts(book.deserved or []),
                allocated=self._amounts(book.held),
                share=_fraction(queue_share(book)),
                requested=self._amounts([had + more for had, more in zip(book.had, book.requested, strict=True)]),
                parent=parent,
                state=state,
            )
            for book, weight, parent, state in self._infos
        ]

    def namespaces(self) -> list[NamespaceStanding]:
        found = []
        for _, book in sorted(self._session.queues.items()):
            for namespace in sorted(self._namespaces(book)):
                account = self._session.account(book, namespace)
                found.append(
                    NamespaceStanding(
                        queue=book.name,
                        namespace=namespace,
                        weight=account.weight,
                        allocated=self._amounts(account.held),
                        share=_fraction(share(account.held, self._session.share_total, 1, PODS)),
                        weighted_share=_fraction(share(account.held, self._session.share_total, account.weight, PODS)),
                    )
                )
        return found

    def _namespaces(self, book: QueueBook) -> set[str]:
        return {*book.info.accounts, *book.namespaces()}

    def _amounts(self, amounts: list[int]) -> dict[str, str]:
        shown = {}
        for row, name in self._rows:
            amount = amounts[row] if row < len(amounts) else 0
            shown[name] = "unlimited" if amount >= UNLIMITED else format_amount(name, max(amount, 0))
        return shown


def _fraction(units: int) -> float:
    return round(units / (1 << SHARE_BITS), 6)


def _status(session: Session, waiting: _Waiting, running: dict[str, int]) -> Status:
    """Statuses of the groups that this plan changes or that wait, and of all queues."""
    bound = {run.job: run for run, _, _ in session.bindings}
    rows: dict[Job, _Row] = {}
    runs = dict(bound)
    pending: Counter[str] = Counter()
    for run, row in waiting.standing():
        runs.setdefault(run.job, run)
        rows[run.job] = row
        pending[run.queue.name] += 1
    touched = sorted((run for job, run in runs.items() if job.group), key=lambda run: run.key)
    groups = tuple(_group_status(run, waiting, rows.get(run.job)) for run in touched)
    started = Counter(run.queue.name for run in bound.values())
    queues = tuple(
        QueueStatus(
            name=name,
            state="Open" if book.info.open else "Closed",
            pending=pending[name],
            running=running[name],
            inqueue=started[name],
        )
        for name, book in sorted(session.queues.items())
        if book.info.exists
    )
    return Status(groups, queues)


def _group_status(run: JobRun, waiting: _Waiting, row: _Row | None) -> GroupStatus:
    job = run.job
    states = [task.state for task in job.tasks]
    kept_out = row is not None and row.verdict is not None
    if run.ready >= max(run.minimum, 1):
        phase = "Running"
    elif kept_out and job.phase not in ADMITTED_PHASES:
        phase = "Pending"
    else:
        phase = "Inqueue"
    conditions: tuple[dict[str, str], ...] = ()
    if row is not None and phase != "Running":
        reason, message, _ = waiting._reason(row)
        conditions = ({"type": "Unschedulable", "status": "True", "reason": reason.value, "message": message},)
    elif phase == "Running":
        conditions = ({"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""},)
    return GroupStatus(
        name=job.key,
        phase=phase,
        running=sum(state is TaskState.RUNNING for state in states),
        succeeded=sum(state is TaskState.SUCCEEDED for state in states),
        failed=sum(state is TaskState.FAILED for state in states),
        scheduled=run.ready,
        conditions=conditions,
    )
