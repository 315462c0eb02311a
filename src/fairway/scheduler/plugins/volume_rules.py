"""Volumes that stand in a pod's way: where bound ones can be reached, what other pods use, what can be attached, and
where those that are not there yet can be found or provisioned. As in kube-scheduler, in its words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler import verdict as texts
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.placement import matching
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.volumes.assignments import VolumeAssignments
from fairway.state.shapes import Shape


def static_checks(shape: Shape, nodes: NodeView) -> Iterator[Check]:
    """What follows from the node's labels."""
    for selector in shape.volumes.selectors:
        yield Check(nodes.picked(matching.any_term_column(selector, nodes.snapshot)), texts.VOLUME_TEXT)
    for zone in shape.volumes.zones:
        yield Check(nodes.picked(matching.zone_column(zone, nodes.snapshot)), texts.VOLUME_ZONE_TEXT)


def checks(shape: Shape, nodes: NodeView, assignments: VolumeAssignments) -> Iterator[Check]:
    """What follows from the pods there, and from the volumes that are left."""
    volumes, size = shape.volumes, nodes.snapshot.size
    for disk in volumes.disks:
        yield Check(~nodes.picked(nodes.pods.blocks_disk(disk, size)), texts.DISK_TEXT)
    if volumes.exclusive:
        free = not any(nodes.pods.holds_claim(claim) for claim in volumes.exclusive)
        yield Check(np.full(nodes.size, free, dtype=np.bool_), texts.CLAIM_IN_USE_TEXT)
    if volumes.attached or volumes.shared:
        attachable = _attachable(shape, nodes)
        if attachable is not None:
            yield Check(attachable, texts.ATTACH_LIMIT_TEXT)
    if volumes.unbound:
        found, has_space = assignments.fits(shape, nodes)
        yield Check(found, texts.NO_VOLUME_TEXT)
        yield Check(has_space, texts.NO_STORAGE_TEXT)


def limit(shape: Shape, nodes: NodeView, assignments: VolumeAssignments) -> IntColumn | None:
    """How many like pods a node can take, by their volumes; None if they do not limit it."""
    volumes = shape.volumes
    found: IntColumn | None = None
    for driver, count in volumes.attached:
        slots = nodes.pods.free_slots(driver, nodes.snapshot.size)
        if slots is not None:
            free: IntColumn = nodes.counts(slots)
            part = free if count == 1 else np.maximum(free, 0) // count  # dividing a column is slow
            found = part if found is None else np.minimum(found, part)
    if any(not reads_only for _, reads_only in volumes.disks):
        one = np.ones(nodes.size, dtype=np.int64)
        found = one if found is None else np.minimum(found, one)
    if volumes.unbound:
        offered = assignments.limit(shape, nodes)
        if offered is not None:
            found = offered if found is None else np.minimum(found, offered)
    return found


def looks_around(shape: Shape, nodes: PodCounts, assignments: VolumeAssignments) -> bool:
    """Whether placing a pod can change what its like may do, on other nodes or in another way than each takes the same.
    A volume that pods share is attached by the first of them only.
    """
    volumes = shape.volumes
    if volumes.exclusive or any(nodes.has_limit(driver) for _, driver in volumes.shared):
        return True
    return bool(volumes.unbound) and assignments.looks_around(shape)


def _attachable(shape: Shape, nodes: NodeView) -> BoolColumn | None:
    """Where all volumes can be attached; None if no node has a limit."""
    size = nodes.snapshot.size
    passes: BoolColumn | None = None
    if not shape.volumes.shared:
        for driver, number in shape.volumes.attached:
            slots = nodes.pods.free_slots(driver, size)
            if slots is not None:
                fits: BoolColumn = nodes.counts(slots) >= number
                passes = fits if passes is None else passes & fits
        return passes
    needed: dict[str, IntColumn | int] = dict(shape.volumes.attached)
    for volume, driver in shape.volumes.shared:
        here = nodes.picked(nodes.pods.has_attached(volume, size))
        needed[driver] = needed.get(driver, 0) + ~here
    for driver, count in needed.items():
        slots = nodes.pods.free_slots(driver, size)
        if slots is not None:
            # A pod that attaches nothing new is not held up by a node that has too much already.
            free: IntColumn = nodes.counts(slots).astype(np.int64)
            enough: BoolColumn = (free >= count) | (np.asarray(count) == 0)
            passes = enough if passes is None else passes & enough
    return passes
