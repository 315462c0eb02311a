"""Who holds what on a node: what pods' records say, what claims were allocated, and then those nobody wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fairway.devices.match.solving import TakenSlot, solve
from fairway.devices.select.requests import DeviceNeeds, Need
from fairway.devices.select.selector_requests import ByKind, label
from fairway.devices.track.claimed import ClaimedDevices
from fairway.devices.track.columns import Owner, kind_held
from fairway.devices.track.node import Holding, NodeDevices, portion_milli
from fairway.devices.track.record import read
from fairway.resources.columns import Axis
from fairway.state.device_requests import CLASS_PREFIX, ClaimAsk
from fairway.state.tasks import ACCOUNTED, Task


def restore(node: NodeDevices, tasks: Sequence[Task], claimed: ClaimedDevices) -> None:
    """Take what the records of tasks and the allocations of claims say. A claim's devices are its first user's."""
    node.restore((task.key, entry) for task in tasks for entry in read(dict(task.record)))
    users = {claim.claim: task.key for task in reversed(tasks) for claim in _claims(task)}
    for held, slot in claimed.of(node.inventory):
        node.restore_claim(users.get(held.claim, f"claim {held.claim}"), held, slot)


def place_unrecorded(node: NodeDevices, task: Task, needs: DeviceNeeds, claims: set[str]) -> None:
    """A task that has its place but no record of its devices is taken to have the first that serve it.

    `claims` are those shared ones that others were given here already.
    """
    recorded = {entry.class_name for entry in read(dict(task.record))}

    def known(need: Need) -> bool:
        if need.claim:
            return need.claim in claims
        return not is_plain(need) and label(need.options[0].wish) in recorded

    left = needs.without(known)
    claims.update(needs.shared)
    taken = solve(node.room, left, node.own_candidates) if left.needs and not left.missing else None
    for choice in (found for found in taken or () if not found.portion.looks):
        node.take(holding_of(left.needs[choice.need], choice, task.key))


def holding_of(need: Need, taken: TakenSlot, holder: str = "") -> Holding:
    """What was taken for a need, named by the option that was served."""
    option = need.options[taken.option]
    request = f"{need.request}/{option.name}" if option.name else need.request
    return Holding(holder, taken.slot, taken.portion, label(option.wish), is_plain(need), need.claim, request)


def counts(axis: Axis, node: NodeDevices, holdings: Iterable[Holding]) -> dict[int, int]:
    """What holdings count for in queues, beyond what their pods ask for by name: their kind, and of what was claimed
    the class, where somebody counts that.
    """
    found: dict[int, int] = {}
    for holding in holdings:
        if holding.plain or holding.portion.looks:
            continue
        place, milli = kind_held(axis, node, holding.slot, holding.portion)
        found[place] = found.get(place, 0) + milli
        named = axis.find(CLASS_PREFIX + holding.label) if holding.claim and holding.label else None
        if named is not None:
            amount = portion_milli(node.inventory.slots[holding.slot], holding.portion)
            found[named] = found.get(named, 0) + amount
    return found


def accounts(axis: Axis, node: NodeDevices, tasks: Iterable[Task]) -> Mapping[Owner, Mapping[int, int]]:
    """The same by queue, namespace and job."""
    by_owner: dict[Owner, list[Holding]] = {}
    owners = {task.key: task.job for task in tasks if task.state in ACCOUNTED}
    for holding in node.holdings:
        job = owners.get(holding.holder)
        if job is not None:
            by_owner.setdefault((job.queue, job.namespace, job.identity), []).append(holding)
    found = ((owner, counts(axis, node, holdings)) for owner, holdings in by_owner.items())
    return {owner: amounts for owner, amounts in found if amounts}


def is_plain(need: Need) -> bool:
    """Whether it is asked for by the name of a plain resource, under which it is counted anyway."""
    return isinstance(need.options[0].wish, ByKind)


def _claims(task: Task) -> Iterator[ClaimAsk]:
    yield from task.shape.devices.claims if task.shape.devices is not None else ()
