"""Reservations that stand are left alone until something changes that could alter them, and no plan differs by that."""

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
from fairway.api.scheduling import Reservation
from fairway.clock import SECOND
from fairway.drive.change import bound
from fairway.scheduler.decide import OpenCycle, decide, decide_and_explain
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.plan import Plan
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import objects as make
from support.contention import full, reserving, running, waiting
from support.effort import examples
from support.engine import flat

RUNTIME = {"fairway.dev/expected-runtime": "1h"}


class Hub:
    """A state that is told events one by one, the objects that there are, and the time."""

    def __init__(self, objects: list[ApiObject], policy: Policy) -> None:
        self.objects = {key(thing): thing for thing in objects}
        self.policy = policy
        self.now = make.NOW
        self.state = ClusterState()
        self.state.upsert(objects)

    def upsert(self, thing: ApiObject) -> None:
        self.objects[key(thing)] = thing
        self.state.apply(Upserted(thing))

    def delete(self, thing: ApiObject) -> None:
        del self.objects[key(thing)]
        self.state.apply(Deleted(thing))

    def of(self, kind: type) -> list[Any]:
        return [thing for thing in self.objects.values() if isinstance(thing, kind)]

    def carry_out(self, plan: Plan, *, bind: bool = True) -> None:
        if bind:
            pods = {f"{pod.metadata.namespace}/{pod.metadata.name}": pod for pod in self.of(Pod)}
            for binding in plan.bindings:
                self.upsert(bound(pods[binding.pod], binding.node, self.now, {}))
        wanted = reservation_objects(plan.reservations, plan.overruns)
        for thing in self.of(Reservation):
            if (thing.metadata.namespace, thing.metadata.name) not in wanted:
                self.delete(thing)
        for made in wanted.values():
            if self.objects.get(key(made)) != made:
                self.upsert(made)

    def happen(self, what: str, data: st.DataObject) -> None:
        pods = self.of(Pod)
        match what:
            case "a pod ends" if pods:
                self.delete(data.draw(st.sampled_from(pods)))
            case "a pod comes":
                cpu, age = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0, 86_400]))
                self.upsert(waiting(f"new-{len(self.objects)}", cpu=cpu, created=age, queue=data.draw(QUEUE)))
            case "a node changes":
                node = data.draw(st.sampled_from(self.of(Node)))
                labels = data.draw(st.sampled_from([{}, {"pool": "a"}]))
                self.upsert(make.node(node.metadata.name, cpu=data.draw(st.integers(2, 6)), pods=10, labels=labels))
            case "a node comes":
                self.upsert(make.node(f"m{len(self.objects)}", cpu=data.draw(st.integers(1, 6)), pods=10))
            case "a run time" if pods:
                pod = data.draw(st.sampled_from(pods))
                meta = {**make.manifest(pod)["metadata"], "annotations": {**pod.metadata.annotations, **RUNTIME}}
                rest = make.manifest(pod)
                self.upsert(make.made("Pod", pod.metadata.name, pod.metadata.namespace, **_spec(rest), metadata=meta))
            case "a queue closes":
                self.upsert(make.queue("q", state=data.draw(st.sampled_from(["Open", "Closed"]))))
            case "a reservation goes" if self.of(Reservation):
                self.delete(data.draw(st.sampled_from(self.of(Reservation))))
            case "time":
                self.now += data.draw(st.sampled_from([1, 30, 100])) * SECOND


def _spec(manifest: dict[str, Any]) -> dict[str, Any]:
    return {name: manifest[name] for name in ("spec", "status") if name in manifest}


EVENTS = (
    "a pod ends",
    "a pod comes",
    "a node changes",
    "a node comes",
    "a run time",
    "a queue closes",
    "a reservation goes",
    "time",
)
QUEUE = st.sampled_from(["q", "p"])


@st.composite
def crowded(draw: st.DrawFn) -> list[ApiObject]:
    """Nodes that are nearly full, and old pods and gangs that fit on empty ones."""
    sizes = draw(st.lists(st.integers(3, 5), min_size=2, max_size=5))
    nodes = [full(f"n{number}", size) for number, size in enumerate(sizes)]
    jobs: list[Any] = []
    for number in range(draw(st.integers(1, 4))):
        cpu, queue = draw(st.integers(2, 5)), draw(QUEUE)
        if draw(st.booleans()):
            jobs.append(
                make.gang(
                    f"g{number}", members=2, minimum=draw(st.integers(1, 2)), cpu=cpu, queue=queue, created=number
                )
            )
        else:
            ports = draw(st.sampled_from([(), (), (80,)]))
            jobs.append(waiting(f"w{number}", cpu=cpu, queue=queue, created=number, ports=ports))
    queues = [make.queue("q"), make.queue("p", draw(st.integers(1, 2)))]
    return flat([nodes, jobs, queues])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    arguments: dict[str, Any] = {"reservedNodePercent": draw(st.sampled_from([50, 100, 100]))}
    if draw(st.booleans()):
        arguments["reservationTimeout"] = 100
    return reserving(**arguments)


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), deadline=None)
@given(crowded(), policies(), st.data())
def test_a_plan_is_that_of_a_cycle_that_looks_at_all_reservations(
    objects: list[ApiObject], policy: Policy, data: st.DataObject
) -> None:
    hub = Hub(objects, policy)
    for _ in range(data.draw(st.integers(2, 6))):
        if data.draw(st.booleans()):
            decide(hub.state, policy, hub.now)
        plan = decide_and_explain(hub.state, policy, hub.now)
        fresh = ClusterState()
        fresh.upsert(hub.objects.values())
        slow = decide_and_explain(fresh, policy, hub.now)
        quick = decide(hub.state, policy, hub.now)
        assert plan.document() == slow.document()
        without = decide(fresh, policy, hub.now)
        for one, other in ((quick, without),):
            assert (one.bindings, one.reservations, one.released) == (
                other.bindings,
                other.reservations,
                other.released,
            )
            assert one.recheck_at == other.recheck_at
        hub.carry_out(plan, bind=data.draw(st.booleans()))
        for what in data.draw(st.lists(st.sampled_from(EVENTS), max_size=2)):
            hub.happen(what, data)


def standing(count: int = 3) -> Hub:
    """As many old pods as there are nodes, all with reservations, and all found to stand."""
    nodes = [full(f"n{number}", 4) for number in range(count)]
    jobs = [waiting(f"w{number}", cpu=4, created=number) for number in range(count)]
    hub = Hub(flat([nodes, jobs]), reserving(reservedNodePercent=100))
    for _ in range(3):
        hub.carry_out(decide_and_explain(hub.state, hub.policy, hub.now))
    return hub


def read(hub: Hub) -> list[str]:
    """The jobs whose reservations a cycle reads, once each."""
    seen: dict[str, None] = {}
    original = Reservations._read_job

    def noted(self: Reservations, job: Any) -> Any:
        seen[job.key] = None
        return original(self, job)

    with patch.object(Reservations, "_read_job", noted), OpenCycle(hub.state, hub.policy, hub.now):
        pass  # decided and not explained: reasons look at every job
    return sorted(seen)


def test_what_stands_is_not_read() -> None:
    hub = standing()
    assert read(hub) == []
    hub.upsert(waiting("tiny", cpu=1, created=86_400))
    assert read(hub) == [], "a pod that has nothing to do with them"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Deleted(running("on-n1", "n1", cpu=3)), ["default/w1"]),
        (Upserted(waiting("w2", cpu=3, created=2)), ["default/w2"]),
        (Upserted(running("more", "n0", cpu=1)), ["default/w0"]),
        (Upserted(make.node("n9", cpu=3, pods=10)), ["default/w0", "default/w1", "default/w2"]),
        (Upserted(make.queue("other")), ["default/w0", "default/w1", "default/w2"]),
    ],
)
def test_each_event_wakes_those_that_it_could_affect(change: Any, expected: list[str]) -> None:
    hub = standing()
    hub.state.apply(change)
    assert read(hub) == expected


def test_another_policy_looks_at_all() -> None:
    hub = standing()
    hub.policy = reserving(reservedNodePercent=99)
    assert len(read(hub)) == 3


def test_a_node_elsewhere_takes_it() -> None:
    """It has been looked at again, though nothing happened where it waits."""
    hub = standing()
    hub.upsert(make.node("spare", cpu=4, pods=10))
    hub.upsert(running("on-spare", "spare", cpu=2))
    for _ in range(2):
        hub.carry_out(decide_and_explain(hub.state, hub.policy, hub.now))
    assert read(hub) == []
    hub.delete(running("on-spare", "spare", cpu=2))
    plan = decide_and_explain(hub.state, hub.policy, hub.now)
    assert [(binding.pod, binding.node) for binding in plan.bindings] == [("default/w0", "spare")]
    assert [entry.node for entry in plan.released] == ["n0"]


def test_it_ends_when_its_time_is_over() -> None:
    hub = Hub(flat([full("n0", 4), waiting("w0", cpu=4)]), reserving(reservationTimeout=100, reservedNodePercent=100))
    for _ in range(3):
        hub.carry_out(decide_and_explain(hub.state, hub.policy, hub.now))
    assert read(hub) == []
    assert decide_and_explain(hub.state, hub.policy, hub.now).recheck_at == hub.now + 100 * SECOND
    hub.now += 100 * SECOND
    plan = decide_and_explain(hub.state, hub.policy, hub.now)
    assert [(entry.node, entry.reason) for entry in plan.released] == [("n0", "not used within 100 s")]


def test_a_cycle_without_reasons_leaves_the_planned_start_to_be_found() -> None:
    ends = running("on-n0", "n0", cpu=3, annotations=RUNTIME)
    hub = Hub(flat([make.node("n0", cpu=4, pods=10), ends, waiting("w0", cpu=4)]), reserving(reservedNodePercent=100))
    hub.carry_out(decide_and_explain(hub.state, hub.policy, hub.now))
    for _ in range(3):
        decide(hub.state, hub.policy, hub.now)
    [entry] = decide_and_explain(hub.state, hub.policy, hub.now).reservations
    assert entry.planned_start is not None
