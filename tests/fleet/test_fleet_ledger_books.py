"""The books balance after any sequence of events, and room is never promised twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairway.fleet import FleetState, place
from fairway.fleet.ledger import Ledger
from fairway.resources import Resource
from fleet.fleet_objects import cluster, decision, everywhere, placement
from support.effort import examples

CLUSTERS = [f"c{number}" for number in range(3)]
PLACEMENTS = [f"p{number}" for number in range(4)]
DIMENSIONS = ["cpu", "nvidia.com/gpu"]

clusters = st.sampled_from(CLUSTERS)
placements = st.sampled_from(PLACEMENTS)
quantities = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 8).map(str))


class Books(RuleBasedStateMachine):
    """Objects as an API server would hold them, and a fleet state that hears of every change."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], Any] = {}
        self.state = FleetState(everywhere())

    def _put(self, kind: str, item: Any) -> None:
        self.objects[kind, item.metadata.name] = item
        self.state.upsert(item)

    @rule(name=clusters, free=st.none() | quantities, usage=st.dictionaries(placements, quantities))
    def a_cluster_reports(self, name: str, free: dict[str, str] | None, usage: dict[str, dict[str, str]]) -> None:
        reported = {f"ns/{placement}": amounts for placement, amounts in usage.items()}
        self._put("cluster", cluster(name, {"cpu": "8"}, free=free, usage=reported))

    @rule(name=clusters)
    def a_cluster_goes(self, name: str) -> None:
        if ("cluster", name) in self.objects:
            self.state.delete(self.objects.pop(("cluster", name)))

    @rule(name=placements, needs=quantities, count=st.none() | st.integers(0, 3), bad=st.booleans())
    def a_placement_asks(self, name: str, needs: dict[str, str], count: int | None, bad: bool) -> None:
        spec: dict[str, Any] = {"requirements": needs} | ({} if count is None else {"numberOfClusters": count})
        if bad:
            spec["prioritizerPolicy"] = {"mode": "Nonsense"}
        self._put("placement", placement(name, **spec))

    @rule(name=placements)
    def a_placement_goes(self, name: str) -> None:
        if ("placement", name) in self.objects:
            self.state.delete(self.objects.pop(("placement", name)))
            for key in [key for key in self.objects if key[0] == "slice" and key[1].startswith(f"{name}-")]:
                self.state.delete(self.objects.pop(key))

    @rule(name=placements, chosen=st.lists(clusters, unique=True))
    def another_client_writes_a_decision(self, name: str, chosen: list[str]) -> None:
        self._put("slice", decision(name, chosen))

    @rule()
    def decide(self) -> None:
        plan = place(self.state, 0)
        for outcome in plan.outcomes:
            for write in outcome.writes:
                if write.action == "delete":
                    self.objects.pop(("slice", write.name), None)
                else:
                    self.objects["slice", write.name] = write.decision
        self.state.apply(plan)
        for outcome in plan.outcomes:
            joined = [move.cluster for move in outcome.moves if move.joined]
            for name in joined:
                slot = self.state.table.slots[name]
                facts = self.state.table.facts[slot]
                for dimension, amount in outcome.rules.requirements.amounts.items():
                    needed = amount - self.state.ledger.usage(slot, outcome.name).get(dimension)
                    assert facts is not None
                    assert facts.free is not None
                    reserved = int(self.state.ledger.outstanding(dimension)[slot])
                    assert needed <= 0 or reserved <= facts.free.get(dimension, 0), "room promised twice"

    @rule()
    def restart(self) -> None:
        """All that is known is what the objects say."""
        before = self._entries()
        self.state = FleetState([*everywhere(), *self.objects.values()])
        assert self._entries() == before

    def _entries(self) -> list[tuple[str, str, str]]:
        names, ledger = self.state.table.names, self.state.ledger
        found = [(names[slot], entry) for slot in ledger.slots() for entry in ledger.entries(slot)]
        return sorted((name, entry.placement, repr(entry.remaining)) for name, entry in found)

    @invariant()
    def the_books_balance(self) -> None:
        self.state.check()
        for slot in self.state.ledger.slots():
            for entry in self.state.ledger.entries(slot):
                assert entry.reserved == entry.consumed + entry.remaining
                assert all(amount >= 0 for amount in entry.remaining.amounts.values())
                usage = self.state.ledger.usage(slot, entry.placement)
                for name, amount in entry.reserved.amounts.items():
                    assert entry.consumed.get(name) == min(amount, usage.get(name))


Books.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestBooks = Books.TestCase


@pytest.mark.parametrize(("free", "missing"), [(1000, 0), (999, 1), (1001, 0), (0, 1000)])
def test_a_cluster_that_lacks_one_unit_is_short_by_one(free: int, missing: int) -> None:
    ledger = Ledger(4)
    ledger.reserve(1, "ns/p", Resource({"cpu": 1000}))
    assert ledger.shortfall(1, {"cpu": free}) == Resource({"cpu": missing} if missing else {})
