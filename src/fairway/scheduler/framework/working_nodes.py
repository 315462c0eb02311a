"""The nodes as a session sees them while it tries things out: what is free, which pods and devices are where.

Every part that a placement changes is here, and `occupy` and `displace` change all of them together. The kernel and
its hooks read the same parts, so that what is tried out is what the next choice is made from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.devices.fit import DeviceFit
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.policy_parts import PolicyParts
from fairway.scheduler.placement.kernel import CapFor, Kernel, Placing
from fairway.scheduler.placement.node_view import Columns, KeptColumns
from fairway.scheduler.placement.parking import Parking
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.volumes.assignments import VolumeAssignments
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy, snapshot_of


class WorkingNodes:
    """The nodes as one session changes them."""

    def __init__(self, state: ClusterState, parts: PolicyParts) -> None:
        book = device_ledger(state)
        self.snapshot = WorkingCopy(snapshot_of(state))
        self.pods = PodCounts(state.terms, state.volume_use, state.nodes)
        self.devices = DeviceAssignments(book, self.snapshot, parts.device_strategies())
        self.volumes = VolumeAssignments(state, self.snapshot, self.pods)
        self.kernel = Kernel(self.snapshot, parts.node_hooks, self._columns(state, parts), self.pods)
        self.kernel.uses_devices = self.devices.uses_devices
        self.caps_for: Callable[[JobRun], CapFor] | None = None
        """Where starts are planned: what those of other jobs leave to a job; answers that mean the same are equal."""

    @cached_property
    def device_fit(self) -> DeviceFit:
        """Where devices can be given."""
        return DeviceFit(self.devices, self.snapshot)

    def _columns(self, state: ClusterState, parts: PolicyParts) -> Columns:
        """Kept columns fit one policy, one set of working plugins, and what these say that their answers rest on."""
        kept = state.derived.get(KeptColumns)
        columns = kept.under(parts.basis(state), parts.plugins.failed())
        if Parking.declared.name in state.derived.off:
            columns.parking = Parking()
        generation = self.devices.ledger.generation
        if columns.device_generation != generation:
            columns.drop(lambda shape: shape.devices is not None or bool(self.devices.ledger.plain(shape)))
            columns.device_generation = generation
        if columns.volume_basis != self.volumes.basis:
            columns.drop(lambda shape: shape.has_volumes)
            columns.volume_basis = self.volumes.basis
        return columns

    def beside_planned_starts(self, job: JobRun, placing: Placing) -> Placing:
        """The same terms, and the job leaves what the planned starts of others need."""
        return placing if self.caps_for is None else placing.beside(self.caps_for(job))

    def occupy(self, shape: Shape, tasks: list[Task], rows: list[int], sign: int) -> None:
        """Take (sign 1) or give back (sign -1) what like tasks need on these rows, one task for each."""
        self.write_room(shape, rows, sign)
        if shape.is_counted:
            self.pods.place(shape, np.array(rows), self.snapshot.size, sign)
        if shape.has_volumes and shape.volumes.unbound:
            self.volumes.write(shape, tasks, rows, sign)
        if self.devices.uses_devices(shape):
            self.devices.write(shape, tasks, rows, sign)

    def displace(self, task: Task, sign: int) -> None:
        """Pretend that a pod which is on its node is gone (sign -1), or back (sign 1)."""
        row, idle = task.node, self.snapshot.idle
        self.snapshot.write(row)
        for dimension, amount in task.shape.vector:
            idle[dimension, row] -= sign * amount
        self.pods.displace(task, self.snapshot.size, sign)
        if self.devices.uses_devices(task.shape):
            self.devices.write(task.shape, [task], [task.node], sign)

    def stand_in(self, task: Task, row: int, sign: int) -> None:
        """To rules between pods, and to volumes, a task that has a claim to a node counts as being there."""
        shape = task.shape
        if shape.is_counted:
            self.pods.place(shape, np.array([row]), self.snapshot.size, sign)
        if shape.volumes.unbound:
            self.volumes.write(shape, [task], [row], sign)

    def write_room(self, shape: Shape, rows: list[int], sign: int) -> None:
        """Only the free amounts: rules between pods and devices are not told."""
        snapshot = self.snapshot
        if len(rows) == 1 or len(set(rows)) == 1:
            row = rows[0]
            snapshot.write(row)
            for dimension, amount in shape.vector:
                snapshot.idle[dimension, row] -= sign * len(rows) * amount
            return
        for row in dict.fromkeys(rows):
            snapshot.write(row)
        index = np.array(rows)
        for dimension, amount in shape.vector:
            np.subtract.at(snapshot.idle[dimension], index, sign * amount)
