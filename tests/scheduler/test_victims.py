"""The choice of victims and its slow, obvious twin evict the same, on random clusters that are full."""

from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings

from fairway.scheduler.victims import choice, reference
from support.contended import contended, evicting_policies
from support.contention import cycle
from support.engine import state_of

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def both(objects, policy):
    fast = cycle(state_of(objects), policy)
    with patch.object(choice, "find_victims", reference.find_victims):
        slow = cycle(state_of(objects), policy)
    return fast, slow


@quick
@given(contended(plain=True), evicting_policies())
def test_where_only_room_decides_they_choose_the_same_victims(objects, policy):
    fast, slow = both(objects, policy)
    note(f"slow: {slow.evictions} {slow.nominations}")
    assert fast.evictions == slow.evictions
    assert fast.nominations == slow.nominations
    assert fast.document() == slow.document()


@quick
@given(contended(), evicting_policies())
def test_where_rules_between_pods_and_budgets_decide_too(objects, policy):
    fast, slow = both(objects, policy)
    note(f"slow: {slow.evictions} {slow.nominations}")
    assert fast.evictions == slow.evictions
    assert fast.nominations == slow.nominations
    assert fast.document() == slow.document()
