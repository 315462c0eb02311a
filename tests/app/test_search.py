"""Searches find the smallest that works, and never answer what they did not ask."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fairway.app.explain.search import largest, smallest, smallest_set


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60))
def test_largest_and_smallest_find_the_edge(low: int, span: int, edge: int) -> None:
    high = low + span
    found = largest(low, high, lambda number: number <= edge)
    assert found == (None if edge < low else min(edge, high))
    least = smallest(low, high, lambda number: number >= edge)
    assert least == (None if edge > high else max(edge, low))


def test_an_empty_range_has_no_answer() -> None:
    assert largest(3, 2, lambda _: True) is None
    assert smallest(3, 2, lambda _: True) is None
    assert smallest_set([], lambda _: True, 99) is None


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 60))
def test_no_item_of_the_smallest_set_can_be_spared(weights: list[int], needed: int) -> None:
    items = list(enumerate(weights))

    def works(chosen: Sequence[tuple[int, int]]) -> bool:
        return sum(weight for _, weight in chosen) >= needed

    found = smallest_set(items, works, 99)
    if sum(weights) < needed:
        assert found is None
        return
    assert found is not None
    assert works(found)
    for spared in found:
        assert not works([item for item in found if item != spared])


@given(st.lists(st.booleans(), min_size=1, max_size=25))
def test_the_earliest_items_that_do_are_taken(useful: list[bool]) -> None:
    """Two useful items are needed: the first two are found, wherever they stand."""
    items = list(range(len(useful)))
    found = smallest_set(items, lambda chosen: sum(useful[item] for item in chosen) >= 2, 99)
    wanted = [item for item in items if useful[item]][:2]
    assert (sorted(found) if found else None) == (wanted if len(wanted) == 2 else None)


def test_few_questions_are_asked() -> None:
    asked = 0

    def works(chosen: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return {100, 700} <= set(chosen)

    assert sorted(smallest_set(range(1000), works, 99) or []) == [100, 700]
    assert asked < 35


def test_what_is_returned_was_asked_for_even_where_more_is_not_better() -> None:
    """Works with all or with just 2: a set that was never tried is never given."""
    asked: list[set[int]] = []

    def works(chosen: Sequence[int]) -> bool:
        asked.append(set(chosen))
        return set(chosen) in ({0, 1, 2, 3}, {0, 1, 2})

    found = smallest_set(range(4), works, 99)
    assert found is not None
    assert set(found) in ({0, 1, 2, 3}, {0, 1, 2})
    assert set(found) in asked


@given(st.integers(1, 40), st.integers(0, 10))
def test_after_enough_rounds_what_is_known_to_do_is_returned(needed: int, rounds: int) -> None:
    """Every other item is needed: few rounds find a set that works and may be larger than it must be."""
    useful = set(range(0, 2 * needed, 2))
    found = smallest_set(range(100), lambda chosen: useful <= set(chosen), rounds)
    assert found is not None
    assert useful <= set(found)
    if rounds >= needed:
        assert set(found) == useful
