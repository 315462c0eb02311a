"""Waits after failures are between 0.2 and 30 seconds, grow, and obey the server (spec K1)."""

from __future__ import annotations

from random import Random

from fairway.kube.http.exchange import Backoff


class Extreme(Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


def test_waits_grow_from_the_first_to_the_longest() -> None:
    shortest, longest = Backoff(Extreme(0.0)), Backoff(Extreme(1.0))
    assert [shortest.next() for _ in range(9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]
    assert [longest.next() for _ in range(9)] == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_any_wait_is_between_the_first_and_the_longest() -> None:
    backoff = Backoff(Random(1))
    waits = [backoff.next() for _ in range(2_000)]
    assert min(waits) >= 0.2
    assert max(waits) <= 30.0
    assert len(set(waits)) == len(waits), "clients that failed together do not come back together"


def test_the_server_is_obeyed_and_success_begins_anew() -> None:
    backoff = Backoff(Random(1))
    assert backoff.next(at_least=90.0) == 90.0
    assert backoff.next(at_least=999_999.0) == 300.0, "within reason"
    backoff.reset()
    assert 0.2 <= backoff.next() <= 0.4
