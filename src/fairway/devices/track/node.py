"""A node's devices with everything that is known of them: who selects which, who holds what, and what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairway.devices.match.capacity import Portion, Room
from fairway.devices.model.device import WHOLE, qualified
from fairway.devices.model.inventory import Inventory, Slot
from fairway.devices.select.selector_requests import ByClaim, ByClass, ByKind, ClaimMatcher, Wish
from fairway.devices.track.claimed import Held
from fairway.devices.track.record import DeviceUse
from fairway.resources.quantity import parse_quantity

ClassNames = frozenset[str]
NO_CLASSES: ClassNames = frozenset()
_KEPT = 256
"""Wishes whose devices are remembered."""


class Holding(NamedTuple):
    """So much of a slot is held by a pod (`namespace/name`), or by a claim that no pod of the node has; `label` is the
    class that was asked for.
    """

    holder: str
    slot: int
    portion: Portion
    label: str
    plain: bool = False
    """Asked for as a plain resource, and counted as such."""
    claim: str = ""
    request: str = ""


class ClassUse(NamedTuple):
    """Thousandths of units of a class: those it can select, and those of them that are in use."""

    allocatable: int
    requested: int


Tally = Mapping[ClassNames, ClassUse]
"""Standings by the set of classes that select the devices counted."""


class NodeDevices:
    """`selected` has the classes that select each slot; `takes` those whose choice of it could also be recorded."""

    __slots__ = (
        "_candidates",
        "_masks",
        "_matcher",
        "_record_names",
        "_recorded",
        "accounts",
        "away",
        "far",
        "has_groups",
        "holdings",
        "inventory",
        "kinds",
        "layout",
        "lost",
        "needs_matching",
        "plain",
        "room",
        "selected",
        "source",
        "structure",
        "takes",
    )

    def __init__(
        self,
        inventory: Inventory,
        selected: Sequence[ClassNames],
        matcher: ClaimMatcher,
        listed: frozenset[str] = frozenset(),
    ) -> None:
        self.inventory = inventory
        self.room = Room(inventory)
        self.has_groups = any(slot.group for slot in inventory.slots)
        self.needs_matching = any(
            slot.group or slot.counters or slot.shareable or slot.boards for slot in inventory.slots
        )
        """Whether how much is free does not say yet what can be had."""
        self.source: tuple[object, ...] = ()
        self.structure = -1
        self.plain: frozenset[str] = listed & {slot.device.kind for slot in inventory.slots}
        """Kinds that the node lists as extended resources."""
        self.far = frozenset(
            index for index, slot in enumerate(inventory.slots) if not slot.device.node or slot.device.spans
        )
        """Slots that matter to other nodes too, which reach them or share their counters; they are never units of the
        node's own resources."""
        self.away: frozenset[int] = frozenset()
        """Those of them that are counted with another node."""
        kinds = {(slot.device.kind, index in self.far): index for index, slot in enumerate(inventory.slots)}
        self.kinds = tuple(kinds.values())
        """A slot of each kind that counts on its own."""
        self.accounts: Mapping[tuple[str, str, str], Mapping[int, int]] = {}
        self.holdings: list[Holding] = []
        self.lost: list[tuple[str, DeviceUse]] = []
        """Recorded holdings of devices that are not there any more."""
        self._matcher = matcher
        self._record_names = _record_names(inventory)
        self._recorded = _recorded(inventory)
        self.select(selected)

    def select(self, selected: Sequence[ClassNames]) -> None:
        """Who selects what has changed."""
        self.selected: list[ClassNames] = list(selected)
        self.takes: list[ClassNames] = [
            names if slot.usable else NO_CLASSES
            for names, slot in zip(self.selected, self.inventory.slots, strict=True)
        ]
        self._candidates: dict[Wish, tuple[int, ...]] = {}
        self._masks: dict[Wish, int] = {}
        self.layout = -1

    def is_of(self, *source: object) -> bool:
        """Whether it was made from the same devices."""
        return self.source == source

    def candidates(self, wish: Wish) -> tuple[int, ...]:
        """The slots that a wish means and that whoever has it may have, in stable order."""
        found = self._candidates.get(wish)
        if found is None:
            if len(self._candidates) >= _KEPT:
                self._candidates.clear()
                self._masks.clear()
            found = self._candidates[wish] = tuple(self._find(wish))
        return found

    def own_candidates(self, wish: Wish) -> tuple[int, ...]:
        """The same without devices that other nodes may reach."""
        found = self.candidates(wish)
        return tuple(slot for slot in found if slot not in self.far) if self.far else found

    def mask(self, wish: Wish) -> int:
        """The same as bits."""
        found = self._masks.get(wish)
        if found is None:
            found = self._masks[wish] = sum(1 << slot for slot in self.candidates(wish))
        return found

    def _find(self, wish: Wish) -> list[int]:
        slots = range(len(self.inventory))
        match wish:
            case ByClass(name):
                return [slot for slot in slots if name in self.takes[slot]]
            case ByKind(resource):
                facts = self.inventory.slots
                own = (slot for slot in slots if slot not in self.far)
                found = [slot for slot in own if facts[slot].device.kind == resource and facts[slot].usable]
                return sorted(found, key=lambda slot: facts[slot].device.name != resource)
        return [
            slot
            for slot in slots
            if self._matcher.selects(wish, self.inventory.slots[slot].device, self.selected[slot])
        ]

    def failure(self, wish: Wish) -> str:
        """Why it is not known whether a wish means a device here; "" if it is known of all."""
        if not isinstance(wish, ByClaim):
            return ""
        failures = (self._matcher.failure(wish, slot.device) for slot in self.inventory.slots)
        return next(filter(None, failures), "")

    def error(self, wish: ByClaim) -> str:
        """What an expression says went wrong with a device here that it does not select; "" if nothing did."""
        errors = (self._matcher.error(wish, slot.device) for slot in self.inventory.slots if slot.device.driver)
        return next(filter(None, errors), "")

    def is_plain(self, slot: int) -> bool:
        """Whether a slot counts as units of an extended resource."""
        return self.inventory.slots[slot].device.kind in self.plain and slot not in self.far

    def backs(self, resource: str) -> bool:
        """Whether units of a plain resource are devices here."""
        return resource in self.plain

    def record_name(self, slot: int) -> str:
        """The name under which the choice of a slot is recorded."""
        return self._record_names[slot]

    # -- who holds what ---------------------------------------------------------------------------------------

    def clear(self) -> None:
        self.room = Room(self.inventory)
        self.holdings = []
        self.lost = []

    def take(self, holding: Holding) -> None:
        self.room.take(holding.slot, holding.portion)
        self.holdings.append(holding)

    def hold(self, holder: str, slot: int, portion: Portion, label: str) -> None:
        self.take(Holding(holder, slot, portion, label))

    def restore(self, recorded: Iterable[tuple[str, DeviceUse]]) -> None:
        """Take what records say is held, the largest parts first: units of one name cannot be told apart."""
        for holder, entry in sorted(recorded, key=lambda pair: (-pair[1].milli, pair)):
            slots = self._meant(entry)
            if not slots:
                self.lost.append((holder, entry))
                continue
            units, part = divmod(entry.milli, WHOLE)
            if not self.inventory.slots[slots[0]].shareable:
                self.hold(holder, slots[0], Portion(units=units + bool(part)), entry.class_name)
                continue
            for _ in range(units):
                self.hold(holder, self._emptiest(slots), Portion(units=1), entry.class_name)
            if part:
                portion = Portion(milli=part)
                fitting = [slot for slot in slots if self.room.fits(slot, portion)]
                tightest = min(fitting, key=self.room.free_milli, default=self._emptiest(slots))
                self.hold(holder, tightest, portion, entry.class_name)

    def _meant(self, entry: DeviceUse) -> tuple[int, ...]:
        """The slots of the device that a record names. A bare name that several devices have by now means the first
        that its class selects and that is not taken yet.
        """
        owners = self._recorded.get(entry.device, ())
        for slots in owners if len(owners) > 1 else ():
            if any(entry.class_name in self.selected[slot] and not self.room.touched(slot) for slot in slots):
                return slots
        return owners[0] if owners else ()

    def restore_claim(self, holder: str, held: Held, slot: int) -> None:
        facts = self.inventory.slots[slot]
        portion = Portion(units=1)
        if facts.shareable:
            consumed = held.result.consumed_capacity
            given = {qualified(n, facts.device.driver): text for n, text in consumed.items()}
            parts = tuple(max(0, parse_quantity(given[n]).nanos) if n in given else t for n, t in facts.capacity)
            portion = Portion(capacity=parts)
        self.take(Holding(holder, slot, portion, held.class_name, claim=held.claim, request=held.result.request))

    def _emptiest(self, slots: Sequence[int]) -> int:
        return max(slots, key=lambda slot: (self.room.units(slot), self.room.free_milli(slot), -slot))

    # -- what that means to classes ---------------------------------------------------------------------------

    def tally(self, room: Room) -> Tally:
        """What is here and what of it is in use, by the set of classes that select it."""
        found: dict[ClassNames, ClassUse] = {}
        for slot, facts in enumerate(self.inventory.slots):
            if slot in self.away:
                continue
            names = self.selected[slot]
            there = facts.quantity * WHOLE if facts.usable else 0
            before = found.get(names)
            if before is None:
                found[names] = ClassUse(there, in_use(room, slot))
            else:
                found[names] = ClassUse(before.allocatable + there, before.requested + in_use(room, slot))
        found.pop(NO_CLASSES, None)
        return found


def in_use(room: Room, slot: int) -> int:
    """Thousandths of a slot that are in use, by itself or because its hardware is."""
    facts = room.inventory.slots[slot]
    everything = facts.quantity * WHOLE
    if facts.group:
        return everything if room.group_touched(slot) else 0
    if any(room.used[group] for group in room.inventory.groups_of[slot]):
        return everything
    share = room.shares.get(slot)
    if share is None:
        return room.used[slot] * WHOLE
    return room.used[slot] * WHOLE + max(share.milli, _largest(facts, share.capacity))


def portion_milli(facts: Slot, portion: Portion) -> int:
    """How much of a unit a portion is, in thousandths; by its largest part where it is parts of capacity."""
    if portion.units or portion.milli or portion.looks:
        return portion.units * WHOLE + portion.milli
    return _largest(facts, portion.capacity)


def _largest(facts: Slot, parts: Sequence[int]) -> int:
    """The largest of some parts of a slot's capacity, in thousandths; whoever holds anything holds one."""
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
