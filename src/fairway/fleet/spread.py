"""Spreading the chosen clusters over topologies (zones, providers: the values of a label or claim).

Skew is how many more clusters a topology has than the one that has fewest. Clusters are taken one after
another in order of preference. A DoNotSchedule constraint passes over a cluster that would make its topology
exceed maxSkew, and one that does not say where it is. ScheduleAnyway constraints are kept where possible: of
the clusters that may be taken, those that break the fewest come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fairway.api.fleet import SpreadConstraint
from fairway.fleet.facts import ClusterFacts


@dataclass(slots=True)
class _Topologies:
    """The number of clusters taken in each topology of one constraint."""

    hard: bool
    max_skew: int
    taken: dict[str, int] = field(default_factory=dict)

    def broken_by(self, topology: str | None) -> bool:
        if topology is None:
            return True
        return self.taken[topology] + 1 - min(self.taken.values()) > self.max_skew


Place = tuple[str | None, ...]
"""The topology of a cluster for each constraint; None if it has none."""


def topology(constraint: SpreadConstraint, facts: ClusterFacts) -> str | None:
    reserved: Mapping[str, str] = facts.claims if constraint.topology_key_type == "Claim" else facts.labels
    return reserved.get(constraint.topology_key)


def choose(
    ordered: Sequence[int],
    places: Sequence[Place],
    constraints: Sequence[SpreadConstraint],
    count: int | None,
) -> list[int]:
    """The slots taken; `ordered` has the most preferred first, `places` has the topologies of each."""
    kept = [_Topologies(c.when_unsatisfiable == "DoNotSchedule", c.max_skew) for c in constraints]
    waiting: dict[Place, list[tuple[int, int]]] = {}
    for order, (slot, place) in enumerate(zip(ordered, places, strict=True)):
        waiting.setdefault(place, []).append((order, slot))
        for topologies, value in zip(kept, place, strict=True):
            if value is not None:
                topologies.taken[value] = 0
    for queue in waiting.values():
        queue.reverse()
    taken: list[int] = []
    while count is None or len(taken) < count:
        options = [(broken, queue[-1], place) for broken, queue, place in _open(waiting, kept)]
        if not options:
            break
        _, (_, slot), place = min(options, key=lambda option: option[:2])
        waiting[place].pop()
        taken.append(slot)
        for topologies, value in zip(kept, place, strict=True):
            if value is not None:
                topologies.taken[value] += 1
    return taken


def _open(
    waiting: Mapping[Place, list[tuple[int, int]]], kept: Sequence[_Topologies]
) -> Iterator[tuple[int, list[tuple[int, int]], Place]]:
    """The places from which a cluster may be taken next, with the number of soft constraints that this breaks."""
    for place, queue in waiting.items():
        if not queue:
            continue
        broken = [t.hard for t, value in zip(kept, place, strict=True) if t.broken_by(value)]
        if not any(broken):
            yield len(broken), queue, place
