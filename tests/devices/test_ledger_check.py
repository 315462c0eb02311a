"""The check of the device ledger checks: whatever is kept wrong, it says what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairway.devices.track.ledger import DeviceLedger, check_ledger
from fairway.devices.track.node import NO_CLASSES
from fairway.errors import InvariantError
from fairway.state.cluster import ClusterState
from support.devices import PREFIX, asking, book_of, device_node, gpu, kind_class
from support.engine import state_of


def held() -> ClusterState:
    holder = asking("a", node="n1", classes={"any": 1}, record={"any_g0": 1})
    nodes = [device_node("n1", gpu("g0"), gpu("g1")), device_node("n2", gpu("g0"))]
    return state_of(kind_class("any", "nvidia-gpu"), nodes, holder)


def _row(state: ClusterState) -> int:
    return state.nodes.rows["n1"]


def _place(state: ClusterState) -> int:
    place = state.axis.find(PREFIX + "any")
    assert place is not None
    return place


DAMAGES: list[tuple[str, Callable[[ClusterState, DeviceLedger], Any]]] = [
    ("rows with devices", lambda s, ledger: ledger.nodes.pop(_row(s))),
    ("users of devices on n1", lambda s, ledger: ledger.nodes[_row(s)].allocations.clear()),
    ("classes of devices on n1", lambda s, ledger: ledger.nodes[_row(s)].select([NO_CLASSES, NO_CLASSES], {})),
    ("classes' sums", lambda s, ledger: ledger.columns._tally.clear()),
    ("devices by owner", lambda s, ledger: ledger.columns.accounts.clear()),
    ("resources given as devices", lambda s, ledger: ledger.columns._contests.update([0])),
    ("what a node has of devices", lambda s, ledger: s.nodes.allocatable.add(_row(s), ((_place(s), 1),))),
    ("what a node gives by class", lambda s, ledger: s.nodes.drawn.add(_row(s), ((_place(s), 1),))),
]


@pytest.mark.parametrize(("what", "damage"), DAMAGES, ids=[what for what, _ in DAMAGES])
def test_what_is_damaged_is_named(what: str, damage: Callable[[ClusterState, DeviceLedger], Any]) -> None:
    state = held()
    ledger = book_of(state)
    check_ledger(state)
    damage(state, ledger)
    with pytest.raises(InvariantError, match=what):
        check_ledger(state)
