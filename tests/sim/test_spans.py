"""Spans as people write them."""

from __future__ import annotations

from random import Random

import pytest

from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.sim.spans import format_span, parse_drawn, parse_span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1.5s", 1.5),
        (30, 30),
        (0.25, 0.25),
        ("250ms", 0.25),
        (0, 0),
    ],
)
def test_spans_are_read(text: object, seconds: float) -> None:
    assert parse_span(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["", "s", "5", "5 m", "-5s", "5x", True, None, [], "1e3s", "99999999999999999d", -1])
def test_what_is_no_span_is_refused(text: object) -> None:
    with pytest.raises(InputError, match=r"is not a duration|is too long"):
        parse_span(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (90.5, "1m30.5s"),
        (5400, "1h30m"),
        (172_800, "2d"),
        (7.25, "7.25s"),
        (-60, "-1m"),
    ],
)
def test_spans_are_shown_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert format_span(round(seconds * SECOND)) == text


def test_drawn_spans_are_around_their_mean_and_the_same_for_the_same_dice() -> None:
    drawn = parse_drawn("exponential 5m")
    first, again = ([drawn.draw(dice) for _ in range(2000)] for dice in (Random(1), Random(1)))
    assert first == again
    assert sum(first) / len(first) == pytest.approx(drawn.mean, rel=0.1)
    uniform = parse_drawn("uniform 1s 3s")
    assert all(SECOND <= uniform.draw(Random(seed)) <= 3 * SECOND for seed in range(50))
    assert not parse_drawn("5m").is_random
    assert parse_drawn("5m").draw(Random(1)) == 300 * SECOND


@pytest.mark.parametrize("text", ["exponential", "uniform 3s 1s", "uniform 1s", "normal 3s"])
def test_unknown_distributions_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_drawn(text)
