"""A session: one cycle of one policy on one state, as a handful of parts that each have one purpose.

    nodes         what is free, which pods and devices are where, and the kernel that chooses
    accounts      what queues and namespaces have allocated, request and deserve
    order         which queue, namespace and job comes first
    rules         what the policy's plugins allow
    effort        what looking at their jobs may still cost namespaces
    reservations  for starving jobs, and nominations
    decisions     bindings, evictions, planned starts
    outcomes      why the rest waits

Actions get the session; helpers get the parts they need. What is tried out is written on a `Statement`. When all
actions have run, `decide` makes the plan from the session.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairway.api.arguments import AllocateArguments, BackfillArguments
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.scheduler.framework.decisions import Decisions, Outcomes
from fairway.scheduler.framework.effort import Effort
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.plugin_set import Dropped, Registry
from fairway.scheduler.framework.policy_parts import spare_parts
from fairway.scheduler.framework.queue_accounts import SessionAccounts, charge_devices
from fairway.scheduler.framework.reservation_ledger import Reservations, StandingJob, standing_reservations
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job
from fairway.state.queues import Amounts
from fairway.state.waiting import EquivalenceClass, GangTemplate, PendingJob


class Session:
    """One cycle in progress: its parts, and what has been decided so far."""

    def __init__(
        self,
        state: ClusterState,
        policy: Policy,
        now: Micros,
        registry: Registry,
        dropped: Dropped = frozenset(),
        *,
        explains: bool = True,
    ) -> None:
        """Without `explains` it will not be asked which jobs wait and why."""
        self.state = state
        self.policy = policy
        self.now = now
        self.explains = explains
        self._registry = registry
        self._dropped = dropped
        self._parts = parts = spare_parts(state).take(policy, registry, dropped)
        self.closed = False
        self.plugins = parts.plugins
        self.order = parts.order
        self.rules = parts.rules
        self.nodes = WorkingNodes(state, parts)
        total = self.nodes.snapshot.total_without(policy.excluded_taints)
        self.accounts = SessionAccounts(state, total, self.nodes.devices, parts.deserved)
        budget = state.namespace_budgets.open(now)
        self.effort = None if budget is None else Effort(budget, self.nodes)
        """What namespaces may still cost; None if that is not limited."""
        self._opened = self.accounts.queues.opened()
        self._counts_devices = self.nodes.devices.ledger.enabled
        self.decisions = Decisions()
        self.outcomes = Outcomes()
        self.reservations = Reservations(state, now, self.nodes, self.accounts, self.decisions)
        self.reservations.read(self.job_run, self._standing())
        self.plugins.open(self._view())
        if parts.choose_device is not None:
            self.nodes.devices.capacity.prefer = parts.choose_device

    def _standing(self) -> Mapping[Job, StandingJob]:
        """The jobs whose reservations need not be looked at."""
        if not self.state.waiting.with_reservations or not self.can_stand:
            return {}
        nodes, snapshot = self.state.nodes, self.nodes.snapshot
        generations = self.state.queues.generation, nodes.size_generation, snapshot.layout
        basis = (self.policy, self._registry, *generations)
        return standing_reservations(self.state).at(basis, self.now, explains=self.explains)

    @property
    def can_stand(self) -> bool:
        """Whether what it finds of reservations holds for the next session too, if nothing changes."""
        return self._parts.shareable and not self.state.queues.restricted and _leaves_standing(self.policy)

    def _guarantee_total(self) -> Amounts:
        """Volcano sets guarantees aside from whole nodes: pods of other schedulers use up no queue's guarantee. Its
        users size guarantees to that, and the rest of the cluster would be closed to all other queues here if the same
        guarantees were set aside from what such pods leave.
        """
        if self.policy.compatible:
            return self.nodes.snapshot.allocatable_without(self.policy.excluded_taints)
        return self.accounts.total

    def _view(self) -> SessionView:
        nodes, accounts, rules = self.nodes, self.accounts, self.rules
        return SessionView(
            state=self.state,
            snapshot=nodes.snapshot,
            total=accounts.total,
            share_total=accounts.share_total,
            guarantee_total=self._guarantee_total(),
            queues=accounts.queues,
            devices=nodes.devices,
            pods=nodes.pods,
            volumes=nodes.volumes,
            find_device_fit=lambda: nodes.device_fit,
            device_queues=accounts.device_queues,
            lends=rules.lends,
            set_aside_for=self.reservations.set_aside_for,
            warnings=self.decisions.warnings,
        )

    def job_run(
        self,
        pending_job: PendingJob,
        template: GangTemplate,
        job_class: EquivalenceClass | None = None,
        position: int = 0,
    ) -> JobRun:
        """A waiting job, with the accounts that it is charged to; with its class if it stands for others too."""
        job = pending_job[0]
        queue = self._opened.get(job.queue) or self.accounts.queues[job.queue]
        account = queue.accounts.get(job.namespace) or self.accounts.of(queue, job.namespace)
        run = JobRun(pending_job, queue, account, template, job_class, position)
        if self._counts_devices:
            charge_devices(run, self.nodes.devices)
        if not self.order.can_group_equivalent_jobs:
            self.order.order_tasks(run)
        return run

    def statement(self) -> Statement:
        return Statement(self.nodes, self.accounts, self.rules, self.reservations, self.decisions)

    def close(self) -> None:
        """The session is over: no plugin is asked on its behalf any more, so that the next one may have them."""
        if not self.closed:
            self.closed = True
            spare_parts(self.state).give_back(self._parts)

    def fresh_session(self) -> Session:
        """A session like this one at its beginning, with the same groups let in, to see what would be placed."""
        other = Session(self.state, self.policy, self.now, self._registry, self._dropped, explains=False)
        other.outcomes.refused = dict(self.outcomes.refused)
        return other


_SIMPLE = frozenset({"enqueue", "reserve", "allocate", "backfill"})


def _leaves_standing(policy: Policy) -> bool:
    """Whether its actions do nothing about reservations but what `StandingReservations` knows of."""
    for action in policy.actions:
        arguments = action.arguments
        if action.name not in _SIMPLE:
            return False
        if isinstance(arguments, BackfillArguments) and arguments.mode != "besteffort":
            return False
        if isinstance(arguments, AllocateArguments) and arguments.blocked == "wait":
            return False
    return policy.reserve is not None and policy.action("allocate") is not None
