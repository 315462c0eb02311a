"""The choice of victims and its slow, obvious twin evict the same, on random clusters that are full."""

from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.pods import Pod
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


@st.composite
def with_some_leaving(draw):
    """Of those who run, some are being deleted."""
    objects = draw(contended(plain=True))
    return [_leaving(thing) if _runs(thing) and draw(st.integers(0, 4)) == 0 else thing for thing in objects]


def _runs(thing):
    return isinstance(thing, Pod) and bool(thing.spec.node_name)


def _leaving(pod):
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=pod.metadata.creation_timestamp))


@quick
@given(with_some_leaving(), evicting_policies())
def test_where_some_leave_already(objects, policy):
    fast, slow = both(objects, policy)
    note(f"slow: {slow.evictions} {slow.nominations}")
    assert fast.document() == slow.document()
