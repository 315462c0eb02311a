"""What users of Volcano know: PodGroups before their pods, roles, marks as labels, flags and the stock policy."""

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
        assert "overcommit is a Volcano plugin without a counterpart here and is left out; enqueue admits" in overcommit
        assert len(bound(plan(node("n", cpu=2), gang("g", members=2, cpu=1), policy=policy))) == 2

    def test_without_it_such_names_are_errors(self):
        with pytest.raises(PolicyError, match="overcommit is a Volcano plugin that Fairway does not have"):
            read(STOCK)

    def test_all_of_volcano_s_names_are_taken_and_no_others(self):
        text = "compatibility: volcano\nmetrics: {}\nactions: [enqueue, allocate, shuffle]\ntiers:\n- plugins:\n"
        text += "".join(f"  - name: {name}\n" for name in ("numaaware", "tdm", "sla", "extender"))
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
            "binpack does not answer that question",)  # fmt: skip
