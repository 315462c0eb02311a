"""The slow and obvious twin of how claims are served: every way to give devices of a node to the requests of a claim.

Everything is plain data here, as a driver publishes it and a user writes it; nothing of the scheduler is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

MOST = 32


@dataclass(frozen=True)
class OracleDevice:
    """`uses` are (counter set, amount, groups); `memory` can be had in parts if the device is `shared`."""

    name: str
    node: str
    kind: str
    values: frozenset[str] = frozenset()
    uses: tuple[tuple[str, int, frozenset[str]], ...] = ()
    shared: bool = False
    memory: int = 0


@dataclass(frozen=True)
class OracleRequest:
    """`count` None is all of them; `memory` 0 asks for no part."""

    kind: str
    count: int | None = 1
    memory: int = 0


@dataclass(frozen=True)
class OracleClaim:
    requests: tuple[OracleRequest, ...]
    rules: tuple[tuple[str, frozenset[int]], ...] = ()
    """("match" or "distinct", the requests it speaks of)."""


@dataclass
class OracleCluster:
    devices: Sequence[OracleDevice]
    counters: dict[str, int]
    held: list[tuple[OracleDevice, int]] = field(default_factory=list)
    """What is allocated: a device, and how much of its memory if it is shared."""

    def choices(self, claim: OracleClaim, node: str) -> Iterator[tuple[tuple[OracleDevice, ...], ...]]:
        """For each request its devices, for all ways that are allowed."""
        offers = [list(self._offers(request, node)) for request in claim.requests]
        for choice in product(*offers):
            if sum(map(len, choice)) <= MOST and self._is_allowed(claim, choice):
                yield choice

    def _offers(self, request: OracleRequest, node: str) -> Iterator[tuple[OracleDevice, ...]]:
        meant = [d for d in self.devices if d.node == node and request.kind in ("any", d.kind)]
        if request.memory:
            meant = [d for d in meant if d.memory >= request.memory]
        if request.count is not None:
            yield from combinations(meant, request.count)
            return
        able = [d for d in meant if not d.shared or self._left(d) >= (request.memory or d.memory)]
        if able:
            yield tuple(able)

    def _left(self, device: OracleDevice) -> int:
        return device.memory - sum(amount for held, amount in self.held if held == device)

    def _is_allowed(self, claim: OracleClaim, choice: tuple[tuple[OracleDevice, ...], ...]) -> bool:
        taken = [*self.held]
        for request, devices in zip(claim.requests, choice, strict=True):
            taken += [(device, request.memory or device.memory) for device in devices]
        return (
            self._are_free(taken)
            and self._counters_suffice({device for device, _ in taken})
            and all(_holds(rule, [d for i in sorted(over) for d in choice[i]]) for rule, over in claim.rules)
        )

    def _are_free(self, taken: list[tuple[OracleDevice, int]]) -> bool:
        for device in {device for device, _ in taken}:
            amounts = [amount for other, amount in taken if other == device]
            if sum(amounts) > device.memory if device.shared else len(amounts) > 1:
                return False
        return True

    def _counters_suffice(self, devices: set[OracleDevice]) -> bool:
        for name, total in self.counters.items():
            uses = [(amount, groups) for device in devices for on, amount, groups in device.uses if on == name]
            if sum(amount for amount, _ in uses) > total:
                return False
            groups = [groups for _, groups in uses]
            if any(groups) and not frozenset.intersection(*groups):
                return False
        return True


def _holds(rule: str, devices: Sequence[OracleDevice]) -> bool:
    if any(not device.values for device in devices):
        return False
    if rule == "match":
        return not devices or bool(frozenset.intersection(*(device.values for device in devices)))
    return all(one.values.isdisjoint(other.values) for one, other in combinations(devices, 2))
