"""`fairway policy`, as a user sees it."""

import json
from pathlib import Path

import pytest

from fairway.api.policy import default_policy, load_policy
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plugins import BUILT_IN

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))
CATALOG = Registry(BUILT_IN).catalog


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_are_good(fairway, file):
    result = fairway("policy", "check", str(file))
    said = "Warning: " if file.name in ("volcano.yaml", "gpu-cluster.yaml") else ""
    assert (result.code, result.err[:9]) == (0, said)
    assert result.out.startswith(f"{file}: ok, ")


def test_check_lists_every_fault_and_leaves_with_1(fairway, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("actions: allocat\ntiers:\n- plugins:\n  - name: tdm\n")
    result = fairway("policy", "check", str(file))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"{file}:1: actions: unknown action 'allocat', did you mean 'allocate'?\n"
        f"{file}:4: tiers[0].plugins[0].name: tdm is a Volcano plugin that Fairway does not have; "
        "with `compatibility: volcano` at the top of the policy it is left out with a warning\n"
        f"2 errors in {file}\n"
    )


@pytest.mark.parametrize("verb", ["check", "show"])
def test_a_file_that_is_not_there_is_bad_input(fairway, tmp_path, verb):
    result = fairway("policy", verb, str(tmp_path / "none.yaml"))
    assert (result.code, result.out) == (2, "")
    assert "none.yaml: cannot be read: No such file or directory" in result.err


def test_showing_a_bad_file_is_bad_input(fairway, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("actions: x\n")
    assert fairway("policy", "show", str(file)).code == 2


@pytest.mark.parametrize("file", [None, *EXAMPLES], ids=str)
def test_what_show_prints_as_yaml_is_the_same_policy(fairway, tmp_path, file):
    again = tmp_path / "again.yaml"
    again.write_text(fairway("policy", "show", *([str(file)] if file else []), "-o", "yaml").out)
    expected = load_policy(str(file), CATALOG) if file else default_policy(CATALOG)
    assert load_policy(str(again), CATALOG) == expected


def test_show_says_where_each_value_came_from(fairway, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        """actions: [allocate, {name: reserve, arguments: {reservedNodePercent: 30}}]
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
"""
    )
    shown = json.loads(fairway("policy", "show", str(file), "-o", "json").out)
    reserve = shown["actions"][1]
    assert reserve["arguments"]["reservedNodePercent"] == {"value": 30, "unit": "%", "from": f"{file}:1"}
    assert reserve["arguments"]["reservationTimeout"] == {"value": 86400, "unit": "s", "from": "default"}
    gang = shown["tiers"][0]["plugins"][0]
    assert gang["flags"]["enablePreemptable"] == {"value": False, "from": f"{file}:5"}
    assert gang["flags"]["enableJobReady"] == {"value": True, "from": "default"}


def test_show_as_a_table_fits_80_columns(fairway, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("tiers: [{plugins: [{name: binpack, arguments: {resources: {a.b/c: 5}}}]}]")
    for file in ([], ["p.yaml"]):
        result = fairway("policy", "show", *file)
        assert result.code == 0
        assert max(map(len, result.out.splitlines())) <= 80
    rows = [line.split() for line in result.out.splitlines()]
    assert ["resources", '{"a.b/c":5}', "p.yaml:1"] in rows
    assert ["weight", "1", "default"] in rows


def test_the_reference_page_in_docs_is_up_to_date(fairway):
    written = (ROOT / "docs" / "policy-reference.md").read_text()
    assert fairway("policy", "reference").out == written, "run `make docs`"


def test_the_reference_page_says_all_of_every_setting(fairway):
    page = fairway("policy", "reference").out
    assert "| `reservedNodePercent` | `50` | % | a whole number from 1 to 100 | Maximum percentage" in page
    assert "Also read as `binpack.resources` and `binpack.resources.<name>`." in page
    for entry in (*CATALOG.actions.values(), *CATALOG.plugins.values()):
        assert f"### {entry.name}\n\n{entry.meaning}\n" in page


def test_colour_only_where_it_is_wanted(fairway, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    escape = "\x1b["
    assert escape in fairway("policy", "show").out
    for arguments in (["--no-color", "policy", "show"], ["policy", "show", "--no-color"]):
        assert escape not in fairway(*arguments).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert escape not in fairway("policy", "show").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("mode: easy", "backfill easy: it plans only by run times"),
        ("mode: conservative", "backfill conservative: it plans only by run times"),
        ("mode: easy, estimate: clairvoyant", "are for simulations"),
        ("mode: easy, estimate: {scale: 2}", "are for simulations"),
        ("keepHead: true", "keepHead has no effect with mode besteffort"),
        ("mode: besteffort", ""),
    ],
)
def test_what_backfill_needs_is_said_when_a_policy_is_checked(fairway, tmp_path, arguments, said):
    file = tmp_path / "policy.yaml"
    file.write_text(f"actions: [allocate, {{name: backfill, arguments: {{{arguments}}}}}]\n")
    result = fairway("policy", "check", str(file))
    assert result.code == 0
    assert said in result.err
    assert bool(result.err) == bool(said)


@pytest.mark.parametrize(
    ("action", "plugins", "explained"),
    [
        ("preempt", "drf", True),
        ("{name: preempt, arguments: {byJobShare: true}}", "drf", True),
        ("{name: preempt, arguments: {byJobShare: false}}", "drf", False),
        ("preempt", "priority", False),
        ("reclaim", "drf", False),
    ],
)
def test_what_job_shares_may_do_is_said_when_a_policy_is_checked(fairway, tmp_path, action, plugins, explained):
    file = tmp_path / "policy.yaml"
    file.write_text(f"actions: [allocate, {action}]\ntiers: [{{plugins: [{{name: {plugins}}}]}}]\n")
    result = fairway("policy", "check", str(file))
    assert result.code == 0
    assert ("a plain Job with backoffLimit 0 fails when it loses a pod" in result.err) is explained


def test_the_example_for_kubernetes_users_leaves_job_shares_out(fairway):
    result = fairway("policy", "check", "examples/policies/volcano.yaml")
    assert result.code == 0
    assert "byJobShare" not in result.err
