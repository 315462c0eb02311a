"""Policy files that can be used: what they mean."""

import pytest

from fairway.api.arguments import FLAGS, BackfillArguments, BinPackArguments, Catalog, ReserveArguments
from fairway.api.policy import Policy, default_policy, load_policy, parse_policy
from fairway.errors import InputError
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN

CATALOG = Registry(BUILT_IN).catalog


def parse(text: str, catalog: Catalog = CATALOG) -> Policy:
    return parse_policy(text, "p.yaml", catalog)


def names(policy: Policy) -> tuple[list[str], list[list[str]]]:
    tiers = [[plugin.name for plugin in tier] for tier in policy.tiers]
    return [action.name for action in policy.actions], tiers


def test_the_default_policy_is_what_a_new_user_wants():
    policy = default_policy(CATALOG)
    assert names(policy) == (
        ["enqueue", "reserve", "allocate", "reclaim", "backfill"],
        [
            ["priority", "gang", "conformance"],
            ["drf", "predicates", "proportion", "nodeorder", "devices"],
        ],
    )
    assert policy.plugin("drf").enabled("namespace_key")
    assert policy.action("reserve").arguments == ReserveArguments()
    assert policy.action("preempt") is None
    assert policy.plugin("capacity") is None


@pytest.mark.parametrize(
    "actions",
    [
        'actions: "enqueue, allocate,backfill"',
        "actions: [enqueue, allocate, backfill]",
        "actions:\n- enqueue\n- name: allocate\n- {name: backfill, arguments: {}}",
        "actions:\n- enqueue\n- name: allocate\n  arguments:\n- backfill",
    ],
)
def test_actions_as_a_text_or_a_list(actions):
    assert names(parse(actions))[0] == ["enqueue", "allocate", "backfill"]


def test_arguments_of_an_action_may_stand_with_it_or_in_configurations():
    beside = parse("actions: [{name: backfill, arguments: {mode: easy}}]")
    apart = parse("actions: backfill\nconfigurations: [{name: backfill, arguments: {mode: easy}}]")
    assert beside == apart
    assert beside.action("backfill").arguments == BackfillArguments(mode="easy")


def test_configurations_reach_the_default_actions():
    policy = parse("configurations: [{name: reserve, arguments: {reservedNodePercent: 7}}]")
    assert policy.action("reserve").arguments.reserved_node_percent == 7
    assert names(policy) == names(default_policy(CATALOG))


def test_what_a_file_leaves_out_is_the_default():
    assert parse("actions: allocate").tiers == default_policy(CATALOG).tiers
    assert parse("tiers: []").actions == default_policy(CATALOG).actions
    assert parse("tiers: []").tiers == ()
    assert parse("{}") == default_policy(CATALOG)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_switches_its_hook_and_no_other(flag):
    plugin = parse(f"tiers: [{{plugins: [{{name: gang, {flag}: false}}]}}]").plugin("gang")
    assert [hook for hook in FLAGS.values() if not plugin.enabled(hook)] == [FLAGS[flag]]
    assert plugin.enabled("on_allocate")


@pytest.mark.parametrize(
    ("alias", "hook"),
    [
        ("enabledOverused", "overused"),
        ("enabledAllocatable", "allocatable"),
        ("enabledJobEnqueued", "enqueueable"),
        ("enableResourceNodeOrder", "reserve_score"),
    ],
)
def test_flags_are_read_by_their_other_names(alias, hook):
    plugin = parse(f"tiers: [{{plugins: [{{name: proportion, {alias}: no}}]}}]").plugin("proportion")
    assert plugin.disabled == {hook}


def test_arguments_are_read_by_the_names_volcano_users_know():
    policy = parse(
        """
tiers:
- plugins:
  - name: nodeorder
    arguments: {leastrequested.weight: 0, mostrequested.weight: 4, nodeaffinity.weight: 5}
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: 5
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 2
"""
    )
    order = policy.plugin("nodeorder").arguments
    assert (order.least_allocated, order.most_allocated, order.node_affinity) == (0, 4, 5)
    assert policy.plugin("binpack").arguments == BinPackArguments(
        weight=10, cpu=5, memory=1, resources={"nvidia.com/gpu": 2, "example.com/foo": 1}
    )


def test_lists_may_be_texts_with_commas():
    as_text = parse("tiers: [{plugins: [{name: devices, arguments: {strategy: 'numa, pack'}}]}]")
    as_list = parse("tiers: [{plugins: [{name: devices, arguments: {strategy: [numa, pack]}}]}]")
    assert as_text == as_list
    assert as_text.plugin("devices").arguments.strategy == ("numa", "pack")


def test_json_is_read_too():
    assert names(parse('{"actions": ["allocate"], "tiers": [{"plugins": [{"name": "gang"}]}]}')) == (
        ["allocate"],
        [["gang"]],
    )


def test_each_value_knows_where_it_came_from():
    policy = parse(
        """actions:
- allocate
- name: reserve
  arguments:
    reservedNodePercent: 30
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
"""
    )
    reserve, gang = policy.action("reserve"), policy.plugin("gang")
    assert policy.origin(reserve.line) == "p.yaml:3"
    assert policy.origin(reserve.lines["reservedNodePercent"]) == "p.yaml:5"
    assert policy.origin(gang.lines["enablePreemptable"]) == "p.yaml:9"
    assert policy.origin(reserve.lines.get("reservationTimeout", 0)) == "default"


def test_policies_are_equal_by_what_they_mean_not_by_where_it_is_written():
    assert parse("\n\nactions: [allocate]") == parse('actions: "allocate"')
    assert parse("actions: allocate") != parse("actions: backfill")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("actions: allocate", encoding="utf-8-sig")
    assert names(load_policy(str(file), CATALOG))[0] == ["allocate"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file"), (b"\xff\xfe\x00", "not a text file: invalid start byte")],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, message):
    file = tmp_path / "p.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=f"p.yaml: {message}"):
        load_policy(str(file), CATALOG)
