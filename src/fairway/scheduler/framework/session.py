"""A session: one cycle's view of state and policy, the hooks of its plugins, and what was decided so far.

Actions read the session and write through statements. When all actions have run, `decide` makes the plan from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import BackfillArguments, EvictionArguments, ReserveArguments
from fairway.api.policy import Policy
from fairway.api.settings import Arguments
from fairway.clock import Micros
from fairway.devices.match.strategies import DEFAULT_CHAIN
from fairway.devices.track.ledger import device_ledger
from fairway.resources.columns import IntColumn
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.devices.fit import DeviceFit
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.device_accounts import DeviceQueues
from fairway.scheduler.framework.hooks import Check, Key
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.open_accounts import OpenAccounts
from fairway.scheduler.framework.outcome import Outcomes
from fairway.scheduler.framework.plugin_set import Dropped, PluginSet
from fairway.scheduler.framework.registry import Registry
from fairway.scheduler.framework.reservations import PlannedStart, Reservations
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.placement.columns import Columns
from fairway.scheduler.placement.kernel import Kernel, NodeHooks
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.plan import Eviction
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import Job, Task
from fairway.state.queue_totals import QueueTotals
from fairway.state.queues import add
from fairway.state.shapes import Shape
from fairway.state.snapshot import snapshot_of
from fairway.state.tables import PODS
from fairway.state.tasks import TaskState
from fairway.state.waiting import EquivalenceClass, GangTemplate, PendingJob

CapFor = Callable[[Shape], IntColumn | None]


class Session:
    """See the module."""

    def __init__(
        self,
        state: ClusterState,
        policy: Policy,
        now: Micros,
        registry: Registry,
        dropped: Dropped = frozenset(),
    ) -> None:
        self.state = state
        self.policy = policy
        self.now = now
        ledger = device_ledger(state)
        self.snapshot = snapshot_of(state)
        self.total = self.snapshot.total
        self.share_total = self._share_total()
        """What shares are parts of: devices count by kind, not by every class that could take them."""
        self.plugins = PluginSet(policy, registry, dropped)
        self.failures = self.plugins.failures
        self.hooks = self.plugins.hooks
        self.pods = PodCounts(state.terms, state.volume_use)
        self._dropped = dropped
        self._registry = registry
        self.rechecks: list[Micros] = []
        """Moments at which an action wants to be asked again."""
        self._bound: set[Job] = set()
        self._bound_seen = 0
        self.notes: dict[Job, str] = {}
        """What is to be said of a waiting job besides its reason."""
        self.notes_to_make: dict[Job, Callable[[], str]] = {}
        """The same, of jobs of which it is only worked out if somebody wants to know."""
        self._open_hooks()
        strategies = self.plugins.combined("device_strategies")() or DEFAULT_CHAIN
        self.devices = DeviceAssignments(ledger, self.snapshot, strategies)
        self.device_fit = DeviceFit(self.devices, self.snapshot)
        self.device_queues = DeviceQueues(ledger, self.devices.requests)
        self.kernel = Kernel(self.snapshot, self._node_hooks(), self._columns(), self.pods)
        self.queues = self._open_accounts()
        self.bindings: list[tuple[JobRun, list[Task], list[int]]] = []
        self.outcomes = Outcomes()
        self.queue_verdicts: dict[str, Verdict] = {}
        """Whether jobs of a queue may be placed, by name, once asked for."""
        self.lending = False
        self.resumed = False
        self.warnings: list[str] = []
        self._divided = False
        self.evictions: list[Eviction] = []
        self.evicted: set[Task] = set()
        self.planned: dict[JobRun, PlannedStart] = {}
        """Planned starts of jobs that have no reservation."""
        self.runs_on_nodes: int | None = None
        """How many pods are on nodes after this cycle, where planned starts are carried by that."""
        self.overruns: dict[Job, Job] = {}
        """Jobs evicted in this cycle for outliving their expected run time, and for which job each."""
        self.settled: list[object] = []
        """Claims whose victims go in this cycle, in the order decided."""
        self.settled_rows: dict[int, NDArray[np.int64]] = {}
        """By row, how much less is free because it is nominated in this cycle."""
        self.caps_for: Callable[[JobRun], CapFor] | None = None
        """Where starts are planned: what those of other jobs leave to a job; answers that mean the same are equal."""
        self.reserving_jobs: dict[Job, JobRun] = {}
        self.reservations = Reservations(self)
        self.plugins.open(self)
        if self.hooks("choose_device"):
            self.devices.capacity.prefer = self.plugins.combined("choose_device")

    # -- hooks ------------------------------------------------------------------------------------------------

    def _open_hooks(self) -> None:
        combined = self.plugins.combined
        self._queue_keys = combined("queue_key")
        self._namespace_keys = combined("namespace_key")
        self._job_keys = combined("job_key")
        self._task_keys = combined("task_key")
        self._external_overused = self.plugins.external("overused")
        self._allocatable = combined("allocatable")
        self.overused: Callable[[QueueAccount], bool] = combined("overused")
        self.enqueueable: Callable[[JobRun], Verdict] = combined("enqueueable")
        self.job_valid: Callable[[JobRun], Verdict] = combined("job_valid")
        self.job_ready: Callable[[JobRun], bool] = combined("job_ready")
        self.job_pipelined: Callable[[JobRun], bool] = combined("job_pipelined")
        self._not_allowed = combined("not_allowed")
        self.lends: Callable[[], bool] = combined("lends")
        """Whether idle capacity goes to other queues than those that deserve it."""
        self.on_allocate: Callable[[JobRun, Shape, int], None] = combined("on_allocate")
        self.can_group_equivalent_jobs = self.plugins.only_built_in_have(
            "job_key", "task_key", "job_valid", "enqueueable"
        )

    def _node_hooks(self) -> NodeHooks:
        return NodeHooks(
            feasible_static=[
                *self.hooks("feasible_static"),
                *([] if self.hooks("device_strategies") else [no_devices]),
            ],
            feasible=self.hooks("feasible"),
            limit=self.hooks("limit"),
            score_static=self.hooks("score_static"),
            score=self.hooks("score"),
            looks_around=self.hooks("looks_around"),
            trend=self.plugins.trend(),
        )

    def _columns(self) -> Columns:
        """Kept columns fit one policy and one set of working plugins; a guarded plugin's answers are not kept."""
        key = (self.policy.tiers, self._dropped, self.plugins.combined("basis")(self.state))
        kept = self.state.cache.get("columns")
        generation = self.devices.ledger.generation
        if kept is None or kept[0] != key or self.plugins.has_external:
            kept = self.state.cache["columns"] = (key, Columns())
        columns = kept[1]
        assert isinstance(columns, Columns)
        if columns.device_generation != generation:
            columns.drop(lambda shape: shape.devices is not None or bool(self.devices.ledger.plain(shape)))
            columns.device_generation = generation
        return columns

    def _share_total(self) -> list[int]:
        names = self.state.axis.names
        return [0 if names[row].startswith(CLASS_PREFIX) else amount for row, amount in enumerate(self.total)]

    @property
    def reserve_arguments(self) -> ReserveArguments | None:
        action = self.policy.action("reserve")
        arguments = None if action is None else action.arguments
        return arguments if isinstance(arguments, ReserveArguments) else None

    @property
    def backfill_arguments(self) -> BackfillArguments | None:
        action = self.policy.action("backfill")
        arguments = None if action is None else action.arguments
        return arguments if isinstance(arguments, BackfillArguments) else None

    @property
    def nomination_timeout(self) -> int:
        """Seconds; the longest that an action of the policy that evicts allows."""
        evicting = [self.policy.action(name) for name in ("preempt", "reclaim")]
        timeouts = [
            a.arguments.nomination_timeout for a in evicting if a and isinstance(a.arguments, EvictionArguments)
        ]
        return max(timeouts, default=EvictionArguments().nomination_timeout)

    # -- order ------------------------------------------------------------------------------------------------

    def queue_key(self, queue: QueueAccount) -> Key:
        return (*self._queue_keys(queue), queue.info.created, queue.name)

    def namespace_key(self, account: NamespaceAccount) -> Key:
        """Ties: the larger weight, then the older job at the head, then the name (semantics 3.2)."""
        ties = (-account.weight, account.top_created, account.namespace)
        return (*self._namespace_keys(account), *ties)

    def job_key(self, job: JobRun) -> Key:
        return (*self._job_keys(job), job.job.order)

    def order_tasks(self, job: JobRun) -> None:
        """Put the waiting tasks in order; the default one needs nothing."""
        if not self.can_group_equivalent_jobs:
            tasks = sorted(job.waiting, key=lambda task: (self._task_keys(task), task.key))
            job.order_tasks(tasks)

    # -- verdicts ---------------------------------------------------------------------------------------------

    def allocatable(self, queue: QueueAccount, shape: Shape, count: int) -> int:
        if not self.lending and self._external_overused and any(o(queue) for o in self._external_overused):
            return 0
        return int(self._allocatable(queue, shape, count))

    def not_allowed(self, job: JobRun) -> Verdict:
        """Why the queue may not take the job's next step, as things stand; `YES` if by now it may."""
        verdict: Verdict = self._not_allowed(job)
        if not verdict.ok:
            return verdict
        if self.failures.texts:
            return Verdict(False, Reason.PLUGIN_FAILED, detail="; ".join(self.failures.texts.values()))
        names = " or ".join(self.plugins.external_names("overused", "allocatable"))
        if not names:
            return YES
        detail = f"plugin {names} does not let queue {job.queue.name} take more"
        return Verdict(False, Reason.QUEUE_OVERUSED, names, detail)

    # -- books and jobs -----------------------------------------------------------------------------------------

    def _open_accounts(self) -> OpenAccounts:
        dimensions = len(self.state.axis)
        shared = tuple(row for row, total in enumerate(self.total) if total > 0 and row != PODS)
        totals = self.state.cache.get("queue totals") or QueueTotals(self.state.queues)
        self.state.cache["queue totals"] = totals
        totals.sync(dimensions)
        accounts = OpenAccounts(totals, dimensions, shared)
        if self.devices.ledger.enabled:
            self.device_queues.charge_accounts(accounts, self.account, self.state.waiting)
            for account in accounts.values():
                account.allocated_at_start = account.allocated.copy()
        return accounts

    def account(self, queue: QueueAccount, namespace: str) -> NamespaceAccount:
        return queue.account(namespace, self.state.namespaces.weight)

    def job_run(
        self,
        pending_job: PendingJob,
        template: GangTemplate,
        job_class: EquivalenceClass | None = None,
        position: int = 0,
    ) -> JobRun:
        queue = self.queues[pending_job.job.queue]
        run = JobRun(pending_job, queue, self.account(queue, pending_job.job.namespace), template, job_class, position)
        accounts = self.devices.ledger.columns.accounts
        if accounts and job_class is None:
            owner = (pending_job.job.queue, pending_job.job.namespace, pending_job.job.identity)
            add(run.allocated, tuple(accounts.get(owner, {}).items()))
        self.order_tasks(run)
        return run

    def compute_deserved(self) -> None:
        """Work out what each queue deserves, once per cycle: after jobs were let in, before anything is placed."""
        if not self._divided:
            self._divided = True
            self.queues.deserve(self.plugins.combined("deserved")() or {})

    def fresh_session(self) -> Session:
        """A session like this one at its beginning, with the same groups let in."""
        other = Session(self.state, self.policy, self.now, self._registry, self._dropped)
        other.outcomes.refused = dict(self.outcomes.refused)
        return other

    def arguments(self, action: str) -> Arguments:
        config = self.policy.action(action)
        return Arguments() if config is None else config.arguments

    def respect_planned_starts(self, job: JobRun | None) -> None:
        """From now on the kernel leaves what planned starts of other jobs need; None: it no longer does."""
        self.kernel.cap_for = None if job is None or self.caps_for is None else self.caps_for(job)

    def statement(self) -> Statement:
        return Statement(self)

    def bind(self, job: JobRun, tasks: list[Task], rows: list[int]) -> None:
        """What a committed statement has placed."""
        self.bindings.append((job, tasks, rows))

    def bound_jobs(self) -> set[Job]:
        """Jobs of which something was placed in this cycle."""
        if self._bound_seen != len(self.bindings):
            self._bound |= {job.job for job, _, _ in self.bindings[self._bound_seen :]}
            self._bound_seen = len(self.bindings)
        return self._bound

    def note_settled(self, row: int, amounts: NDArray[np.int64]) -> None:
        """So much of what a row has free is nominated from now on."""
        known = self.settled_rows.get(row)
        self.settled_rows[row] = amounts if known is None else known + amounts

    def evicted_jobs(self) -> set[Job]:
        """Jobs of which something is evicted in this cycle."""
        return {task.job for task in self.evicted}

    def rows_bound(self, job: Job) -> list[int]:
        """Where tasks of a job were placed in this cycle."""
        return [row for run, _, rows in self.bindings if run.job is job for row in rows]

    def nominate(self, job: JobRun, places: list[tuple[Task, int]]) -> None:
        """Room is being made for these tasks on these rows; it is theirs."""
        self.reserving_jobs[job.job] = job
        job.job_class = None
        for task, row in places:
            self.reservations.add(job, task, row, TaskState.PIPELINED)
        self.outcomes.jobs[job] = None

    def record_wait_reason(self, job: JobRun, verdict: Verdict) -> None:
        """Why a job waits, in an action's own words."""
        if job.job_class is None:
            self.outcomes.jobs[job] = verdict
        else:
            self.outcomes.classes[job.job_class] = verdict

    def write(self, shape: Shape, tasks: list[Task], rows: list[int], sign: int) -> None:
        """Take (sign 1) or give back (sign -1) the room of like tasks on these rows, one task for each."""
        self.write_room(shape, rows, sign)
        if shape.has_pod_rules or shape.ports:
            self.pods.place(shape, np.array(rows), self.snapshot.size, sign)
        if self.devices.uses_devices(shape):
            self.devices.write(shape, tasks, rows, sign)

    def displace(self, task: Task, sign: int) -> None:
        """Pretend that a pod which is on its node is gone (sign -1), or back (sign 1)."""
        self.write_room(task.shape, [task.node], sign)
        self.pods.displace(task, self.snapshot.size, sign)
        if self.devices.uses_devices(task.shape):
            self.devices.write(task.shape, [task], [task.node], sign)

    def write_room(self, shape: Shape, rows: list[int], sign: int) -> None:
        """Only the room: rules between pods and devices are not told."""
        snapshot = self.snapshot
        if len(rows) == 1 or len(set(rows)) == 1:
            row = rows[0]
            snapshot.scratch(row)
            for dimension, amount in shape.vector:
                snapshot.idle[dimension, row] -= sign * len(rows) * amount
            return
        for row in dict.fromkeys(rows):
            snapshot.scratch(row)
        index = np.array(rows)
        for dimension, amount in shape.vector:
            np.subtract.at(snapshot.idle[dimension], index, sign * amount)

    def charge_kinds(self, job: JobRun, tasks: Iterable[Task], sign: int) -> None:
        """Devices that like tasks were just given (or are about to give back) count by kind in shares."""
        amounts: dict[int, int] = {}
        for task in tasks:
            if not self.devices.uses_devices(task.shape):
                return
            for position, amount in self.devices.kinds(task):
                amounts[position] = amounts.get(position, 0) + amount
        job.charge_more(tuple(amounts.items()), sign)


def no_devices(shape: Shape, nodes: NodeView) -> Iterable[Check]:
    """Where the policy lacks the plugin devices nobody is given any."""
    if shape.devices is None:
        return ()
    text = "the policy has no plugin devices"
    return (Check(np.zeros(nodes.size, dtype=np.bool_), text, Reason.DEVICE_UNAVAILABLE),)
