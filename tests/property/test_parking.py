"""What fits nowhere is not looked at until something changes that could help it, and no plan differs by that."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.core import Node
from fairway.api.kinds import ApiObject, key
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.drive.change import bound
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework import candidates
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted
from support import clusters
from support import objects as make
from support.effort import examples
from support.engine import policy as make_policy
from support.engine import reasons, state_of

ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, preempt, reclaim, backfill")
EVENTS = ("go", "come back", "new pod", "new node", "smaller node", "carry out")


class World:
    """A state that is told events one by one, and the objects that there are."""

    def __init__(self, objects: list[ApiObject]) -> None:
        self.objects = {key(thing): thing for thing in objects}
        self.gone: list[ApiObject] = []
        self.state = ClusterState()
        self.state.upsert(objects)

    def upsert(self, thing: ApiObject) -> None:
        self.objects[key(thing)] = thing
        self.state.apply(Upserted(thing))

    def delete(self, thing: ApiObject) -> None:
        del self.objects[key(thing)]
        self.gone.append(thing)
        self.state.apply(Deleted(thing))

    def happen(self, policy: Policy, data: st.DataObject) -> None:
        things = list(self.objects.values())
        match data.draw(st.sampled_from(EVENTS)):
            case "go" if things:
                self.delete(data.draw(st.sampled_from(things)))
            case "come back" if self.gone:
                self.upsert(self.gone.pop())
            case "new pod":
                cpu = data.draw(st.integers(1, 9))
                self.upsert(make.pod(f"new-{len(self.objects)}", cpu=cpu, created=0))
            case "new node":
                self.upsert(make.node(f"new-{len(self.objects)}", cpu=data.draw(st.integers(1, 9)), memory="1Gi"))
            case "smaller node":
                nodes = [thing for thing in things if isinstance(thing, Node)]
                if nodes:
                    chosen = data.draw(st.sampled_from(nodes))
                    self.upsert(make.node(chosen.metadata.name, cpu=data.draw(st.integers(1, 9))))
            case "carry out":
                for binding in decide_and_explain(self.state, policy, make.NOW).bindings:
                    thing = self.objects[next(name for name, pod in self.objects.items() if _is(pod, binding.pod))]
                    assert isinstance(thing, Pod)
                    self.upsert(bound(thing, binding.node, make.NOW, {}))


def _is(thing: ApiObject, pod: str) -> bool:
    return isinstance(thing, Pod) and f"{thing.metadata.namespace}/{thing.metadata.name}" == pod


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(clusters.clusters(), clusters.policies(ACTIONS), st.data())
def test_a_plan_is_that_of_a_cycle_that_looks_at_everything(
    objects: list[ApiObject], policy: Policy, data: st.DataObject
) -> None:
    world = World(objects)
    for _ in range(data.draw(st.integers(1, 5))):
        found = decide_and_explain(world.state, policy, make.NOW).document()
        fresh = ClusterState()
        fresh.upsert(world.objects.values())
        assert (
            found == decide_and_explain(fresh, policy, make.NOW).document()
        )  # has parked nothing, and looks at all of them
        world.happen(policy, data)


HELP: dict[str, list[Event]] = {
    "free capacity": [Deleted(make.pod("runs", node="n", cpu=3))],
    "a node": [Upserted(make.node("m", cpu=4))],
    "labels": [Upserted(make.node("odd", cpu=9, labels={"pool": "a"}))],
    "its own request": [Upserted(make.pod("p", cpu=1, spec={"nodeSelector": {"pool": "a"}}))],
}
"""Events that can help a pod that is parked."""


@pytest.mark.parametrize("what", HELP)
def test_each_event_of_the_table_helps(what: str) -> None:
    selector = {"nodeSelector": {"pool": "a"}} if what in ("labels", "its own request") else {}
    state = state_of(
        make.node("n", cpu=4, labels={"pool": "a"}),
        make.node("odd", cpu=9 if selector else 1),
        make.pod("runs", node="n", cpu=3),
        make.pod("p", cpu=4, spec=selector),
    )
    policy = make_policy()
    for _ in range(2):
        assert reasons(decide_and_explain(state, policy, make.NOW)) == {"p": "InsufficientResources"}
    for event in HELP[what]:
        state.apply(event)
    assert [binding.pod for binding in decide_and_explain(state, policy, make.NOW).bindings] == ["default/p"]


def test_a_pod_that_keeps_off_others_is_helped_on_nodes_where_nothing_changed() -> None:
    """The pod it keeps off is on one node of the zone; another node of the zone takes it then."""
    web = make.pod("web", node="n", cpu=1, labels={"app": "web"})
    state = state_of(
        make.node("n", cpu=1, labels={"zone": "z"}),
        make.node("m", cpu=4, labels={"zone": "z"}),
        web,
        make.pod("p", cpu=4, spec=make.anti_affinity("zone", app="web")),
    )
    policy = make_policy()
    assert reasons(decide_and_explain(state, policy, make.NOW)) == {"p": "PredicateFailed"}
    state.apply(Deleted(web))
    assert [binding.node for binding in decide_and_explain(state, policy, make.NOW).bindings] == ["m"]


class Orders:
    """An external plugin with a say on jobs and tasks, and none on nodes."""

    name = "orders"

    def __init__(self, arguments: object) -> None:
        pass

    def job_key(self, job: Any) -> str:
        return str(job.key)[::-1]

    def task_key(self, task: Any) -> str:
        return str(task.key)[::-1]

    def job_valid(self, job: Any) -> Verdict:
        return Verdict(not str(job.key).endswith("1"), Reason.GANG_NOT_READY, detail="no job of this name")


ORDERED = Registry(BUILT_IN, [Orders])


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(clusters.clusters(), st.sampled_from(ACTIONS), st.data())
def test_plans_are_those_without_parking_under_external_plugins_that_order_and_refuse(
    objects: list[ApiObject], actions: str, data: st.DataObject
) -> None:
    policy = make_policy(actions=actions, registry=ORDERED, orders={})
    world = World(objects)
    for _ in range(data.draw(st.integers(1, 4))):
        found = decide_and_explain(world.state, policy, make.NOW, registry=ORDERED).document()
        fresh = ClusterState()
        fresh.upsert(world.objects.values())
        with patch.object(candidates, "_may_park", return_value=False):
            assert found == decide_and_explain(fresh, policy, make.NOW, registry=ORDERED).document()
        world.happen(make_policy(), data)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_what_is_parked_is_not_looked_at(started: bool, external: bool) -> None:
    registry = ORDERED if external else Registry(BUILT_IN)
    group = [make.group("g", minimum=1), make.pod("g-0", group="g", node="n", cpu=1)] if started else []
    waiting = make.pod("p", cpu=9, **({"group": "g"} if started else {}))
    state = state_of(make.node("n", cpu=4), make.node("m", cpu=4), *group, waiting)
    policy = make_policy(registry=registry, orders={}) if external else make_policy(registry=registry)
    decide_and_explain(state, policy, make.NOW, registry=registry)
    state.upsert([make.pod("small", cpu=1)])
    with patch.object(candidates, "has_capacity", side_effect=candidates.has_capacity) as looked:
        plan = decide_and_explain(state, policy, make.NOW, registry=registry)
    assert [run.shape.vector[0] for (_, template), _ in looked.call_args_list for run in template.runs] == [(0, 1000)]
    assert [binding.pod for binding in plan.bindings] == ["default/small"]
    assert list(reasons(plan).values()) == ["InsufficientResources" if started else "NeverFits"]
