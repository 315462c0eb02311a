"""The devices in use on every node, row by row: by records on pods, by claims, and by pods without a
record.

A row that changed is computed again as a whole: first what is recorded, then what pods of other rows have of devices
that this one reaches too, and last the pods without a record.

Devices that several nodes reach, over a network or a fabric, are a slot of every node that reaches them. A pod that has
one from one node has it from all: allocations of one row are *mirrored* on the others. It counts in sums on one row
only, its primary node's, the first that reaches it. No pod is presumed to have one: a record or a claim has to say so.
Devices of one node whose counters are shared with devices of others are treated in the same way: each is also a slot of
the nodes that do not reach it but share its counters, where no request of that node can take it.

The API server does not check that a device is free, so another allocator can give out a device at the same moment.
`conflicts` finds what is allocated together and exceeds what there is: a device with two users, parts that exceed its
capacity, overdrawn counters, a group in use together with a member, devices of one counter set that do not go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairway.api.devices import ResourceClaim
from fairway.devices.match.free_slots import FreeSlots
from fairway.devices.match.solving import TakenSlot, solve
from fairway.devices.model.device import WHOLE, Device
from fairway.devices.model.pools import is_plain_resource
from fairway.devices.select.requests import ByKind, ResolvedRequest, ResolvedRequests, label
from fairway.devices.track.class_columns import Owner, kind_held
from fairway.devices.track.node import ClaimedDevices, DeviceKey, NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.record import read
from fairway.resources.columns import Axis
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX, ClaimRequest, DeviceRequests
from fairway.state.jobs import ACCOUNTED, ON_NODE, Task
from fairway.state.shapes import Shape


class NetworkSlot(NamedTuple):
    """A slot of a row that is a device of several rows. Some rows have it only for the counters that it takes."""

    slot: int
    reachable: bool


class NetworkDevices:
    """The rows of each network device, and what the pods of each row have of it."""

    def __init__(self) -> None:
        self._places: dict[DeviceKey, dict[int, NetworkSlot]] = {}
        self._keys: dict[int, dict[DeviceKey, NetworkSlot]] = {}
        self._allocated: dict[int, dict[DeviceKey, tuple[SlotAllocation, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def place(self, row: int, node: NodeDevices | None) -> set[int]:
        """The devices of a row have changed. Returns the rows that this affects."""
        old, new = self._keys.get(row, {}), {} if node is None else _network_slots(node)
        if old == new:
            return set()
        touched = self._rows(old)
        for key in old:
            del self._places[key][row]
            if not self._places[key]:
                del self._places[key]
        for key, place in new.items():
            self._places.setdefault(key, {})[row] = place
        self._keys[row] = new
        if not new:
            del self._keys[row]
            self._allocated.pop(row, None)
        return touched | self._rows(new)

    def counted_elsewhere(self, row: int) -> frozenset[int]:
        """The slots of a row that are counted on another row."""
        keys = self._keys.get(row, {})
        return frozenset(place.slot for key, place in keys.items() if self._primary_node(key) != row)

    def note(self, row: int, node: NodeDevices) -> set[int]:
        """Records what the pods of a row have. Returns the other rows for which that is new."""
        if row not in self._keys:
            return set()
        held = {key: found for key, place in self._keys[row].items() if (found := _recorded(node, place.slot))}
        before = self._allocated.get(row, {})
        self._allocated[row] = held
        return self._rows(key for key in {*held, *before} if held.get(key) != before.get(key)) - {row}

    def mirror(self, row: int, node: NodeDevices) -> None:
        """Applies the allocations of other rows' pods to a row."""
        for key, (slot, _) in self._keys.get(row, {}).items():
            for other in sorted(self._places[key]):
                if other != row:
                    for allocation in self._allocated.get(other, {}).get(key, ()):
                        node.take(allocation._replace(slot=slot))

    def elsewhere(self, row: int, slot: int) -> Iterator[tuple[int, int]]:
        """The other rows and slots of the same device."""
        key = next((key for key, own in self._keys.get(row, {}).items() if own.slot == slot), None)
        if key is not None:
            yield from ((other, place.slot) for other, place in sorted(self._places[key].items()) if other != row)

    def homes(self) -> Iterator[tuple[int, int]]:
        """Every device once, as row and slot."""
        for key in sorted(self._places):
            home = self._primary_node(key)
            if home is not None:
                yield home, self._places[key][home].slot

    def _primary_node(self, key: DeviceKey) -> int | None:
        """The row on which a device is counted; None while no node that reaches it exists."""
        return min((row for row, place in self._places[key].items() if place.reachable), default=None)

    def _rows(self, keys: Iterable[DeviceKey]) -> set[int]:
        return {row for key in keys for row in self._places.get(key, ())}


def _network_slots(node: NodeDevices) -> dict[DeviceKey, NetworkSlot]:
    devices = ((node.inventory.slots[slot].device, slot) for slot in sorted(node.network_slots))
    return {(device.driver, device.pool, device.name): NetworkSlot(slot, device.reachable) for device, slot in devices}


def _recorded(node: NodeDevices, slot: int) -> tuple[SlotAllocation, ...]:
    """A claim's devices are taken on every row by its allocation, and need no mirror."""
    return tuple(allocation for allocation in node.allocations if allocation.slot == slot and not allocation.claim)


def restore(node: NodeDevices, tasks: Sequence[Task], claimed: ClaimedDevices) -> None:
    """Applies the records of tasks and the allocations of claims. A claim's devices are its first user's.

    A device that a pod's record names and that a claim created for this pod also has is in use once: the claim repeats
    the record for the kubelet. Extended resources have no other record than that claim.
    """
    node.restore((task.key, entry) for task in tasks for entry in read(dict(task.record)))
    users = {claim.claim: task.key for task in reversed(tasks) for claim in _claims(task)}
    recorded = {(allocation.holder, allocation.slot) for allocation in node.allocations} if claimed else set()
    here = {task.key for task in tasks} if claimed else set()
    for claimed_device, slot in claimed.of(node.inventory):
        if (claimed_device.owner, slot) in recorded:
            continue
        if claimed_device.special and claimed_device.owner in here:
            node.served_by_claim.add(claimed_device.owner)
            node.restore_claim(claimed_device.owner, claimed_device._replace(class_name=""), slot)
            continue
        node.restore_claim(users.get(claimed_device.claim, f"claim {claimed_device.claim}"), claimed_device, slot)


def place_unrecorded(node: NodeDevices, task: Task, requests: ResolvedRequests, claims: set[str]) -> None:
    """A task on a node without a record of its devices is presumed to have the first that serve it. `claims` are shared
    ones that others here already have.
    """
    recorded = {entry.class_name for entry in read(dict(task.record))}

    def known(request: ResolvedRequest) -> bool:
        if request.claim:
            return request.claim in claims
        name = label(request.options[0].selector)
        if is_plain(request):
            return task.key in node.served_by_claim and name in node.extended
        return name in recorded

    left = requests.without(known)
    claims.update(requests.shared)
    taken = solve(node.free, left, node.own_candidates) if left.requests and not left.missing else None
    for choice in (found for found in taken or () if not found.portion.looks):
        node.take(allocation_of(node, left.requests[choice.request], choice, task.key))


def allocation_of(node: NodeDevices, request: ResolvedRequest, taken: TakenSlot, holder: str = "") -> SlotAllocation:
    """What was taken for a request, labelled by the option that was used."""
    option = request.options[taken.option]
    name = f"{request.request}/{option.name}" if option.name else request.request
    plain = is_plain(request) and node.is_plain(taken.slot)
    return SlotAllocation(holder, taken.slot, taken.portion, label(option.selector), plain, request.claim, name)


def counts(axis: Axis, node: NodeDevices, allocations: Iterable[SlotAllocation]) -> dict[int, int]:
    """What allocations count for in queues, beyond what their pods request by name: their kind and, for claimed
    devices, the class where it is counted.
    """
    found: dict[int, int] = {}
    for allocation in allocations:
        if allocation.plain or allocation.portion.looks:
            continue
        place, milli = kind_held(axis, node, allocation.slot, allocation.portion)
        found[place] = found.get(place, 0) + milli
        named = axis.find(CLASS_PREFIX + allocation.label) if allocation.claim and allocation.label else None
        if named is not None:
            amount = portion_milli(node.inventory.slots[allocation.slot], allocation.portion)
            found[named] = found.get(named, 0) + amount
    return found


def accounts(axis: Axis, node: NodeDevices, tasks: Iterable[Task]) -> Mapping[Owner, Mapping[int, int]]:
    """The same by queue, namespace and job."""
    by_owner: dict[Owner, list[SlotAllocation]] = {}
    owners = {task.key: task.job for task in tasks if task.state in ACCOUNTED}
    for allocation in node.allocations:
        job = owners.get(allocation.holder)
        if job is not None:
            by_owner.setdefault((job.queue, job.namespace, job.identity), []).append(allocation)
    found = ((owner, counts(axis, node, allocations)) for owner, allocations in by_owner.items())
    return {owner: amounts for owner, amounts in found if amounts}


def is_plain(request: ResolvedRequest) -> bool:
    """Whether it is requested by the name of a plain resource, under which it is counted anyway."""
    return isinstance(request.options[0].selector, ByKind)


def _claims(task: Task) -> Iterator[ClaimRequest]:
    yield from task.shape.devices.claims if task.shape.devices is not None else ()


Plain = tuple[tuple[str, int], ...]
"""Units of plain resources, by name."""

Resolve = Callable[[DeviceRequests | None, Plain], ResolvedRequests]


class Occupancy:
    """`nodes` are the rows with devices; `resolve` gives the requests of pods."""

    def __init__(self, state: ClusterState, nodes: Mapping[int, NodeDevices], resolve: Resolve) -> None:
        self._state = state
        self._nodes = nodes
        self._resolve = resolve
        self.claimed = ClaimedDevices()
        self.network = NetworkDevices()
        self.presumed: set[int] = set()
        """Rows with pods whose devices depend on claims that were not allocated, or on objects that do not
        exist yet.
        """

    def learn_claim(self, key: str, claim: ResourceClaim | None) -> None:
        if claim is None:
            self.claimed.delete(key)
        else:
            self.claimed.upsert(claim)

    def refill(self, rows: set[int]) -> set[int]:
        """Computes these rows again. Returns them with the rows that share devices with them."""
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
        """Whether pods of a row have records of devices."""
        nodes = self._state.nodes
        return bool(nodes.alive[row]) and any(task.record and task.state in ON_NODE for task in nodes.tasks[row])

    def plain(self, shape: Shape) -> Plain:
        """The units of plain resources that a shape requests."""
        names = self._state.axis.names
        return tuple((names[row], -(-amount // WHOLE)) for row, amount in shape.vector if is_plain_resource(names[row]))

    def _is_idle(self, row: int) -> bool:
        """Whether nothing is allocated there, nor was at the last update."""
        node = self._nodes[row]
        held = node.allocations or node.lost or self._state.nodes.tasks[row]
        return not (held or node.network_slots or self.claimed)

    def _restore(self, row: int) -> set[int]:
        """Applies what is recorded. Returns other rows that this affects."""
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


class DeviceConflict(NamedTuple):
    """Allocations to at least two users that exclude each other, at least one of them by a claim."""

    devices: tuple[Device, ...]
    allocations: tuple[SlotAllocation, ...]

    @property
    def names(self) -> str:
        return ", ".join(dict.fromkeys(f"{device.name} of pool {device.pool}" for device in self.devices))

    @property
    def users(self) -> frozenset[str]:
        return frozenset(map(user_of, self.allocations))


def user_of(allocation: SlotAllocation) -> str:
    """The claim that has it (`namespace/name`), or the pod if there is no claim."""
    return allocation.claim or allocation.holder


def conflicts(node: NodeDevices) -> Iterator[DeviceConflict]:
    """Each place where more is allocated than there is. Cheap: it reads only allocations."""
    taken: dict[int, list[SlotAllocation]] = {}
    for allocation in node.allocations:
        if not allocation.portion.looks:
            taken.setdefault(allocation.slot, []).append(allocation)
    found = dict.fromkeys(tuple(sorted(slots)) for slots in _exceeded(node.free, taken))
    for slots in found:
        devices = tuple(node.inventory.slots[slot].device for slot in slots)
        conflict = DeviceConflict(devices, tuple(allocation for slot in slots for allocation in taken[slot]))
        if len(conflict.users) > 1 and any(allocation.claim for allocation in conflict.allocations):
            yield conflict


def _exceeded(free: FreeSlots, taken: Iterable[int]) -> Iterator[set[int]]:
    """Sets of slots that cannot all be in use as they are."""
    inventory, taken = free.inventory, set(taken)
    for slot in sorted(taken):
        facts = inventory.slots[slot]
        if free.used[slot] > facts.quantity or _shared_too_far(free, slot):
            yield {slot}
        if facts.group and free.used[slot]:
            others = {slot, *facts.leaves, *(group for leaf in facts.leaves for group in inventory.groups_of[leaf])}
            if len(others & taken) > 1:
                yield others & taken
        if facts.boards and not free.goes_with_others(slot):
            yield {other for board, _ in facts.boards for other, _ in inventory.boards[board]} & taken
    for counter, left in enumerate(free.counters):
        if left < 0:
            yield {slot for slot in taken if any(index == counter for index, _ in inventory.slots[slot].counters)}


def _shared_too_far(free: FreeSlots, slot: int) -> bool:
    share = free.shares.get(slot)
    if share is None:
        return False
    totals = (total for _, total in free.inventory.slots[slot].capacity)
    return (
        free.used[slot] > 0
        or share.milli > WHOLE
        or any(part > total for part, total in zip(share.capacity, totals, strict=True))
    )
