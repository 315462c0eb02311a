"""What is allocated on every node, kept row by row.

Of a row that changed everything is worked out again: what is recorded, then what pods of other rows have of devices
that this one reaches too, and last those of whose devices nothing is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairway.api.devices import ResourceClaim
from fairway.devices.model.device import WHOLE
from fairway.devices.model.locating import is_plain_resource
from fairway.devices.select.requests import ResolvedRequests
from fairway.devices.track.claimed import ClaimedDevices
from fairway.devices.track.holders import accounts, place_unrecorded, restore
from fairway.devices.track.network import NetworkDevices
from fairway.devices.track.node import NodeDevices
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import DeviceRequests
from fairway.state.jobs import ON_NODE, Task
from fairway.state.shapes import Shape

Plain = tuple[tuple[str, int], ...]
"""Units of plain resources, by name."""

Resolve = Callable[[DeviceRequests | None, Plain], ResolvedRequests]


class Occupancy:
    """See the module. `nodes` are the rows that have devices; `resolve` says what pods ask for."""

    def __init__(self, state: ClusterState, nodes: Mapping[int, NodeDevices], resolve: Resolve) -> None:
        self._state = state
        self._nodes = nodes
        self._resolve = resolve
        self.claimed = ClaimedDevices()
        self.network = NetworkDevices()
        self.presumed: set[int] = set()
        """Rows with pods whose devices depend on claims that were not allocated, or on what is not there yet."""

    def learn_claim(self, key: str, claim: ResourceClaim | None) -> None:
        if claim is None:
            self.claimed.delete(key)
        else:
            self.claimed.upsert(claim)

    def refill(self, rows: set[int]) -> set[int]:
        """These rows again. Returns them with the rows that have devices in common with them."""
        busy = sorted(row for row in rows if row in self._nodes and not self._is_idle(row))
        touched = set[int]()
        for row in busy:
            touched |= self._restore(row)
        others = sorted(touched - set(busy))
        for row in others:
            self._restore(row)
        for row in (*busy, *others):
            self._settle(row)
        return rows | touched

    def has_records(self, row: int) -> bool:
        """Whether pods of a row say that they have devices."""
        nodes = self._state.nodes
        return bool(nodes.alive[row]) and any(task.record and task.state in ON_NODE for task in nodes.tasks[row])

    def plain(self, shape: Shape) -> Plain:
        """The units of plain resources that a shape asks for."""
        names = self._state.axis.names
        return tuple((names[row], -(-amount // WHOLE)) for row, amount in shape.vector if is_plain_resource(names[row]))

    def _is_idle(self, row: int) -> bool:
        """Whether nothing is allocated there, nor was when it was last looked at."""
        node = self._nodes[row]
        held = node.allocations or node.lost or self._state.nodes.tasks[row]
        return not (held or node.network_slots or self.claimed)

    def _restore(self, row: int) -> set[int]:
        """What is recorded. Returns other rows that have to know."""
        node = self._nodes[row]
        node.clear()
        restore(node, self._tasks(row), self.claimed)
        return self.network.note(row, node)

    def _settle(self, row: int) -> None:
        node = self._nodes[row]
        self.network.mirror(row, node)
        tasks, shared = self._tasks(row), set[str]()
        self.presumed.discard(row)
        for task in tasks:
            plain = tuple((name, units) for name, units in self.plain(task.shape) if node.backs(name))
            if task.shape.devices is not None or plain:
                requests = self._resolve(task.shape.devices, plain)
                if requests.missing or any(request.claim for request in requests.requests):
                    self.presumed.add(row)
                place_unrecorded(node, task, requests, shared)
        ours = [task for task in tasks if task.key not in self._state.foreign]
        node.accounts = accounts(self._state.axis, node, ours)

    def _tasks(self, row: int) -> list[Task]:
        here = (task for task in self._state.nodes.tasks[row] if task.state in ON_NODE)
        return sorted(here, key=lambda task: task.key)
