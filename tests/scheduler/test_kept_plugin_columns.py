"""Columns over nodes are kept from cycle to cycle, also under external plugins that say what theirs rest on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.hooks import COLUMN_HOOKS
from fairway.errors import InvariantError
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.paranoid import check
from fairway.scheduler.placement.node_view import Check, KeptColumns
from fairway.scheduler.plugins import BUILT_IN
from fairway.state.cluster import Upserted
from support import objects as make
from support.engine import policy, state_of
from support.objects import NOW

CLUSTER = [make.node("n1", cpu=4), make.node("n2", cpu=8), make.pod("small", cpu=1), make.pod("large", cpu=2)]


class World:
    """A state and a policy with an external plugin that has these hooks; `asked` counts its calls by hook."""

    def __init__(self, *objects, **hooks):
        self.asked = dict.fromkeys(hooks, 0)
        methods = {name: self._counted(name, call) for name, call in hooks.items()}
        plugin = type("Other", (), {"name": "other", "__init__": lambda self, arguments: None, **methods})
        self.registry = Registry(BUILT_IN, [plugin])
        self.policy = policy(other={}, registry=self.registry)
        self.state = state_of(*objects)

    def _counted(self, name, call):
        def hook(_plugin, *arguments):
            self.asked[name] += 1
            return call(*arguments)

        return hook

    def cycle(self):
        plan = decide_and_explain(self.state, self.policy, NOW, registry=self.registry)
        return plan.document()

    def check(self):
        check(self.state, self.policy, NOW, registry=self.registry)


def names_first(shape, nodes):
    return np.array([100.0 if name == "n2" else 0.0 for name in nodes.names()])


def nothing_else(state):
    return ()


def test_answers_by_shape_and_node_are_asked_for_once():
    world = World(CLUSTER, score_static=names_first, basis=nothing_else)
    first = world.cycle()
    asked = world.asked["score_static"]
    assert world.cycle() == first
    assert world.asked["score_static"] == asked
    world.check()


def test_without_a_basis_they_are_asked_for_in_every_cycle():
    world = World(CLUSTER, score_static=names_first)
    first = world.cycle()
    asked = world.asked["score_static"]
    assert world.cycle() == first
    assert world.asked["score_static"] == 2 * asked


def test_another_basis_asks_again():
    world = World(CLUSTER, score_static=names_first, basis=lambda state: len(state.nodes.rows))
    world.cycle()
    asked = world.asked["score_static"]
    world.state.apply(Upserted(make.node("n3", cpu=1)))
    world.cycle()
    assert world.asked["score_static"] > asked
    world.check()


@pytest.mark.parametrize("hook", ["job_key", "queue_key", "limit", "reserve_score"])
def test_hooks_that_are_in_no_column_leave_them_alone(hook):
    """What the built-in plugins have computed stays: nothing of it rests on the external one."""
    answers = {"limit": lambda shape, nodes: None, "reserve_score": lambda shape, nodes: np.zeros(nodes.size)}
    world = World(CLUSTER, **{hook: answers.get(hook, lambda about: 0)})
    world.cycle()
    before = world.state.derived
    kept = {id(shape) for shape in _kept(world)}
    world.cycle()
    assert world.state.derived is before
    assert kept
    assert {id(shape) for shape in _kept(world)} == kept
    assert hook not in COLUMN_HOOKS


def _kept(world):
    kept = world.state.derived.kept(KeptColumns)
    return kept._columns.shapes()


def test_a_column_in_which_a_plugin_failed_is_not_kept():
    """It is asked again in the next cycle, and heard if it answers then."""
    broken = [True]

    def feasible_static(shape, nodes):
        if broken[0]:
            raise RuntimeError("not today")
        return [Check(np.ones(nodes.size, dtype=np.bool_), "never")]

    world = World(CLUSTER, feasible_static=feasible_static, basis=nothing_else)
    assert world.cycle()["bindings"] == []
    assert "not today" in str(world.cycle()["warnings"])
    broken[0] = False
    found = world.cycle()
    assert len(found["bindings"]) == 2
    assert not found["warnings"]


def test_paranoid_names_the_plugin_that_leaves_something_out_of_its_basis():
    favour = ["n1"]
    world = World(
        CLUSTER,
        score_static=lambda shape, nodes: np.array([50.0 * (name == favour[0]) for name in nodes.names()]),
        basis=nothing_else,
    )
    world.cycle()
    world.check()
    favour[0] = "n2"
    with pytest.raises(InvariantError, match=r"key of node n\d for .*external plugins with a say on nodes: other"):
        world.check()


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 9)), max_size=4))
def test_plans_are_the_same_with_columns_kept_and_not(changes):
    """Nodes change size between cycles; one plugin says what its columns rest on, its twin does not."""
    kept = World(CLUSTER, score_static=names_first, basis=nothing_else)
    fresh = World(CLUSTER, score_static=names_first)
    for name, cpu in changes:
        for world in (kept, fresh):
            world.state.apply(Upserted(make.node(name, cpu=cpu)))
        assert kept.cycle() == fresh.cycle()
    kept.check()
