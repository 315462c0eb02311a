"""Policy files that cannot be used: every fault, with its place and what was expected."""

from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairway.api.policy import parse_policy
from fairway.errors import PolicyError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN

CATALOG = Registry(BUILT_IN).catalog


def faults(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml", CATALOG)
    return [str(fault) for fault in caught.value.problems]


def plugin(text: str) -> str:
    return f"tiers: [{{plugins: [{{{text}}}]}}]"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("actions: 5", "actions: 5 is not allowed, expected a list"),
        ("actions: []", "actions: no action is named, expected at least one"),
        ("actions: reserv", "actions: unknown action 'reserv', did you mean 'reserve'?"),
        ("actions: [Allocate]", "actions[0]: unknown action 'Allocate', did you mean 'allocate'?"),
        (
            "actions: xyzzy",
            "actions: unknown action 'xyzzy', expected one of allocate, backfill, enqueue, preempt, reclaim, reserve",
        ),
        ("actions: elect", "actions: elect is a Volcano action that Fairway does not have"),
        ("actions: 'allocate,'", "actions: a name is missing"),
        ("actions: ''", "actions: a name is missing"),
        (
            "actions: [allocate, allocate]",
            "actions[1]: the action 'allocate' is named twice, first in line 1",
        ),
        ("actions: [{arguments: {}}]", "actions[0]: no name, expected the action's name"),
        ("actions: [{name: 3}]", "actions[0]: 3 is not a name, expected the action's name"),
        ("actions: [7]", "actions[0]: 7 is not allowed, expected a map with name and arguments"),
        ("actions: [{name: reserve, args: {}}]", "actions[0]: unknown key 'args', did you mean 'arguments'?"),
        (
            "actions: [{name: reserve, arguments: 5}]",
            "actions[0].arguments: 5 is not allowed, expected a map",
        ),
        (
            "actions: [{name: reserve, arguments: {reservedNodePercent: 0}}]",
            "actions[0].arguments.reservedNodePercent: 0 is not allowed, expected a whole number from 1 to 100 (%)",
        ),
        (
            "actions: [{name: reserve, arguments: {reservedNodePercent: 1.5}}]",
            "actions[0].arguments.reservedNodePercent: 1.5 is not allowed, expected a whole number from 1 to 100 (%)",
        ),
        (
            "actions: [{name: reserve, arguments: {reservedNodePercent: true}}]",
            "actions[0].arguments.reservedNodePercent: true is not allowed, expected a whole number from 1 to 100 (%)",
        ),
        (
            "actions: [{name: reserve, arguments: {starvingJobTimeThreshhold: 1}}]",
            "actions[0].arguments.starvingJobTimeThreshhold: unknown argument, "
            "did you mean 'starvingJobTimeThreshold'?",
        ),
        (
            "actions: [{name: reserve, arguments: {maxReservedNodes: 0}}]",
            "actions[0].arguments.maxReservedNodes: 0 is not allowed, "
            "expected a whole number from 1 to 1000000 or null",
        ),
        (
            "actions: [{name: reserve, arguments: {excludeQueues: [1]}}]",
            "actions[0].arguments.excludeQueues: the list 1 is not allowed, expected a list of text",
        ),
        (
            "actions: [{name: reserve, arguments: {excludeNodeSelector: {spot: true}}}]",
            "actions[0].arguments.excludeNodeSelector: spot: true is not allowed, expected a text",
        ),
        (
            "actions: [{name: reserve, arguments: {excludeNodeSelector: spot}}]",
            "actions[0].arguments.excludeNodeSelector: the text 'spot' is not allowed, "
            "expected a map from name to text",
        ),
        (
            "tiers: [{plugins: [{name: gang, arguments: {x: 1}}]}]",
            "tiers[0].plugins[0].arguments.x: unknown argument, expected none",
        ),
        (
            "actions: [{name: backfill, arguments: {mode: eazy}}]",
            "actions[0].arguments.mode: the text 'eazy' is not allowed, expected besteffort, conservative or easy",
        ),
        (
            "actions: [{name: backfill, arguments: {estimate: {scale: .nan}}}]",
            "actions[0].arguments.estimate: a map is not allowed, expected clairvoyant, requested or user-history or a "
            "map with scale",
        ),
        ("tiers: 5", "tiers: 5 is not allowed, expected a list"),
        ("tiers: [5]", "tiers[0]: 5 is not allowed, expected a map with plugins"),
        ("tiers: [{}]", "tiers[0]: a tier without plugins, expected a list of them"),
        ("tiers: [{plugins: [gang]}]", "tiers[0].plugins[0]: the text 'gang' is not allowed, expected a map"),
        (plugin("name: gangs"), "tiers[0].plugins[0].name: unknown plugin 'gangs', did you mean 'gang'?"),
        (
            plugin("name: nodegroup"),
            "tiers[0].plugins[0].name: nodegroup is a Volcano plugin that Fairway does not have",
        ),
        (
            plugin("name: rescheduling"),
            "tiers[0].plugins[0].name: rescheduling is a Volcano plugin that Fairway does not have; "
            "reclaim and preempt evict for jobs that are entitled to the capacity",
        ),
        (
            plugin("name: gang, enablePreemptible: false"),
            "tiers[0].plugins[0]: unknown flag 'enablePreemptible', did you mean 'enablePreemptable'?",
        ),
        (
            plugin("name: drf, enableHierarchy: true"),
            "tiers[0].plugins[0]: enableHierarchy is a Volcano flag that Fairway does not have; "
            "queues with a parent are always filled level by level",
        ),
        (
            plugin("name: gang, enableJobReady: 'false'"),
            "tiers[0].plugins[0].enableJobReady: the text 'false' is not allowed, expected true or false",
        ),
        (
            plugin("name: gang, enableOverused: false, enabledOverused: true"),
            "tiers[0].plugins[0].enabledOverused: given twice, first in line 1",
        ),
        (
            plugin("name: binpack, arguments: {weight: 1, binpack.weight: 2}"),
            "tiers[0].plugins[0].arguments.binpack.weight: given twice, first in line 1",
        ),
        (
            plugin("name: binpack, arguments: {resources: {gpu: 1}, binpack.resources.gpu: 2}"),
            "tiers[0].plugins[0].arguments.binpack.resources.gpu: gpu is given twice, first in line 1",
        ),
        (
            plugin("name: binpack, arguments: {weight: 1001}"),
            "tiers[0].plugins[0].arguments.weight: 1001 is not allowed, expected a whole number from 0 to 1000",
        ),
        (
            plugin("name: devices, arguments: {strategy: [pack, best]}"),
            "tiers[0].plugins[0].arguments.strategy: the list pack, best is not allowed, "
            "expected a list of first-fit, least-loss, numa, pack or spread",
        ),
        (
            plugin("name: nodeorder, arguments: {imagelocality.weight: 1}"),
            "tiers[0].plugins[0].arguments.imagelocality.weight: "
            "imagelocality.weight is a Volcano argument that Fairway does not have",
        ),
        ("configurations: {}", "configurations: an empty map is not allowed, expected a list"),
        ("action: allocate", "unknown key 'action', did you mean 'actions'?"),
        ("metrics: {}", "metrics is a Volcano key that Fairway does not have"),
        (
            "- actions",
            "the list actions is not allowed, expected a map",
        ),
    ],
)
def test_a_fault_names_the_place_and_what_was_expected(text, fault):
    hint = "; with `compatibility: volcano` at the top of the policy it is left out with a warning"
    assert faults(text) == [f"p.yaml:1: {fault}{hint if ' is a Volcano ' in fault else ''}"]


def test_the_same_argument_beside_an_action_and_in_configurations():
    text = """actions: [{name: backfill, arguments: {mode: easy}}]
configurations: [{name: backfill, arguments: {mode: conservative}}]"""
    assert faults(text) == ["p.yaml:2: configurations[0].arguments.mode: given twice, first in line 1"]


def test_a_configuration_of_an_action_that_does_not_run():
    text = "actions: allocate\nconfigurations:\n- name: backfill\n  arguments: {mode: x}"
    assert faults(text) == [
        "p.yaml:3: configurations[0]: 'backfill' is not among the actions of this policy",
        "p.yaml:4: configurations[0].arguments.mode: the text 'x' is not allowed, "
        "expected besteffort, conservative or easy",
    ]


@pytest.mark.parametrize(("first", "second"), [("proportion", "capacity"), ("capacity", "proportion")])
def test_proportion_and_capacity_exclude_each_other(first, second):
    text = f"tiers:\n- plugins:\n  - name: {first}\n- plugins:\n  - name: {second}"
    assert faults(text) == [f"p.yaml:5: tiers[1].plugins[0]: {second} cannot be used together with {first} (line 3)"]


def test_a_plugin_twice_in_two_tiers():
    text = "tiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: gang"
    assert faults(text) == ["p.yaml:5: tiers[1].plugins[0]: the plugin 'gang' is named twice, first in line 3"]


def test_all_faults_come_together_in_the_order_of_their_lines():
    text = """tiers:
- plugins:
  - name: gang
    enableJobReady: 1
  - name: tdm
actions: [allocat]
extra: 1
"""
    assert [fault.split(": ")[0] for fault in faults(text)] == [f"p.yaml:{line}" for line in (4, 5, 6, 7)]


def test_broken_yaml_is_one_fault():
    assert faults("actions: [allocate\ntiers: x") == ["p.yaml:2: not YAML: did not find expected ',' or ']'"]


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["gang", "allocate", "", "x,y"])
KEYS = st.sampled_from(["name", "arguments", "actions", "tiers", "plugins", "configurations", "enableJobOrder"])
TREE = st.recursive(LEAF, lambda node: st.lists(node, max_size=3) | st.dictionaries(KEYS, node, max_size=4))


@given(TREE)
def test_any_tree_gives_a_policy_or_faults(tree):
    with suppress(PolicyError):
        parse_policy(yaml.safe_dump(tree), "p.yaml", CATALOG)
