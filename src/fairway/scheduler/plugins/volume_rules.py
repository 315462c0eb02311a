"""Volumes that stand in a pod's way: a claim for one pod at a time, and nodes that can attach no more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairway.resources.columns import IntColumn
from fairway.scheduler import verdict as texts
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.placement.node_view import NodeView
from fairway.state.shapes import Shape


def checks(shape: Shape, nodes: NodeView) -> Iterator[Check]:
    volumes = shape.volumes
    if volumes.exclusive:
        free = not any(nodes.pods.holds_claim(claim) for claim in volumes.exclusive)
        yield Check(np.full(nodes.size, free, dtype=np.bool_), texts.CLAIM_IN_USE_TEXT)
    for driver, count in volumes.attached:
        slots = nodes.pods.free_slots(driver, nodes.snapshot.state.nodes.rows, nodes.snapshot.size)
        if slots is not None:
            yield Check(nodes.picked(slots >= count), texts.attach_limit(driver))


def limit(shape: Shape, nodes: NodeView) -> IntColumn | None:
    """How many like pods a node can take, by its attach limits; None if it has none."""
    found: IntColumn | None = None
    for driver, count in shape.volumes.attached:
        slots = nodes.pods.free_slots(driver, nodes.snapshot.state.nodes.rows, nodes.snapshot.size)
        if slots is not None:
            part = np.maximum(nodes.pick(slots), 0) // count
            found = part if found is None else np.minimum(found, part)
    return found
