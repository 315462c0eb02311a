"""Serving all requests of a pod on one node: options, rules over attributes, then the matching, in an order of
preference.

Options are tried in order of preference, those of the first request first. A rule that requires one value of an
attribute for all devices becomes one matching per value; the best of those that work is taken. Both multiply, so they
are bounded: beyond `MAX_TRIES` the pod is reported as not fitting.

The order in which devices are tried for a request is a chain of strategies; the first decides, the next break its ties:

    first-fit   the stable order of the devices (every chain ends with it)
    pack        the device with the least capacity left that serves
    spread      the device with the most left, unit by unit
    least-loss  the device whose use costs the other classes least; among those the one with the least left
    numa        devices on as few NUMA nodes as possible
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, NamedTuple

from fairway.api.devices import CapacityRequestPolicy
from fairway.devices.match.free_slots import LOOK, FreeSlots, Portion
from fairway.devices.match.matching import Apart, Pick, Preference, SlotRequest, assign
from fairway.devices.model.device import qualified
from fairway.devices.model.inventory import Slot
from fairway.devices.model.values import Many, Unreadable
from fairway.devices.select.requests import (
    MAX_DEVICES,
    ByClaim,
    DeviceSelector,
    Option,
    ResolvedRequest,
    ResolvedRequests,
    Rule,
)
from fairway.resources.quantity import parse_quantity

Chain = tuple[str, ...]
Loss = Callable[[int], Any]
"""The cost to others of using a slot: anything sortable."""

DEFAULT_CHAIN: Chain = ("first-fit",)


def no_loss(slot: int) -> int:
    return 0


def preference(
    requests: Sequence[SlotRequest],
    chains: Sequence[Chain],
    loss: Loss = no_loss,
    domains: Collection[str] | None = None,
) -> Preference:
    """The candidates of each request by its chain. `domains` are the NUMA nodes to stay on, where `numa` is in
    a chain.
    """

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
    """A device without a NUMA node is on all of them."""
    numa = free.inventory.slots[slot].device.numa()
    return domains is None or numa is None or numa in domains


MAX_TRIES = 256
"""Maximum combinations of options and of values that are tried."""
_MAX_DOMAINS = 8

Candidates = Callable[[DeviceSelector], tuple[int, ...]]
"""The slots of the node that a selector selects and that may be taken, in order."""


class TakenSlot(NamedTuple):
    """A portion of a slot for a request, and the option by which it was served."""

    request: int
    option: int
    slot: int
    portion: Portion


def solve(
    free: FreeSlots,
    resolved: ResolvedRequests,
    candidates: Candidates,
    chain: Chain = DEFAULT_CHAIN,
    loss: Loss = no_loss,
) -> tuple[TakenSlot, ...] | None:
    """What to take for all requests together; None if they cannot be served. `free` is unchanged afterwards."""
    chains = [request.strategy or chain for request in resolved.requests]
    for options in _option_vectors(resolved.requests):
        requests = _requests(free, resolved.requests, options, candidates, chains)
        if requests is None or _too_many(resolved.requests, requests):
            continue
        picks = _best(free, requests, resolved.rules, options, chains, loss)
        if picks is not None:
            return tuple(TakenSlot(pick.number, options[pick.number], pick.slot, pick.portion) for pick in picks)
    return None


def _option_vectors(requests: Sequence[ResolvedRequest]) -> Iterator[tuple[int, ...]]:
    return islice(product(*(range(len(request.options)) for request in requests)), MAX_TRIES)


def _too_many(resolved: Sequence[ResolvedRequest], requests: Sequence[SlotRequest]) -> bool:
    """Whether a claim would have more devices than its status can list."""
    devices: dict[str, int] = {}
    for written, request in zip(resolved, requests, strict=True):
        if written.claim:
            devices[written.claim] = devices.get(written.claim, 0) + request.wanted
    return any(count > MAX_DEVICES for count in devices.values())


def _requests(
    free: FreeSlots,
    resolved: Sequence[ResolvedRequest],
    options: Sequence[int],
    candidates: Candidates,
    chains: Sequence[Chain],
) -> list[SlotRequest] | None:
    requests = []
    for written, chosen, chain in zip(resolved, options, chains, strict=True):
        request = _request(free, written.options[chosen], candidates, chain[0] == "spread")
        if request is None:
            return None
        requests.append(request)
    return requests


def _request(free: FreeSlots, option: Option, candidates: Candidates, spread: bool) -> SlotRequest | None:
    slots = candidates(option.selector)
    facts = free.inventory.slots
    if option.every and not (slots and free.inventory.complete):
        return None
    if option.admin:
        wanted = len(slots) if option.every else option.units
        return SlotRequest(slots, wanted, portions=dict.fromkeys(slots, LOOK), once=True)
    if option.milli:
        return SlotRequest(slots, 1, option.milli)
    if not isinstance(option.selector, ByClaim) or not (
        option.capacity or any(facts[slot].shareable for slot in slots)
    ):
        units = sum(facts[slot].quantity for slot in slots) if option.every else option.units
        return SlotRequest(slots, units, spread=spread) if units else None
    portions = {slot: portion for slot in slots if (portion := _portion(facts[slot], option)) is not None}
    if option.every:
        able = tuple(slot for slot, portion in portions.items() if free.has_capacity(slot, portion))
        return SlotRequest(able, len(able), portions=portions, once=True) if able else None
    return SlotRequest(tuple(portions), option.units, portions=portions, once=True)


def _portion(slot: Slot, option: Option) -> Portion | None:
    """What a claim takes of a slot: parts of the capacity of a shared one, otherwise the whole unit."""
    device = slot.device
    asked = {qualified(name, device.driver): amount for name, amount in option.capacity}
    have = dict(slot.capacity)
    if any(have.get(name, -1) < amount for name, amount in asked.items()):
        return None
    if not slot.shareable:
        return Portion(units=1)
    parts = [_part(total, asked.get(name), device.policies.get(name)) for name, total in slot.capacity]
    taken = tuple(part for part in parts if part is not None and part >= 0)
    return Portion(capacity=taken) if len(taken) == len(parts) else None


def _part(total: int, asked: int | None, policy: CapacityRequestPolicy | None) -> int | None:
    """Rounded up to what the policy allows; all of it if no amount is given. None if that is not possible."""
    if policy is None:
        return total if asked is None else asked
    if asked is None:
        return total if policy.default is None else parse_quantity(policy.default).nanos
    if policy.valid_values:
        values = sorted(parse_quantity(text).nanos for text in policy.valid_values)
        return next((value for value in values if value >= asked), None)
    if policy.valid_range is None:
        return asked
    least, most, step = (
        None if text is None else parse_quantity(text).nanos
        for text in (policy.valid_range.min, policy.valid_range.max, policy.valid_range.step)
    )
    part = max(asked, least or 0)
    if step is not None and step > 0:
        part = (least or 0) - -(part - (least or 0)) // step * step
    return part if part <= (total if most is None else most) else None


def _best(
    free: FreeSlots,
    requests: list[SlotRequest],
    rules: Sequence[Rule],
    options: Sequence[int],
    chains: Sequence[Chain],
    loss: Loss,
) -> tuple[Pick, ...] | None:
    apart = [_apart(free, rule, _concerned(rule, options), requests) for rule in rules if not rule.together]
    apart += [
        Apart(frozenset({index}), {slot: frozenset({slot}) for slot in request.candidates})
        for index, request in enumerate(requests)
        if request.once
    ]
    together = [(rule.attribute, _concerned(rule, options)) for rule in rules if rule.together]
    if not together:
        return _assign(free, requests, apart, chains, loss)
    found: list[tuple[list[tuple[bool, list[int]]], tuple[Pick, ...]]] = []
    for narrowed in _narrowings(free, requests, together):
        picks = _assign(free, narrowed, apart, chains, loss)
        if picks is not None:
            found.append((_ranks(free, requests, chains, loss, picks), picks))
    return min(found)[1] if found else None


def _assign(
    free: FreeSlots, requests: list[SlotRequest], apart: Sequence[Apart], chains: Sequence[Chain], loss: Loss
) -> tuple[Pick, ...] | None:
    if not any("numa" in chain for chain in chains):
        return assign(free, requests, apart, preference(requests, chains, loss))
    if assign(free, requests, apart) is None:
        return None
    domains = _fewest_domains(free, requests, apart, chains)
    return assign(free, requests, apart, preference(requests, chains, loss, domains))


def _fewest_domains(
    free: FreeSlots, requests: list[SlotRequest], apart: Sequence[Apart], chains: Sequence[Chain]
) -> tuple[str, ...] | None:
    """The fewest NUMA nodes that can serve all requests with `numa`; of several sets, the first by name."""
    minding = {line for line, chain in enumerate(chains) if "numa" in chain}
    slots = {slot for line in minding for slot in requests[line].candidates}
    known = {free.inventory.slots[slot].device.numa() for slot in slots} - {None}
    names = sorted(name for name in known if name is not None)
    for size in range(1, len(names) if len(names) <= _MAX_DOMAINS else 2):
        for domains in combinations(names, size):
            narrowed = [
                request._replace(candidates=tuple(s for s in request.candidates if on_domains(free, s, domains)))
                if index in minding
                else request
                for index, request in enumerate(requests)
            ]
            if assign(free, narrowed, apart) is not None:
                return domains
    return None


def _concerned(rule: Rule, options: Sequence[int]) -> list[int]:
    return sorted({need for need, option in rule.requests if option in (-1, options[need])})


def _values(free: FreeSlots, slot: int, attribute: str) -> tuple[Hashable, ...]:
    """What a device publishes under an attribute: the elements of a list, in order, or the single value."""
    device = free.inventory.slots[slot].device
    match device.attributes.get(qualified(attribute, device.driver)):
        case None | Unreadable(""):
            return ()
        case Many(items):
            return tuple(dict.fromkeys(items))
        case value:
            return (value,)


def _apart(free: FreeSlots, rule: Rule, concerned: list[int], requests: list[SlotRequest]) -> Apart:
    slots = {slot for line in concerned for slot in requests[line].candidates}
    values = {slot: frozenset(found) for slot in slots if (found := _values(free, slot, rule.attribute))}
    return Apart(frozenset(concerned), values)


def _narrowings(
    free: FreeSlots, requests: list[SlotRequest], together: list[tuple[str, list[int]]]
) -> Iterator[list[SlotRequest]]:
    """The requests with only candidates that have one value, for every choice of values.

    Lists match if they all have a value in common, so each value that some device lists is a choice of its own.
    """
    published, choices = [], []
    for attribute, concerned in together:
        slots = dict.fromkeys(slot for line in concerned for slot in requests[line].candidates)
        values = {slot: _values(free, slot, attribute) for slot in slots}
        published.append(values)
        every = dict.fromkeys(value for found in values.values() for value in found)
        choices.append(
            [value for value in every if _all_could(value, requests, concerned, values)] if concerned else [()]
        )
    for chosen in islice(product(*choices), MAX_TRIES):
        narrowed = requests.copy()
        for values, (_, concerned), wanted in zip(published, together, chosen, strict=True):
            for line in concerned:
                kept = tuple(slot for slot in narrowed[line].candidates if wanted in values[slot])
                narrowed[line] = narrowed[line]._replace(candidates=kept)
        yield narrowed


def _all_could(
    value: Hashable,
    requests: Sequence[SlotRequest],
    concerned: Sequence[int],
    values: Mapping[int, tuple[Hashable, ...]],
) -> bool:
    """Whether each request has a candidate with this value, so that it is worth a try."""
    return all(any(value in values[slot] for slot in requests[line].candidates) for line in concerned)


def _ranks(
    free: FreeSlots, requests: list[SlotRequest], chains: Sequence[Chain], loss: Loss, picks: tuple[Pick, ...]
) -> list[tuple[bool, list[int]]]:
    """How good an assignment is in order of preference, request by request."""
    prefer = preference(requests, chains, loss)
    ranks = []
    for index in range(len(requests)):
        order = {slot: rank for rank, slot in enumerate(prefer(index, free))}
        taken = [(order[pick.slot], pick.portion.units or 1) for pick in picks if pick.number == index]
        ranks.append((len(taken) > 1, sorted(rank for rank, units in taken for _ in range(min(units, 64)))))
    return ranks
