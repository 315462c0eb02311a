"""An external plugin that raises or answers nonsense: the cycle goes on, and says what happened.

Order and score hooks drop out; hooks that say what may be done fail closed.
"""

import numpy as np
import pytest

from fairway.errors import InputError
from fairway.scheduler.framework.hooks import Check
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN
from fairway.scheduler.verdict import YES, Verdict
from support import objects as make
from support.engine import bound, order, plan, policy, reasons, waiting


def boom(*_args):
    raise RuntimeError("boom")


def plugin(**hooks):
    """A plugin class with these hooks, each a function of the hook's own arguments."""
    methods = {name: staticmethod(call) for name, call in hooks.items()}
    return type("Odd", (), {"name": "odd", "__init__": lambda self, arguments: None, **methods})


def run(*objects, **hooks):
    registry = Registry(BUILT_IN, [plugin(**hooks)])
    return plan(*objects, registry=registry, policy=policy(odd={}, registry=registry))


CLUSTER = [make.node("n1", cpu=2), make.node("n2", cpu=8), make.pods("p", 3, cpu=1)]
WITHOUT = plan(CLUSTER)

ORDER_HOOKS = ("queue_key", "namespace_key", "job_key", "task_key")


@pytest.mark.parametrize("hook", [*ORDER_HOOKS, "score", "score_static", "on_allocate"])
def test_an_order_or_score_hook_that_raises_drops_out(hook):
    made = run(CLUSTER, **{hook: boom})
    assert bound(made) == bound(WITHOUT)
    assert [w for w in made.warnings if w == f"plugin odd: {hook}: RuntimeError: boom: left out of this cycle"]


@pytest.mark.parametrize(
    "answer",
    [None, float("nan"), object(), [], (1, None), {"a": 1}],
    ids=["none", "nan", "object", "list", "none inside", "dict"],
)
@pytest.mark.parametrize("hook", ORDER_HOOKS)
def test_a_key_that_cannot_be_compared_drops_out(hook, answer):
    made = run(CLUSTER, **{hook: lambda *_: answer})
    assert bound(made) == bound(WITHOUT)
    assert [w for w in made.warnings if w.startswith(f"plugin odd: {hook}: TypeError: ")]


def test_keys_of_different_kinds_cannot_be_compared_either():
    made = run(CLUSTER, job_key=lambda job: 1 if job.key.endswith("0") else "one")
    assert bound(made) == bound(WITHOUT)
    assert any("job_key" in warning for warning in made.warnings)


def test_keys_that_can_be_compared_order():
    made = run(CLUSTER, job_key=lambda job: (0.5, [-ord(letter) for letter in job.key] and -int(job.key[-1])))
    assert order(made) == ["p-2", "p-1", "p-0"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda _shape, nodes: np.zeros(nodes.size + 1),
        lambda _shape, nodes: np.zeros((nodes.size, 1)),
        lambda _shape, nodes: np.full(nodes.size, np.nan),
        lambda _shape, nodes: np.full(nodes.size, np.inf),
        lambda _shape, nodes: np.full(nodes.size, 1e300),
        lambda _shape, nodes: np.full(nodes.size, 1e7),
        lambda _shape, nodes: ["much"] * nodes.size,
        lambda _shape, _nodes: None,
    ],
    ids=["long", "table", "nan", "inf", "huge", "giant", "words", "nothing"],
)
def test_scores_that_are_none_drop_out(answer):
    made = run(CLUSTER, score=answer)
    assert bound(made) == bound(WITHOUT)
    assert [w for w in made.warnings if w.startswith("plugin odd: score: ")]


def test_a_single_giant_among_many_nodes_is_found():
    def score(_shape, nodes):
        return np.where(np.array(nodes.names()) == "n07", 5e6, 0.0)

    nodes = [make.node(f"n{i:02d}", cpu=8) for i in range(40)]
    assert [w for w in run(nodes, make.pod("p", cpu=1), score=score).warnings if "score" in w]


def test_a_large_score_is_heard_up_to_its_bound():
    def score(_shape, nodes):
        return np.where(np.array(nodes.names()) == "n3", 400_000.0, 300_000.0)

    nodes = [make.node(f"n{i}", cpu=8) for i in range(5)]
    assert bound(run(nodes, make.pod("p", cpu=1), score=score)) == {"p": "n3"}


def test_a_score_far_below_zero_does_not_make_a_node_infeasible():
    def score(_shape, nodes):
        return np.full(nodes.size, -1e6)

    made = run(CLUSTER, score=score, score_static=score)
    assert len(bound(made)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        boom,
        lambda _shape, nodes: [Check(np.ones(nodes.size + 1, dtype=bool), "x")],
        lambda _shape, nodes: [Check(np.ones(nodes.size), "x")],
        lambda _shape, nodes: [np.ones(nodes.size, dtype=bool)],
        lambda _shape, _nodes: None,
        lambda _shape, nodes: [Check(np.ones(nodes.size, dtype=bool), 5)],
    ],
    ids=["raises", "long", "floats", "no check", "nothing", "no text"],
)
@pytest.mark.parametrize("hook", ["feasible", "feasible_static"])
def test_a_filter_that_fails_lets_nothing_pass(hook, answer):
    made = run(CLUSTER, **{hook: answer})
    assert bound(made) == {}
    assert set(reasons(made).values()) == {"PluginFailed"}
    assert f"plugin odd failed in {hook}: " in waiting(made)["p-0"].message


@pytest.mark.parametrize("answer", [boom, lambda *_: None, lambda *_: "many", lambda *_: 2.5, lambda *_: -1])
def test_an_allocatable_that_fails_allows_nothing(answer):
    made = run(CLUSTER, allocatable=answer)
    assert bound(made) == {}
    assert set(reasons(made).values()) == {"PluginFailed"}
    assert "plugin odd failed in allocatable: " in waiting(made)["p-0"].message


def test_an_allocatable_may_say_more_than_was_asked_for():
    assert len(bound(run(CLUSTER, allocatable=lambda *_: 10**9))) == 3


def test_an_allocatable_that_says_no_is_no_failure():
    made = run(CLUSTER, allocatable=lambda _queue, _shape, _count: 0)
    assert bound(made) == {}
    assert reasons(made)["p-0"] == "QueueOverused"
    assert "plugin odd does not let queue default take more" in waiting(made)["p-0"].message


@pytest.mark.parametrize("answer", [boom, lambda *_: None, lambda *_: True])
@pytest.mark.parametrize("hook", ["job_valid", "enqueueable"])
def test_a_verdict_that_fails_keeps_the_job_out(hook, answer):
    made = run([make.node("n1", cpu=4), make.gang("g", members=1, cpu=1)], **{hook: answer})
    assert bound(made) == {}
    assert reasons(made) == {"g": "PluginFailed"}


@pytest.mark.parametrize("hook", ["job_ready", "overused"])
@pytest.mark.parametrize("answer", [boom, lambda *_: None])
def test_a_yes_or_no_that_fails_is_the_answer_that_places_nothing(hook, answer):
    made = run([make.node("n1", cpu=4), make.gang("g", members=1, cpu=1)], **{hook: answer})
    if hook == "job_ready":
        assert bound(made) == {}
    assert any(f"plugin odd failed in {hook}: " in warning for warning in made.warnings)


@pytest.mark.parametrize("answer", [boom, lambda *_: "two", lambda _s, nodes: np.zeros(nodes.size + 3)])
def test_a_limit_that_fails_lets_a_node_take_one_of_a_gang(answer):
    nodes = [make.node(f"n{i}", cpu=4) for i in range(3)]
    made = run(nodes, make.gang("g", members=3, cpu=1), limit=answer)
    assert sorted(bound(made).values()) == ["n0", "n1", "n2"]
    assert any("plugin odd failed in limit: " in warning for warning in made.warnings)


def test_a_plugin_that_cannot_open_fails_in_everything_it_would_have_said():
    made = run(CLUSTER, open=boom, job_key=lambda _: 0)
    assert bound(made) == bound(WITHOUT)
    assert [w for w in made.warnings if "plugin odd: job_key: RuntimeError: boom" in w]
    made = run(CLUSTER, open=boom, feasible=lambda *_: [])
    assert bound(made) == {}
    assert "plugin odd failed in feasible: RuntimeError: boom" in waiting(made)["p-0"].message


def test_a_plugin_that_cannot_open_and_has_no_other_hook_is_named_once():
    made = run(CLUSTER, open=boom)
    assert bound(made) == bound(WITHOUT)
    named = [warning for warning in made.warnings if "plugin odd" in warning]
    assert named == ["plugin odd could not be created or opened, and is ignored: RuntimeError: boom"]


def test_a_plugin_that_cannot_be_made_fails_the_same_way():
    def init(self, arguments):
        raise RuntimeError("boom")

    odd = type("Odd", (), {"name": "odd", "__init__": init, "feasible": lambda *_: []})
    registry = Registry(BUILT_IN, [odd])
    made = plan(CLUSTER, registry=registry, policy=policy(odd={}, registry=registry))
    assert bound(made) == {}
    assert "RuntimeError: boom" in waiting(made)["p-0"].message


def test_a_key_that_fails_only_for_a_job_that_nothing_fits_drops_out_too():
    def job_key(job):
        if job.key == "default/huge":
            raise RuntimeError("boom")
        return 0

    made = run(CLUSTER, make.pod("huge", cpu=99), job_key=job_key)
    assert bound(made) == bound(WITHOUT)
    assert reasons(made) == {"huge": "NeverFits"}
    assert [w for w in made.warnings if "job_key" in w]


def test_what_a_stranger_says_no_to_is_its_own_reason():
    made = run([make.node("n1", cpu=4), make.pod("p", cpu=1)], job_valid=lambda _: Verdict(False, detail="not today"))
    assert waiting(made)["p"].message == "not today"
    assert len(bound(run(CLUSTER, job_valid=lambda _: YES))) == 3


def test_a_filter_that_looks_at_the_room_is_asked_for_every_task():
    """Packing fills a node at a time; a filter that keeps half a node free must still be heard."""

    def feasible(_shape, nodes):
        return [Check(nodes.idle[0] - 1000 >= nodes.allocatable[0] // 2, "half is kept free")]

    registry = Registry(BUILT_IN, [plugin(feasible=feasible)])
    packing = policy(
        plugins=("priority", "gang", "drf", "predicates", "proportion"), binpack={}, odd={}, registry=registry
    )
    made = plan(
        [make.node("n1", cpu=8), make.node("n2", cpu=8), make.gang("g", members=8, cpu=1)],
        registry=registry,
        policy=packing,
    )
    assert sorted(bound(made).values()) == ["n1"] * 4 + ["n2"] * 4


def test_a_plugin_without_a_name_is_refused():
    with pytest.raises(InputError, match="has no name"):
        Registry(BUILT_IN, [type("Nameless", (), {})])


FULL = [make.node("n1", cpu=2), make.pods("low", 2, cpu=1, node="n1"), make.pod("high", cpu=1, spec={"priority": 5})]


def preempting(**hooks):
    registry = Registry(BUILT_IN, [plugin(**hooks)])
    return plan(FULL, registry=registry, policy=policy(actions="allocate, preempt", odd={}, registry=registry))


def test_a_stranger_may_say_that_a_job_is_not_worth_an_eviction():
    asked = []
    assert len(preempting(job_pipelined=lambda job: asked.append((job.key, job.ready)) or True).evictions) == 1  # type: ignore[func-returns-value]
    assert asked == [("default/high", 1)]
    assert preempting(job_pipelined=lambda _: False).evictions == ()


@pytest.mark.parametrize("answer", [boom, lambda *_: None])
def test_no_pod_is_evicted_through_a_hook_that_fails(answer):
    made = preempting(job_pipelined=answer)
    assert made.evictions == ()
    assert any("plugin odd failed in job_pipelined: " in warning for warning in made.warnings)
