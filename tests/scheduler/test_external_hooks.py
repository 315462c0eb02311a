"""What only built-in plugins did, an external one can do too: the scheduler knows no plugin by its name."""

from typing import Any

import numpy as np
import pytest

from fairway.api.arguments import BackfillArguments
from fairway.clock import SECOND
from fairway.scheduler.backfill.planned_starts import Hardness
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework.hooks import EntitledBy, OrderedBy
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.framework.session import Session
from fairway.scheduler.paranoid import check
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.verdict import Reason, Verdict
from support import objects as make
from support.contention import DAY, evicted, reservations, waiting
from support.devices import asking, device_node, gpu, kind_class
from support.engine import bound, policy, reasons, state_of
from support.preempting import high, low, one_node

BARE = ("gang", "predicates", "nodeorder")
RESERVING = [
    {"name": "enqueue"},
    {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 1}},
    {"name": "allocate"},
]


def registry_with(**hooks: Any) -> Registry:
    methods = {name: staticmethod(call) for name, call in hooks.items()}
    plugin = type("Odd", (), {"name": "odd", "__init__": lambda self, arguments: None, **methods})
    return Registry(BUILT_IN, [plugin])


def run(
    *objects: Any, hooks: dict[str, Any], actions: Any = "enqueue, allocate, preempt", more: str = "gang"
) -> ExplainedPlan:
    registry = registry_with(**hooks)
    chosen = policy(actions=actions, plugins=(*BARE, more), odd={}, registry=registry)
    state, now = state_of(*objects), make.BEGIN + DAY * SECOND
    check(state, chosen, now, registry=registry)
    return decide_and_explain(state, chosen, now, registry=registry)


def test_it_says_what_queues_deserve():
    """The queue b deserves nothing and is lent nothing: its pod waits."""
    queues = [make.queue("a"), make.queue("b")]
    pods = [make.pod("p", queue="a", cpu=1), make.pod("q", queue="b", cpu=1)]

    def allocatable(queue, shape, count):
        return min(count, (queue.deserved[0] - queue.allocated[0]) // dict(shape.vector)[0])

    hooks = {"deserved": lambda: {"a": [4000, 0, 99], "b": [0, 0, 99]}, "allocatable": allocatable}
    assert bound(run(one_node(4), queues, pods, hooks=hooks)) == {"p": "n1"}


def test_it_is_told_in_which_pass_idle_capacity_is_lent():
    """Nothing is allowed within the share: the pod is placed in the second pass, on what is lent."""
    passes: list[bool] = []

    def allocatable(queue, shape, count, lending):
        passes.append(lending)
        return count if lending else 0

    hooks = {"lends": lambda: True, "allocatable": allocatable}
    assert bound(run(one_node(4), make.pod("p", cpu=1), hooks=hooks)) == {"p": "n1"}
    assert {*passes} == {False, True}


@pytest.mark.parametrize(
    "allocatable",
    [
        lambda queue, shape, count: count,
        lambda queue, shape, count, /: count,
        lambda queue, shape, count, *, more=0: count,
        lambda *arguments: arguments[2],
        lambda queue, shape, count, lending=None: count if isinstance(lending, bool) else 0,
    ],
)
def test_it_may_leave_lending_out(allocatable):
    hooks = {"lends": lambda: True, "allocatable": allocatable}
    assert bound(run(one_node(4), make.pod("p", cpu=1), hooks=hooks)) == {"p": "n1"}


def test_it_names_the_limit_that_a_job_waits_for():
    refusal = Verdict(False, Reason.QUEUE_CAPABILITY, "odd", "the licence server says no")
    found = run(
        one_node(4), make.pod("p", cpu=1), hooks={"allocatable": lambda *_: 0, "not_allowed": lambda job: refusal}
    )
    assert reasons(found) == {"p": "QueueCapability"}
    assert found.pending[0].message == "the licence server says no"


@pytest.mark.parametrize("by", [(), (EntitledBy.PRIORITY,)])
def test_it_entitles_to_preempt(by):
    found = run(one_node(), low("a"), high(), hooks={"entitled_by": lambda: by})
    assert evicted(found) == (["a"] if by else [])


def test_it_protects_units():
    def units(index):
        return np.array([unit is not None and "a" not in unit.job.key.split("/")[1] for unit in index.units])

    hooks = {"entitled_by": lambda: (EntitledBy.PRIORITY,), "preemptable_units": units}
    assert evicted(run(one_node(2), low("a"), low("b"), high(), hooks=hooks)) == ["b"]
    assert evicted(run(one_node(1), low("a"), high(), hooks=hooks)) == []


@pytest.mark.parametrize("answer", [lambda _index: [True], lambda _index: 1 / 0])
def test_units_that_it_fails_to_judge_are_protected(answer):
    found = run(one_node(2), low("a"), low("b"), high(), more="priority", hooks={"preemptable_units": answer})
    assert evicted(found) == []


@pytest.mark.parametrize("given", [False, True])
def test_it_has_devices_assigned(given):
    hooks = {"device_strategies": lambda: ("first-fit",)} if given else {"lends": lambda: True}
    cluster = [kind_class("any", "nvidia-gpu"), device_node("n1", gpu("g0")), asking("p", classes={"any": 1})]
    found = run(cluster, hooks=hooks)
    assert bound(found) == ({"p": "n1"} if given else {})


@pytest.mark.parametrize("leaves", [True, False])
def test_it_keeps_what_others_are_guaranteed_from_being_reserved(leaves):
    cluster = [make.node("n1", cpu=4, pods=20), low("on", cpu=3), waiting("old", cpu=4)]
    found = run(cluster, actions=RESERVING, hooks={"leaves_guarantees": lambda queue, need: leaves})
    assert (reservations(found) != {}) == leaves


@pytest.mark.parametrize("owed", [{}, {0: (0, 99_000)}])
def test_it_has_nodes_left_for_what_others_are_owed(owed):
    cluster = [make.node("n1", cpu=4, pods=20), low("on", cpu=3), waiting("old", cpu=4)]
    found = run(cluster, actions=RESERVING, hooks={"owed": lambda queue, reserved: owed})
    assert (reservations(found) != {}) == (not owed)


@pytest.mark.parametrize(
    ("hooks", "first_come", "by_priority"),
    [
        ({"job_key": lambda job: 0}, False, False),
        ({"job_key": lambda job: 0, "ordered_by": lambda: ()}, True, False),
        ({"job_key": lambda job: 0, "ordered_by": lambda: (OrderedBy.PRIORITY,)}, False, True),
        ({"ordered_by": lambda: (OrderedBy.PRIORITY,)}, True, False),
    ],
    ids=["not told", "by age", "by priority", "orders nothing"],
)
def test_it_tells_what_its_order_compares(hooks, first_come, by_priority):
    registry = registry_with(**hooks)
    session = Session(state_of(), policy(plugins=BARE, odd={}, registry=registry), make.NOW, registry)
    found = Hardness(session, BackfillArguments())
    assert (found.first_come_first_served, found.by_priority) == (first_come, by_priority)
