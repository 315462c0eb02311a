"""The second step of a cycle: what a plan says besides what to do.

Which jobs wait and why (`waiting_jobs`), what queues, namespaces and device classes have allocated and deserve after
the plan, and what the statuses of groups and queues should say. All of it is read from the session that made the plan,
and returned as data.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import zip_longest

from msgspec import structs

from fairway.api.policy import Policy
from fairway.devices.track.class_columns import NONE, add_up, moved
from fairway.devices.track.node import ClassUse
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.backfill.run_ends import without_run_times
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.accounts import (
    SHARE_BITS,
    UNLIMITED,
    NamespaceAccount,
    QueueAccount,
    queue_share,
    share,
)
from fairway.scheduler.framework.candidates import is_let_in
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    ClassStanding,
    ExplainedPlan,
    GroupStatus,
    NamespaceStanding,
    Plan,
    QueueStanding,
    QueueStatus,
    Status,
)
from fairway.scheduler.report.plan_maker import units
from fairway.scheduler.report.waiting_jobs import Row, WaitingJobs, pending_jobs
from fairway.state.annotations import PolicyPart
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, TaskState
from fairway.state.queues import Amounts
from fairway.state.tables import PODS


def explain_plan(session: Session, plan: Plan) -> ExplainedPlan:
    """A session's plan with everything that it says besides what to do. This goes on working with the session (jobs
    whose reservations were left alone are looked at, nodes are counted), so no plan is made from it afterwards.
    """
    warnings = _warnings(session)
    waiting = WaitingJobs(session)
    pending = tuple(pending_jobs(session, waiting))
    standings = Standings(session.state, session.accounts, session.reservations)
    return ExplainedPlan(
        **structs.asdict(plan),
        pending=pending,
        queues=tuple(standings.queues()),
        namespaces=tuple(standings.namespaces()),
        resource_classes=tuple(class_standings(session.nodes.devices)),
        status=statuses(session, waiting),
        warnings=warnings,
    )


def _warnings(session: Session) -> tuple[str, ...]:
    warnings = [
        *session.state.warnings(),
        *session.state.annotation_problems.unused(partial(_has_part, session.policy)),
        *session.nodes.devices.ledger.warnings(),
        *filter(None, [without_run_times(session)]),
        *session.decisions.warnings,
        *session.plugins.failures.warnings(),
    ]
    return tuple(dict.fromkeys(warnings))


def _has_part(policy: Policy, part: PolicyPart) -> bool:
    return (policy.action(part.name) if part.kind == "action" else policy.plugin(part.name)) is not None


class Standings:
    """What queues and namespaces have allocated and deserve, after the plan."""

    def __init__(self, state: ClusterState, accounts: SessionAccounts, reservations: Reservations) -> None:
        self._share_total = accounts.share_total
        self._rows = [
            (row, name)
            for row, name in sorted(enumerate(state.axis.names), key=_rank)
            if row != PODS and row < len(accounts.total) and accounts.total[row] > 0
        ]
        self._infos = [
            (account, account.info.weight, account.info.parent, "Open" if account.info.open else "Closed")
            for _, account in sorted(accounts.queues.items())
            if account.info.exists
        ]
        self._reserved = reservations.set_aside()
        waiting = _waiting(state)
        self._namespaces = [
            accounts.of(account, namespace)
            for _, account in sorted(accounts.queues.items())
            for namespace in sorted({*account.info.accounts, *waiting.get(account.name, ())})
        ]
        """Looked up now: the state may move on before they are read."""

    def queues(self) -> list[QueueStanding]:
        return [
            QueueStanding(
                name=account.name,
                weight=weight,
                deserved=self._amounts(account.deserved or []),
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(queue_share(account)),
                requested=self._amounts(
                    [had + more for had, more in zip(account.allocated_at_start, account.requested, strict=True)]
                ),
                parent=parent,
                state=state,
                reserved=self._amounts(self._reserved.get(account, [])),
                dominant_share=_fraction(share(self._allocated(account), self._share_total, 1, PODS)),
            )
            for account, weight, parent, state in self._infos
        ]

    def namespaces(self) -> list[NamespaceStanding]:
        total = self._share_total
        return [
            NamespaceStanding(
                queue=account.queue.name,
                namespace=account.namespace,
                weight=account.weight,
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(share(account.allocated, total, 1, PODS)),
                weighted_share=_fraction(share(account.allocated, total, account.weight, PODS)),
                reserved=self._amounts(self._reserved.get(account, [])),
            )
            for account in self._namespaces
        ]

    def _allocated(self, account: QueueAccount | NamespaceAccount) -> Amounts:
        """What is allocated, without what is only reserved."""
        reserved = self._reserved.get(account)
        if reserved is None:
            return account.allocated
        return [allocated - aside for allocated, aside in zip_longest(account.allocated, reserved, fillvalue=0)]

    def _amounts(self, amounts: list[int]) -> dict[str, str]:
        shown = {}
        for row, name in self._rows:
            amount = amounts[row] if row < len(amounts) else 0
            shown[name] = "unlimited" if amount >= UNLIMITED else format_amount(name, min(max(amount, 0), INT64_MAX))
        return shown


def _waiting(state: ClusterState) -> dict[str, set[str]]:
    """The namespaces that wait for something, by queue."""
    found: dict[str, set[str]] = {}
    for template in state.waiting.templates():
        for key in template.classes:
            found.setdefault(key.queue, set()).add(key.namespace)
    for job in (*state.waiting.started, *state.waiting.empty, *state.waiting.short):
        found.setdefault(job.queue, set()).add(job.namespace)
    return found


def _rank(dimension: tuple[int, str]) -> tuple[int, str]:
    """cpu and memory first, the others by name: in no case by which was named first."""
    row, name = dimension
    return min(row, PODS), name


def _fraction(units: int) -> float:
    return round(units / (1 << SHARE_BITS), 6)


def class_standings(devices: DeviceAssignments) -> list[ClassStanding]:
    """All classes by name, as they stand after the plan."""
    names = [known.name for known in devices.ledger.classes]
    if not names:
        return []
    more: dict[frozenset[str], ClassUse] = {}
    for node, was, is_now in devices.changed():
        for sign, tally in ((-1, node.tally(was)), (1, node.tally(is_now))):
            for classes, standing in tally.items():
                more[classes] = moved(more.get(classes, NONE), standing, sign)
    found = add_up(devices.ledger.columns.copy_of_sums(), more)
    return [_standing(name, found.get(name, NONE)) for name in names]


def _standing(name: str, standing: ClassUse) -> ClassStanding:
    return ClassStanding(name, units(standing.allocatable), units(standing.requested))


def statuses(session: Session, waiting: WaitingJobs) -> Status:
    """Statuses of the groups that this plan changes or that wait, and of all queues."""
    bound = {run.job: run for run, _, _ in session.decisions.bindings}
    rows: dict[Job, Row] = {}
    runs = dict(bound)
    pending: Counter[str] = Counter()
    for block in waiting.blocks():
        pending[waiting.run(block.row).queue.name] += len(block.jobs)
        for each in block.jobs:
            if each.job.group:
                row = rows[each.job] = block.row._replace(pending_job=each)
                if each.job not in runs:
                    runs[each.job] = waiting.run(row)
    touched = sorted((run for job, run in runs.items() if job.group), key=lambda run: run.key)
    groups = tuple(_group_status(run, is_let_in(session, run), waiting, rows.get(run.job)) for run in touched)
    started = Counter(run.queue.name for run in bound.values())
    queues = tuple(
        QueueStatus(
            name=name,
            state="Open" if account.info.open else "Closed",
            pending=pending[name],
            running=sum(namespace.tasks for namespace in account.info.accounts.values()),
            inqueue=started[name],
        )
        for name, account in sorted(session.accounts.queues.items())
        if account.info.exists
    )
    return Status(groups, queues)


def _group_status(run: JobRun, admitted: bool, waiting: WaitingJobs, row: Row | None) -> GroupStatus:
    job = run.job
    counts = Counter(task.state for task in job.tasks)
    if run.ready >= max(run.minimum, 1):
        phase = "Running"
    else:
        phase = "Inqueue" if admitted else "Pending"
    conditions: tuple[dict[str, str], ...] = ()
    if row is not None and phase != "Running":
        reason, message, _ = waiting.reason(row)
        conditions = ({"type": "Unschedulable", "status": "True", "reason": reason.value, "message": message},)
    elif phase == "Running":
        conditions = ({"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""},)
    return GroupStatus(
        name=job.key,
        phase=phase,
        running=counts[TaskState.RUNNING],
        succeeded=counts[TaskState.SUCCEEDED],
        failed=counts[TaskState.FAILED],
        scheduled=run.ready,
        conditions=conditions,
    )
