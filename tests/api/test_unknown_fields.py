"""Fields that no API has are named, with what was probably meant; fields that are merely not decoded are not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.pods import pod_list

from fairway.api.field_names import TABLE
from fairway.api.kinds import KINDS
from fairway.api.manifests import load
from fairway.api.shape import field_table, unknown_fields
from fairway.errors import ManifestError
from support.cli import invoke

ROOT = Path(__file__).parents[2]
POD_GROUP = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


def container(**more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **more}]}}


MISSPELT: dict[str, tuple[dict[str, Any], str]] = {
    "minMembers": (
        POD_GROUP | {"spec": {"minMembers": 2}},
        "spec.minMembers: {} PodGroup default/g{}, did you mean 'minMember'?",
    ),
    "wieght": (QUEUE | {"spec": {"wieght": 2}}, "spec.wieght: {} Queue q{}, did you mean 'weight'?"),
    "request": (
        POD | container(resources={"request": {"cpu": "1"}}),
        "spec.containers[0].resources.request: {} Pod default/p{}, did you mean 'requests'?",
    ),
    "case": (POD | container() | {"Spec": {}}, "Spec: {} Pod default/p{}, did you mean 'spec'?"),
    "lables": (
        POD | container() | {"metadata": {"name": "p", "lables": {}}},
        "metadata.lables: {} Pod default/p{}, did you mean 'labels'?",
    ),
    "elsewhere": (POD_GROUP | {"minMember": 2}, "minMember: {} PodGroup default/g{}"),
    "made up": (QUEUE | {"spec": {"color": "red"}}, "spec.color: {} Queue q{}"),
    "in a list": (
        POD | {"spec": {"containers": [{"name": "c"}], "tolerations": [{"key": "a", "operater": "Exists"}]}},
        "spec.tolerations[0].operater: {} Pod default/p{}, did you mean 'operator'?",
    ),
}


def written(thing: object, folder: Path, suffix: str) -> str:
    file = folder / f"x.{suffix}"
    file.write_text(json.dumps(thing) if suffix == "json" else yaml.safe_dump(thing, sort_keys=False))
    return str(file)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
@pytest.mark.parametrize(("thing", "said"), MISSPELT.values(), ids=MISSPELT)
def test_a_misspelt_field_is_a_warning_and_with_strict_an_error(
    thing: dict[str, Any], said: str, suffix: str, tmp_path: Path
) -> None:
    file = written(thing, tmp_path, suffix)
    (warning,) = load([file]).warnings
    assert warning.split(": ", 1)[1] == said.format("unknown field of", " is ignored")
    assert warning.startswith(f"{file}:")
    with pytest.raises(ManifestError) as raised:
        load([file], strict=True)
    assert [str(fault).split(": ", 1)[1] for fault in raised.value.problems] == [said.format("unknown field of", "")]


def test_the_command_line(tmp_path: Path) -> None:
    file = written(QUEUE | {"spec": {"wieght": 2}}, tmp_path, "yaml")
    warned = invoke("plan", "-f", file)
    assert (warned.code, "Warning: " in warned.err, "did you mean 'weight'?" in warned.err) == (0, True, True)
    refused = invoke("plan", "-f", file, "--strict")
    assert (refused.code, "did you mean 'weight'?" in refused.err) == (2, True)


def test_many_objects_with_one_mistake_are_one_warning(tmp_path: Path) -> None:
    pods = [POD | {"metadata": {"name": f"p{i}"}} | container(resources={"request": {}}) for i in range(30)]
    (warning,) = load([written({"apiVersion": "v1", "kind": "List", "items": pods}, tmp_path, "json")]).warnings
    assert warning.endswith("(and 29 more like it)")


# -- what must not be warned about -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/**/*.yaml")), ids=lambda file: file.name)
def test_examples_have_no_unknown_field(file: Path) -> None:
    if "kind:" in file.read_text() and "tiers:" not in file.read_text() and "cluster:" not in file.read_text():
        assert [text for text in load([str(file)]).warnings if "unknown field" in text] == []


def test_a_large_dump_of_pods_has_no_unknown_field(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_bytes(pod_list(50))
    assert load([str(file)]).warnings == []


DUMP = list(yaml.safe_load_all((Path(__file__).parent / "kubectl-dump.yaml").read_text()))


@pytest.mark.parametrize("thing", DUMP, ids=lambda thing: f"{thing['kind']} {thing['metadata']['name']}")
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_what_kubectl_prints_has_no_unknown_field(thing: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    warnings = load([written(thing, tmp_path, suffix)]).warnings
    assert [text for text in warnings if "unknown field" in text] == []


def test_the_table_is_whole() -> None:
    """Every type that is named is there, every type that is there is named, and no field stands twice."""
    table = field_table()
    named = {holds.strip("[]{}") for _, fields in table.values() for holds in fields.values() if holds}
    assert named - set(table) == set()
    assert set(table) - named - {kind.name for kind in KINDS} == set()
    assert TABLE.count("\n") < 200


def test_fields_that_are_decoded_are_known() -> None:
    for kind in KINDS:
        assert list(unknown_fields({"apiVersion": "", "kind": "", "metadata": {}}, kind.table_name, kind.struct)) == []
