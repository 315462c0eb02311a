"""What users of Volcano know: PodGroups before their pods, roles, marks as labels, flags and the stock policy."""

import json
from typing import Any

import pytest

from fairway.api.policy import parse_policy
from fairway.errors import PolicyError
from fairway.scheduler.plugins.installed import default_registry
from support import engine
from support.engine import bound, plan
from support.objects import gang, group, node, pod, priority_class, queue

STOCK = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def read(text):
    return parse_policy(text, "policy", default_registry().catalog)


def phases(found):
    return {status.name.removeprefix("default/"): status.phase for status in found.status.pod_groups}


class TestGroupsBeforeTheirPods:
    def test_one_without_resources_is_let_in(self):
        found = plan(node("n", cpu=4), group("g", minimum=3))
        assert phases(found) == {"g": "Inqueue"}
        assert engine.reasons(found) == {"g": "GangTooFewPods"}

    def test_its_minimum_must_fit_the_capability(self):
        def phase(cpu):
            objects = [queue("q", capability={"cpu": 4}), pod("r", node="n", cpu=2, queue="q")]
            return phases(plan(node("n", cpu=9), objects, group("g", minimum=3, queue="q", resources={"cpu": cpu})))[
                "g"
            ]

        assert phase(2) == "Inqueue"
        assert phase(3) == "Pending"

    def test_those_let_in_before_count(self):
        capped = queue("q", capability={"cpu": 4})
        groups = [group(name, queue="q", resources={"cpu": 3}, created=i) for i, name in enumerate("ab")]
        assert phases(plan(node("n", cpu=9), capped, groups)) == {"a": "Inqueue", "b": "Pending"}
        before = [group("a", queue="q", resources={"cpu": 3}, created=9, phase="Inqueue"), groups[1]]
        assert phases(plan(node("n", cpu=9), capped, before)) == {"a": "Inqueue", "b": "Pending"}

    def test_one_that_is_not_let_in_says_which_capability_is_too_small(self):
        capped = queue("q", capability={"cpu": 4})
        groups = [group(name, queue="q", resources={"cpu": 3}, created=i) for i, name in enumerate("ab")]
        found = plan(node("n", cpu=9), capped, groups)
        assert engine.reasons(found) == {"a": "GangTooFewPods", "b": "NotEnqueued"}
        assert engine.waiting(found)["b"].message == (
            "queue q has 0 of 4 cpu allocated and 3 admitted for groups without pods; its minResources of 3 more would "
            "exceed the capability"
        )

    def test_a_closed_or_missing_queue_lets_none_in(self):
        closed = queue("q", state="Closed")
        found = plan(node("n", cpu=9), closed, group("g", queue="q"), group("h", queue="none"))
        assert phases(found) == {"g": "Pending", "h": "Pending"}


class TestGroupsWithSomeOfTheirPods:
    """Volcano's job controller creates missing pods only for a group that is Inqueue, after a restart too (12.1)."""

    def phase(self, *pods, phase="", policy=None):
        found = plan(node("n", cpu=9), group("g", minimum=3, phase=phase), *pods, policy=policy)
        assert engine.reasons(found) == {"g": "GangTooFewPods"}
        return phases(found)["g"]

    @pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate, backfill"])
    def test_they_are_let_in_like_those_without(self, actions):
        policy = engine.policy(actions=actions)
        assert self.phase(policy=policy) == "Inqueue"
        assert self.phase(pod("a", group="g", cpu=1), policy=policy) == "Inqueue"
        assert self.phase(pod("a", group="g", cpu=1, node="n"), policy=policy) == "Inqueue"
        running, waiting = pod("a", group="g", cpu=1, node="n"), pod("b", group="g", cpu=1)
        assert self.phase(running, waiting, policy=policy) == "Inqueue"

    def test_none_goes_back_because_its_pods_went_away(self):
        capped = queue("q", capability={"cpu": 1})
        held = pod("r", node="n", cpu=1, queue="q")
        small = group("g", minimum=3, queue="q", phase="Inqueue", resources={"cpu": 3})
        assert phases(plan(node("n", cpu=9), capped, held, small)) == {"g": "Inqueue"}

    def test_one_whose_pods_are_finished_does_not_wait(self):
        done = [pod(f"a-{i}", group="g", cpu=1, node="n", phase="Failed") for i in range(2)]
        assert engine.waiting(plan(node("n", cpu=9), group("g", minimum=3, phase="Running"), done)) == {}

    def test_one_stopped_by_its_queue_at_allocation_is_let_in(self):
        spent = [queue("q", capability={"cpu": 2}), pod("r", node="n", cpu=1, queue="q")]
        pods = [pod(f"g-{i}", group="g", cpu=1) for i in range(2)]
        found = plan(node("n", cpu=9), spent, group("g", minimum=1, queue="q"), pods)
        assert phases(found) == {"g": "Running"}


class TestOvercommit:
    """`minResources` of all admitted groups, as far as they are not allocated, are kept free for them (5.4)."""

    def driver(self, number, **more):
        resources = {"cpu": 4}
        return [
            group(f"app{number}", minimum=1, resources=resources, created=number, **more),
            pod(f"driver{number}", group=f"app{number}", cpu=1),
        ]

    def test_six_spark_drivers_do_not_fill_a_cluster_that_runs_two_applications(self):
        found = plan(node("n", cpu=8), [self.driver(number) for number in range(6)])
        assert sorted(bound(found)) == ["driver0", "driver1"]
        assert engine.reasons(found) == {f"app{number}": "NotEnqueued" for number in range(2, 6)}
        assert engine.waiting(found)["app2"].message == (
            "the cluster has 8 cpu, 0 allocated and 8 more admitted; its minResources of 4 more would exceed 1.2 times "
            "the cluster (overcommitFactor)"
        )
        assert phases(found)["app2"] == "Pending"

    @pytest.mark.parametrize("phase", ["", "Inqueue", "Running"])
    def test_an_application_keeps_counting_while_it_runs(self, phase):
        running = [
            [
                group(f"app{i}", minimum=1, resources={"cpu": 4}, phase=phase),
                pod(f"d{i}", group=f"app{i}", cpu=1, node="n"),
            ]
            for i in range(2)
        ]
        found = plan(node("n", cpu=8), running, self.driver(5))
        assert bound(found) == {}
        assert "2 allocated and 6 more admitted" in engine.waiting(found)["app5"].message
        executors = [pod(f"e{i}-{j}", group=f"app{i}", cpu=1) for i in range(2) for j in range(3)]
        found = plan(node("n", cpu=8), running, executors, self.driver(5))
        assert sorted(bound(found)) == sorted(one.metadata.name for one in executors)

    def test_what_finished_executors_had_is_not_kept_free(self):
        pods = [pod("d", group="app", cpu=1, node="n")]
        pods += [pod(f"e{i}", group="app", cpu=1, node="n", phase="Succeeded") for i in range(3)]
        found = plan(
            node("n", cpu=8), group("app", minimum=1, resources={"cpu": 8}, phase="Running"), pods, self.driver(1)
        )
        assert list(bound(found)) == ["driver1"]

    def test_an_application_that_ended_is_not_counted(self):
        ended = [
            group("a", resources={"cpu": 8}, phase="Completed"),
            group("b", resources={"cpu": 8}, phase="Running"),
            [group("c", resources={"cpu": 8}, phase="Running"), pod("c", group="c", cpu=1, node="n", phase="Failed")],
        ]
        assert list(bound(plan(node("n", cpu=8), ended, self.driver(1)))) == ["driver1"]

    def test_the_factor_is_exact(self):
        def lets_in(total, need, factor):
            chosen = engine.policy(
                actions=[{"name": "enqueue", "arguments": {"overcommitFactor": factor}}, {"name": "allocate"}]
            )
            small = [group("g", resources={"cpu": need}), pod("p", group="g", cpu=1)]
            return "p" in bound(plan(node("n", cpu=total), small, policy=chosen))

        assert lets_in(10, 11, 1.1), "in binary floating point 1.1 * 10 is 11.000000000000002"
        assert not lets_in(10, 12, 1.1)
        assert lets_in(30, 33, 1.1)
        assert not lets_in(100, "110.001", 1.1)

    @pytest.mark.parametrize(("compatible", "phase"), [(False, "Pending"), (True, "Inqueue")])
    def test_for_volcano_s_users_all_nodes_count_whole(self, compatible, phase):
        """16 CPUs on nodes that anybody may use, 4 on a control plane node: 24 with the factor, and 24 are wanted."""
        chosen = read(("compatibility: volcano\n" if compatible else "") + "actions: enqueue, allocate")
        control = node("c", cpu=4, taints=["node-role.kubernetes.io/control-plane:NoSchedule"])
        nodes = [control, *(node(f"w{i}", cpu=4) for i in range(4))]
        busy = [pod(f"b{i}", cpu=4, node=f"w{i}", spec={"schedulerName": "other"}) for i in range(2)]
        used = [pod(f"u{i}", cpu=4, node=f"w{i}") for i in range(2, 4)]
        wants = group("g", resources={"cpu": 8})
        assert phases(plan(nodes, busy, used, wants, policy=chosen))["g"] == phase

    def test_groups_without_pods_take_part_in_allocates_order(self):
        groups = [
            group("young", resources={"cpu": 9}, created=2),
            group("old", resources={"cpu": 9}, created=1),
        ]
        assert phases(plan(node("n", cpu=8), groups)) == {"old": "Inqueue", "young": "Pending"}
        urgent = [priority_class("high", 9), group("urgent", resources={"cpu": 9}, created=3, priority_class="high")]
        assert phases(plan(node("n", cpu=8), groups, urgent))["urgent"] == "Inqueue"

    def test_one_that_waited_for_long_is_let_in_whatever_the_factor_says(self):
        def phase(created, **arguments):
            actions: list[Any] = [{"name": "enqueue", "arguments": arguments}, {"name": "allocate"}]
            large = group("g", resources={"cpu": 8}, created=created)
            busy = pod("r", node="n", cpu=4)
            found = plan(node("n", cpu=8), busy, large, policy=engine.policy(actions=actions))
            return phases(found)["g"], found.recheck_at

        day = 24 * 3600
        assert phase(0) == ("Pending", None)
        assert phase(0, admitAfter=day - 1)[0] == "Inqueue"
        waits, again = phase(0, admitAfter=day)
        assert waits == "Pending", "longer, not as long"
        assert again is not None

    def test_the_threshold_of_reserve_is_the_default(self):
        reserve = {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 3600}}
        actions: list[Any] = [{"name": "enqueue"}, reserve, {"name": "allocate"}]
        chosen = engine.policy(actions=actions)
        large = [group("g", resources={"cpu": 8}, created=0), group("h", resources={"cpu": 8}, created=24 * 3600 - 60)]
        found = plan(node("n", cpu=8), pod("r", node="n", cpu=4), large, policy=chosen)
        assert phases(found) == {"g": "Inqueue", "h": "Pending"}

    def test_names_of_quotas_in_it_are_no_resources(self):
        resources = {"cpu": 1, "requests.cpu": 1, "limits.cpu": 1, "count/pods": 1, "pods": 1}
        assert phases(plan(node("n", cpu=8), group("g", resources=resources))) == {"g": "Inqueue"}

    def test_refused_jobs_stay_out_of_planned_starts(self):
        ahead = {"name": "backfill", "arguments": {"mode": "conservative"}}
        actions: list[Any] = [{"name": "enqueue"}, {"name": "allocate"}, ahead]
        chosen = engine.policy(actions=actions)
        found = plan(node("n", cpu=8), [self.driver(number) for number in range(3)], policy=chosen)
        assert sorted(bound(found)) == ["driver0", "driver1"]


class TestTheRootQueue:
    """Volcano creates a Queue for the top of the tree."""

    ROOT = queue("root", weight=9, deserved={"cpu": 4})

    @pytest.mark.parametrize("lending", ["default", "none"])
    def test_it_takes_no_share_from_its_children(self, lending):
        policy = engine.policy(plugins=engine.PLUGINS, proportion={"lending": lending})
        child = queue("q", parent="root")
        pods = [pod(f"p{i}", cpu=1, queue="q") for i in range(4)]
        found = plan(node("n", cpu=4), self.ROOT, child, pods, policy=policy)
        assert len(bound(found)) == 4
        assert [row.name for row in found.queues] == ["default", "q"]

    def test_no_job_runs_in_it(self):
        found = plan(node("n", cpu=4), self.ROOT, pod("p", cpu=1, queue="root"))
        assert engine.reasons(found) == {"p": "QueueNotLeaf"}


class TestExcludedTaints:
    """Nodes that ordinary pods cannot use do not count into the cluster's total (2.4)."""

    def deserved(self, *taints, **policy):
        chosen = read(json.dumps(policy)) if policy else None
        nodes = [node("n", cpu=4), node("m", cpu=4, taints=taints)]
        found = plan(nodes, [pod(f"p{i}", cpu=1) for i in range(9)], policy=chosen)
        return found.queues[0].deserved["cpu"]

    @pytest.mark.parametrize(
        "taint",
        [
            "node-role.kubernetes.io/control-plane:NoSchedule",
            "node-role.kubernetes.io/master:NoExecute",
            "node.kubernetes.io/anything:NoSchedule",
            "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
            "ToBeDeletedByClusterAutoscaler=1:NoSchedule",
        ],
    )
    def test_such_a_node_is_not_divided_among_queues(self, taint):
        assert self.deserved(taint) == "4"

    @pytest.mark.parametrize(
        "taint",
        [
            "node-role.kubernetes.io/control-plane:PreferNoSchedule",
            "gpu=true:NoSchedule",
            "node.kubernetes.io:NoSchedule",
        ],
    )
    def test_others_count(self, taint):
        assert self.deserved(taint) == "8"

    def test_the_policy_says_which(self):
        taints = "gpu:NoSchedule", "node-role.kubernetes.io/control-plane:NoSchedule"
        assert self.deserved(taints[0], capacity={"excludedTaints": ["gpu"]}) == "4"
        assert self.deserved(taints[1], capacity={"excludedTaints": ["gpu"]}) == "8"
        assert self.deserved(taints[1], capacity={"excludedTaints": []}) == "8"

    def test_a_pod_that_tolerates_it_may_run_there(self):
        tolerant = pod("p", cpu=3, spec={"tolerations": [{"operator": "Exists"}]})
        control = node("m", cpu=4, taints=["node-role.kubernetes.io/control-plane:NoSchedule"])
        assert bound(plan(node("n", cpu=2), control, tolerant)) == {"p": "m"}

    def test_a_mistake_is_named(self):
        with pytest.raises(
            PolicyError, match=r"capacity.excludedTaints\[1\]: the text 'a b' is not allowed, expected the key"
        ):
            read('capacity: {excludedTaints: [gpu, "a b"]}')
        with pytest.raises(PolicyError, match="'gpu' is listed twice"):
            read("capacity: {excludedTaints: [gpu, gpu]}")


class TestRoles:
    def members(self):
        return [pod(f"g-{role}-{i}", group="g", role=role, cpu=1) for role in ("ps", "worker") for i in range(2)]

    def test_replicas_in_place_of_minimums_leave_the_job_elastic(self):
        found = plan(node("n", cpu=3), group("g", minimum=2, roles={"ps": 2, "worker": 2}), self.members())
        assert len(bound(found)) == 3, "the roles add up to more than the minimum: they are no minimums"

    def test_minimums_count_while_they_fit(self):
        found = plan(node("n", cpu=3), group("g", minimum=4, roles={"ps": 2, "worker": 2}), self.members())
        assert bound(found) == {}

    def test_the_role_may_be_a_label(self):
        pods = [pod(f"g-{i}", group="g", cpu=1, labels={"volcano.sh/task-spec": "ps"}) for i in range(2)]
        found = plan(node("n", cpu=3), group("g", minimum=1, roles={"ps": 1}), pods)
        assert len(bound(found)) == 2


class TestMarks:
    PREEMPT = engine.policy(actions="allocate, preempt", plugins=engine.PLUGINS)

    def evicted(self, policy=PREEMPT, **marks):
        victim = pod("v", node="n", cpu=1, spec={"priority": 0}, **marks)
        found = plan(
            node("n", cpu=1), priority_class("high", 9), victim, pod("c", cpu=1, spec={"priority": 9}), policy=policy
        )
        return [eviction.pod for eviction in found.evictions]

    @pytest.mark.parametrize("where", ["labels", "annotations"])
    def test_preemptable_and_cooldown_as_label_or_annotation(self, where):
        assert self.evicted() == ["default/v"]
        assert self.evicted(**{where: {"volcano.sh/preemptable": "false"}}) == []
        assert self.evicted(created=24 * 3600 - 60, **{where: {"volcano.sh/cooldown-time": "10m"}}) == []
        assert self.evicted(created=24 * 3600 - 660, **{where: {"volcano.sh/cooldown-time": "10m"}}) == ["default/v"]

    def test_a_flag_on_priority_ends_preemption_by_priority(self):
        off = engine.policy(actions="allocate, preempt", plugins=engine.PLUGINS, priority={"enablePreemptable": False})
        assert self.evicted(off) == []

    def test_a_flag_on_drf_ends_preemption_by_share(self):
        def evictions(**flags):
            policy = engine.policy(actions="allocate, preempt", plugins=engine.PLUGINS, **flags)
            rich = [pod(f"r-{i}", "rich", node="n", cpu=1) for i in range(4)]
            return len(plan(node("n", cpu=4), rich, pod("p", "poor", cpu=1), policy=policy).evictions)

        assert evictions() == 1
        assert evictions(drf={"enablePreemptable": False}) == 0


class TestPolicy:
    def test_the_stock_policy_loads_when_it_asks_for_compatibility(self):
        policy = read(f"compatibility: volcano\n{STOCK}")
        assert [plugin.name for plugin in policy.plugins()] == [
            "priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack",
        ]  # fmt: skip
        [gang_flag, overcommit] = policy.warnings
        assert "enablePreemptable: has no effect: a gang is always evicted whole or not at all" in gang_flag
        assert "overcommit is a Volcano plugin; it is a part of the enqueue action here" in overcommit
        assert len(bound(plan(node("n", cpu=2), gang("g", members=2, cpu=1), policy=policy))) == 2

    def test_without_it_such_names_are_errors(self):
        expected = (
            "overcommit is a Volcano plugin that Fairway does not have; the enqueue action has the argument "
            "overcommitFactor; with `compatibility: volcano` at the top of the policy it is left out with a warning"
        )
        with pytest.raises(PolicyError, match=expected):
            read(STOCK)

    def test_its_factor_becomes_that_of_enqueue(self):
        text = STOCK.replace("- name: overcommit", "- name: overcommit\n    arguments: {overcommit-factor: '1.5'}")
        policy = read(f"compatibility: volcano\n{text}")
        assert policy.arguments("enqueue").overcommit_factor == 1.5
        assert "it is read as the argument overcommitFactor of the enqueue action" in policy.warnings[-1]

    def test_switches_of_predicates_are_known(self):
        switched = STOCK.replace(
            "- name: predicates",
            "- name: predicates\n    arguments:\n"
            "      predicate.DynamicResourceAllocationEnable: true\n      predicate.NodePortsEnable: false",
        )
        policy = read(f"compatibility: volcano\n{switched}")
        (off,) = [warning for warning in policy.warnings if "predicate." in warning]
        assert off.endswith("predicate.NodePortsEnable: has no effect: predicates always makes this check")

    def test_all_of_volcano_s_names_are_taken_and_no_others(self):
        text = "compatibility: volcano\nmetrics: {}\nactions: [enqueue, allocate, shuffle]\ntiers:\n- plugins:\n"
        text += "".join(f"  - name: {name}\n" for name in ("numaaware", "tdm", "usage", "extender"))
        text += "  - name: predicates\n    arguments: {predicate.GPUSharingEnable: true}\n"
        text += "  - name: gang\n    enableHierarchy: true\n"
        policy = read(text)
        assert len(policy.warnings) == 8
        assert [action.name for action in policy.actions] == ["enqueue", "allocate"]
        with pytest.raises(PolicyError, match="gpupack is a KAI Scheduler plugin"):
            read("compatibility: volcano\ntiers:\n- plugins:\n  - name: gpupack\n")
        with pytest.raises(PolicyError, match="unknown plugin 'gnag'"):
            read("compatibility: volcano\ntiers:\n- plugins:\n  - name: gnag\n")

    def test_other_compatibility_is_an_error(self):
        with pytest.raises(PolicyError, match="compatibility: the text 'slurm' is not allowed"):
            read("compatibility: slurm\n")

    def test_a_flag_without_effect_is_said(self):
        policy = read("tiers:\n- plugins:\n  - name: binpack\n    enableJobOrder: false\n")
        assert policy.warnings == ("policy:4: tiers[0].plugins[0].enableJobOrder: has no effect: "
            "binpack has no such hook",)  # fmt: skip


def test_for_volcano_s_users_what_foreign_pods_use_is_taken_off_after_the_factor():
    """They fill a cluster in which a job shall wait for reclaim, and that job must be admitted first."""
    foreign, ours = pod("f", node="n", cpu=13, spec={"schedulerName": "other"}), pod("r", node="n", cpu=3)

    def phase(cpu, *compatibility):
        state = engine.state_of(
            node("n", cpu=16), foreign, ours, group("g", resources={"cpu": cpu}), scheduler_names=["fairway"]
        )
        chosen = read("\n".join([*compatibility, "actions: enqueue, allocate"]))
        return phases(engine.decided(state, chosen))["g"]

    assert phase(3, "compatibility: volcano") == "Inqueue"  # 1.2 * 16 - 13 - 3 = 3.2
    assert phase(4, "compatibility: volcano") == "Pending"
    assert phase("0.6") == "Inqueue"  # 1.2 * (16 - 13) - 3
    assert phase("0.7") == "Pending"


@pytest.mark.parametrize(("compatibility", "victims"), [("", 4), ("compatibility: volcano\n", 2)])
def test_for_volcano_s_users_pods_above_the_minimum_evict_nothing(compatibility, victims):
    chosen = read(
        f"{compatibility}actions: allocate, preempt\ntiers: [{{plugins: [{{name: priority}}, {{name: gang}}]}}]"
    )
    low = [group("low", minimum=1), *(pod(f"l{i}", group="low", cpu=1, node="n") for i in range(4))]
    high = [group("high", minimum=2), *(pod(f"h{i}", group="high", cpu=1, spec={"priority": 9}) for i in range(4))]
    found = plan(node("n", cpu=4), low, high, policy=chosen)
    gone = {entry.pod for entry in found.evictions}
    assert len(gone) == 2
    left = [thing for thing in low if f"default/{thing.metadata.name}" not in gone]
    placed = [pod(f"h{i}", group="high", cpu=1, node="n", spec={"priority": 9}) for i in range(2)]
    found = plan(node("n", cpu=4), left, high[0], placed, high[3:], policy=chosen)
    assert len(gone) + len(found.evictions) == victims


def test_gated_pods_claim_nothing():
    _, *gated = gang("g", members=4, cpu=1, gates=["wait"])
    waits = [group("g", minimum=4, resources={"cpu": 4}, phase="Inqueue"), *gated]
    assert phases(plan(node("n", cpu=4), waits, group("h", resources={"cpu": 4})))["h"] == "Inqueue"


@pytest.mark.parametrize(
    ("compatibility", "reason"),
    [("", "other queues are guaranteed 2 of 2 cpu; the 1 of its minimum would cut into that"), ("volcano", "")],
)
def test_for_volcano_s_users_guarantees_are_set_aside_from_whole_nodes(compatibility, reason):
    """A queue is guaranteed all that pods of other schedulers leave; whole nodes have more than that."""
    foreign = pod("f", node="n", cpu=14, spec={"schedulerName": "other"})
    state = engine.state_of(
        node("n", cpu=16),
        foreign,
        queue("guaranteed", guarantee={"cpu": 2}),
        queue("other"),
        [group("g", queue="other"), pod("g-0", group="g", cpu=1)],
        scheduler_names=["fairway"],
    )
    said = f"compatibility: {compatibility}\n" if compatibility else ""
    chosen = read(f"{said}actions: enqueue, allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: proportion}}]}}]")
    found = engine.decided(state, chosen)
    assert [entry.pod for entry in found.bindings] == ([] if reason else ["default/g-0"])
    assert [row.message for row in engine.waiting(found).values()] == ([reason] if reason else [])
