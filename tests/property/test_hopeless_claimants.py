"""What no node could take even when empty is not claimed for, and the plan is the same as if it were."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.eviction.claims import Claimants, Hopeless
from support import objects as make
from support.contended import contended, evicting_policies
from support.contention import DAY, acting, running, waiting, waiting_gang
from support.effort import examples
from support.engine import state_of

modest = settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
ALL = ("enqueue", "allocate", "reserve", "backfill", "reclaim", "preempt")


@st.composite
def large(draw: st.DrawFn) -> list[ApiObject]:
    """Pods and gangs of which some, or all, fit on no node; one that fits may be among them."""
    found: list[ApiObject] = []
    for index in range(draw(st.integers(1, 4))):
        cpu, priority = draw(st.sampled_from((1, 200, 201))), draw(st.sampled_from((0, 5, 50)))
        if draw(st.booleans()):
            found.append(waiting(f"large-{index}", cpu=cpu, priority=priority, created=index))
        else:
            found += waiting_gang(f"gang-{index}", 2, cpu=cpu, priority=priority, created=index)
    return found


def documents(objects: list[ApiObject], policy: Policy) -> list[dict[str, Any]]:
    """Two cycles, so that what was parked in the first is there in the second."""
    state = state_of(objects)
    return [decide_and_explain(state, policy, make.NOW + at).document() for at in (0, 1_000_000)]


def compare(objects: list[ApiObject], policy: Policy) -> None:
    ours = documents(objects, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hopeless, "is_all", lambda self: False)
        patch.setattr(Hopeless, "exceeds", lambda self, shape: False)
        assert documents(objects, policy) == ours


@modest
@given(contended(), large(), evicting_policies())
def test_plans_are_the_same(objects: list[ApiObject], more: list[ApiObject], policy: Policy) -> None:
    compare([*objects, *more], policy)


@modest
@given(contended(plain=True), large())
def test_plans_are_the_same_with_all_actions(objects: list[ApiObject], more: list[ApiObject]) -> None:
    compare([*objects, *more], acting(*ALL))


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_no_claimant_is_looked_at_where_none_can_gain(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = [waiting(f"large-{index}", cpu=100 + index, priority=9, created=index) for index in range(3)]
    state = state_of(make.node("n", cpu=4), running("old", "n", cpu=2), *large, waiting("new", cpu=1, created=9))

    def fail(self: object) -> None:
        raise AssertionError("claimants were looked at")

    monkeypatch.setattr(Claimants, "__iter__", fail)
    plan = decide_and_explain(state, acting("enqueue", "allocate", action, "backfill"), make.NOW)
    assert [binding.pod for binding in plan.bindings] == ["default/new"]
    assert len(plan.pending) == 3


def test_a_cooling_victim_is_still_said_to_be_worth_another_look() -> None:
    old = running("old", "n", cpu=2, annotations={"volcano.sh/cooldown-time": "100s"}, started=DAY - 10)
    compare([make.node("n", cpu=2), old, waiting("large", cpu=100, priority=9)], acting("allocate", "preempt"))
