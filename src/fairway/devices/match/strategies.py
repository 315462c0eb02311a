"""In which order devices are tried for a line: a chain of strategies, the first decides, the next break its ties.

first-fit   the stable order of the devices (what every chain ends with)
pack        the device with the least left that serves
spread      the device with the most left, unit by unit
least-loss  the device whose use costs the other classes least; among those the one with the least left
numa        devices on as few NUMA nodes as possible
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from fairway.devices.match.capacity import FreeSlots
from fairway.devices.match.matching import Preference, SlotRequest

Chain = tuple[str, ...]
Loss = Callable[[int], Any]
"""What it costs others that a slot is used: anything sortable."""

DEFAULT_CHAIN: Chain = ("first-fit",)


def no_loss(slot: int) -> int:
    return 0


def preference(
    requests: Sequence[SlotRequest],
    chains: Sequence[Chain],
    loss: Loss = no_loss,
    domains: Collection[str] | None = None,
) -> Preference:
    """The candidates of each line by its chain. `domains` are the NUMA nodes to stay on, where `numa` is in a chain."""

    def prefer(line: int, free: FreeSlots) -> Sequence[int]:
        candidates = requests[line].candidates
        if chains[line] == DEFAULT_CHAIN:
            return candidates
        keys = [_key(name, requests[line], free, loss, domains) for name in chains[line]]
        return sorted(candidates, key=lambda slot: [key(slot) for key in keys])

    return prefer


def _key(
    name: str, request: SlotRequest, free: FreeSlots, loss: Loss, domains: Collection[str] | None
) -> Callable[[int], Any]:
    match name:
        case "pack":
            return lambda slot: _left(request, slot, free)
        case "spread":
            return lambda slot: -_left(request, slot, free)
        case "least-loss":
            return lambda slot: (loss(slot), _left(request, slot, free))
        case "numa":
            return lambda slot: not on_domains(free, slot, domains)
    return lambda slot: 0


def _left(request: SlotRequest, slot: int, free: FreeSlots) -> int:
    return free.free_milli(slot) if request.milli else free.units(slot)


def on_domains(free: FreeSlots, slot: int, domains: Collection[str] | None) -> bool:
    """A device that does not say where it is excludes nothing."""
    numa = free.inventory.slots[slot].device.numa()
    return domains is None or numa is None or numa in domains
