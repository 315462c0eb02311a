"""The devices of one node: which classes select them, which pods and claims have them, and what is free.

A claim whose allocation names a device keeps it, whether or not a pod uses it yet. A request with admin access takes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairway.api.devices import DeviceResult, ResourceClaim
from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.model.device import WHOLE, qualified
from fairway.devices.model.inventory import Inventory, Slot
from fairway.devices.select.requests import ByClaim, ByClass, ByKind, ClaimMatcher, DeviceSelector
from fairway.devices.track.record import DeviceUse
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_quantity
from fairway.state.device_requests import SPECIAL_CLAIM, fact_key

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


class ClaimedDevice(NamedTuple):
    """A device, or part of it, in a claim's allocation. `class_name` is that of the request, or of the alternative that
    was used.
    """

    claim: str
    class_name: str
    result: DeviceResult
    owner: str = ""
    """The pod for which the claim was created, as `namespace/name`."""
    special: bool = False
    """Whether the claim exists to tell a kubelet the devices for the pod's limits."""


class ClaimedDevices:
    """All known allocations."""

    def __init__(self) -> None:
        self._devices: dict[str, tuple[DeviceKey, ...]] = {}
        self._by_device: dict[DeviceKey, dict[str, list[ClaimedDevice]]] = {}
        self._changed: set[DeviceKey] = set()

    def __bool__(self) -> bool:
        return bool(self._devices)

    def upsert(self, claim: ResourceClaim) -> None:
        key = fact_key(claim)
        self.delete(key)
        allocation = claim.status.allocation
        classes, owner = _classes(claim), _owner(claim)
        special = bool(owner) and claim.metadata.annotations.get(SPECIAL_CLAIM) == "true"
        for result in allocation.devices.results if allocation else ():
            if not result.admin_access:
                device = (result.driver, result.pool, result.device)
                claimed_device = ClaimedDevice(key, classes.get(result.request, ""), result, owner, special)
                self._by_device.setdefault(device, {}).setdefault(key, []).append(claimed_device)
                self._devices[key] = (*self._devices.get(key, ()), device)
                self._changed.add(device)

    def delete(self, key: str) -> None:
        for device in dict.fromkeys(self._devices.pop(key, ())):  # a claim may have a device twice, in parts
            self._by_device[device].pop(key, None)
            if not self._by_device[device]:
                del self._by_device[device]
            self._changed.add(device)

    def take_changed(self) -> set[DeviceKey]:
        """Devices whose claims changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def of(self, inventory: Inventory) -> Iterator[tuple[ClaimedDevice, int]]:
        """The claims on these slots."""
        if not self._devices:
            return
        for index, slot in enumerate(inventory.slots):
            device = slot.device
            claims = self._by_device.get((device.driver, device.pool, device.name), {})
            yield from ((claimed_device, index) for claim in sorted(claims) for claimed_device in claims[claim])


def _owner(claim: ResourceClaim) -> str:
    for owner in claim.metadata.owner_references:
        if owner.kind == "Pod" and owner.controller:
            return f"{claim.metadata.namespace}/{owner.name}"
    return ""


def _classes(claim: ResourceClaim) -> dict[str, str]:
    """The class of each request, by the name in a result (`request`, or `request/alternative`)."""
    found: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            found[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return found


ClassNames = frozenset[str]
NO_CLASSES: ClassNames = frozenset()
NOT_EXTENDED: Mapping[str, str] = {}
_KEPT = 256
"""Maximum cached selectors."""


class SlotAllocation(NamedTuple):
    """A portion of a slot that is allocated to a pod (`namespace/name`), or to a claim that no pod of the node has;
    `label` is the requested class.
    """

    holder: str
    slot: int
    portion: Portion
    label: str
    plain: bool = False
    """Requested as a plain resource, and counted as such."""
    claim: str = ""
    request: str = ""


class ClassUse(NamedTuple):
    """Thousandths of units of a class: those that it can select, and those in use."""

    allocatable: int
    requested: int


Tally = Mapping[ClassNames, ClassUse]
"""Use by the set of classes that select the devices."""


class NodeDevices:
    """`selected` has the classes that select each slot; `selectable_by` those under which its use could also be
    recorded.
    """

    __slots__ = (
        "_candidates",
        "_masks",
        "_matcher",
        "_record_names",
        "_recorded",
        "accounts",
        "allocations",
        "counted_elsewhere",
        "extended",
        "free",
        "has_groups",
        "inventory",
        "kinds",
        "layout",
        "listed",
        "lost",
        "needs_matching",
        "network_slots",
        "plain",
        "selectable_by",
        "selected",
        "served_by_claim",
        "source",
        "structure",
    )

    def __init__(
        self,
        inventory: Inventory,
        selected: Sequence[ClassNames],
        matcher: ClaimMatcher,
        listed: frozenset[str] = frozenset(),
        extended: Mapping[str, str] = NOT_EXTENDED,
    ) -> None:
        self.inventory = inventory
        self.listed = listed
        self.served_by_claim: set[str] = set()
        """Pods whose extended resources are recorded by a claim."""
        self.free = FreeSlots(inventory)
        self.has_groups = any(slot.group for slot in inventory.slots)
        self.needs_matching = any(
            slot.group or slot.counters or slot.shareable or slot.boards for slot in inventory.slots
        )
        """Whether the free amounts alone do not decide what is available."""
        self.source: tuple[object, ...] = ()
        self.structure = -1
        self.plain: frozenset[str] = listed & {slot.device.unit_of for slot in inventory.slots}
        """Kinds that the node lists as extended resources."""
        self.network_slots = frozenset(
            index for index, slot in enumerate(inventory.slots) if not slot.device.node or slot.device.spans
        )
        """Slots that matter to other nodes too, which reach them or share their counters; they are never units of the
        node's own resources.
        """
        self.counted_elsewhere: frozenset[int] = frozenset()
        """Network slots that are counted on another node."""
        kinds = {
            (slot.device.kind, slot.device.unit_of, index in self.network_slots): index
            for index, slot in enumerate(inventory.slots)
        }
        self.kinds = tuple(kinds.values())
        """A slot of each kind that is counted on its own."""
        self.accounts: Mapping[tuple[str, str, str], Mapping[int, int]] = {}
        self.allocations: list[SlotAllocation] = []
        self.lost: list[tuple[str, DeviceUse]] = []
        """Recorded allocations of devices that no longer exist."""
        self._matcher = matcher
        self._record_names = _record_names(inventory)
        self._recorded = _recorded(inventory)
        self.select(selected, extended)

    def select(self, selected: Sequence[ClassNames], extended: Mapping[str, str]) -> None:
        """The classes that select devices have changed. `extended` are the resources that DeviceClasses serve here;
        their names are in the sets of `selected` like those of classes, and are unambiguous because they have a slash.
        """
        self.extended = extended
        self.selected: list[ClassNames] = list(selected)
        self.selectable_by: list[ClassNames] = [
            names if slot.usable else NO_CLASSES
            for names, slot in zip(self.selected, self.inventory.slots, strict=True)
        ]
        self._candidates: dict[DeviceSelector, tuple[int, ...]] = {}
        self._masks: dict[DeviceSelector, int] = {}
        self.layout = -1

    def is_of(self, *source: object) -> bool:
        """Whether it was built from the same devices."""
        return self.source == source

    def candidates(self, selector: DeviceSelector) -> tuple[int, ...]:
        """The slots that a selector selects and that may be taken, in stable order."""
        found = self._candidates.get(selector)
        if found is None:
            if isinstance(selector, ByClaim) and not self._matcher.may_ask(selector):
                return ()  # not to be kept: it is not the answer
            if len(self._candidates) >= _KEPT:
                self._candidates.clear()
                self._masks.clear()
            found = self._candidates[selector] = tuple(self._find(selector))
        return found

    def own_candidates(self, selector: DeviceSelector) -> tuple[int, ...]:
        """The same without devices that other nodes may reach."""
        found = self.candidates(selector)
        return tuple(slot for slot in found if slot not in self.network_slots) if self.network_slots else found

    def mask(self, selector: DeviceSelector) -> int:
        """The same as bits."""
        found = self._masks.get(selector)
        if found is None:
            found = sum(1 << slot for slot in self.candidates(selector))
            if selector in self._candidates:
                self._masks[selector] = found
        return found

    def _find(self, selector: DeviceSelector) -> list[int]:
        slots = range(len(self.inventory))
        match selector:
            case ByClass(name):
                return [slot for slot in slots if name in self.selectable_by[slot]]
            case ByKind(resource, may) if resource in self.extended:
                return [slot for slot in slots if may and resource in self.selectable_by[slot]]
            case ByKind(resource):
                facts = self.inventory.slots
                own = (slot for slot in slots if slot not in self.network_slots)
                found = [slot for slot in own if facts[slot].device.unit_of == resource and facts[slot].usable]
                return sorted(found, key=lambda slot: facts[slot].device.name != resource)
        return [
            slot
            for slot in slots
            if self._matcher.selects(selector, self.inventory.slots[slot].device, self.selected[slot])
        ]

    def failure(self, selector: DeviceSelector) -> str:
        """Why it is unknown whether a selector selects a device here; "" if it is known for all."""
        if not isinstance(selector, ByClaim):
            return ""
        failures = (self._matcher.failure(selector, slot.device) for slot in self.inventory.slots)
        return next(filter(None, failures), "")

    def error(self, selector: ByClaim) -> str:
        """The error of an expression for a device here that it does not select; "" if there was none."""
        errors = (self._matcher.error(selector, slot.device) for slot in self.inventory.slots if slot.device.driver)
        return next(filter(None, errors), "")

    def is_plain(self, slot: int) -> bool:
        """Whether a slot counts as units of an extended resource."""
        plain = self.plain
        return bool(plain) and self.inventory.slots[slot].device.unit_of in plain and slot not in self.network_slots

    def backs(self, resource: str) -> bool:
        """Whether units of a plain resource are devices here."""
        return resource in self.plain or resource in self.extended

    def record_name(self, slot: int) -> str:
        """The name under which the choice of a slot is recorded."""
        return self._record_names[slot]

    # -- what is allocated ------------------------------------------------------------------------------------

    def clear(self) -> None:
        self.free = FreeSlots(self.inventory)
        self.allocations = []
        self.lost = []
        self.served_by_claim.clear()

    def take(self, allocation: SlotAllocation) -> None:
        self.free.take(allocation.slot, allocation.portion)
        self.allocations.append(allocation)

    def allocate(self, holder: str, slot: int, portion: Portion, label: str) -> None:
        self.take(SlotAllocation(holder, slot, portion, label))

    def restore(self, recorded: Iterable[tuple[str, DeviceUse]]) -> None:
        """Applies recorded allocations, the largest parts first: units of one name are indistinguishable."""
        for holder, entry in sorted(recorded, key=lambda pair: (-pair[1].milli, pair)):
            slots = self._meant(entry)
            if not slots:
                self.lost.append((holder, entry))
                continue
            units, part = divmod(entry.milli, WHOLE)
            if not self.inventory.slots[slots[0]].shareable:
                self.allocate(holder, slots[0], Portion(units=units + bool(part)), entry.class_name)
                continue
            for _ in range(units):
                self.allocate(holder, self._emptiest(slots), Portion(units=1), entry.class_name)
            if part:
                portion = Portion(milli=part)
                fitting = [slot for slot in slots if self.free.fits(slot, portion)]
                tightest = min(fitting, key=self.free.free_milli, default=self._emptiest(slots))
                self.allocate(holder, tightest, portion, entry.class_name)

    def _meant(self, entry: DeviceUse) -> tuple[int, ...]:
        """The slots of the device that a record names. A bare name that several devices now have means the first that
        its class selects and that is not taken yet.
        """
        owners = self._recorded.get(entry.device, ())
        for slots in owners if len(owners) > 1 else ():
            if any(entry.class_name in self.selected[slot] and not self.free.touched(slot) for slot in slots):
                return slots
        return owners[0] if owners else ()

    def restore_claim(self, holder: str, claimed_device: ClaimedDevice, slot: int) -> None:
        facts = self.inventory.slots[slot]
        portion = Portion(units=1)
        if facts.shareable:
            consumed = claimed_device.result.consumed_capacity
            given = {qualified(n, facts.device.driver): text for n, text in consumed.items()}
            parts = tuple(_consumed(given[n], total) if n in given else total for n, total in facts.capacity)
            portion = Portion(capacity=parts)
        self.take(
            SlotAllocation(
                holder,
                slot,
                portion,
                claimed_device.class_name,
                claim=claimed_device.claim,
                request=claimed_device.result.request,
            )
        )

    def _emptiest(self, slots: Sequence[int]) -> int:
        return max(slots, key=lambda slot: (self.free.units(slot), self.free.free_milli(slot), -slot))

    # -- what that means to classes ---------------------------------------------------------------------------

    def tally(self, free: FreeSlots) -> Tally:
        """What is here and what of it is in use, by the set of classes that select it."""
        found: dict[ClassNames, ClassUse] = {}
        for slot, facts in enumerate(self.inventory.slots):
            if slot in self.counted_elsewhere:
                continue
            names = self.selected[slot]
            there = facts.quantity * WHOLE if facts.usable else 0
            before = found.get(names)
            if before is None:
                found[names] = ClassUse(there, in_use(free, slot))
            else:
                found[names] = ClassUse(before.allocatable + there, before.requested + in_use(free, slot))
        found.pop(NO_CLASSES, None)
        return found


def _consumed(text: str, total: int) -> int:
    """What a claim states that it has of a capacity; all of it if that is not an amount.

    The server accepts any number: more than there is counts as twice of it, so that sums stay small.
    """
    try:
        return min(max(0, parse_quantity(text).nanos), 2 * total)
    except QuantityError:
        return total


def in_use(free: FreeSlots, slot: int) -> int:
    """Thousandths of a slot that are in use, by itself or because its hardware is."""
    facts = free.inventory.slots[slot]
    everything = facts.quantity * WHOLE
    if facts.group:
        return everything if free.group_touched(slot) else 0
    if any(free.used[group] for group in free.inventory.groups_of[slot]):
        return everything
    share = free.shares.get(slot)
    if share is None:
        return free.used[slot] * WHOLE
    return free.used[slot] * WHOLE + max(share.milli, _largest(facts, share.capacity))


def portion_milli(facts: Slot, portion: Portion) -> int:
    """The size of a portion in thousandths of a unit; for parts of capacity, its largest part."""
    if portion.units or portion.milli or portion.looks:
        return portion.units * WHOLE + portion.milli
    return _largest(facts, portion.capacity)


def _largest(facts: Slot, parts: Sequence[int]) -> int:
    """The largest of some parts of a slot's capacity, in thousandths; any part is at least one."""
    totals = (total for _, total in facts.capacity)
    return max([1, *(-(-part * WHOLE // total) for part, total in zip(parts, totals, strict=True) if total)])


def _owners(inventory: Inventory) -> dict[str, dict[tuple[str, str], tuple[int, ...]]]:
    """For each name the slots of the devices that have it, by driver and pool, in stable order."""
    found: dict[str, dict[tuple[str, str], tuple[int, ...]]] = {}
    for index, slot in enumerate(inventory.slots):
        device = slot.device
        if device.reachable:
            owners = found.setdefault(device.name, {})
            owners[device.driver, device.pool] = (*owners.get((device.driver, device.pool), ()), index)
    return found


def _record_names(inventory: Inventory) -> dict[int, str]:
    """The name under which each slot is recorded: the device's own, or `<pool>.<device>` where that is not unique, or
    `<driver>/<pool>.<device>` where even that is not.
    """
    recorded, found = _recorded(inventory), dict[int, str]()
    for name, owners in _owners(inventory).items():
        for (driver, pool), slots in owners.items():
            forms = (name, f"{pool}.{name}", f"{driver}/{pool}.{name}")
            unique = next((form for form in forms if len(recorded[form]) == 1), forms[-1])
            found |= dict.fromkeys(slots, unique)
    return found


def _recorded(inventory: Inventory) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The devices that each name in a record may mean. Longer forms stay readable when a name has become unique."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for name, owners in _owners(inventory).items():
        for (driver, pool), slots in owners.items():
            for form in dict.fromkeys((name, f"{pool}.{name}", f"{driver}/{pool}.{name}")):
                found.setdefault(form, []).append(slots)
    return {form: tuple(sorted(owners)) for form, owners in found.items()}
