"""The accounts of all queues and namespaces in a session, and what each queue deserves."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.device_accounts import DeviceQueues
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.open_accounts import OpenAccounts
from fairway.scheduler.framework.plugin_set import PluginSet
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import Task
from fairway.state.queue_totals import QueueTotals
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS


class SessionAccounts:
    """See the module."""

    def __init__(self, state: ClusterState, total: Amounts, devices: DeviceAssignments, plugins: PluginSet) -> None:
        names = state.axis.names
        self.total = total
        self.share_total = [0 if names[row].startswith(CLASS_PREFIX) else amount for row, amount in enumerate(total)]
        """What shares are parts of: devices count by kind, not by every class that could take them."""
        self.device_queues = DeviceQueues(devices.ledger, devices.requests)
        self._devices = devices
        self._plugins = plugins
        self._weight = state.namespaces.weight
        self._has_deserved = False
        self.queues = self._opened(state)

    def _opened(self, state: ClusterState) -> OpenAccounts:
        dimensions = len(state.axis)
        shared = tuple(row for row, total in enumerate(self.total) if total > 0 and row != PODS)
        totals = state.derived.of(QueueTotals, lambda: QueueTotals(state.queues))
        totals.sync(dimensions)
        accounts = OpenAccounts(totals, dimensions, shared)
        if self._devices.ledger.enabled:
            self.device_queues.charge_accounts(accounts, self.of, state.waiting)
            for account in accounts.values():
                account.allocated_at_start = account.allocated.copy()
        return accounts

    def of(self, queue: QueueAccount, namespace: str) -> NamespaceAccount:
        return queue.account(namespace, self._weight)

    def compute_deserved(self) -> None:
        """What each queue deserves, once per cycle: after jobs were let in, before anything is placed."""
        if not self._has_deserved:
            self._has_deserved = True
            self.queues.deserve(self._plugins.combined("deserved")() or {})

    def charge_kinds(self, job: JobRun, tasks: Iterable[Task], sign: int) -> None:
        """Devices that like tasks were just given (or are about to give back) count by kind in shares."""
        amounts: dict[int, int] = {}
        for task in tasks:
            if not self._devices.uses_devices(task.shape):
                return
            for position, amount in self._devices.kinds(task):
                amounts[position] = amounts.get(position, 0) + amount
        job.charge_more(tuple(amounts.items()), sign)


def charge_devices(job: JobRun, devices: DeviceAssignments) -> None:
    """What a job that has started has of devices, by kind."""
    accounts = devices.ledger.columns.accounts
    if accounts and job.job_class is None:
        owner = (job.job.queue, job.job.namespace, job.job.identity)
        add(job.allocated, tuple(accounts.get(owner, {}).items()))
