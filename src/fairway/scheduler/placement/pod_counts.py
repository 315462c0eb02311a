"""Where pods that a term matches are, as a session sees it: the state's columns with the session's placements on top.

Columns are copied when a session first writes to one; most sessions write to none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.state.jobs import Task
from fairway.state.nodes import NodeTable
from fairway.state.pod_terms import CountColumn, PodTerms
from fairway.state.shapes import HostPort, Shape
from fairway.state.volumes import ByRow, Disk, VolumeRequests, VolumeUse, add

_NONE = np.zeros(0, dtype=np.int32)


class PodCounts:
    """Counts by node of pods that match a term, and of pods that own an anti-affinity term."""

    def __init__(self, terms: PodTerms, volumes: VolumeUse, nodes: NodeTable) -> None:
        self._terms = terms
        self._nodes = nodes
        self._volumes = volumes
        self._slots: dict[str, IntColumn | None] = {}
        """By driver, what can still be attached: a copy once something was."""
        self._users: dict[str, ByRow] = {}
        """By volume that several pods use: how many more do, on each row, than in the state."""
        self._disks: dict[Disk, ByRow] = {}
        self._claims: dict[str, int] = {}
        self._present: dict[int, CountColumn] = {}
        self._owners: dict[tuple[int, str], CountColumn] = {}
        self._ports: dict[int, list[HostPort]] = {}
        self._freed: dict[int, list[HostPort]] = {}
        self.changes = 0

    def __bool__(self) -> bool:
        """Whether there are any terms to mind."""
        return len(self._terms) > 0

    def anywhere(self, term: int) -> bool:
        """False if no pod that the term matches is, or was, on any node."""
        return term in self._present or len(self._terms.present.get(term, _NONE)) > 0

    def owned_anywhere(self, owned: tuple[int, str]) -> bool:
        """The same for pods that own an anti-affinity."""
        return owned in self._owners or len(self._terms.owners.get(owned, _NONE)) > 0

    def present(self, term: int, size: int) -> CountColumn:
        column = self._present.get(term)
        return _sized(self._terms.present.get(term, _NONE) if column is None else column, size)

    def owners(self, owned: tuple[int, str], size: int) -> CountColumn:
        column = self._owners.get(owned)
        return _sized(self._terms.owners.get(owned, _NONE) if column is None else column, size)

    def owned_terms(self, term: int) -> list[tuple[int, str]]:
        """The anti-affinities, by topology key, that pods may have against pods of this term."""
        return [(term, key) for key in sorted(self._terms.repelling.get(term, ()))]

    def ports(self, known: dict[int, list[HostPort]]) -> Iterator[tuple[int, list[HostPort]]]:
        """Host ports taken, by row: the state's, less those that the session gave back, and the session's."""
        for row in known.keys() | self._ports.keys():
            yield row, self.ports_on(row, known)

    def ports_on(self, row: int, known: dict[int, list[HostPort]]) -> list[HostPort]:
        """The same, of one row."""
        taken = known.get(row, []).copy()
        for port in self._freed.get(row, ()):
            taken.remove(port)
        return [*taken, *self._ports.get(row, ())]

    def holds_claim(self, claim: str) -> bool:
        """Whether some pod uses a claim."""
        return sum(self._volumes.holders.get(claim, {}).values()) + self._claims.get(claim, 0) > 0

    def free_slots(self, driver: str, size: int) -> IntColumn | None:
        """By node, how many more volumes of a driver can be attached; None if no node has a limit."""
        if driver not in self._slots:
            slots = self._volumes.slots(driver, self._nodes.rows, size, self._nodes.reshaped.end)
            self._slots[driver] = None if slots is None else slots.copy()
        return self._slots[driver]

    def has_limit(self, driver: str) -> bool:
        """Whether some node says how many volumes of a driver can be attached."""
        return driver in self._volumes.limits

    def has_attached(self, volume: str, size: int) -> BoolColumn:
        """Where a volume that several pods use is attached already."""
        here = np.zeros(size, dtype=np.bool_)
        known, more = self._volumes.users.get(volume, {}), self._users.get(volume, {})
        for row in known.keys() | more.keys():
            here[row] = known.get(row, 0) + more.get(row, 0) > 0
        return here

    def blocks_disk(self, disk: Disk, size: int) -> BoolColumn:
        """Where a disk is in use in a way that excludes another user: all of them may only read it."""
        name, reads_only = disk
        blocked = np.zeros(size, dtype=np.bool_)
        for other in ((name, False),) if reads_only else ((name, False), (name, True)):
            known, more = self._volumes.disks.get(other, {}), self._disks.get(other, {})
            for row in known.keys() | more.keys():
                blocked[row] |= known.get(row, 0) + more.get(row, 0) > 0
        return blocked

    def _move_volumes(self, volumes: VolumeRequests, rows: IntColumn, by: int, size: int) -> None:
        for driver, count in volumes.attached:
            slots = self.free_slots(driver, size)
            if slots is not None:
                np.subtract.at(slots, rows, by * count)
        if not (volumes.shared or volumes.exclusive or volumes.disks):
            return
        for row in rows.tolist():
            for volume, driver in volumes.shared:
                more = add(self._users, volume, row, by)
                if self._volumes.users.get(volume, {}).get(row, 0) + more == (1 if by > 0 else 0):
                    slots = self.free_slots(driver, size)
                    if slots is not None:
                        slots[row] -= by
            for claim in volumes.exclusive:
                self.changes += 1
                self._claims[claim] = self._claims.get(claim, 0) + by
            for disk in volumes.disks:
                add(self._disks, disk, row, by)

    def place(self, shape: Shape, rows: IntColumn, size: int, by: int) -> None:
        """Tasks of a shape were put on these rows (by 1) or taken off (by -1)."""
        for row in rows if shape.ports else ():
            self._move_ports(int(row), shape.ports, by)
        if shape.counts_volumes:
            self._move_volumes(shape.volumes, rows, by, size)
        self._count(shape.matched, shape, rows, size, by)

    def displace(self, task: Task, size: int, by: int) -> None:
        """A pod that the state has on its node is gone (by -1) or back (by 1); its own matches count."""
        if task.shape.ports:
            self._move_ports(task.node, task.shape.ports, by)
        if task.shape.counts_volumes:
            self._move_volumes(task.shape.volumes, np.array([task.node]), by, size)
        if task.matched or task.shape.anti_affinity:
            self._count(task.matched, task.shape, np.array([task.node]), size, by)

    def _move_ports(self, row: int, ports: tuple[HostPort, ...], by: int) -> None:
        """What is given back may be the session's own, or the state's."""
        into, out_of = (self._ports, self._freed) if by > 0 else (self._freed, self._ports)
        for port in ports:
            if port in out_of.get(row, ()):
                out_of[row].remove(port)
            else:
                into.setdefault(row, []).append(port)

    def _count(self, matched: tuple[int, ...], shape: Shape, rows: IntColumn, size: int, by: int) -> None:
        if not matched and not shape.rules.anti_affinity:
            return
        self.changes += 1
        for term in matched:
            column = self._present.get(term)
            if column is None:
                column = self._present[term] = self.present(term, size).copy()
            np.add.at(column, rows, by)
        for owned in shape.rules.anti_affinity:
            column = self._owners.get(owned)
            if column is None:
                column = self._owners[owned] = self.owners(owned, size).copy()
            np.add.at(column, rows, by)


def _sized(column: CountColumn, size: int) -> CountColumn:
    if len(column) >= size:
        return column[:size]
    grown = np.zeros(size, dtype=np.int32)
    grown[: len(column)] = column
    return grown
