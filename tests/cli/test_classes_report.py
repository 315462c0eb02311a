"""`fairway classes` on clusters written for it: who holds what through groups, what is near, what cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli import invoke

RECORD = "scheduler.alpha.kubernetes.io/resClass_"
GPU, PAIR, WIDE = (
    {"key": "Kind", "operator": "In", "values": ["gpu"]},
    {"key": "Kind", "operator": "In", "values": ["pair"]},
    {"key": "memory", "operator": "GtEq", "values": ["30G"]},
)


def resource_class(name: str, *expressions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}] if expressions else []
    return {"kind": "ResourceClass", "metadata": {"name": name}, "spec": {"resourceSelector": terms, **spec}}


def node(*devices: dict[str, Any], name: str = "n1", **allocatable: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"fairway.dev/devices": json.dumps(devices)}},
        "status": {"allocatable": {"cpu": "8", "pods": "10", **allocatable}},
    }


def running(name: str, class_name: str, device: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {f"{RECORD}{class_name}_{device}": "1"}},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "resources": {"limits": {class_name: "1"}}}],
        },
        "status": {"phase": "Running"},
    }


@pytest.fixture
def classes(tmp_path: Path) -> Any:
    def call(*objects: dict[str, Any], output: str = "json") -> Any:
        file = tmp_path / "all.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        result = invoke("classes", "-f", str(file), "-o", output)
        assert result.code == 0, result.err
        if output != "json":
            return result.out
        return {found["name"]: found for found in json.loads(result.out)["resourceClasses"]}

    return call


def holders(found: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        device["device"]: [(h["name"].removeprefix("default/"), h["quantity"], h.get("through")) for h in who]
        for device in found["devices"]
        if (who := device["holders"])
    }


GROUPS = [
    resource_class("gpu", GPU),
    resource_class("pair", PAIR),
    node(
        *({"name": f"g{i}", "kind": "gpu"} for i in range(3)),
        {"name": "p0", "kind": "pair", "members": ["g0", "g1"]},
        {"name": "p1", "kind": "pair", "members": ["g1", "g2"]},
    ),
]


def test_members_of_a_group_that_is_held_have_its_holder(classes: Any) -> None:
    found = classes(*GROUPS, running("whole", "pair", "p0"))
    assert holders(found["pair"]) == {"p0": [("whole", 1, None)], "p1": [("whole", 1, "p0")]}
    assert holders(found["gpu"]) == {"g0": [("whole", 1, "p0")], "g1": [("whole", 1, "p0")]}
    assert "default/whole (1 of p0)" in classes(*GROUPS, running("whole", "pair", "p0"), output="table")


def test_a_group_has_the_holders_of_its_members(classes: Any) -> None:
    found = classes(*GROUPS, running("one", "gpu", "g0"))
    assert holders(found["gpu"]) == {"g0": [("one", 1, None)]}
    assert holders(found["pair"]) == {"p0": [("one", 1, "g0")]}


def test_classes_of_one_expression_have_near_misses_too(classes: Any) -> None:
    devices = [{"name": "small", "kind": "gpu", "attributes": {"memory": "8G"}}, {"name": "eth", "kind": "nic"}]
    found = classes(resource_class("wide", WIDE), resource_class("gpu", GPU), node(*devices))
    assert found["wide"]["nearMisses"] == [
        {"node": "n1", "device": "small", "missed": "memory '8G' does not meet: >= 30G (OutOfRange)"}
    ]
    assert found["gpu"]["nearMisses"] == [], "that a NIC is no GPU is not near"


def test_whatever_cannot_be_used_says_why(classes: Any) -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    devices = [
        {"name": "ill", "kind": "gpu", "healthy": False},
        {"name": "tainted", "kind": "gpu", "taints": [taint]},
        {"name": "empty", "kind": "gpu", "quantity": 0},
        {"name": "x" * 60, "kind": "gpu"},
        {"name": "fine", "kind": "gpu"},
    ]
    objects = [resource_class("gpu", GPU), node(*devices), running("user", "gpu", "ill")]
    found = classes(*objects)["gpu"]["devices"]
    assert {device["device"][:7]: device.get("unusable") for device in found} == {
        "ill": "unhealthy",
        "tainted": "tainted example.com/broken",
        "empty": "no units",
        "xxxxxxx": None,
        "fine": None,
    }
    assert [device["device"] for device in found if device["usable"]] == ["fine", "x" * 60]
    table = classes(objects[0], node(devices[0]), objects[2], output="table")
    assert "not usable: unhealthy; default/user (1)" in table


def test_a_misread_unit_is_shown_with_its_class(classes: Any) -> None:
    fast = {"key": "speed", "operator": "GtEq", "values": ["40GBPS"]}
    objects = [resource_class("fast", fast), node({"name": "eth", "kind": "nic", "attributes": {"speed": "100Gbps"}})]
    assert "AmbiguousUnit: 40GBPS is read as bits per second" in classes(*objects, output="table")
    (warning,) = classes(*objects)["fast"]["warnings"]
    assert warning.startswith("spec.resourceSelector[0].matchExpressions[0]: 40GBPS")
    assert warning.endswith("(AmbiguousUnit)")


FAR = str(Path(__file__).parents[2] / "examples" / "device-features" / "far.yaml")


def test_a_device_that_several_nodes_reach_is_listed_once_with_its_holder() -> None:
    found = json.loads(invoke("classes", "-f", FAR, "-o", "json").out)["resourceClasses"][0]
    assert (found["allocatable"], found["requested"]) == (2, 1)
    assert [(d["node"], d["pool"], d["device"]) for d in found["devices"]] == [
        ("", "fabric-1", "card-0"),
        ("", "fabric-1", "card-1"),
    ]
    assert holders(found) == {"card-0": [("codec", 1, None)]}
    assert "fabric-1/card-0" in invoke("classes", "-f", FAR).out


@pytest.mark.parametrize(
    "more", [("--device", "card-0"), ("--device", "fabric-1/card-0"), ("--device", "card-0", "--node", "rack-1-b")]
)
def test_it_is_found_by_its_pool_or_from_any_node_that_reaches_it(more: tuple[str, ...]) -> None:
    result = invoke("classes", "match", "--class", "fpga", *more, "-f", FAR)
    assert result.out.startswith("class fpga selects device fabric-1/card-0\n"), result.err
    elsewhere = invoke("classes", "match", "--class", "fpga", "--device", "card-0", "--node", "rack-2-a", "-f", FAR)
    assert elsewhere.code == 2
    assert "--node: rack-2-a does not exist or has no devices" in elsewhere.err
