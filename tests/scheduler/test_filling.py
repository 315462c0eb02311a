"""Water-filling in integers gives what the definition gives with fractions."""

from hypothesis import given
from hypothesis import strategies as st

from fairway.scheduler.plugins.share_tree import Claim, fill
from oracles.shares import Share, divide


@st.composite
def claims(draw: st.DrawFn) -> list[Claim]:
    size = st.integers(0, 30) | st.integers(0, 10**15)
    found = []
    for index in range(draw(st.integers(1, 6))):
        low = draw(st.just(0) | size)
        found.append(Claim(f"q{index}", draw(st.integers(1, 7)), low, low + draw(size)))
    return found


@given(st.integers(0, 40) | st.integers(0, 10**16), claims())
def test_the_integers_are_those_of_the_definition(total, given_claims):
    got = fill(total, given_claims)
    assert got == list(divide(total, [Share(*claim) for claim in given_claims]).values())
    assert sum(got) <= total


@given(st.integers(0, 10**6), claims())
def test_nothing_is_left_while_a_queue_wants_it(total, given_claims):
    got = fill(total, given_claims)
    assert sum(got) == min(
        total, max(total if sum(c.low for c in given_claims) > total else 0, sum(c.high for c in given_claims))
    )


def test_equal_claims_share_the_remainder_by_name():
    thirds = [Claim(name, 1, 0, 100) for name in ("b", "a", "c")]
    assert fill(10, thirds) == [3, 4, 3]


def test_bounds_hold_before_weights():
    assert fill(12, [Claim("a", 1, 6, 10), Claim("b", 3, 0, 100)]) == [6, 6]
    assert fill(12, [Claim("a", 1, 0, 10), Claim("b", 3, 0, 2)]) == [10, 2]


def test_guarantees_beyond_the_whole_shrink_in_proportion():
    assert fill(9, [Claim("a", 1, 12, 12), Claim("b", 5, 6, 6)]) == [6, 3]
