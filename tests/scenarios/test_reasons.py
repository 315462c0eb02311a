"""Why a job waits: one reason from one table, in a plain sentence, with every node counted once."""

import pytest

from fairway.scheduler.verdict import Reason
from support import objects as make
from support.engine import PLUGINS, plan, policy, reasons, waiting
from support.scenario import Scenario, nothing_placed, only, placed, scenarios, waits

FIVE = [
    *[make.node(f"small{i}", cpu=1) for i in range(3)],
    *[make.node(f"gpu{i}", cpu=8, taints=["gpu=true:NoSchedule"]) for i in range(2)],
]

SCENARIOS = (
    Scenario(
        "every node is counted once, the most frequent cause first",
        nodes=FIVE,
        jobs=[make.pod("p", cpu=2)],
        expect=waits(
            "p",
            "NeverFits",
            "a pod needs 2 cpu; the largest node that it may use has 1; now 0/5 nodes fit: 3 insufficient cpu, "
            "2 untolerated taint gpu=true",
            **{"insufficient_cpu": 3, "untolerated_taint_gpu=true": 2},
        ),
    ),
    Scenario(
        "a node speaks by its first failing check: predicates before resources, resources in string order",
        nodes=[make.node("n1", cpu=1, memory="1Gi"), make.node("n2", cpu=1, memory="1Gi", labels={"a": "b"})],
        jobs=[make.pod("p", cpu=2, memory="2Gi", gpu=1, spec={"nodeSelector": {"a": "b"}})],
        expect=waits("p", "NeverFits", node_selector=1, insufficient_cpu=1),
    ),
    Scenario(
        "where no node passes the predicates that is the reason",
        nodes=FIVE,
        jobs=[make.pod("p", cpu=1, spec={"nodeSelector": {"disk": "ssd"}})],
        expect=waits("p", "PredicateFailed", "0/5 nodes fit: 5 nodes didn't match the pod's node affinity/selector"),
    ),
    Scenario(
        "a cluster without nodes",
        nodes=[],
        jobs=[make.pod("p", cpu=1)],
        expect=waits("p", "InsufficientResources", "the cluster has no nodes"),
    ),
    Scenario(
        "a queue that does not exist",
        nodes=FIVE,
        jobs=[make.pod("p", queue="nope", cpu=1), make.gang("g", members=1, queue="nope", cpu=99)],
        expect=[
            nothing_placed,
            waits("p", "QueueNotFound", "queue nope does not exist"),
            waits("g", "QueueNotFound", "queue nope does not exist"),
        ],
    ),
    Scenario(
        "a closed queue, and one below a closed queue",
        nodes=FIVE,
        queues=[make.queue("q", state="Closed"), make.queue("c", parent="q")],
        jobs=[make.pod("p", queue="c", cpu=1)],
        expect=[nothing_placed, waits("p", "QueueClosed", "queue q is closed")],
    ),
    Scenario(
        "jobs sit in leaves only",
        nodes=FIVE,
        queues=[make.queue("q"), make.queue("b", parent="q"), make.queue("a", parent="q")],
        jobs=[make.pod("p", queue="q", cpu=1)],
        expect=[nothing_placed, waits("p", "QueueNotLeaf", "queue q has children (a, b)")],
    ),
    Scenario(
        "a parent that does not exist",
        nodes=FIVE,
        queues=[make.queue("q", parent="gone")],
        jobs=[make.pod("p", queue="q", cpu=1)],
        expect=waits("p", "QueueNotFound", "queue gone, an ancestor of q, does not exist"),
    ),
    Scenario(
        "a gang with too few pods",
        nodes=FIVE,
        jobs=[make.group("g", minimum=3), make.pod("a", group="g", cpu=1), make.pod("b", group="g", cpu=1)],
        expect=[nothing_placed, waits("g", "GangTooFewPods", "has 2 of its minimum of 3 pods")],
    ),
    Scenario(
        "a gang with too few pods in a role",
        nodes=FIVE,
        jobs=[
            make.group("g", minimum=2, roles={"driver": 1, "worker": 1}),
            make.pod("a", group="g", role="worker", cpu=1),
            make.pod("b", group="g", role="worker", cpu=1),
        ],
        expect=waits("g", "GangTooFewPods", "has 0 of its minimum of 1 pods in role 'driver'"),
    ),
    Scenario(
        "a gang of which one role finds no node says which of its pods that is",
        nodes=[make.node("n1", cpu=4)],
        jobs=[
            make.group("g", minimum=2, roles={"driver": 1, "worker": 1}),
            *[make.pod(f"a{i}", group="g", role="worker", cpu=1) for i in range(3)],
            make.pod("z-driver", group="g", role="driver", cpu=9),
        ],
        expect=waits("g", "GangNotReady", "1 of the 2 pods it needs at once could be placed; default/z-driver: 0/1"),
    ),
    Scenario(
        "failed and leaving pods do not count in a role either",
        nodes=FIVE,
        jobs=[
            make.group("g", minimum=2, roles={"driver": 1}),
            make.pod("a", group="g", role="driver", phase="Failed", cpu=1),
            make.pod("b", group="g", role="worker", cpu=1),
            make.pod("c", group="g", role="worker", cpu=1),
        ],
        expect=waits("g", "GangTooFewPods", "has 0 of its minimum of 1 pods in role 'driver'"),
    ),
    Scenario(
        "pods that name a group that does not exist",
        nodes=FIVE,
        jobs=[make.pod("a", group="g", cpu=1)],
        expect=[nothing_placed, waits("g", "NotEnqueued", "its PodGroup default/g does not exist")],
    ),
    Scenario(
        "a group without pods",
        nodes=FIVE,
        jobs=[make.group("g", minimum=3)],
        expect=waits("g", "GangTooFewPods", "has 0 of its minimum of 3 pods"),
    ),
    Scenario(
        "a group that is not let in because of its queue's capability",
        nodes=[make.node("n1", cpu=8)],
        queues=[make.queue("q", capability={"cpu": 2})],
        jobs=make.gang("g", members=3, queue="q", cpu=1),
        expect=[
            nothing_placed,
            waits("g", "NotEnqueued", "queue q has 0 of 2 cpu allocated; 3 more would exceed its capability"),
        ],
    ),
    Scenario(
        "minResources speaks for the group",
        nodes=[make.node("n1", cpu=8)],
        queues=[make.queue("q", capability={"cpu": 2})],
        jobs=[make.group("g", queue="q", resources={"cpu": 3}), make.pod("a", group="g", cpu=1)],
        expect=waits("g", "NotEnqueued", "queue q has 0 of 2 cpu allocated; 3 more would exceed its capability"),
    ),
    Scenario(
        "a group that runs already is not asked for its minResources again",
        nodes=[make.node("n1", cpu=8)],
        queues=[make.queue("q", capability={"cpu": 4})],
        jobs=[
            make.group("g", minimum=2, queue="q", resources={"cpu": 3}),
            *[make.pod(f"r{i}", group="g", cpu=1, node="n1") for i in range(3)],
            make.pod("more", group="g", cpu=1),
        ],
        expect=only("more"),
    ),
    Scenario(
        "a group that would touch what is guaranteed to others",
        nodes=[make.node("n1", cpu=8)],
        queues=[make.queue("q"), make.queue("r", guarantee={"cpu": 6})],
        jobs=make.gang("g", members=3, queue="q", cpu=1),
        expect=waits(
            "g", "NotEnqueued", "other queues are guaranteed 6 of 8 cpu; the 3 of its minimum would cut into that"
        ),
    ),
    Scenario(
        "a group that would touch what is guaranteed to a queue beside its own",
        nodes=[make.node("n1", cpu=8)],
        queues=[
            make.queue("top"),
            make.queue("other", guarantee={"cpu": 1}),
            make.queue("q", parent="top"),
            make.queue("r", parent="top", guarantee={"cpu": 5}),
        ],
        jobs=[make.gang("g", members=3, queue="q", cpu=1), make.gang("h", members=2, queue="q", cpu=1)],
        expect=[
            placed(h=2),
            waits(
                "g", "NotEnqueued", "other queues are guaranteed 6 of 8 cpu; the 3 of its minimum would cut into that"
            ),
        ],
    ),
    Scenario(
        "a group that was let in before is not asked again",
        nodes=[make.node("n1", cpu=8)],
        queues=[make.queue("q", capability={"cpu": 2})],
        jobs=[
            make.group("g", minimum=3, queue="q", phase="Inqueue"),
            *[make.pod(f"p{i}", group="g", cpu=1) for i in range(3)],
        ],
        expect=waits("g", "QueueCapability", "queue q has 0 of 2 cpu allocated; 3 more would exceed its capability"),
    ),
    Scenario(
        "members that only together exceed the capability",
        nodes=[make.node("n1", cpu=8, memory="8Gi")],
        queues=[make.queue("q", capability={"cpu": 3})],
        jobs=[
            make.group("g", minimum=4, queue="q", phase="Inqueue"),
            *[make.pod(f"a{i}", group="g", cpu=1) for i in range(2)],
            *[make.pod(f"b{i}", group="g", cpu=1, memory="1Gi") for i in range(2)],
        ],
        expect=[nothing_placed, waits("g", "QueueCapability", "its capability")],
    ),
    Scenario(
        "what comes before nodes speaks first: a queue's capability before room",
        nodes=[make.node("n1", cpu=2)],
        queues=[make.queue("q", capability={"cpu": 2})],
        jobs=[make.pod("huge", queue="q", cpu=3), make.pod("free", queue="default", cpu=3)],
        expect=[
            waits("huge", "QueueCapability", "queue q has 0 of 2 cpu allocated; 3 more would exceed its capability"),
            waits("free", "NeverFits"),
        ],
    ),
    Scenario(
        "a ready job with pending tasks is listed too",
        nodes=[make.node("n1", cpu=1)],
        jobs=make.gang("g", members=3, minimum=1, cpu=1),
        expect=[placed(g=1), waits("g", "InsufficientResources")],
    ),
    Scenario(
        "a missing claim",
        nodes=FIVE,
        jobs=[make.pod("p", cpu=1, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]})],
        expect=waits("p", "PredicateFailed", '5 persistentvolumeclaim "c" not found'),
    ),
    Scenario(
        "nothing of what the policy does places it",
        nodes=FIVE,
        jobs=[make.pod("p", cpu=1)],
        policy=policy(actions="enqueue"),
        expect=waits("p", "NotEnqueued", "none of the policy's actions (enqueue) places it"),
    ),
)


@scenarios(*SCENARIOS)
def test_reasons(scenario):
    scenario.play()


def test_a_pending_job_says_where_it_stands():
    made = plan(
        make.node("n1", cpu=1),
        make.queue("q"),
        make.pods("p", 4, queue="q", cpu=1),
        make.pod("x", "other", queue="q", cpu=1),
        make.pod("y", cpu=2),
    )
    rows = [(row.job, row.queue, row.namespace, row.position) for row in made.pending]
    assert rows == [
        ("default/y", "default", "default", 1),
        ("other/x", "q", "other", 1),
        ("default/p-1", "q", "default", 2),
        ("default/p-2", "q", "default", 3),
        ("default/p-3", "q", "default", 4),
    ]


def test_with_priority_first_the_place_in_line_goes_by_priority():
    urgent = [make.pod("u", "a", cpu=9, spec={"priority": 5}), make.pod("r", "a", node="n1", cpu=1)]
    made = plan(
        make.node("n1", cpu=2),
        urgent,
        make.pod("v", "b", cpu=9),
        policy=policy(drf={"priorityFirst": True}),
    )
    assert [row.job for row in made.pending] == ["a/u", "b/v"]


def test_statuses_of_groups_and_queues():
    made = plan(
        make.node("n1", cpu=2),
        make.gang("ok", members=2, cpu=1, created=1),
        make.gang("wait", members=2, cpu=1, created=2),
        make.group("few", minimum=2),
        make.pod("f", group="few", cpu=1),
    )
    groups = {status.name.split("/")[1]: status for status in made.status.pod_groups}
    assert {name: status.phase for name, status in groups.items()} == {
        "ok": "Running",
        "wait": "Inqueue",
        "few": "Inqueue",
    }
    assert groups["wait"].conditions[0]["reason"] == "InsufficientResources"
    assert groups["ok"].scheduled == 2
    [queue] = made.status.queues
    assert (queue.name, queue.state, queue.pending, queue.inqueue) == ("default", "Open", 2, 1)


def test_all_cluster_dimensions_are_shown_in_canonical_quantities_zeros_too():
    made = plan(make.node("n1", cpu="1500m", memory="2048Mi", gpu=1, ephemeral_storage="1k"), make.pod("p", cpu="0.5"))
    [queue] = made.queues
    assert list(queue.allocated.items()) == [
        ("cpu", "500m"),
        ("memory", "0"),
        ("ephemeral-storage", "0"),
        (make.GPU, "0"),
    ]
    [row] = made.namespaces
    assert (row.share, row.weighted_share) == (0.333333, 0.333333)


def test_every_reason_that_a_plan_gives_is_in_the_table():
    known = {reason.value for reason in Reason}
    for scenario in SCENARIOS:
        made = plan(scenario.nodes, scenario.queues, scenario.also, scenario.jobs, policy=scenario.policy)
        assert set(reasons(made).values()) <= known


@pytest.mark.parametrize("plugin", ["gang", "proportion", "drf", "predicates", "nodeorder"])
def test_a_policy_may_leave_a_plugin_out(plugin):
    kept = [name for name in PLUGINS if name != plugin]
    made = plan(make.node("n1", cpu=2), make.gang("g", members=3, cpu=1), policy=policy(plugins=kept))
    assert len(made.bindings) == (2 if plugin == "gang" else 0)
    assert list(waiting(made)) == ["g"]


def test_a_gated_member_is_named_in_the_cycle_that_places_the_others() -> None:
    gated = make.pod("g-1", group="g", cpu=1, spec={"schedulingGates": [{"name": "hold"}]})
    made = plan(make.node("n1", cpu=4), make.group("g", minimum=1), make.pod("g-0", group="g", cpu=1), gated)
    assert [(row.job, row.reason, row.waiting) for row in made.pending] == [("default/g", "SchedulingGated", 1)]


def test_a_pod_that_fits_only_after_what_was_placed_later_is_not_said_to_be_limited() -> None:
    """The pod that it must be near to is placed by backfill, after its own turn."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    made = plan(
        make.node("n1", cpu=4, memory="2Gi"),
        make.pod("web", labels={"app": "web"}),
        make.pod("p", memory="512Mi", spec={"affinity": affinity}),
    )
    assert [binding.pod for binding in made.bindings] == ["default/web"]
    assert waiting(made)["p"].reason == "PredicateFailed"
    assert "at its turn" in waiting(made)["p"].message
