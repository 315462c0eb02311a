"""Volumes in use: how many of each CSI driver are attached to a node, and which claims a single pod has for itself.

A volume that several pods may use at once (ReadWriteMany, ReadOnlyMany) is not counted: it is attached once, however
many pods of a node have it.
"""

from __future__ import annotations

from fairway.api.volumes import CSINode
from fairway.state.volumes import VolumeRequests

ByRow = dict[int, int]


class VolumeUse:
    """Counts by row; limits by the name of the node, for a node may come later than what is said of it."""

    def __init__(self) -> None:
        self.attached: dict[str, ByRow] = {}
        """By driver: volumes of pods on the node."""
        self.holders: dict[str, ByRow] = {}
        """By claim (`namespace/name`) that one pod may use at a time: pods that do."""
        self.limits: dict[str, dict[str, int]] = {}
        """By driver and node: how many volumes can be attached."""

    def upsert(self, thing: CSINode) -> None:
        self.delete(thing)
        for driver in thing.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self.limits.setdefault(driver.name, {})[thing.metadata.name] = driver.allocatable.count

    def delete(self, thing: CSINode) -> None:
        for driver in list(self.limits):
            self.limits[driver].pop(thing.metadata.name, None)
            if not self.limits[driver]:
                del self.limits[driver]

    def place(self, volumes: VolumeRequests, row: int, by: int) -> None:
        """A pod with these volumes came to a node (by 1) or went (by -1)."""
        for driver, count in volumes.attached:
            _add(self.attached, driver, row, by * count)
        for claim in volumes.exclusive:
            _add(self.holders, claim, row, by)


def _add(counts: dict[str, ByRow], key: str, row: int, by: int) -> None:
    rows = counts.setdefault(key, {})
    rows[row] = rows.get(row, 0) + by
    if not rows[row]:
        del rows[row]
    if not rows:
        del counts[key]
