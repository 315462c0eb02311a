"""Tables over nodes answer as the algebra does, node by node, on random amounts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairway.resources.algebra import Default, Resource  # type: ignore[attr-defined]
from fairway.resources.columns import Axis, Table

NAMES = ("cpu", "memory", "pods", "x/gpu")

amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4) | st.integers(0, 2**62), max_size=4)
columns = st.lists(amounts, max_size=6)
defaults = st.sampled_from(Default)


def table_of(nodes: list[dict[str, int]]) -> tuple[Axis, Table]:
    axis = Axis(NAMES)
    table = Table(axis, len(nodes))
    for row, given_amounts in enumerate(nodes):
        table.set(row, axis.vector(Resource.of(given_amounts)))
    return axis, table


@given(columns, amounts)
def test_fits_is_less_equal_of_what_is_asked_for(nodes, request):
    axis, table = table_of(nodes)
    wanted = Resource.of({name: amount for name, amount in request.items() if amount})
    expected = [wanted.less_equal(Resource.of({name: node.get(name, 0) for name in wanted.amounts})) for node in nodes]
    assert table.fits(axis.vector(wanted)).tolist() == expected


@given(columns, amounts, defaults)
def test_less_equal_and_less_partly_are_those_of_the_algebra(nodes, limit, default):
    """A table knows every dimension of its axis: a node that never mentioned one has zero there."""
    axis, table = table_of(nodes)
    bound = Resource.of({name: amount for name, amount in limit.items() if amount})
    whole = [Resource.of({**dict.fromkeys(NAMES, 0), **node}) for node in nodes]
    vector = axis.vector(bound)
    assert table.less_equal(vector, default).tolist() == [node.less_equal(bound, default) for node in whole]
    assert table.less_partly(vector, default).tolist() == [node.less_partly(bound, default) for node in whole]


@given(columns.filter(bool), st.data())
def test_adding_and_taking_away_leave_what_the_algebra_leaves(nodes, data):
    axis, table = table_of(nodes)
    row = data.draw(st.integers(0, len(nodes) - 1))
    more = Resource.of(data.draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2**40))))
    times = data.draw(st.integers(0, 5))
    table.add(row, axis.vector(more), times)
    expected = Resource.of(nodes[row]) + more.scale(times)
    assert axis.resource(table.at(row)).equal(expected)
    table.subtract(row, axis.vector(more), times)
    assert axis.resource(table.at(row)).equal(Resource.of(nodes[row]))


@given(columns)
def test_a_table_that_grows_keeps_what_it_has(nodes):
    axis, table = table_of(nodes)
    before = table.data.copy()
    axis.row("y/new")
    table.reach(len(nodes) + 3)
    assert table.data.shape == (len(NAMES) + 1, len(nodes) + 3)
    assert np.array_equal(table.data[: len(NAMES), : len(nodes)], before)
    assert not table.data[len(NAMES) :].any()
    assert not table.data[:, len(nodes) :].any()


@given(amounts)
def test_a_vector_and_back(given_amounts):
    axis = Axis()
    resource = Resource.of(given_amounts)
    assert axis.resource(axis.vector(resource)).equal(resource)
    rows = [row for row, _ in axis.vector(resource)]
    assert rows == sorted(rows)


def test_a_table_that_is_large_enough_stays_the_same_array():
    _, table = table_of([{"cpu": 1}, {}])
    before = table.data
    table.reach(2)
    table.reach(1)
    assert table.data is before


@given(st.lists(st.sampled_from("abcdef"), max_size=20), st.data())
def test_rows_of_forgotten_names_are_used_again_lowest_first(names, data):
    """A name keeps its row until it is freed; no two names share one; the axis never ends in a free row."""
    axis, known = Axis(), dict[str, int]()
    for name in names:
        if name in known:
            gone = data.draw(st.sets(st.sampled_from(sorted(known))))
            axis.free([known.pop(one) for one in sorted(gone)])
        else:
            taken = set(known.values())
            known[name] = axis.row(name)
            assert known[name] == min(set(range(len(taken) + 1)) - taken)
        assert {one: axis.row(one) for one in known} == known
        assert [axis.find(one) for one in "abcdef"] == [known.get(one) for one in "abcdef"]
        assert len(axis) == max(known.values(), default=-1) + 1


def test_a_table_shrinks_to_the_nodes_and_dimensions_that_there_are():
    axis, table = table_of([{"cpu": 1, "x/gpu": 2}, {"memory": 3}])
    axis.free([axis.row("x/gpu"), axis.row("pods")])
    table.fit(1)
    assert table.data.tolist() == [[1], [0]]
    table.fit(2)
    assert table.data.tolist() == [[1, 0], [0, 0]]
