"""What the states of a task mean, and how annotations are read."""

import pytest

from fairway.state.annotations import parse_span
from fairway.state.jobs import (
    ACCOUNTED,
    FINISHED,
    ON_NODE,
    READY,
    RESERVATION_STATES,
    WAITING,
    TaskState,
)
from fairway.state.namespaces import weight_of


def test_which_states_take_room_count_and_wait():
    assert RESERVATION_STATES < WAITING
    assert TaskState.RELEASING in ON_NODE - ACCOUNTED
    assert {TaskState.SUCCEEDED} == READY - ACCOUNTED
    assert not ON_NODE & FINISHED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("1h30m", 5400),
        ("2d", 172800),
        ("10s", 10),
        ("0", 0),
        ("1m1m", 120),
        ("36600d", 3_162_240_000),
    ],
)
def test_spans_of_time(text, seconds):
    assert parse_span(text) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["", "soon", "-5", "1h30", "5 m", "1e3", "9" * 70, "٣", "99999d", "3162240001", "h"])
def test_spans_that_are_none(text):
    assert parse_span(text) is None


@pytest.mark.parametrize(("text", "weight"), [("3", 3), ("1k", 1000), ("2000m", 2), ("3e0", 3), ("2147483648", 2**31)])
def test_weights_are_quantities_equal_to_a_positive_integer(text, weight):
    assert weight_of(text) == weight


@pytest.mark.parametrize("text", ["0", "-1", "2.5", "1500m", "", "abc", "1e30", "3n", "true", "2147483649"])
def test_weights_that_are_none(text):
    assert weight_of(text) is None
