"""Jobs that no time would help, and jobs of one class that each speak of their own group and pods."""

import pytest

from support import engine
from support.engine import plan
from support.objects import gang, group, node, pod


class TestEachJobSpeaksOfItself:
    """Jobs of one equivalence class wait for the same, but what is said of each is about its own group and pods."""

    def test_of_absent_groups_each_names_its_own(self):
        found = plan(node("n", cpu=4), [pod(f"p-{name}", group=name, cpu=1) for name in "abc"])
        said = {job: row.message for job, row in engine.waiting(found).items()}
        assert said == {name: f"its PodGroup default/{name} does not exist" for name in "abc"}

    def test_a_held_group_holds_no_other(self):
        groups = [group("a", created=1, annotations={"fairway.dev/hold": "true"}), group("b", created=2)]
        found = plan(node("n", cpu=4), groups, [pod(f"p-{name}", group=name, cpu=1) for name in "ab"])
        assert engine.bound(found) == {"p-b": "n"}
        assert engine.waiting(found)["a"].message == "it is held (annotation fairway.dev/hold of PodGroup default/a)"

    def test_gates_are_those_of_its_own_pods(self):
        jobs = [
            [
                group(name, minimum=2, created=i),
                pod(f"{name}-0", group=name, cpu=1),
                pod(f"{name}-1", group=name, cpu=1, gates=[f"gate-{name}"]),
            ]
            for i, name in enumerate("ab")
        ]
        messages = {job: row.message for job, row in engine.waiting(plan(node("n", cpu=4), jobs)).items()}
        assert "gate-a" in messages["a"]
        assert "gate-b" in messages["b"]


class TestNeverFits:
    """A job that the whole cluster could not run is told apart from one that waits."""

    def said(self, *objects):
        (row,) = engine.waiting(plan(*objects)).values()
        return row.reason, row.message.partition("; now ")[0]

    def test_a_gang_that_needs_more_than_the_cluster_has(self):
        nodes = [node(f"n{i}", cpu=64, gpu=4) for i in range(3)]
        assert self.said(nodes, gang("g", members=16, gpu=1)) == (
            "NeverFits", "needs 16 nvidia.com/gpu; the cluster has 12",
        )  # fmt: skip

    def test_a_pod_larger_than_every_node(self):
        assert self.said(node("n", cpu=4), pod("p", cpu=5)) == (
            "NeverFits",
            "a pod needs 5 cpu; the largest node has 4",
        )
        reason, message = self.said(node("a", cpu=4, gpu=0), node("b", cpu=1, gpu=4), pod("p", cpu=2, gpu=2))
        assert (reason, message.startswith("a pod needs more than any single node has")) == ("NeverFits", True)

    def test_pods_that_fit_one_by_one_and_not_together(self):
        assert self.said([node(f"n{i}", cpu=3) for i in range(2)], gang("g", members=3, cpu=2)) == (
            "NeverFits", "needs 3 pods at once; the empty nodes have capacity for 2",
        )  # fmt: skip

    def test_only_nodes_that_it_may_use_count(self):
        nodes = [node("a", cpu=2, labels={"zone": "a"}), node("b", cpu=9)]
        bound_to_a = {"nodeSelector": {"zone": "a"}}
        assert self.said(nodes, pod("p", cpu=4, spec=bound_to_a)) == (
            "NeverFits", "a pod needs 4 cpu; the largest node that it may use has 2",
        )  # fmt: skip

    @pytest.mark.parametrize(
        "state", [{"ready": False}, {"unschedulable": True}, {"taints": ["node.kubernetes.io/not-ready:NoSchedule"]}]
    )
    def test_a_node_that_may_come_back_counts(self, state):
        found = plan(node("small", cpu=1), node("large", cpu=9, **state), pod("p", cpu=4))
        assert engine.reasons(found) != {"p": "NeverFits"}

    def test_a_busy_cluster_is_no_small_one(self):
        busy = pod("r", node="n", cpu=4)
        assert self.said(node("n", cpu=4), busy, pod("p", cpu=4))[0] == "InsufficientResources"
        elastic = [group("g", minimum=2), [pod(f"g-{i}", group="g", cpu=1) for i in range(9)]]
        assert self.said(node("n", cpu=4), busy, elastic)[0] == "InsufficientResources"

    def test_nothing_is_said_of_a_job_whose_other_pods_are_gated(self):
        pods = [pod("g-0", group="g", cpu=2), pod("g-1", group="g", cpu=2, gates=["later"])]
        found = plan(node("n", cpu=1), group("g", minimum=2), pods, policy=engine.policy(plugins=("predicates",)))
        assert engine.reasons(found) == {"g": "InsufficientResources"}
