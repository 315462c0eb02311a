"""Turns on a hub: what a namespace with very many placements, or very expensive ones, takes from the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.fleet.rules import Key
from fairway.kube.hub.turns import MAX_WAITING, FairTurns
from support.effort import examples


@dataclass
class Affected:
    """`left` has by placement the steps that are left to evaluate."""

    left: dict[Key, int] = field(default_factory=dict)
    standing: set[Key] = field(default_factory=set)
    overtaken: set[Key] = field(default_factory=set)
    spent: dict[str, int] = field(default_factory=dict)
    one: int = 10
    """Steps of one evaluation, which is not broken off."""

    def is_active(self, key: Key) -> bool:
        return True

    def is_overtaken(self, key: Key) -> bool:
        return key in self.overtaken

    def is_answered(self, key: Key) -> bool:
        return not self.left.get(key)

    def answer(self, key: Key, most: int) -> int:
        spent = 0
        while self.left.get(key, 0) > 0 and spent < most:
            self.left[key] -= min(self.one, self.left[key])
            spent += self.one
        self.spent[key[0]] = self.spent.get(key[0], 0) + spent
        return spent

    def stands(self, key: Key, now: int) -> bool:
        return key in self.standing


def keys(namespace: str, count: int) -> list[Key]:
    return [(namespace, f"p{number:04}") for number in range(count)]


def test_few_placements_are_decided_at_once_in_their_order() -> None:
    affected = sorted([*keys("b", 100), *keys("a", 100)])
    assert FairTurns(100).pick(Affected(), affected, 0) == affected


def test_of_very_many_a_turn_is_decided_and_the_next_when_half_of_it_is_written() -> None:
    turns, many, few = FairTurns(10), keys("a", 100), keys("b", 3)
    picked = turns.pick(Affected(), [*many, *few], 0)
    assert picked == [*many[:10], *few]
    for key in picked:
        turns.leaves(key)
    late = keys("c", 1)
    assert turns.pick(Affected(), [*many[10:], *late], 0) == late
    for key in picked[:5]:
        turns.ended(key)
    assert turns.pick(Affected(), many[10:], 0) == many[10:15]
    assert turns.pick(Affected(), keys("b", 4), 0) == keys("b", 4)  # there is room for all of them


def test_what_others_decisions_affect_is_decided_when_the_rest_is() -> None:
    many = keys("a", 20)
    state, turns = Affected(overtaken=set(many[:12])), FairTurns(10)
    assert turns.pick(state, many, 0) == many[12:]
    assert turns.pick(state, many[:12], 0) == many[:10]


def test_expensive_expressions_of_one_namespace_are_evaluated_beside_those_of_others() -> None:
    costly, cheap, plain = keys("a", 50), keys("b", 1), keys("c", 5)
    state = Affected({**dict.fromkeys(costly, 100_000), **dict.fromkeys(cheap, 400)})
    turns = FairTurns(steps=1000)
    assert turns.pick(state, [*costly, *cheap, *plain], 0) == [*cheap, *plain]
    assert 0 < state.spent["a"] <= 1010
    assert turns.waiting
    for _ in range(99):
        turns.pick(state, costly, 0)
    assert sum(left < 100_000 for left in state.left.values()) > MAX_WAITING  # each of its own has its turn, too


def test_what_a_change_left_as_it_was_is_not_decided_again() -> None:
    first, second = keys("a", 2)
    state = Affected({first: 10, second: 0}, {first, second})
    assert FairTurns().pick(state, [first, second], 0) == []


@settings(max_examples=examples(200))
@given(
    st.dictionaries(st.tuples(st.sampled_from("abcd"), st.text("xyz", min_size=1, max_size=2)), st.integers(0, 500)),
    st.integers(1, 6),
    st.integers(1, 300),
)
def test_everything_is_decided_once_in_the_end(costs: dict[Key, int], turn: int, steps: int) -> None:
    state, turns = Affected(dict(costs)), FairTurns(turn, steps)
    left, decided = set(costs), []
    for _ in range(5000):
        if not left:
            break
        picked = turns.pick(state, sorted(left), 0)
        assert picked == sorted(set(picked))
        assert all(state.is_answered(key) for key in picked)
        for key in picked:
            turns.leaves(key)
        for key in picked:
            turns.ended(key)
        decided += picked
        left -= set(picked)
    assert sorted(decided) == sorted(costs)


@settings(max_examples=examples(100))
@given(st.integers(1, 40), st.integers(1, 2000))
def test_no_namespace_waits_for_more_than_a_turn_of_each_other(others: int, cost: int) -> None:
    costs = {("a", f"p{number}"): 10**9 for number in range(others)} | {
        (f"n{number}", "p"): 10**9 for number in range(3)
    }
    state, turns = Affected({**costs, ("z", "p"): cost}), FairTurns(steps=1000)
    runs = 0
    while ("z", "p") not in turns.pick(state, sorted(state.left), 0):
        runs += 1
        assert runs <= 1 + cost // 200 + 5  # a share is a fifth of 1000, but for what an evaluation is longer


def test_after_a_run_that_was_cut_the_next_begins_where_it_ended() -> None:
    turns, affected = FairTurns(), [*keys("a", 2), *keys("b", 2)]
    assert turns.pick(Affected(), affected, 0) == affected
    assert not turns.is_halfway
    turns.cut(affected[2])
    assert turns.is_halfway
    assert turns.pick(Affected(), affected, 0) == [*affected[2:], *affected[:2]]
    assert turns.pick(Affected(), affected, 0) == affected
