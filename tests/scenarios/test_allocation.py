"""Who gets room: gangs, elastic jobs, queues and namespaces, within shares and beyond them."""

import pytest

from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.engine import bound, carry_out_bindings, decided, order, plan, policy, reasons, state_of, waiting
from support.scenario import Scenario, nothing_placed, nothing_waits, only, placed, scenarios, waits

NONE = policy(proportion={"lending": "none"})
CAPACITY = policy(plugins=("priority", "gang", "drf", "predicates", "capacity", "nodeorder"))


def _unlike(name, created):
    """A gang of a large task and a small one that can only go to zone x."""
    return [
        make.group(name, minimum=2, created=created),
        make.pod(f"{name}-a", group=name, cpu=3),
        make.pod(f"{name}-b", group=name, cpu=1, spec={"nodeSelector": {"zone": "x"}}),
    ]


SCENARIOS = (
    Scenario(
        "a gang of 3 with room for 2 places none and the next job gets the room",
        nodes=[make.node("n1", cpu=2)],
        jobs=[make.gang("big", members=3, cpu=1, created=1), make.gang("small", members=2, cpu=1, created=2)],
        expect=[placed(big=0, small=2), waits("big", "NeverFits", "needs 3 cpu; the cluster has 2; now 0/1 nodes")],
    ),
    Scenario(
        "a gang says which member could not be placed and why",
        nodes=[make.node("n1", cpu=3), make.node("n2", cpu=8, taints=["gpu=true:NoSchedule"])],
        jobs=[make.pod("r", node="n1", cpu=1), make.gang("g", members=3, cpu=1)],
        expect=waits(
            "g",
            "GangNotReady",
            "2 of the 3 pods it needs at once could be placed; default/g-2: "
            "0/2 nodes fit: 1 insufficient cpu, 1 untolerated taint gpu=true",
        ),
    ),
    Scenario(
        "a high-weight namespace with little demand does not hold the rest back",
        nodes=[make.node("n1", cpu=8)],
        also=[make.quota("heavy", 100)],
        jobs=[make.pods("h", 1, "heavy", cpu=1), make.pods("l", 9, "light", cpu=1)],
        expect=lambda plan: _count(plan, {"heavy": 1, "light": 7}),
    ),
    Scenario(
        "elastic members compete after the minimum: the other job's minimum comes first",
        nodes=[make.node("n1", cpu=4)],
        jobs=[
            make.gang("a", members=4, minimum=2, cpu=1, created=1),
            make.gang("b", members=2, minimum=2, cpu=1, created=2),
        ],
        expect=[placed(a=2, b=2), waits("a", "InsufficientResources")],
    ),
    Scenario(
        "elastic members of equal jobs take turns",
        nodes=[make.node("n1", cpu=6)],
        jobs=[make.gang(name, members=5, minimum=1, cpu=1, created=1) for name in "ab"],
        expect=only("a-0", "b-0", "a-1", "b-1", "a-2", "b-2"),
    ),
    Scenario(
        "a queue over its capability places nothing more though the cluster is empty",
        nodes=[make.node("n1", cpu=100)],
        queues=[make.queue("q", capability={"cpu": 2})],
        jobs=[make.pods("r", 2, queue="q", cpu=1, node="n1"), make.pods("p", 3, queue="q", cpu=1)],
        expect=[
            nothing_placed,
            waits("p-0", "QueueCapability", "queue q has 2 of 2 cpu allocated; 1 more would exceed its capability"),
        ],
    ),
    Scenario(
        "capability holds at every ancestor",
        nodes=[make.node("n1", cpu=100)],
        queues=[
            make.queue("top", capability={"cpu": 3}),
            make.queue("a", parent="top"),
            make.queue("b", parent="top", capability={"cpu": 1}),
        ],
        jobs=[make.pods("a", 5, queue="a", cpu=1), make.pods("b", 5, queue="b", cpu=1)],
        expect=[
            lambda plan: _count(plan, {"a": 2, "b": 1}, by="queue"),
            waits("a-4", "QueueCapability", "queue top has 3 of 3 cpu allocated"),
            waits("b-4", "QueueCapability", "queue b has 1 of 1 cpu allocated"),
        ],
    ),
    Scenario(
        "children share what their parent got",
        nodes=[make.node("n1", cpu=16)],
        queues=[
            make.queue("left"),
            make.queue("right"),
            make.queue("l1", 3, parent="left"),
            make.queue("l2", 1, parent="left"),
        ],
        jobs=[make.pods(name, 20, queue=name, cpu=1) for name in ("l1", "l2", "right")],
        expect=[
            lambda plan: _deserved(plan, left="8", right="8", l1="6", l2="2"),
            lambda plan: _count(plan, {"l1": 6, "l2": 2, "right": 8}, by="queue"),
        ],
    ),
    Scenario(
        "a capability counts pods only where it lists them",
        nodes=[make.node("n1", cpu=100)],
        queues=[make.queue("q", capability={"pods": 2})],
        jobs=make.pods("p", 3, queue="q", cpu=1),
        expect=[placed(p_0="n1", p_1="n1"), waits("p-2", "QueueCapability", "2 of 2 pods")],
    ),
    Scenario(
        "without lending a queue never goes above its share",
        nodes=[make.node("n1", cpu=4)],
        queues=[make.queue("q1"), make.queue("q2")],
        jobs=make.pods("p", 4, queue="q1", cpu=1),
        policy=NONE,
        expect=[
            placed(p_0="n1", p_1="n1"),
            waits("p-2", "QueueOverused", "queue q1 has 2 cpu allocated and deserves 2; 1 more would exceed that"),
        ],
    ),
    Scenario(
        "a guarantee is never lent",
        nodes=[make.node("n1", cpu=10)],
        queues=[make.queue("q1", guarantee={"cpu": 4}), make.queue("q2")],
        jobs=make.pods("p", 10, queue="q2", cpu=1),
        expect=[
            lambda plan: _count(plan, {"p": 6}, by="queue"),
            lambda plan: _deserved(plan, q1="4", q2="6"),
            waits("p-9", "QueueOverused"),
        ],
    ),
    Scenario(
        "guarantees above the cluster are scaled down by share, with a warning",
        nodes=[make.node("n1", cpu=9)],
        queues=[make.queue("q1", guarantee={"cpu": 12}), make.queue("q2", guarantee={"cpu": 6})],
        jobs=[],
        expect=[
            lambda plan: _deserved(plan, q1="6", q2="3"),
            lambda plan: _warned(plan, "guarantees of cpu exceed the cluster"),
        ],
    ),
    Scenario(
        "capacity takes what is written; what is not mentioned is without limit",
        nodes=[make.node("n1", cpu=10, memory="10Gi")],
        queues=[make.queue("q1", deserved={"cpu": 3}), make.queue("q2", deserved={"cpu": 7})],
        jobs=[make.pods("a", 20, queue="q1", cpu=1), make.pods("b", 20, queue="q2", cpu=1)],
        policy=CAPACITY,
        expect=lambda plan: _count(plan, {"a": 3, "b": 7}, by="queue"),
    ),
    Scenario(
        "deserved written on a queue is not used by proportion, and said so",
        nodes=[make.node("n1", cpu=4)],
        queues=[make.queue("q1", deserved={"cpu": 1})],
        jobs=make.pods("a", 4, queue="q1", cpu=1),
        expect=[nothing_waits, lambda plan: _warned(plan, "queue q1: spec.deserved is not used by proportion")],
    ),
    Scenario(
        "a queue of higher priority goes first",
        nodes=[make.node("n1", cpu=1)],
        queues=[make.queue("q1", created=1), make.queue("q2", priority=5, created=2)],
        jobs=[make.pod("a", queue="q1", cpu=1), make.pod("b", queue="q2", cpu=1)],
        expect=only("b"),
    ),
    Scenario(
        "queues tie by creation, then name",
        nodes=[make.node("n1", cpu=1)],
        queues=[make.queue("a", created=2), make.queue("b", created=1)],
        jobs=[make.pod("a", queue="a", cpu=1), make.pod("b", queue="b", cpu=1)],
        expect=only("b"),
    ),
    Scenario(
        "jobs go by priority, then age, then name",
        nodes=[make.node("n1", cpu=10)],
        jobs=[
            make.pod("young", cpu=1, created=9),
            make.pod("old", cpu=1, created=1),
            make.pod("unknown", cpu=1),
            make.pod("also", cpu=1, created=9),
            make.pod("urgent", cpu=1, spec={"priority": 5}),
        ],
        expect=only("urgent", "old", "also", "young", "unknown"),
    ),
    Scenario(
        "tasks of a gang go by priority, then name",
        nodes=[make.node("n1", cpu=10)],
        jobs=[
            make.group("g", minimum=3),
            make.pod("b", group="g", cpu=1),
            make.pod("a", group="g", cpu=1),
            make.pod("c", group="g", cpu=1, spec={"priority": 1}),
        ],
        expect=only("c", "a", "b"),
    ),
    Scenario(
        "priorityFirst puts the priority of jobs before the shares of namespaces",
        nodes=[make.node("n1", cpu=3)],
        jobs=[
            make.pod("r", "a", node="n1", cpu=1),
            make.pod("urgent", "a", cpu=1, spec={"priority": 5}),
            make.pod("usual", "b", cpu=1),
            make.pod("more", "b", cpu=1),
        ],
        policy=policy(drf={"priorityFirst": True}),
        expect=only("a/urgent", "b/more"),
    ),
    Scenario(
        "without it the namespace that holds least goes first",
        nodes=[make.node("n1", cpu=3)],
        jobs=[
            make.pod("r", "a", node="n1", cpu=1),
            make.pod("urgent", "a", cpu=1, spec={"priority": 5}),
            make.pod("usual", "b", cpu=1),
            make.pod("more", "b", cpu=1),
        ],
        expect=only("b/more", "a/urgent"),
    ),
    Scenario(
        "enableNamespaceOrder: false leaves namespaces to their names",
        nodes=[make.node("n1", cpu=3)],
        jobs=[make.pods("p", 3, "a", cpu=1), make.pods("p", 3, "b", cpu=1)],
        policy=policy(drf={"enableNamespaceOrder": False}),
        expect=only("a/p-0", "a/p-1", "a/p-2"),
    ),
    Scenario(
        "each role of a gang has its own minimum",
        nodes=[make.node("n1", cpu=3)],
        jobs=[
            make.group("g", minimum=2, roles={"driver": 1, "worker": 1}),
            *[make.pod(f"w{i}", group="g", role="worker", cpu=1) for i in range(3)],
            make.pod("z-driver", group="g", role="driver", cpu=1),
        ],
        expect=only("z-driver", "w0", "w1"),
    ),
    Scenario(
        "finished and running members count towards the minimum, failed and leaving ones do not",
        nodes=[make.node("n1", cpu=3)],
        jobs=[
            make.group("g", minimum=3),
            make.pod("a", group="g", cpu=1, node="n1"),
            make.pod("b", group="g", cpu=1, node="n1", phase="Succeeded"),
            make.pod("c", group="g", cpu=1),
            make.pod("x", group="g", cpu=1, node="n1", phase="Failed"),
        ],
        expect=only("c"),
    ),
    Scenario(
        "a group whose minimum is zero places what fits",
        nodes=[make.node("n1", cpu=1)],
        jobs=make.gang("g", members=2, minimum=0, cpu=1),
        expect=[only("g-0"), waits("g", "InsufficientResources", "insufficient cpu")],
    ),
    Scenario(
        "BestEffort members are placed with their group, lone ones by backfill",
        nodes=[make.node("n1", cpu=1)],
        jobs=[make.gang("g", members=2), make.pod("lone"), make.pod("p", cpu=1)],
        expect=only("g-0", "g-1", "p", "lone"),
    ),
    Scenario(
        "a lone BestEffort pod waits where the policy does not backfill, whoever else asks for nothing",
        nodes=[make.node("n1", cpu=1)],
        jobs=[make.gang("g", members=1), make.pod("lone")],
        policy=policy(actions="enqueue, allocate"),
        expect=[
            only("g-0"),
            waits("lone", "NotEnqueued", "none of the policy's actions (enqueue, allocate) places it"),
        ],
    ),
    Scenario(
        "the pod limit of a node holds for pods that ask for nothing too",
        nodes=[make.node("n1", cpu=1, pods=1)],
        jobs=make.pods("p", 2),
        expect=[only("p-0"), waits("p-1", "InsufficientResources", insufficient_pods=1)],
    ),
    Scenario(
        "a node without a pod count has no pod limit",
        nodes=[make.node("n1", cpu=1)],
        jobs=make.pods("p", 300),
        expect=nothing_waits,
    ),
    Scenario(
        "what no node has fits nowhere",
        nodes=[make.node("n1", cpu=4)],
        jobs=[make.pod("p", cpu=1, gpu=1), make.pod("q", cpu=1)],
        expect=[only("q"), waits("p", "NeverFits", "a pod needs 1 nvidia.com/gpu; the largest node has 0")],
    ),
    Scenario(
        "pods count in no share",
        nodes=[make.node("n1", cpu=8, pods=4)],
        jobs=[make.pods("a", 3, "a", cpu="1m"), make.pod("b", "b", cpu=2)],
        expect=lambda plan: _shares(plan, a=0.000375, b=0.25),
    ),
    Scenario(
        "cordoned and unready nodes are not part of the cluster to share",
        nodes=[
            make.node("n1", cpu=4),
            make.node("n2", cpu=4, unschedulable=True),
            make.node("n3", cpu=4, ready=False),
        ],
        queues=[make.queue("q1"), make.queue("q2")],
        jobs=[make.pods(name, 9, queue=name, cpu=1) for name in ("q1", "q2")],
        expect=[
            lambda plan: _deserved(plan, q1="2", q2="2"),
            waits(
                "q1-8", "InsufficientResources", insufficient_cpu=1, unschedulable=1, **{"node(s)_were_not_ready": 1}
            ),
        ],
    ),
    Scenario(
        "a gang of unlike tasks may fit where one just like it did not, for others have taken the wrong place from it",
        nodes=[make.node("n1", cpu=3, labels={"zone": "x"}), make.node("n2", cpu=3)],
        jobs=[
            _unlike("first", created=1),
            make.pod("between", cpu=2, created=2, spec={"nodeSelector": {"zone": "x"}}),
            _unlike("second", created=3),
        ],
        policy=policy(plugins=("priority", "gang", "drf", "predicates", "proportion")),
        expect=[placed(first=0, between="n1", second_a="n2", second_b="n1"), waits("first", "InsufficientResources")],
    ),
    Scenario(
        "who wants to be near a pod that is placed in this very cycle goes after it",
        nodes=[make.node("n1", cpu=3), make.node("n2", cpu=3)],
        jobs=[
            make.pod("db", cpu=3, created=1, labels={"app": "db"}, spec={"nodeSelector": {make.HOST: "n2"}}),
            make.pod("web", cpu=1, created=2, spec=make.affinity("zone", app="db")),
            make.pod("near", created=3, group="g", spec=make.affinity(app="db")),
            make.group("g", created=3),
        ],
        expect=[placed(db="n2", near="n2"), waits("web", "PredicateFailed")],
    ),
    Scenario(
        "a pod of several containers, init containers and overhead asks for what Kubernetes adds up",
        nodes=[make.node("n1", cpu=4)],
        jobs=[
            make.pod(
                "p",
                cpu=1,
                spec={
                    "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "3"}}}],
                    "overhead": {"cpu": "1"},
                },
            ),
            make.pod("q", cpu="1m"),
        ],
        expect=[only("p"), waits("q", "InsufficientResources")],
    ),
)


@scenarios(*SCENARIOS)
def test_allocation(scenario):
    scenario.play()


def test_a_namespace_in_two_queues_is_counted_per_queue():
    running = make.pods("r", 4, "ns1", queue="q1", cpu=1, node="n1")
    waiting_pods = [make.pod("a", "ns1", queue="q2", cpu=1), make.pod("b", "ns2", queue="q2", cpu=1)]
    made = plan(make.node("n1", cpu=5), [make.queue("q1"), make.queue("q2")], running, waiting_pods)
    assert order(made) == ["ns1/a"]
    shares = {(row.queue, row.namespace): row.share for row in made.namespaces}
    assert shares[("q1", "ns1")] == 0.8
    assert shares[("q2", "ns1")] == 0.2


def test_weight_changes_take_effect_in_the_next_cycle():
    state = state_of(make.node("n1", cpu=2), make.pod("r", "a", node="n1", cpu=1))
    state.upsert([make.pod("x", "a", cpu=1), make.pod("x", "b", cpu=1)])
    assert order(decided(state)) == ["b/x"]
    state.upsert([make.pod("r", "b", node="n1", cpu=1), make.node("n1", cpu=3), make.quota("a", 2)])
    assert order(decided(state)) == ["a/x"]
    state.upsert([make.quota("a", 1), make.quota("b", 2)])
    assert order(decided(state)) == ["b/x"]


def test_room_that_is_being_released_is_not_bound_onto_and_the_reason_says_so():
    made = plan(
        make.node("n1", cpu=2), make.pod("old", node="n1", cpu=2, leaving=True), make.gang("g", members=2, cpu=1)
    )
    assert bound(made) == {}
    assert reasons(made) == {"g": "WaitingForRelease"}
    assert "fits once the terminating pods are gone" in waiting(made)["g"].message


def test_a_leaving_pod_no_longer_counts_in_queue_and_namespace():
    made = plan(make.node("n1", cpu=4), make.pod("old", node="n1", cpu=2, leaving=True), make.pod("p", cpu=1))
    assert [queue.allocated["cpu"] for queue in made.queues] == ["1"]


def test_bindings_that_were_carried_out_are_not_decided_again():
    pods = make.pods("p", 3, cpu=1)
    state = state_of(make.node("n1", cpu=2), pods)
    carry_out_bindings(state, pods, decided(state))
    assert bound(decided(state)) == {}
    assert reasons(decided(state)) == {"p-2": "InsufficientResources"}


@pytest.mark.parametrize("cpus", [1, 7, 16, 100])
def test_fractions_never_lose_or_invent_a_milli_cpu(cpus):
    queues = [make.queue(f"q{i}", i + 1) for i in range(7)]
    made = plan(make.node("n1", cpu=cpus), queues, [make.pods(f"q{i}", 30, queue=f"q{i}", cpu=5) for i in range(7)])
    deserved = [_milli(queue.deserved["cpu"]) for queue in made.queues if queue.name != "default"]
    assert sum(deserved) == 1000 * cpus
    for share, weight in zip(deserved, range(1, 8), strict=True):
        assert abs(share * 28 - 1000 * cpus * weight) < 28


def test_a_plan_read_late_tells_of_the_state_it_was_made_from():
    gang = make.gang("g", members=4, minimum=2, cpu=1)
    objects = [make.node("n1", cpu=3), gang, make.pods("p", 2, cpu=1)]
    state, other = state_of(objects), state_of(objects)
    expected, late = decided(other).document(), decided(state)
    for member in gang[1:3]:
        state.apply(Upserted(make.placed(member, "n1")))
    state.apply(Upserted(make.group("g", minimum=1, queue="elsewhere")))
    state.refresh()
    assert late.document() == expected


def test_a_plan_read_late_counts_groups_and_namespaces_as_they_were():
    begun = [make.pod("r-0", group="r", node="n1", cpu=1), make.pod("r-1", group="r", cpu=1)]
    other_team = make.pod("elsewhere", "b", node="n1", cpu=1)
    objects = [make.node("n1", cpu=2), make.group("r", minimum=1, phase="Running"), *begun, other_team]
    state, other = state_of(objects), state_of(objects)
    expected, late = decided(other).document(), decided(state)
    assert [(group["name"], group["running"]) for group in expected["status"]["podGroups"]] == [("default/r", 1)]
    state.apply(Deleted(other_team))
    state.apply(Upserted(make.pod("r-0", group="r", node="n1", cpu=1, phase="Failed")))
    state.refresh()
    assert late.document() == expected


def _count(plan, expected, by="namespace"):
    found = dict.fromkeys(expected, 0)
    for binding in plan.bindings:
        namespace, name = binding.pod.split("/")
        found[namespace if by == "namespace" else name.split("-")[0]] += 1
    assert found == expected


def _deserved(plan, **expected):
    deserved = {queue.name: queue.deserved["cpu"] for queue in plan.queues}
    assert {name: deserved[name] for name in expected} == expected


def _shares(plan, **expected):
    assert {row.namespace: row.share for row in plan.namespaces} == expected


def _warned(plan, text):
    assert [warning for warning in plan.warnings if text in warning], plan.warnings


def _milli(text):
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
