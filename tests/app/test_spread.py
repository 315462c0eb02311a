"""The histogram that costs little shows what that of the Prometheus client shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from fairway.app.live.metrics import TimeSpread

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
