"""Dividing replicas: sums, shares, minimum, and that one more never takes one away."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairway.fleet.replicas import aggregated, free, weighted

weights_of = st.lists(st.integers(0, 40), min_size=1, max_size=12)
counts = st.integers(0, 200)
LOPSIDED = [1, 1, 1, 30, 1, 1, 30, 1, 1, 1, 30, 30, 1, 1]


@pytest.mark.parametrize(
    ("count", "weights", "expected"),
    [
        (10, [1, 1, 1], [4, 3, 3]),
        (10, [2, 1], [7, 3]),
        (7, [3, 2, 1], [4, 2, 1]),
        (3, [10, 3, 3], [2, 1, 0]),
        (7, [1, 1, 3], [2, 1, 4]),
        (4, [1, 1, 4], [1, 1, 2]),
        (5, [0, 0], [3, 2]),
        (5, [1, 0], [5, 0]),
        (0, [1, 2], [0, 0]),
        (4, [], []),
    ],
)
def test_replicas_follow_the_weights(count: int, weights: list[int], expected: list[int]) -> None:
    assert weighted(count, weights) == expected


def test_the_minimum_comes_first_and_the_last_ones_go_short() -> None:
    assert weighted(12, [10, 1, 1], minimum=3) == [6, 3, 3]
    assert weighted(5, [1, 1, 1], minimum=2) == [2, 2, 1]


@given(count=counts, weights=weights_of, minimum=st.integers(0, 4))
@example(count=52, weights=LOPSIDED, minimum=0)
@example(count=57, weights=[5000, 1, 1, 4999], minimum=0)
def test_no_replica_is_lost_and_one_more_takes_none_away(count: int, weights: list[int], minimum: int) -> None:
    now, more = weighted(count, weights, minimum), weighted(count + 1, weights, minimum)
    assert sum(now) == count
    assert all(before <= after for before, after in zip(now, more, strict=True))
    if count >= minimum * len(weights):
        assert min(now) >= minimum


@given(count=counts, weights=weights_of)
@example(count=52, weights=LOPSIDED)
@example(count=9_999, weights=[5000, 1, 1, 4999])
def test_everyone_is_within_one_of_the_exact_share(count: int, weights: list[int]) -> None:
    weights = weights if any(weights) else [1] * len(weights)
    whole = sum(weights)
    for weight, have in zip(weights, weighted(count, weights), strict=True):
        assert count * weight // whole <= have <= -(-count * weight // whole)


@given(count=counts, room=st.lists(st.integers(0, 30), min_size=1, max_size=8), minimum=st.integers(0, 3))
def test_free_room_is_never_exceeded_and_filled_before_anything_is_left(
    count: int, room: list[int], minimum: int
) -> None:
    for divide in (free, aggregated):
        now, more = divide(count, room, minimum), divide(count + 1, room, minimum)
        assert sum(now) == min(count, sum(room))
        assert all(have <= fits for have, fits in zip(now, room, strict=True))
        assert all(before <= after for before, after in zip(now, more, strict=True))


def test_free_divides_by_room_and_aggregated_uses_few_clusters() -> None:
    assert free(9, [20, 10, 0]) == [6, 3, 0]
    assert aggregated(9, [6, 6, 6]) == [6, 3, 0]
    assert aggregated(9, [None, 6]) == [9, 0]
    assert aggregated(9, [6, 6, 6], minimum=1) == [6, 2, 1]
