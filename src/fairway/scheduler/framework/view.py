"""`SessionView`: what a plugin sees of a session. It has nothing that decides or writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.devices.fit import DeviceFit
from fairway.scheduler.framework.accounts import OpenAccounts, QueueAccount
from fairway.scheduler.framework.queue_accounts import DeviceQueues
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.volumes.assignments import VolumeAssignments
from fairway.state.cluster import ClusterState
from fairway.state.queues import Amounts
from fairway.state.snapshot import WorkingCopy


@dataclass(frozen=True, slots=True)
class SessionView:
    """What a plugin is given when a cycle begins. It may keep it for the cycle, and must not change what it reads."""

    state: ClusterState
    """The cluster before this cycle."""
    snapshot: WorkingCopy
    """The nodes as columns, with what this cycle has placed so far."""
    total: Amounts
    """The capacity of the cluster, one amount for each resource."""
    share_total: Amounts
    """What shares are parts of: devices count by kind, not by every class that could take them."""
    guarantee_total: Amounts
    """The capacity that guarantees of queues are set aside from."""
    queues: OpenAccounts
    """What is allocated to each queue, requested in it and guaranteed to it."""
    devices: DeviceAssignments
    """Which devices pods have and are given."""
    pods: PodCounts
    """Which pods that rules are about are where."""
    volumes: VolumeAssignments
    """Which volumes are left, and which pods of this cycle have them."""
    find_device_fit: Callable[[], DeviceFit]
    device_queues: DeviceQueues
    """How devices count in queues."""
    lends: Callable[[], bool]
    """Whether idle capacity will be lent in this cycle."""
    set_aside_for: Callable[[QueueAccount, int], int]
    """How much of a resource is reserved or nominated for jobs of a queue, and not allocated yet."""
    warnings: list[str]
    """What the plan warns of."""

    @property
    def device_fit(self) -> DeviceFit:
        """Where devices can be given."""
        return self.find_device_fit()
