"""Room to come, in columns, against the same added up one change at a time."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.scheduler.backfill.run_ends import Gains
from support.effort import examples

DIMENSIONS, NODES = 3, 4

vectors = st.dictionaries(st.integers(0, DIMENSIONS - 1), st.integers(1, 9), min_size=1).map(
    lambda amounts: tuple(sorted(amounts.items()))
)
changes = st.lists(st.tuples(st.integers(0, 20), st.integers(0, NODES - 1), vectors, st.sampled_from([1, -1])))


@settings(max_examples=examples(50))
@given(changes, st.lists(st.integers(-1, 21)), st.integers(0, 30), st.lists(st.integers(0, 30), max_size=5))
def test_every_moment_knows_all_changes_up_to_it(
    made: list[Any], asked: list[int], first: int, taken_back: list[int]
) -> None:
    gains = Gains(DIMENSIONS, NODES)
    for owner, change in enumerate(made):
        gains.add(*change, owner)  # type: ignore[call-arg]
    for place in taken_back:
        gains.take_back(range(place, min(place + 1, len(made))))
    left = [change for place, change in enumerate(made) if place not in taken_back]
    assert bool(gains) == bool(left)
    early = [change for place, change in enumerate(made) if place not in taken_back and place < first]
    for cut, counted in ((None, left), (first, early)):
        found = gains.at(sorted(asked), cut)
        assert found.shape == (len(asked), DIMENSIONS, NODES)
        for place, moment in enumerate(sorted(asked)):
            slow = np.zeros((DIMENSIONS, NODES), dtype=np.int64)
            for when, row, vector, sign in counted:
                for dimension, amount in vector if when <= moment else ():
                    slow[dimension, row] += sign * amount
            assert (found[place] == slow).all()


def test_changes_may_come_after_it_was_asked() -> None:
    gains = Gains(1, 1)
    gains.add(5, 0, ((0, 2),))
    before = gains.at([5])
    gains.add(5, 0, ((0, 1),), -1)
    assert (int(before[0, 0, 0]), int(gains.at([5])[0, 0, 0]), len(gains)) == (2, 1, 2)
