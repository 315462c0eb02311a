"""All nodes as columns, for the heat map; device classes and devices with the pods that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from fairway.api.core import Node
from fairway.app.view.amounts import divisor, is_resource, rank
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.cluster import DeviceClassUse, DevicesPage, NodeColumn, NodeDevice, NodesMap
from fairway.app.view.models.history import ReservationEntry
from fairway.clock import format_rfc3339
from fairway.devices.model.device import Device
from fairway.devices.select.classes import CompiledClass
from fairway.devices.track.ledger import device_ledger
from fairway.devices.track.node import NodeDevices
from fairway.devices.track.report import devices, holders, unusable_because
from fairway.state.tables import PODS

STATE_NAMES = ["Ready", "NotReady", "SchedulingDisabled"]
POOL_LABELS = (
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "agentpool",
    "pool",
)
"""Labels that name node pools, the most specific first."""


def node_map(mirror: Mirror, reservations: Sequence[ReservationEntry]) -> NodesMap:
    table = mirror.state.nodes
    rows = np.flatnonzero(table.alive[: len(table)])
    names = [table.names[row] for row in rows.tolist()]
    order = sorted(range(len(names)), key=names.__getitem__)
    rows, names = rows[order], [names[place] for place in order]
    ready, schedulable = table.ready[rows], table.schedulable[rows]
    states = np.where(~ready, 1, np.where(~schedulable, 2, 0))
    kept: dict[str, int] = {}
    for entry in reservations:
        if entry.state != "planned":
            kept[entry.node] = kept.get(entry.node, 0) + 1
    pools = [_pool(mirror, name) for name in names]
    pool_names = sorted(set(pools))
    places = {name: place for place, name in enumerate(pool_names)}
    return NodesMap(
        revision=mirror.revision,
        now=format_rfc3339(mirror.now),
        names=names,
        states=states.tolist(),
        state_names=STATE_NAMES,
        pods=table.used.data[PODS, rows].tolist() if names else [],
        reserved=[kept.get(name, 0) for name in names],
        pools=[places[pool] for pool in pools],
        pool_names=pool_names,
        columns=[_column(mirror, name, rows) for name in _resource_names(mirror, rows)],
    )


def _resource_names(mirror: Mirror, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> list[str]:
    nodes = mirror.state.nodes
    have = np.atleast_1d(nodes.allocatable.data[:, rows].any(axis=1)).tolist()
    names = [name for name, has in zip(mirror.state.axis.names, have, strict=False) if has and is_resource(name)]
    return sorted(names, key=rank)


def _column(mirror: Mirror, name: str, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> NodeColumn:
    nodes, place = mirror.state.nodes, mirror.state.axis.row(name)
    step = divisor(name)
    columns = [table.data[place, rows] for table in (nodes.allocatable, nodes.used, nodes.reserved)]
    return NodeColumn(name, *((column if step == 1 else column / step).tolist() for column in columns))


def _pool(mirror: Mirror, name: str) -> str:
    node = mirror.objects.get(("Node", "", name))
    if isinstance(node, Node):
        for label in POOL_LABELS:
            found = node.metadata.labels.get(label)
            if found:
                return found
    return ""


MILLI = 1000


def devices_page(
    mirror: Mirror,
    *,
    class_name: str,
    node: str,
    kind: str,
    holder: str,
    offset: int,
    limit: int,
    sees: Callable[[str], bool],
) -> DevicesPage:
    """`sees` limits the search by pod to visible pods."""
    ledger = device_ledger(mirror.state)
    found: list[tuple[NodeDevices, int, Device]] = []
    for on, slot, device in devices(ledger, node or None):
        if kind and device.kind != kind:
            continue
        if class_name and class_name not in on.selected[slot]:
            continue
        if holder and not any(holder in user.name and sees(user.name) for user in holders(on, device)):
            continue
        found.append((on, slot, device))
    return DevicesPage(
        revision=mirror.revision,
        now=format_rfc3339(mirror.now),
        classes=[_class(mirror, known) for known in ledger.classes],
        total=len(found),
        devices=[_device(*entry) for entry in found[offset : offset + limit]],
    )


def devices_on(mirror: Mirror, node: str) -> list[NodeDevice]:
    """All devices of a node."""
    return [_device(*entry) for entry in devices(device_ledger(mirror.state), node)]


def has_devices(mirror: Mirror) -> bool:
    ledger = device_ledger(mirror.state)
    found: Iterator[object] = devices(ledger)
    return any(True for _ in ledger.classes) or any(True for _ in islice(found, 1))


def _class(mirror: Mirror, known: CompiledClass) -> DeviceClassUse:
    standing = device_ledger(mirror.state).standing(known.name)
    return DeviceClassUse(
        name=known.name,
        allocatable=standing.allocatable / MILLI,
        requested=standing.requested / MILLI,
        selector=_selector(known),
        problems=list(known.problems),
    )


def _selector(known: CompiledClass) -> str:
    """One term must match with all its parts."""
    terms = [
        " and ".join(f"{one.key} {one.operator} {', '.join(one.values)}".strip() for one in term.match_expressions)
        for term in known.spec.resource_selector
    ]
    parts = [" or ".join(terms)] if terms else []
    parts += [f"a group with {member.count} of {member.class_name}" for member in known.spec.includes]
    return "; ".join(parts)


def _device(node: NodeDevices, slot: int, device: Device) -> NodeDevice:
    users = holders(node, device)
    classes = sorted(node.selected[slot])
    amounts: dict[str, float] = {}
    for user in users:
        amounts[user.name] = amounts.get(user.name, 0.0) + user.milli / MILLI
    own = sum(user.milli for user in users if not user.through) / MILLI
    return NodeDevice(
        node=device.node,
        device=device.name,
        kind=device.kind,
        quantity=device.quantity,
        used=own,
        classes=classes,
        holders=amounts,
        attributes={name: value.text for name, value in sorted(device.attributes.items())},
        unusable=unusable_because(node, slot, classes[0]) if classes else "",
    )
