"""What parts of a cycle see of its session, so that none of them needs the session itself.

A plugin sees a `SessionView`: the cluster as it is in this cycle, to read. Statements and holds write through a
`Workspace`, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from fairway.clock import Micros
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.devices.fit import DeviceFit
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.device_accounts import DeviceQueues
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.open_accounts import OpenAccounts
from fairway.scheduler.placement.kernel import Kernel
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot
from fairway.state.waiting import EquivalenceClass, GangTemplate, PendingJob


class ReservedAmounts(Protocol):
    """Reservations and nominations, as far as a plugin sees them."""

    def set_aside_for(self, queue: QueueAccount, dimension: int) -> int:
        """How much of a resource is reserved or nominated for jobs of a queue, and not allocated yet."""


class SessionView(Protocol):
    """What a plugin is given when a cycle begins. It may keep it for the cycle, and must not change what it reads."""

    @property
    def state(self) -> ClusterState:
        """The cluster before this cycle."""

    @property
    def snapshot(self) -> Snapshot:
        """The nodes as columns, with what this cycle has placed so far."""

    @property
    def total(self) -> list[int]:
        """The capacity of the cluster, one amount for each resource."""

    @property
    def share_total(self) -> list[int]:
        """What shares are parts of: devices count by kind, not by every class that could take them."""

    @property
    def queues(self) -> OpenAccounts:
        """What is allocated to each queue, requested in it and guaranteed to it."""

    @property
    def devices(self) -> DeviceAssignments:
        """Which devices pods have and are given."""

    @property
    def device_fit(self) -> DeviceFit:
        """Where devices can be given."""

    @property
    def device_queues(self) -> DeviceQueues:
        """How devices count in queues."""

    @property
    def reservations(self) -> ReservedAmounts:
        """What is reserved or nominated."""

    @property
    def lending(self) -> bool:
        """Whether idle capacity is being lent: allocate's second pass."""

    @property
    def lends(self) -> Callable[[], bool]:
        """Whether it will be in this cycle."""

    @property
    def warnings(self) -> list[str]:
        """What the plan warns of."""


class Workspace(Protocol):
    """What changes while actions try things out. Each write can be taken back by the same with the other sign."""

    @property
    def now(self) -> Micros: ...
    @property
    def state(self) -> ClusterState: ...
    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def kernel(self) -> Kernel: ...
    @property
    def pods(self) -> PodCounts: ...
    @property
    def reserving_jobs(self) -> dict[Job, JobRun]:
        """Jobs of which a task has a reservation or a nomination."""

    @property
    def on_allocate(self) -> Callable[[JobRun, Shape, int], None]: ...
    def job_run(
        self,
        pending_job: PendingJob,
        template: GangTemplate,
        job_class: EquivalenceClass | None = None,
        position: int = 0,
    ) -> JobRun: ...
    def write(self, shape: Shape, tasks: list[Task], rows: list[int], sign: int) -> None: ...
    def charge_kinds(self, job: JobRun, tasks: Iterable[Task], sign: int) -> None: ...
    def bind(self, job: JobRun, tasks: list[Task], rows: list[int]) -> None: ...
