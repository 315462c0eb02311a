"""Placements that are decided and applied in parts get what one plan gives them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.fleet import FleetState, place
from fairway.fleet.plan import placement_document
from fleet.fleet_objects import cluster, fleet, placement
from support.effort import examples

AMOUNTS = st.integers(1, 6)


def the_cluster(number: int, amount: int, free: int) -> Any:
    return cluster(f"c{number}", {"cpu": str(amount)}, {"cpu": "9"}, free={"cpu": str(free)})


def the_placement(number: int, count: int | None, need: int, weigh: bool) -> Any:
    spec: dict[str, Any] = {} if count is None else {"numberOfClusters": count}
    if need:
        spec["requirements"] = {"cpu": str(need)}
    if weigh:
        spec["prioritizerPolicy"] = {"configurations": [{"name": "ResourceAllocatableCPU", "weight": 2}]}
    return placement(f"p{number}", **spec)


CLUSTERS = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6)
PLACEMENTS = st.lists(
    st.tuples(st.none() | st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=8
)
CHANGES = st.lists(st.tuples(st.integers(0, 5), AMOUNTS, AMOUNTS), max_size=3)


def decided(state: FleetState, size: int | None) -> list[dict[str, Any]]:
    keys = state.affected(0)
    found = []
    for start in range(0, len(keys), size or max(1, len(keys))):
        plan = place(state, 0) if size is None else place(state, 0, keys[start : start + size])
        state.apply(plan)
        found += [placement_document(outcome) for outcome in plan.outcomes]
    state.check()
    return found


@settings(max_examples=examples(60))
@given(CLUSTERS, PLACEMENTS, CHANGES, st.integers(1, 3))
def test_parts_give_what_one_plan_gives(
    clusters: list[tuple[int, int]],
    placements: list[tuple[int | None, int, bool]],
    changes: list[tuple[int, int, int]],
    size: int,
) -> None:
    objects = [the_cluster(number, *one) for number, one in enumerate(clusters)]
    objects += [the_placement(number, *one) for number, one in enumerate(placements)]
    whole, parts = fleet(*objects), fleet(*objects)
    for change in [None, *changes]:
        if change is not None:
            for state in (whole, parts):
                state.upsert(the_cluster(*change))
        for _ in range(2):  # and once more, for those that others have overtaken
            assert decided(whole, None) == decided(parts, size)
