"""The one table of task states: which moves are legal, and what a state means."""

import itertools

import pytest

from fairway.errors import IllegalMove
from fairway.state.annotations import parse_span
from fairway.state.jobs import Job
from fairway.state.namespaces import weight_of
from fairway.state.tasks import (
    ACCOUNTED,
    FINISHED,
    HOLDING,
    LEGAL_MOVES,
    ON_NODE,
    READY,
    WAITING,
    Task,
    TaskState,
    Traits,
)


def task(state: TaskState) -> Task:
    made = Task("ns/p", Job("ns/p", "ns", "q"), None, priority=0, created=None, traits=Traits(), labels={})
    made.state = state
    return made


def test_every_state_is_in_the_table():
    assert set(LEGAL_MOVES) == set(TaskState)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(TaskState, TaskState)))
def test_a_move_is_legal_or_told_with_its_story(before, after):
    moved = task(before)
    if after is before or after in LEGAL_MOVES[before]:
        moved.check_move(after)
        return
    with pytest.raises(IllegalMove, match=f"ns/p cannot become {after.name}; its story: {before.name}"):
        moved.check_move(after)


def test_what_has_ended_stays_ended():
    assert not any(LEGAL_MOVES[state] for state in FINISHED)


def test_who_takes_room_who_holds_and_who_waits():
    assert HOLDING < WAITING
    assert TaskState.RELEASING in ON_NODE - ACCOUNTED
    assert {TaskState.SUCCEEDED} == READY - ACCOUNTED
    assert not ON_NODE & FINISHED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("1h30m", 5400), ("2d", 172800), ("10s", 10), ("0", 0), ("1m1m", 120)],
)
def test_spans_of_time(text, seconds):
    assert parse_span(text) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["", "soon", "-5", "1h30", "5 m", "1e3", "9" * 70, "٣", "99999d", "h"])
def test_spans_that_are_none(text):
    assert parse_span(text) is None


@pytest.mark.parametrize(("text", "weight"), [("3", 3), ("1k", 1000), ("2000m", 2), ("3e0", 3), ("2147483648", 2**31)])
def test_weights_are_quantities_equal_to_a_positive_integer(text, weight):
    assert weight_of(text) == weight


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "1500m", "", "abc", "1e30", "3n", "true", "2147483649"])
def test_weights_that_are_none(text):
    assert weight_of(text) is None
