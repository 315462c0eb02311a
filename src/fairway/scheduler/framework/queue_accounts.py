"""The accounts of all queues and namespaces in a session, what each queue deserves, and how devices count in them.

Devices count by the class asked for against capability, by kind in shares. What a pod has allocated counts by the kind
of its devices; what it waits for counts by class, and also by kind where all devices that could serve it are of one. So
classes that overlap never promise the same device twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from fairway.devices.model.device import WHOLE
from fairway.devices.select.requests import ByClaim, ByClass, ByKind, DeviceSelector, Option, ResolvedRequest, label
from fairway.devices.track.class_columns import kind_place
from fairway.devices.track.node import NodeDevices
from fairway.resources.columns import Vector
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.accounts import NamespaceAccount, OpenAccounts, QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import Task
from fairway.state.queues import Amounts, QueueTotals, add
from fairway.state.shapes import Shape
from fairway.state.tables import PODS
from fairway.state.waiting import GangTemplate, WaitingIndex

AccountOf = Callable[[QueueAccount, str], NamespaceAccount]


class DeviceQueues:
    """Answers for one session."""

    def __init__(self, devices: DeviceAssignments) -> None:
        self._ledger = devices.ledger
        self._devices = devices
        self._named: dict[tuple[Shape, int], Vector] = {}
        self._requested: dict[tuple[Shape, int], Vector] = {}

    def named(self, shape: Shape) -> Vector:
        """What a shape counts for against capability: what it asks for by name, in claims too. Of alternatives whose
        classes differ each counts, for it is not known yet which one it will be; what is allocated counts as what it
        is.
        """
        if shape.devices is None or not shape.devices.claims:
            return shape.vector
        requests = self._devices.requests.of(shape)
        found = self._named.get((shape, requests.number))
        if found is None:
            amounts = Counter(dict(shape.vector))
            for request in requests.resolved.requests:
                amounts.update(self._most_by_class(request) if request.claim else {})
            found = self._named[shape, requests.number] = tuple(sorted((+amounts).items()))
        return found

    def requested(self, shape: Shape) -> Vector:
        """What a shape counts for in its queue while it waits."""
        if shape.devices is None:
            return shape.vector
        requests = self._devices.requests.of(shape)
        found = self._requested.get((shape, requests.number))
        if found is None:
            amounts = Counter(dict(self.named(shape)))
            for request in requests.resolved.requests:
                kinds = {self._kind_of(option.selector) for option in request.options}
                place = kinds.pop() if len(kinds) == 1 else None
                if place is not None:
                    amounts[place] += max(map(self._amount, request.options))
            found = self._requested[shape, requests.number] = tuple(sorted((+amounts).items()))
        return found

    def _most_by_class(self, request: ResolvedRequest) -> dict[int, int]:
        found: dict[int, int] = {}
        for option in request.options:
            place = self._ledger.axis.find(CLASS_PREFIX + label(option.selector))
            if place is not None:
                found[place] = max(found.get(place, 0), self._amount(option))
        return found

    def _amount(self, option: Option) -> int:
        """Thousandths of units; of all devices of a node as many as there are where there are most."""
        if option.admin:
            return 0
        if not option.every:
            return option.milli or option.units * WHOLE
        return max((_units(node, option.selector) for node in self._ledger.nodes.values()), default=0) * WHOLE

    def _kind_of(self, selector: DeviceSelector) -> int | None:
        """The dimension of the kind, if all devices that are meant are of one. A request for a plain resource counts
        as such."""
        if isinstance(selector, ByKind):
            return None
        if isinstance(selector, ByClass):
            return self._ledger.columns.kind_of(selector.class_name)
        return self._ledger.kind_of(selector, lambda: self._find_kind(selector))

    def _find_kind(self, selector: ByClaim) -> int | None:
        places = {
            kind_place(self._ledger.axis, node, slot)
            for node in self._ledger.nodes.values()
            for slot in node.candidates(selector)
        }
        return places.pop() if len(places) == 1 else None

    def charge_accounts(
        self, accounts: Mapping[str, QueueAccount], account_of: AccountOf, waiting: WaitingIndex
    ) -> None:
        """Charge to the accounts what is allocated and requested by kind; some dimensions do not count in shares."""
        for (queue, namespace, _), amounts in self._ledger.columns.accounts.items():
            accounts[queue].charge(tuple(amounts.items()), 1)
            add(account_of(accounts[queue], namespace).allocated, tuple(amounts.items()))
        names = self._ledger.axis.names
        uncounted = frozenset(row for row, name in enumerate(names) if name.startswith(CLASS_PREFIX))
        for account in accounts.values():
            account.uncounted = uncounted
        for template in waiting.templates():
            more = self._by_kind(template)
            for key, job_class in template.classes.items() if more else ():
                if key.valid:
                    for account in accounts[key.queue].ancestry:
                        add(account.requested, more, len(job_class.jobs))
        for job, (template, _) in waiting.started.items():
            for account in accounts[job.queue].ancestry:
                add(account.requested, self._by_kind(template))

    def _by_kind(self, template: GangTemplate) -> Vector:
        amounts: dict[int, int] = {}
        for run in template.runs:
            named = dict(run.shape.vector)
            for place, amount in self.requested(run.shape):
                if amount > named.get(place, 0):
                    amounts[place] = amounts.get(place, 0) + (amount - named.get(place, 0)) * run.size
        return tuple(sorted(amounts.items()))


def _units(node: NodeDevices, selector: DeviceSelector) -> int:
    return sum(node.inventory.slots[slot].quantity for slot in node.candidates(selector))


Deserved = Callable[[], Mapping[str, Amounts] | None]
"""What each queue deserves, by its name."""


class SessionAccounts:
    """The accounts of all queues in one session."""

    def __init__(self, state: ClusterState, total: Amounts, devices: DeviceAssignments, deserved: Deserved) -> None:
        names = state.axis.names
        self.total = total
        self.share_total = [0 if names[row].startswith(CLASS_PREFIX) else amount for row, amount in enumerate(total)]
        """What shares are parts of: devices count by kind, not by every class that could take them."""
        self.device_queues = DeviceQueues(devices)
        self._devices = devices
        self._deserved = deserved
        self._weight = state.namespaces.weight
        self._has_deserved = False
        self.queues = self._opened(state)

    def _opened(self, state: ClusterState) -> OpenAccounts:
        dimensions = len(state.axis)
        shared = tuple(row for row, total in enumerate(self.total) if total > 0 and row != PODS)
        totals = state.derived.get(QueueTotals)
        totals.sync()
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
            self.queues.deserve(self._deserved() or {})

    def estimate_deserved(self, warnings: list[str]) -> None:
        """What each queue would deserve if all groups were let in: enqueue orders them by it. Warnings wait for the
        amounts that count.
        """
        known = len(warnings)
        self.queues.deserve(self._deserved() or {})
        del warnings[known:]

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
    if devices.ledger.enabled and job.job_class is None:
        accounts = devices.ledger.columns.accounts
        owner = (job.job.queue, job.job.namespace, job.job.identity)
        add(job.allocated, tuple(accounts.get(owner, {}).items()))
