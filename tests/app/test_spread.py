"""The histogram and the counter that cost little show what those of the Prometheus client show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from fairway.app.live.observing import Tally, TimeSpread

LIMITS = (0.001, 0.01, 0.5, 1, 10)


def shown(registry: CollectorRegistry) -> list[str]:
    """Without the time at which it was made, which ours does not say."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(st.lists(st.one_of(st.sampled_from(LIMITS), st.floats(0, 100)), max_size=20))
def test_it_shows_what_the_clients_own_shows(values: list[float]) -> None:
    quick, slow = CollectorRegistry(), CollectorRegistry()
    ours = TimeSpread("a_seconds", "Seconds.", LIMITS)
    quick.register(ours)
    theirs = Histogram("a_seconds", "Seconds.", buckets=LIMITS, registry=slow)
    for value in values:
        ours.observe(value)
        theirs.observe(value)
    assert shown(quick) == shown(slow)


@given(st.lists(st.tuples(st.sampled_from(("GET", "POST")), st.sampled_from(("201", "409", "0"))), max_size=20))
def test_a_tally_shows_what_the_clients_counter_shows(requests: list[tuple[str, str]]) -> None:
    quick, slow = CollectorRegistry(), CollectorRegistry()
    ours = Tally("requests", "Requests.", ("method", "code"))
    quick.register(ours)
    theirs = Counter("requests", "Requests.", ("method", "code"), registry=slow)
    for method, code in requests:
        ours.add(method, code)
        theirs.labels(method, code).inc()
    assert shown(quick) == shown(slow)
    assert sum(ours.counts().values()) == len(requests)
