"""The check of a fleet's books checks: whatever is damaged, it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairway.errors import InvariantError
from fairway.fleet import FleetState
from fairway.fleet.ledger import Ledger
from fairway.resources import Resource
from fleet.fleet_objects import cluster, fleet, placement, run


def placed() -> FleetState:
    """One placement that holds 2 cpu in each of two clusters, and uses 1 of them in one."""
    state = fleet(
        cluster("a", {"cpu": "8"}, free={"cpu": "8"}, usage={"ns/p": {"cpu": "1"}}),
        cluster("b", {"cpu": "8"}, free={"cpu": "8"}),
        placement("p", requirements={"cpu": "2"}),
    )
    run(state)
    return state


def _hold_elsewhere(state: FleetState) -> None:
    state.ledger.reserve(state.table.slots["b"], "ns/nobody", Resource({"cpu": 1}))


def _release(state: FleetState) -> None:
    state.ledger.release(state.table.slots["b"], "ns/p")


def _count(state: FleetState) -> None:
    state.counts[state.table.slots["a"]] += 1


def _outstanding(state: FleetState) -> None:
    state.ledger.outstanding("cpu")[state.table.slots["a"]] += 1


def _amount(state: FleetState) -> None:
    state.ledger.reserve(state.table.slots["b"], "ns/p", Resource({"cpu": 1}))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (_hold_elsewhere, "the ledger has 3 entries"),
        (_release, "the ledger has None"),
        (_amount, "holds"),
        (_count, "counts are"),
        (_outstanding, "outstanding cpu"),
    ],
)
def test_what_is_damaged_is_named(damage: Callable[[FleetState], Any], what: str) -> None:
    state = placed()
    state.check()
    damage(state)
    with pytest.raises(InvariantError, match=what):
        state.check()


def test_releasing_what_is_not_held_changes_nothing_and_the_last_release_leaves_nothing() -> None:
    ledger = Ledger(4)
    ledger.reserve(1, "ns/p", Resource({"cpu": 3}))
    ledger.reserve(2, "ns/p", Resource({"cpu": 5}))
    ledger.reserve(2, "ns/q", Resource({"cpu": 7}))
    ledger.release(1, "ns/q")
    ledger.release(3, "ns/p")
    assert [entry.slot for entry in ledger.reserved_by("ns/p")] == [1, 2]
    assert ledger.outstanding("cpu").tolist() == [0, 3, 12, 0]
    ledger.release(2, "ns/p")
    assert [entry.slot for entry in ledger.reserved_by("ns/p")] == [1]
    assert (ledger.slots(), [entry.placement for entry in ledger.entries(2)]) == ([1, 2], ["ns/q"])
    ledger.release(1, "ns/p")
    ledger.release(2, "ns/q")
    assert (ledger.slots(), ledger.reserved_by("ns/p"), ledger.outstanding("cpu").tolist()) == ([], [], [0, 0, 0, 0])
    ledger.check()
