"""Input that makes no sense: an error that names the place, or a reason; never a traceback, never a wrong sum."""

import pytest

from fairway.scheduler.decide import decide_and_explain
from support import objects as make
from support.cli import run_plan
from support.engine import bound, decided, plan, policy, reasons, state_of, waiting


def refused(objects, tmp_path, *texts):
    result = run_plan(objects, tmp_path)
    assert result.code == 2, result.out
    assert result.out == ""
    for text in texts:
        assert text in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("queues", "circle"),
    [
        ([make.queue("a", parent="b"), make.queue("b", parent="a")], "a -> b -> a"),
        ([make.queue("a", parent="b"), make.queue("b", parent="c"), make.queue("c", parent="b")], "a -> b -> c -> b"),
    ],
)
def test_parents_in_a_circle_are_a_reason_for_the_jobs_there(queues, circle):
    made = plan(make.node("n1", cpu=4), queues, make.pod("p", queue="a", cpu=1), make.pod("q", cpu=1))
    assert bound(made) == {"q": "n1"}
    assert reasons(made) == {"p": "QueueNotFound"}
    assert f"the parents of queue a form a cycle: {circle}" in waiting(made)["p"].message


def test_pods_that_run_in_a_circle_of_queues_are_still_counted():
    made = plan(
        make.node("n1", cpu=4),
        [make.queue("a", parent="b"), make.queue("b", parent="a")],
        make.pod("r", queue="a", node="n1", cpu=3),
        make.pods("p", 2, cpu=1),
    )
    assert len(made.bindings) == 1
    assert {queue.name: queue.allocated["cpu"] for queue in made.queues}["a"] == "3"


def chain(length):
    """Queues q1, q2, ..., each below the one before."""
    return [make.queue(f"q{level}", parent=f"q{level - 1}" if level > 1 else "") for level in range(1, length + 1)]


def test_a_tree_of_queues_has_at_most_64_levels(tmp_path):
    pod = make.pod("p", queue="q64", cpu=1)
    assert bound(plan(make.node("n1", cpu=4), chain(64), pod)) == {"p": "n1"}
    refused(
        [make.node("n1", cpu=4), *chain(66), pod], tmp_path, "spec.parent: is 'q64': queue q65 would be on level 65"
    )
    assert "q66" not in run_plan([make.node("n1", cpu=4), *chain(66), pod], tmp_path).err


def test_a_chain_of_3000_queues_is_a_reason_for_the_jobs_there():
    pods = [make.pod("p", queue="q3000", cpu=1), make.pod("r", queue="q3000", node="n1", cpu=1), make.pod("q", cpu=1)]
    made = plan(make.node("n1", cpu=4), chain(3000), *pods)
    assert bound(made) == {"q": "n1"}
    assert "queue q3000 is nested deeper than 64 levels" in waiting(made)["p"].message
    assert {queue.name: queue.allocated.get("cpu") for queue in made.queues}["q3000"] == "1"


def test_a_queue_that_is_its_own_parent_is_an_error(tmp_path):
    queue = make.manifest(make.queue("a")) | {"spec": {"parent": "a"}}
    refused([queue], tmp_path, "spec.parent: is the queue itself, expected another queue")


def test_a_negative_request_is_an_error(tmp_path):
    pod = make.manifest(make.pod("p", cpu=1))
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "-1"}}
    refused([pod], tmp_path, "spec.containers[0].resources.requests.cpu", "must not be negative")


@pytest.mark.parametrize("cpu", ["9223372036854775", "9e15"])
def test_a_giant_request_fits_nowhere_and_breaks_no_sum(cpu):
    running = [make.pod(f"r{i}", node="n1", cpu=cpu) for i in range(20)]
    made = plan(
        make.node("n1", cpu=4), make.node("n2", cpu=4), running, make.pods("g", 20, cpu=cpu), make.pod("p", cpu=1)
    )
    assert bound(made) == {"p": "n2"}
    assert waiting(made)["g-00"].nodes == {"insufficient cpu": 2}


def test_a_gang_of_giants_is_refused_in_plain_words():
    queue = make.queue("q", capability={"cpu": 4})
    state = state_of(make.node("n1", cpu=4), queue, make.gang("g", members=8200, queue="q", cpu="9e15"))
    assert reasons(decide_and_explain(state, policy(), make.NOW)) == {"g": "NotEnqueued"}


def test_a_request_that_no_number_can_hold_is_an_error(tmp_path):
    pod = make.manifest(make.pod("p", cpu=1))
    pod["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1e30"}}
    refused([pod], tmp_path, "spec.containers[0].resources.requests.memory", "does not fit an int64")


@pytest.mark.parametrize("count", [40, 8200])
def test_nodes_that_report_giant_amounts_are_added_up_exactly(count):
    nodes = [make.node(f"n{i:04d}", cpu=4, memory="7Ei") for i in range(count)]
    state = state_of(nodes, make.pods("p", 3, cpu=1, memory="512Ti"))
    made = decided(state)
    assert len(made.bindings) == 3
    [row] = made.namespaces
    assert row.share == round(1.5 / count, 6)


def test_a_node_that_reports_less_than_it_runs_takes_nothing_more():
    made = plan(
        make.node("n1", cpu=1), make.node("n2", cpu=2), make.pods("r", 3, node="n1", cpu=1), make.pods("p", 3, cpu=1)
    )
    assert set(bound(made).values()) == {"n2"}
    assert len(made.bindings) == 2
    assert made.queues[0].allocated["cpu"] == "5"


def test_a_priority_class_that_does_not_exist_counts_as_none_and_is_said():
    pods = [make.pod("a", cpu=1, spec={"priorityClassName": "nobody"}), make.pod("b", cpu=1, spec={"priority": 1})]
    made = plan(make.node("n1", cpu=1), pods)
    assert bound(made) == {"b": "n1"}
    assert made.warnings == ("priorityclass nobody not found: treated as if none were named",)


def test_two_default_queues_are_an_error_that_names_both_places(tmp_path):
    queue = make.manifest(make.queue("default"))
    refused([queue, queue], tmp_path, "items[1]", "default")


@pytest.mark.parametrize("operator", ["Near", "gt", ""])
def test_an_affinity_with_an_unknown_operator_is_an_error(operator, tmp_path):
    pod = make.manifest(make.pod("p", cpu=1))
    pod["spec"] |= make.node_affinity([{"key": "zone", "operator": operator, "values": ["a"]}])
    refused([pod], tmp_path, "matchExpressions[0].operator", "expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn")


def test_a_weight_that_is_none_counts_as_one_with_a_warning(tmp_path):
    objects = [make.node("n1", cpu=1), make.quota("a", "many"), make.pod("p", "a", cpu=1)]
    result = run_plan(objects, tmp_path)
    assert [row["weight"] for row in result.plan["namespaces"]] == [1]
    assert "resourcequota a/quota: volcano.sh/namespace.weight 'many' is not a whole number from 1 to" in result.err


def test_a_pod_on_a_node_that_is_not_known_holds_its_share_and_harms_nothing_else():
    made = plan(make.node("n1", cpu=2), make.pod("r", "a", node="ghost", cpu=1), make.pods("p", 2, cpu=1))
    assert len(made.bindings) == 2
    assert {row.namespace: row.allocated["cpu"] for row in made.namespaces} == {"a": "1", "default": "2"}


def test_a_minimum_above_what_a_gang_has_and_one_that_no_number_holds(tmp_path):
    group = make.manifest(make.group("g")) | {"spec": {"minMember": 2**40}}
    refused([group], tmp_path, "spec.minMember")


def test_nothing_at_all():
    made = plan()
    assert made.bindings == ()
    assert made.pending == ()
    assert [queue.name for queue in made.queues] == ["default"]


def test_a_cycle_on_bad_input_leaves_the_next_one_in_order():
    state = state_of(make.node("n1", cpu=2), [make.queue("a", parent="b"), make.queue("b", parent="a")])
    state.upsert([make.pod("p", queue="a", cpu=1)])
    assert reasons(decided(state)) == {"p": "QueueNotFound"}
    state.upsert([make.queue("b")])
    assert bound(decided(state)) == {"p": "n1"}
