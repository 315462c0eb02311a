"""Pods of another scheduler that have devices: what they have is taken, counts in no queue, and is never evicted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.scheduler.plan import ExplainedPlan
from support.claims import allocated, claim, claiming, device_class, exactly, gpu
from support.devices import asking, device_node, kind_class, resource_slice
from support.engine import bound, decided, policy, state_of, waiting
from support.objects import made

SITE = [
    device_class(),
    kind_class("any", "gpu"),
    device_node("n1"),
    resource_slice("s1", "n1", gpu("a"), gpu("b")),
]


def of(scheduler: str, pod: Any) -> Any:
    return replace(pod, spec=replace(pod.spec, scheduler_name=scheduler))


THEIRS = {
    "claim": [claim("c", exactly(), status=allocated("c", "n1", "a")), claiming("theirs", "c", node="n1")],
    "record": [asking("theirs", node="n1", classes={"any": 1}, record={"any_a": 1})],
    "nothing written": [asking("theirs", node="n1", classes={"any": 1})],
}


PREEMPT = policy(actions="enqueue, allocate, preempt", devices={}, drf={"priorityFirst": True})


def plan(theirs: list[Any], *ours: Any, rules: Any) -> ExplainedPlan:
    foreign = [of("other", one) if one.metadata.name == "theirs" else one for one in theirs]
    mine = [of("fairway", one) for one in ours]
    urgent = made("PriorityClass", "urgent", value=100)
    return decided(state_of(SITE, urgent, foreign, mine, scheduler_names=["fairway"]), rules)


@pytest.mark.parametrize("form", THEIRS)
def test_what_they_have_is_not_given_again_and_counts_in_no_queue(form: str) -> None:
    ours = (asking("p", classes={"any": 1}), asking("q", classes={"any": 1}))
    found = plan(THEIRS[form], *ours, rules=policy(devices={}))
    assert [binding.devices[0].device for binding in found.bindings] == ["b"]
    assert len(waiting(found)) == 1
    assert [standing.allocated["devices.fairway.dev/gpu"] for standing in found.queues] == ["1"]


@pytest.mark.parametrize("form", THEIRS)
def test_they_are_never_evicted(form: str) -> None:
    urgent = asking("p", classes={"any": 2}, spec={"priorityClassName": "urgent"})
    found = plan(THEIRS[form], urgent, rules=PREEMPT)
    assert not found.evictions
    assert not bound(found)
