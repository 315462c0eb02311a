"""The plugin on the page works as the page says: installed, named by a policy, checked, heard."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.pages import with_hooks

from fairway.scheduler.plugins.installed import default_registry
from support import objects as make
from support.cli import invoke, run_plan

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's module, with the entry point that the page gives, as an installed package would offer it."""
    place = tmp_path / "site"
    info = place / "thrift-1.0.dist-info"
    info.mkdir(parents=True)
    (place / "thrift.py").write_text(BLOCKS["python"])
    name, target = re.findall(r'^(\w+) = "(.+)"$', BLOCKS["toml"], re.MULTILINE)[0]
    group = re.findall(r'entry-points\."(.+)"', BLOCKS["toml"])[0]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thrift\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(place))
    default_registry.cache_clear()
    yield
    default_registry.cache_clear()
    sys.modules.pop("thrift", None)


CLUSTER = [
    make.node("a", cpu=8),
    make.node("b", cpu=4, labels={"node-kind": "spot"}),
    *make.pods("p", 4, cpu=1),
]


def test_the_plugin_is_heard(installed, tmp_path):
    plan = run_plan(CLUSTER, tmp_path, policy=BLOCKS["yaml"]).plan
    nodes = [binding["node"] for binding in plan["bindings"]]
    assert nodes == ["b", "b", "b", "a"]


def test_its_reason_is_in_the_plan(installed, tmp_path):
    objects = [make.node("n1", cpu=2), make.pod("p", cpu=2)]
    plan = run_plan(objects, tmp_path, policy=BLOCKS["yaml"]).plan
    assert plan["pending"][0]["message"] == "0/1 nodes fit: 1 cpu kept free"


def test_its_arguments_are_checked_and_shown(installed, tmp_path):
    wrong = run_plan(CLUSTER, tmp_path, policy=BLOCKS["yaml"].replace("25", "250"))
    assert wrong.code == 2
    assert "keepFree" in wrong.err
    file = tmp_path / "policy.yaml"
    file.write_text(BLOCKS["yaml"])
    assert "keepFree" in invoke("policy", "show", str(file)).out


def test_without_it_the_policy_is_refused(tmp_path):
    refused = run_plan(CLUSTER, tmp_path, policy=BLOCKS["yaml"])
    assert refused.code == 2
    assert "unknown plugin 'thrift'" in refused.err


def test_the_example_is_as_short_as_it_can_be():
    code = [line for line in BLOCKS["python"].splitlines() if line.strip() and not line.startswith(("from", "import"))]
    assert len(code) <= 20


def test_the_page_has_the_table_of_hooks():
    assert with_hooks(PAGE) == PAGE, "run `make docs`"


@pytest.mark.parametrize(
    "code",
    ["raise RuntimeError('no licence')", "import sys; sys.exit()", "import no_such_module", "Thrift = 5", "("],
)
def test_an_entry_point_that_cannot_be_loaded_matters_only_to_a_policy_that_names_it(installed, tmp_path, code):
    (tmp_path / "site" / "thrift.py").write_text(code)
    sys.modules.pop("thrift", None)
    assert len(run_plan(CLUSTER, tmp_path).plan["bindings"]) == 4
    refused = run_plan(CLUSTER, tmp_path, policy=BLOCKS["yaml"])
    assert refused.code == 2
    assert "policy.yaml:" in refused.err
    assert "plugin thrift (thrift:Thrift) cannot be used: " in refused.err


def test_an_external_plugin_cannot_take_the_name_of_a_built_in_one(installed, tmp_path):
    (tmp_path / "site" / "thrift.py").write_text("class Thrift:\n    name = 'drf'\n")
    sys.modules.pop("thrift", None)
    assert len(run_plan(CLUSTER, tmp_path).plan["bindings"]) == 4
    assert default_registry().is_built_in("drf")
    assert default_registry().plugin_class("drf").__module__ == "fairway.scheduler.plugins.drf"
