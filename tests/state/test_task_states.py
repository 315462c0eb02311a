"""What the states of a task mean, and how annotations are read."""

import pickle
from itertools import product

import pytest

from fairway.errors import IllegalMoveError
from fairway.state import invariants
from fairway.state.annotations import parse_span
from fairway.state.cluster import Upserted
from fairway.state.jobs import (
    ACCOUNTED,
    FINISHED,
    LEGAL_MOVES,
    NOWHERE,
    ON_NODE,
    READY,
    RESERVATION_STATES,
    WAITING,
    TaskState,
)
from fairway.state.namespaces import weight_of
from support import objects as make
from support.engine import state_of


def test_which_states_take_room_count_and_wait():
    assert RESERVATION_STATES < WAITING
    assert TaskState.RELEASING in ON_NODE - ACCOUNTED
    assert {TaskState.SUCCEEDED} == READY - ACCOUNTED
    assert not ON_NODE & FINISHED


def waiting_task():
    state = state_of([make.node("n0", cpu=4), make.pod("a", cpu=1)])
    return state, state.tasks["default/a"]


@pytest.mark.parametrize(("before", "after"), list(product(TaskState, TaskState)))
def test_a_task_makes_legal_moves_only(before, after):
    _, task = waiting_task()
    task.history, task.state = (before,), before
    if after is before or after in LEGAL_MOVES[before]:
        task.become(after)
        assert task.state is after
        assert task.history == ((before,) if after is before else (before, after))
    else:
        with pytest.raises(IllegalMoveError, match=f"task default/a cannot become {after.name}.*were {before.name}$"):
            task.become(after)
        assert task.state is before


@pytest.mark.parametrize("first", list(TaskState))
def test_a_task_may_begin_in_every_state(first):
    _, task = waiting_task()
    task.history = ()
    task.become(first)
    assert (task.state, task.history) == (first, (first,))


def test_the_table_of_moves_covers_every_state_and_ends_with_the_finished_ones():
    assert set(LEGAL_MOVES) == set(TaskState)
    assert {state for state, moves in LEGAL_MOVES.items() if not moves} == FINISHED
    assert all(state not in moves for state, moves in LEGAL_MOVES.items())
    assert all(WAITING - {state} <= LEGAL_MOVES[state] for state in WAITING)


def test_an_illegal_move_tells_the_history_of_the_task():
    state, task = waiting_task()
    for step in (TaskState.RESERVED, TaskState.ALLOCATED, TaskState.BOUND, TaskState.RUNNING, TaskState.SUCCEEDED):
        state._ledger.leave(task)
        state._ledger.enter(task, step, NOWHERE if step is TaskState.SUCCEEDED else 0)
    state._ledger.leave(task)
    with pytest.raises(IllegalMoveError) as error:
        state._ledger.enter(task, TaskState.PENDING, NOWHERE)
    assert error.value.history == ("PENDING", "RESERVED", "ALLOCATED", "BOUND", "RUNNING", "SUCCEEDED")
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_pod_that_comes_back_in_an_earlier_state_is_read_anew():
    state = state_of([make.node("n0", cpu=4), make.pod("a", cpu=1, node="n0", phase="Running")])
    before = state.tasks["default/a"]
    state.apply(Upserted(make.pod("a", cpu=1)))
    task = state.tasks["default/a"]
    assert task is not before
    assert task.history == (TaskState.PENDING,)
    invariants.check(state)


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
