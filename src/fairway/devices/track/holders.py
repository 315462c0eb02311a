"""What is allocated on a node: what pods' records say, what claims have, and then what is written nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairway.devices.match.solving import TakenSlot, solve
from fairway.devices.select.requests import ResolvedRequest, ResolvedRequests
from fairway.devices.select.selector_requests import ByKind, label
from fairway.devices.track.claimed import ClaimedDevices
from fairway.devices.track.columns import Owner, kind_held
from fairway.devices.track.node import NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.record import read
from fairway.resources.columns import Axis
from fairway.state.device_requests import CLASS_PREFIX, ClaimRequest
from fairway.state.jobs import ACCOUNTED, Task


def restore(node: NodeDevices, tasks: Sequence[Task], claimed: ClaimedDevices) -> None:
    """Take what the records of tasks and the allocations of claims say. A claim's devices are its first user's.

    A device that a pod's record names and that a claim made for this pod has too is in use once: the claim tells the
    kubelet what the record says. Of extended resources there is no record but that claim.
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
    """A task that has its place but no record of its devices is taken to have the first that serve it.

    `claims` are those shared ones that others were given here already.
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
    """What was taken for a need, named by the option that was served."""
    option = request.options[taken.option]
    name = f"{request.request}/{option.name}" if option.name else request.request
    plain = is_plain(request) and node.is_plain(taken.slot)
    return SlotAllocation(holder, taken.slot, taken.portion, label(option.selector), plain, request.claim, name)


def counts(axis: Axis, node: NodeDevices, allocations: Iterable[SlotAllocation]) -> dict[int, int]:
    """What holdings count for in queues, beyond what their pods ask for by name: their kind, and of what was claimed
    the class, where it is counted.
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
    """Whether it is asked for by the name of a plain resource, under which it is counted anyway."""
    return isinstance(request.options[0].selector, ByKind)


def _claims(task: Task) -> Iterator[ClaimRequest]:
    yield from task.shape.devices.claims if task.shape.devices is not None else ()
