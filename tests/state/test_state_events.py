"""Events in any order leave a state that equals a recomputation: objects come, change and go."""

from collections.abc import Iterator

import pytest

from fairway.api.kinds import ApiObject
from fairway.state import invariants
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted
from fairway.state.tables import CPU
from support import objects as make

WEB = {"app": "web"}


class Recorder(ClusterState):
    """A state that is checked after every event."""

    def apply(self, event: Event) -> None:
        super().apply(event)
        invariants.check(self)

    def delete(self, thing: ApiObject) -> None:
        self.apply(Deleted(thing))


@pytest.fixture
def state() -> Iterator[Recorder]:
    state = Recorder()
    yield state
    invariants.check(state)


def used(state: ClusterState, node: str, row: int = CPU) -> int:
    return dict(state.nodes.used.at(state.nodes.rows[node])).get(row, 0)


def held(state: ClusterState, queue: str = "default", row: int = CPU) -> int:
    amounts = state.queues.get(queue).allocated
    return amounts[row] if row < len(amounts) else 0


def test_a_running_pod_counts_on_its_node_and_in_its_queue(state):
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1)])
    assert used(state, "n1") == 1000
    assert held(state) == 1000


def test_a_finished_pod_holds_nothing(state):
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1)])
    state.upsert([make.pod("a", node="n1", cpu=1, phase="Succeeded")])
    assert used(state, "n1") == 0
    assert held(state) == 0


def test_a_terminating_pod_counts_on_its_node_only(state):
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1, leaving=True)])
    assert used(state, "n1") == 1000
    assert held(state) == 0
    assert dict(state.nodes.releasing.at(state.nodes.rows["n1"]))[CPU] == 1000


def test_a_pod_with_a_resource_no_node_has_yet(state):
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1, gpu=1)])
    assert used(state, "n1", state.axis.find(make.GPU)) == 1000


def test_a_foreign_pod_uses_room_and_belongs_to_no_queue():
    state = Recorder(["fairway"])
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1, gpu=1, spec={"schedulerName": "other"})])
    assert used(state, "n1") == 1000
    assert held(state) == 0
    state.delete(make.pod("a"))
    assert used(state, "n1") == 0


def test_a_pod_may_name_a_node_before_the_node_is_there(state):
    state.upsert([make.pod("a", node="n1", cpu=1)])
    assert not state.nodes.alive[state.nodes.rows["n1"]]
    state.upsert([make.node("n1", cpu=4)])
    assert used(state, "n1") == 1000


def test_a_node_vanishes_under_running_pods_and_its_row_is_reused_when_they_are_gone(state):
    state.upsert([make.node("n1", cpu=4), make.node("n2", cpu=4), make.pod("a", node="n1", cpu=1)])
    row = state.nodes.rows["n1"]
    state.delete(make.node("n1"))
    assert state.nodes.names[row] == "n1"
    state.delete(make.pod("a"))
    assert "n1" not in state.nodes.rows
    state.upsert([make.node("n3", cpu=8, labels={"zone": "a"})])
    assert state.nodes.rows["n3"] == row


def test_of_a_node_that_vanished_under_its_pods_nothing_is_left_but_them(state):
    node = make.node("n1", cpu=4, taints=["k=v:NoSchedule"], labels={"zone": "a"})
    state.upsert([node, make.pod("a", node="n1", cpu=1)])
    state.delete(node)
    assert used(state, "n1") == 1000


def test_warnings_about_a_pod_go_with_it(state):
    pod = make.pod("a", cpu=1, annotations={"fairway.dev/starving-after": "soon"})
    state.upsert([pod])
    assert any("starving-after" in warning for warning in state.warnings())
    state.delete(pod)
    assert state.warnings() == []


def test_a_node_comes_back_under_its_pods(state):
    state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1)])
    state.delete(make.node("n1"))
    state.upsert([make.node("n1", cpu=2)])
    assert used(state, "n1") == 1000


def test_a_node_changes_size_labels_taints_and_is_cordoned(state):
    state.upsert([make.node("n1", cpu=4, memory="1Gi", labels={"zone": "a"})])
    state.nodes.labels.column("zone", len(state.nodes))
    state.upsert([make.node("n1", cpu=2, labels={"zone": "b"}, taints=["k=v:NoSchedule"], unschedulable=True)])
    assert dict(state.nodes.allocatable.at(0))[CPU] == 2000
    assert not state.nodes.schedulable[0]


def test_many_nodes_keep_their_ranks_in_string_order(state):
    for name in ("n5", "n1", "n10", "n2", "a", "z", "n3", "n0", "n00", "n11"):
        state.upsert([make.node(name, cpu=1)])
    state.delete(make.node("n10"))
    state.upsert([make.node("n1-x", cpu=1)])
    names = sorted(state.nodes.rows)
    assert sorted(names, key=state.nodes.ranks.__getitem__) == names


def test_a_group_may_come_after_its_pods_and_go_before_them(state):
    group, *pods = make.gang("g", members=2, queue="q", created=5, cpu=1)
    state.upsert([make.queue("q"), *pods])
    assert not state.groups["default/g"].group
    state.upsert([group])
    job = state.groups["default/g"]
    assert (job.queue, job.minimum, job.pending) == ("q", 2, 2)
    state.delete(group)
    assert (job.queue, job.minimum, job.created) == ("default", 1, None)
    for pod in pods:
        state.delete(pod)
    assert state.groups == {}


def test_running_pods_go_with_their_group_to_another_queue(state):
    state.upsert([make.group("g", queue="q1"), make.pod("a", group="g", node="n1", cpu=1)])
    state.upsert([make.group("g", queue="q2")])
    assert (held(state, "q1"), held(state, "q2")) == (0, 1000)


def test_pods_of_another_namespace_never_join_a_group(state):
    state.upsert([make.group("g", "one", minimum=1), make.pod("a", "two", group="g", cpu=1)])
    assert state.groups["one/g"].tasks == []
    assert not state.groups["two/g"].group


@pytest.mark.parametrize("with_object", [True, False])
def test_a_lone_pod_with_the_name_of_a_group_leaves_the_group_alone(state, with_object):
    members = [make.pod("m", group="g", cpu=1)]
    state.upsert([*members, make.pod("g", cpu=1)] + ([make.group("g")] if with_object else []))
    state.delete(make.pod("g"))
    assert [task.key for task in state.groups["default/g"].tasks] == ["default/m"]


def test_a_gated_pod_waits_and_a_terminating_one_without_a_node_does_not(state):
    state.upsert([make.pod("a", cpu=1, gates=["wait"]), make.pod("b", leaving=True)])
    assert [task.state.name for task in state.tasks.values()] == ["GATED"]
    state.upsert([make.pod("a", cpu=1)])
    assert state.gates == {}
    assert state.tasks["default/a"].job.pending == 1


class TestTerms:
    """Selectors over pods find all pods they mean, whichever came first."""

    def test_a_new_term_finds_running_pods(self, state):
        state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1, labels=WEB)])
        state.upsert([make.pod("b", cpu=1, spec=make.anti_affinity(app="web"))])
        assert len(state.tasks["default/a"].matched) == 1

    def test_the_last_owner_takes_the_term_along(self, state):
        state.upsert([make.node("n1", cpu=4), make.pod("a", node="n1", cpu=1, labels=WEB)])
        owner = make.pod("b", cpu=1, node="n1", spec=make.anti_affinity(app="web"))
        state.upsert([owner, make.pod("c", cpu=1, labels=WEB)])
        state.delete(owner)
        assert len(state.terms) == 0
        assert state.terms.owners == {}

    def test_namespace_labels_decide_which_pods_a_term_means(self, state):
        term = {
            "topologyKey": make.HOST,
            "labelSelector": {"matchLabels": WEB},
            "namespaceSelector": {"matchLabels": {"team": "blue"}},
        }
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        state.upsert([make.node("n1", cpu=4), make.pod("a", "one", node="n1", cpu=1, labels=WEB)])
        state.upsert([make.pod("b", "one", cpu=1, labels=WEB), make.pod("c", "two", cpu=1, spec=spec)])
        assert state.tasks["one/a"].matched == ()
        state.upsert([make.namespace("one", team="blue")])
        assert len(state.tasks["one/a"].matched) == 1
        assert state.tasks["one/b"].shape.matched == state.tasks["one/b"].matched
        state.delete(make.namespace("one"))
        assert state.tasks["one/a"].matched == ()


def test_weights_come_from_the_highest_quota_and_fall_back_to_the_next(state):
    state.upsert([make.quota("ns", 3, "a"), make.quota("ns", "1k", "b"), make.quota("ns", "-5", "c")])
    assert state.namespaces.weight("ns") == 1000
    state.delete(make.quota("ns", "1k", "b"))
    assert state.namespaces.weight("ns") == 3
    state.upsert([make.quota("ns", "zero", "a")])
    assert state.namespaces.weight("ns") == 1
    assert [w for w in state.warnings() if "ns/a" in w and "'zero'" in w]


def test_priorities_follow_their_classes(state):
    state.upsert([make.pod("a", cpu=1, spec={"priorityClassName": "high"}), make.pod("b", cpu=1)])
    assert state.tasks["default/a"].priority == 0
    assert state.warnings() == ["priorityclass high not found: treated as if none were named"]
    state.upsert([make.priority_class("high", 10), make.priority_class("usual", 5, default=True)])
    assert [state.tasks[f"default/{name}"].priority for name in "ab"] == [10, 5]
    state.delete(make.priority_class("usual", 5))
    assert state.tasks["default/b"].priority == 0


def test_a_group_that_names_an_unknown_class_is_worth_what_its_pods_are(state):
    state.upsert([make.priority_class("high", 10)])
    state.upsert(make.gang("g", members=1, priority_class="nobody", cpu=1, spec={"priorityClassName": "high"}))
    assert state.groups["default/g"].priority == 10


def test_a_group_counts_no_higher_than_its_most_important_pod(state):
    """A quota on a priority class counts pods: a group must not claim a priority that its pods do not pay for."""
    state.upsert([make.priority_class("high", 10), make.priority_class("middle", 5)])
    state.upsert(make.gang("g", members=1, priority_class="high", cpu=1))
    assert state.groups["default/g"].priority == 0
    state.upsert(make.gang("h", members=1, priority_class="high", cpu=1, spec={"priorityClassName": "middle"}))
    assert state.groups["default/h"].priority == 5
    state.upsert(make.gang("i", members=1, priority_class="middle", cpu=1, spec={"priorityClassName": "high"}))
    assert state.groups["default/i"].priority == 5


def test_queues_are_linked_to_parents_that_come_later_or_go_first(state):
    state.upsert([make.queue("child", parent="top")])
    assert not state.queues["top"].exists
    state.upsert([make.queue("top")])
    assert state.queues["top"].children == {"child"}
    state.delete(make.queue("top"))
    assert state.queues["top"].children == {"child"}
    state.upsert([make.queue("child")])
    assert state.queues["top"].children == set()


def test_a_queue_that_is_deleted_is_no_child_any_more(state):
    state.upsert([make.queue("top"), make.queue("child", parent="top"), make.pod("a", queue="child", cpu=1)])
    state.delete(make.queue("child", parent="top"))
    assert state.queues["top"].children == set()
    assert not state.queues["child"].exists


def test_an_event_about_a_kind_that_does_not_concern_scheduling_is_passed_over(state):
    cluster = make.made("ManagedCluster", "c1")
    state.apply(Upserted(cluster))
    state.apply(Deleted(cluster))
