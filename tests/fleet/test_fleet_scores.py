"""The formulas: each with its edges, the fast column against the slow twin, and what must hold of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairway.fleet.scores import MISSING, balance_table, best, by_amount, by_ratio, preference, ranked, ratio, scale_of
from fleet.fleet_objects import cluster, decide, decision, exact, fleet, placement, run, scores
from oracles import fleet_scores as reference

amounts = st.one_of(st.none(), st.integers(0, 50), st.integers(0, 2**62))


@pytest.mark.parametrize(
    ("allocatable", "capacity", "expected"),
    [
        ("6", "10", 20),  # in float64, 0.6 - 0.5 is a little under 0.1
        ("4", "10", -20),
        ("19", "20", 90),  # in float64 89
        ("3", "7", -14),  # truncated toward zero
        ("4P", "5P", 60),
        ("0", "10", -100),
        ("5", "10", 0),
        ("10", "10", 100),
        ("12", "10", 100),
        ("1", "3", -33),
        ("5", "0", -100),
        ("5", None, -100),
        (None, "5", -100),
    ],
)
def test_ratio(allocatable: str | None, capacity: str | None, expected: int) -> None:
    given = {} if allocatable is None else {"cpu": allocatable}
    most = {} if capacity is None else {"cpu": capacity}
    outcome = decide(cluster("c", given, most), placement(prioritizerPolicy=exact("ResourceRatioCPU")))
    assert scores(outcome) == {"c": expected}


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ({"a": "10Gi", "b": "20Gi", "c": "30Gi"}, {"a": -100, "b": 0, "c": 100}),
        ({"a": "10Gi"}, {"a": 100}),
        ({"a": "10Gi", "b": "10Gi"}, {"a": 100, "b": 100}),
        ({"a": "1Gi", "b": "2Gi", "c": "4Gi"}, {"a": -100, "b": -33, "c": 100}),
        ({"a": None, "b": "10Gi", "c": "20Gi"}, {"a": -100, "b": -100, "c": 100}),
        ({"a": None, "b": "10Gi"}, {"a": -100, "b": 100}),
        ({"a": None, "b": None}, {"a": -100, "b": -100}),
        ({"a": "0", "b": "1"}, {"a": -100, "b": 100}),
    ],
)
def test_allocatable(memory: dict[str, str | None], expected: dict[str, int]) -> None:
    clusters = [cluster(name, {"memory": text} if text else {}) for name, text in memory.items()]
    outcome = decide(*clusters, placement(prioritizerPolicy=exact("ResourceAllocatableMemory")))
    assert scores(outcome) == expected


def test_least_and_most_are_of_those_that_passed_the_filters() -> None:
    big = cluster("big", {"cpu": "1000"}, taints=[{"key": "k", "effect": "NoSelect"}])
    outcome = decide(
        big,
        cluster("a", {"cpu": "1"}),
        cluster("b", {"cpu": "3"}),
        placement(prioritizerPolicy=exact("ResourceAllocatableCPU")),
    )
    assert scores(outcome) == {"a": -100, "b": 100}


def test_missing_resource_zero_gives_the_peers_numbers() -> None:
    clusters = [cluster("none"), cluster("least", {"cpu": "1"}), cluster("most", {"cpu": "2"})]
    clusters.append(cluster("no-capacity", {"cpu": "9"}, {}))
    policy = exact("ResourceAllocatableCPU", "ResourceRatioCPU")
    zero = placement(prioritizerPolicy=policy, annotations={"fairway.dev/missing-resource": "zero"})
    given = {item.cluster: dict(item.scores) for item in decide(*clusters, zero).decisions}
    assert given["none"] == {"ResourceAllocatableCPU": 0, "ResourceRatioCPU": 0}
    assert given["no-capacity"] == {"ResourceAllocatableCPU": 0, "ResourceRatioCPU": 0}
    assert given["least"]["ResourceAllocatableCPU"] == -100
    assert given["most"]["ResourceAllocatableCPU"] == 100


def test_balance_counts_the_others_in_all_namespaces() -> None:
    state = fleet(*(cluster(name) for name in "abcd"), placement(prioritizerPolicy=exact("Balance")))
    state.upsert(decision("p", ["a", "d"]))
    state.upsert(decision("q", ["a", "b"], namespace="elsewhere"))
    state.upsert(decision("r", ["b", "c"]))
    state.upsert(decision("s", ["b", "gone"]))
    [outcome] = run(state).outcomes
    assert scores(outcome) == {"a": 32, "b": -100, "c": 32, "d": 100}


def test_balance_truncates_toward_zero_before_doubling() -> None:
    assert balance_table(3).tolist() == [100, 32, -32, -100]
    assert balance_table(7)[3] == 2 * int(100 * (0.5 - 3 / 7))
    assert balance_table(0).tolist() == [100]
    assert balance_table(50)[29] == -16, "in float64 (0.5 - 29/50) * 100 is -7.99..."


def test_free_is_scored_where_it_is_reported() -> None:
    outcome = decide(
        cluster("big", {"cpu": "100"}, free={"cpu": "1"}),
        cluster("small", {"cpu": "10"}, free={"cpu": "9"}),
        cluster("silent", {"cpu": "50"}),
        placement(prioritizerPolicy=exact("ResourceFreeCPU")),
    )
    assert scores(outcome) == {"small": 100, "big": -100, "silent": -100}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_balance_column_is_the_slow_formula(counts: list[int]) -> None:
    most = max(counts)
    expected = [reference.balance(count, most) for count in counts]
    assert balance_table(most)[np.array(counts)].tolist() == expected


@given(st.lists(amounts, min_size=1, max_size=12), st.sampled_from([-100, 0]))
def test_amount_column_is_the_slow_formula(given: list[int | None], missing: int) -> None:
    column = np.array([MISSING if amount is None else amount for amount in given])
    scale = scale_of(column, column >= 0)
    fast = by_amount(column, column >= 0, scale, missing)
    slow = reference.by_amount({str(index): amount for index, amount in enumerate(given)}, missing)
    assert fast.tolist() == list(slow.values())
    for amount, score in zip(given, fast.tolist(), strict=True):
        assert amount is None or scale is None or scale.least == scale.most or scale.score(amount) == score


@given(amounts, amounts, st.sampled_from([-100, 0]))
def test_ratio_column_is_the_slow_formula(allocatable: int | None, capacity: int | None, missing: int) -> None:
    columns = [np.array([MISSING if amount is None else amount]) for amount in (allocatable, capacity)]
    assert ratio(int(columns[0][0]), int(columns[1][0]), missing) == int(by_ratio(*columns, missing)[0])  # type: ignore[call-arg]
    assert by_ratio(*columns, missing).tolist() == [reference.by_ratio(allocatable, capacity, missing)]  # type: ignore[call-arg]


def _rank(given: list[int], who: int, kind: str) -> int:
    """How many come before `who`, by points and then by name."""
    if kind == "ratio":
        points = [reference.by_ratio(amount, 60, -100) for amount in given]
    else:
        points = list(reference.by_amount({str(i): amount for i, amount in enumerate(given)}, -100).values())
    return sum((-points[i], i) < (-points[who], who) for i in range(len(given)))


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.integers(0, 7),
    st.integers(1, 40),
    st.sampled_from(["amount", "ratio"]),
)
def test_more_never_lowers_a_rank(given: list[int], who: int, more: int, kind: str) -> None:
    who %= len(given)
    raised = [amount + more * (index == who) for index, amount in enumerate(given)]
    assert _rank(raised, who, kind) <= _rank(given, who, kind)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=9), st.data())
def test_a_score_is_between_worst_and_best(given: list[int], data: st.DataObject) -> None:
    parts = [
        cluster(f"c{i}", {"cpu": str(abs(a))}, {"cpu": str(data.draw(st.integers(0, 100)))})
        for i, a in enumerate(given)
    ]
    outcome = decide(
        *parts, placement(prioritizerPolicy=exact("ResourceAllocatableCPU", "ResourceRatioCPU", "Balance"))
    )
    for item in outcome.decisions:
        assert all(-100 <= score <= 100 for score in item.scores.values())
        assert item.score == sum(item.scores.values())


@given(
    st.lists(st.integers(-2, 4), min_size=1, max_size=9),
    st.sets(st.integers(0, 8)),
    st.one_of(st.none(), st.integers(0, 10)),
    st.integers(0, 4),
    st.permutations(range(9)),
)
def test_the_chosen_are_those_that_the_slow_cut_chooses(
    points: list[int], before: set[int], count: int | None, gain: int, names: list[int]
) -> None:
    """Names in another order than slots; not all clusters have passed."""
    totals, rank = np.array(points), np.array(names[: len(points)]).argsort().argsort()
    index = np.flatnonzero(totals > -2)
    chosen = np.array(sorted(slot for slot in before if slot in index), np.int64)
    passed, own = (totals[index], rank[index], rank.size), np.searchsorted(index, chosen)
    fast = index[ranked(best(preference(*passed, own, gain), count), *passed)]
    by_name = {str(rank[slot]): slot for slot in index}
    slow = reference.cut(
        {name: points[slot] for name, slot in by_name.items()}, {str(rank[slot]) for slot in chosen}, count, gain
    )
    assert [str(rank[slot]) for slot in fast] == slow


@example([0, 0], range(6), {1}, 1)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=6),
    st.permutations(range(6)),
    st.sets(st.integers(0, 5)),
    st.integers(0, 2),
)
def test_clusters_come_by_points_with_the_gain_of_chosen_ones_and_then_by_name(
    points: list[int], order: Sequence[int], chosen: set[int], gain: int
) -> None:
    slots = range(len(points))
    names = [sorted(order[: len(points)]).index(place) for place in order[: len(points)]]
    kept = np.array([slot for slot in slots if slot in chosen], dtype=np.int64)
    ahead = [2 * points[slot] + (2 * gain - 1 if gain and slot in chosen else 0) for slot in slots]
    keys = preference(np.array(points), np.array(names), len(points), kept, gain)
    assert len(set(keys.tolist())) == len(points), "no two are level"
    assert keys.argsort().tolist() == sorted(slots, key=lambda slot: (-ahead[slot], names[slot]))
