"""`fairway classes` as a user meets it, on the example that the documentation tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from support.cli import invoke

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "devices")
BIND = "scheduler.alpha.kubernetes.io/resClass_nvidia.high.mem_gpu-0"


def test_the_proposals_classes_load_as_they_stand_and_are_listed() -> None:
    result = invoke("classes", "-f", EXAMPLE, "-o", "json")
    assert result.code == 0, result.err
    classes = {found["name"]: found for found in json.loads(result.out)["resourceClasses"]}
    assert {name: (found["allocatable"], found["requested"]) for name, found in classes.items()} == {
        "fast.nic": (2, 0),
        "hugepages-1gig": (16, 0),
        "nvidia.high.mem": (3, 0),
        "nvlink.pair": (1, 0),
    }
    high = classes["nvidia.high.mem"]
    assert [(d["node"], d["device"], d["usable"]) for d in high["devices"]] == [
        ("gpu-1", "gpu-0", True),
        ("gpu-1", "gpu-1", True),
        ("gpu-2", "gpu-0", True),
        ("gpu-2", "gpu-1", False),
    ]
    assert high["nearMisses"] == [
        {"node": "gpu-1", "device": "gpu-2", "missed": "memory '24G' does not meet: >= 30G (OutOfRange)"}
    ]
    assert "40GBPS is read as bits per second" in result.err


def test_the_table_shows_classes_and_which_pods_have_their_devices(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "annotations": {BIND: "1"}},
        "spec": {
            "nodeName": "gpu-2",
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.high.mem": "1"}}}],
        },
        "status": {"phase": "Running"},
    }
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod))
    result = invoke("classes", "-f", EXAMPLE, "-f", str(file))
    assert result.code == 0, result.err
    assert any(line.split() == ["nvidia.high.mem", "3", "1", "4"] for line in result.out.splitlines())
    assert "default/user (1)" in result.out
    assert "not usable" in result.out


def test_a_match_is_explained_term_by_term() -> None:
    result = invoke("classes", "match", "--class", "fast.nic", "--device", "gpu-2/eth0", "-f", EXAMPLE)
    assert result.out.splitlines() == [
        "class fast.nic does not select device gpu-2/eth0",
        "term 1: does not match",
        "  yes  Kind 'nic' in nic",
        "  no   speed '25Gbps' does not meet: >= 40GBPS (OutOfRange)",
        "AmbiguousUnit: 40GBPS is read as bits per second; write bps, or B/s for bytes",
    ]
    on_node = invoke("classes", "match", "--class", "fast.nic", "--device", "eth0", "--node", "gpu-2", "-f", EXAMPLE)
    assert on_node.out == result.out
    data = json.loads(
        invoke("classes", "match", "--class", "nvlink.pair", "--device", "pair-0", "-f", EXAMPLE, "-o", "json").out
    )
    assert data["matched"] is True
    assert data["notes"] == ["members: gpu-0, gpu-1 serve 2 of nvidia.high.mem"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--class", "gone", "--device", "pair-0"), "--class: gone does not exist, expected one of fast.nic, "),
        (("--class", "fast.nik", "--device", "eth0"), "--class: fast.nik does not exist, did you mean 'fast.nic'?"),
        (("--class", "fast.nic", "--device", "zzz"), "--device: zzz does not exist, expected one of eth0, gpu-0, "),
        (("--class", "fast.nic", "--device", "ethO"), "--device: ethO does not exist, did you mean 'eth0'?"),
        (("--class", "fast.nic", "--device", "gpu1/eth0"), "does not exist, did you mean 'gpu-1/eth0'?"),
        (("--class", "fast.nic", "--device", "eth0", "--node", "gpu1"), "--node: gpu1 does not exist or has no"),
        (("--class", "fast.nic", "--device", "eth0", "--node", "gpu1"), "did you mean 'gpu-1'?"),
        (
            ("--class", "fast.nic", "--device", "pages", "--node", "gpu-1"),
            "--device: pages does not exist on node gpu-1",
        ),
        (
            ("--class", "fast.nic", "--device", "eth0"),
            "2 devices are named eth0, expected a unique name, for example --node gpu-1 or gpu-1/eth0",
        ),
    ],
)
def test_what_is_not_there_or_not_unique(arguments: tuple[str, ...], text: str) -> None:
    result = invoke("classes", "match", *arguments, "-f", EXAMPLE)
    assert result.code == 2
    assert text in result.err


def test_export_prints_device_classes_and_says_what_it_leaves_out() -> None:
    result = invoke("classes", "export", "-f", EXAMPLE)
    assert result.code == 0
    documents = list(yaml.safe_load_all(result.out))
    assert [document["metadata"]["name"] for document in documents] == ["fast.nic", "hugepages-1gig", "nvidia.high.mem"]
    assert {document["kind"] for document in documents} == {"DeviceClass"}
    high = next(d for d in documents if d["metadata"]["name"] == "nvidia.high.mem")
    assert "memory" in high["spec"]["selectors"][0]["cel"]["expression"]
    assert "nvlink.pair: spec.includes: CEL does not see what the members of a group are" in result.err
    refused = invoke("classes", "export", "--class", "nvlink.pair", "-f", EXAMPLE)
    assert refused.code == 2
    assert refused.out == ""
    assert "nvlink.pair cannot be expressed as a DeviceClass that selects the same devices" in refused.err
    one = json.loads(invoke("classes", "export", "--class", "fast.nic", "-f", EXAMPLE, "-o", "json").out)
    assert len(one["items"]) == 1


def test_files_are_needed() -> None:
    assert invoke("classes").code == 2


@pytest.mark.parametrize(
    ("spec", "line", "text"),
    [
        (
            "resourceSelector: [{matchExpressions: [{key: m, operator: Gt, values: [lots]}]}]",
            4,
            "neither a number nor a version",
        ),
        ("includes: [{class: b}]", 4, "a -> b -> a goes in a circle"),
    ],
)
def test_a_class_that_could_not_be_created_is_refused_with_its_place(
    spec: str, line: int, text: str, tmp_path: Path
) -> None:
    other = "---\nkind: ResourceClass\nmetadata: {name: b}\nspec: {includes: [{class: a}]}\n"
    file = tmp_path / "classes.yaml"
    file.write_text(f"kind: ResourceClass\nmetadata: {{name: a}}\nspec:\n  {spec}\n{other}")
    for verb in ("classes", "plan"):
        result = invoke(verb, "-f", str(file))
        assert result.code == 2
        assert f"classes.yaml:{line}: spec." in result.err
        assert text in result.err


def test_the_example_plans_as_the_documentation_says() -> None:
    result = invoke("plan", "-f", EXAMPLE, "--now", "2026-01-02T00:00:00Z", "-o", "json", "--paranoid")
    plan = json.loads(result.out)
    given = {b["pod"]: [(d["class"], d["device"], d["quantity"]) for d in b["devices"]] for b in plan["bindings"]}
    assert given == {
        "default/train": [("fast.nic", "eth0", 1), ("nvlink.pair", "pair-0", 1)],
        "default/infer": [("hugepages-1gig", "pages", 4), ("nvidia.high.mem", "gpu-0", 1)],
    }
    assert plan["pending"][0]["message"] == "0/2 nodes fit: 2 devices of class nvidia.high.mem in use"
    assert {c["name"]: (c["allocatable"], c["requested"]) for c in plan["resourceClasses"]} == {
        "fast.nic": (2, 1),
        "hugepages-1gig": (16, 4),
        "nvidia.high.mem": (3, 3),
        "nvlink.pair": (1, 1),
    }


def test_a_bare_name_is_a_class_only_where_there_are_classes(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: '4', tape: '2'}}\n---\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    pod += "spec: {schedulerName: fairway, containers: [{name: c, resources: {limits: {%s: '1'}}}]}\n"
    classes = "---\nkind: ResourceClass\nmetadata: {name: any}\nspec: {resourceSelector: []}\n"

    def reason(text: str) -> str:
        file = tmp_path / "all.yaml"
        file.write_text(text)
        pending = invoke("plan", "-f", str(file), "-o", "json").plan["pending"]
        return str(pending[0]["reason"]) if pending else ""

    assert reason(node + pod % "gpu") == "NeverFits"
    assert reason(node + pod % "gpu" + classes) == "ClassNotFound"
    assert reason(node + pod % "tape" + classes) == ""
    assert reason(node + pod % "any" + classes) == "DeviceUnavailable"
