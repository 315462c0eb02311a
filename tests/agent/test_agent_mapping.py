"""The file that says what plugins do not."""

from __future__ import annotations

import re

import pytest

from fairway.agent.mapping import read_mapping
from fairway.agent.settings import check_settings
from fairway.errors import InputError

HEAD = "apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\n"


def read(tmp_path, text):
    path = tmp_path / "map.yaml"
    path.write_text(HEAD + text)
    return read_mapping(path)


def plain(facts):
    attributes, capacity = facts
    values = {}
    for name, one in attributes.items():
        found = (one.int_value, one.bool_value, one.string_value, one.version_value)
        (values[name],) = [(type(value).__name__, value) for value in found if value is not None]
    return values, {name: one.value for name, one in capacity.items()}


def test_facts_by_resource_by_pattern_and_by_label(tmp_path):
    mapping = read(
        tmp_path,
        """
resources:
- resource: example.com/gpu
  kind: gpu
  attributes: {model: a100, cores: 108, ecc: true, driverVersion: {version: 535.1.0}}
  capacity: {memory: 40Gi, slots: 7}
  labels: {zone: topology/zone, cuda: cuda/version, racks: racks, missing: nothing, long: long}
  devices:
  - ids: ["GPU-1*", "special"]
    attributes: {model: h100, example.com/odd: yes-it-is}
    capacity: {memory: 80Gi}
""",
    )
    labels = {"topology/zone": "a", "cuda/version": "12.2.0", "racks": "7", "long": "x" * 70}
    values, capacity = plain(mapping.facts("example.com/gpu", "GPU-0", labels))
    assert values == {
        "model": ("str", "a100"),
        "cores": ("int", 108),
        "ecc": ("bool", True),
        "driverVersion": ("str", "535.1.0"),
        "zone": ("str", "a"),
        "cuda": ("str", "12.2.0"),
        "racks": ("int", 7),
    }
    assert capacity == {"memory": "40Gi", "slots": "7"}
    attributes, _ = mapping.facts("example.com/gpu", "GPU-0", labels)
    assert attributes["cuda"].version_value == "12.2.0"
    values, capacity = plain(mapping.facts("example.com/gpu", "GPU-11", labels))
    assert values["model"] == ("str", "h100")
    assert values["example.com/odd"] == ("str", "yes-it-is")
    assert capacity["memory"] == "80Gi"
    assert mapping.kind("example.com/gpu") == "gpu"
    assert mapping.kind("example.com/nic") == "example.com/nic"
    assert mapping.facts("example.com/nic", "x", labels) == ({}, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resources: 1", "map.yaml:3: resources: is the number 1, expected a list"),
        ("resource: []", "map.yaml:3: resource: is an unknown field, did you mean 'resources'?"),
        ("resources: [{kind: x}]", "resources[0].resource: is missing, expected a string"),
        ("resources: [{resource: a/b}, {resource: a/b}]", "resource 'a/b' is listed twice"),
        ("resources: [{resource: a/b, attributes: {1x: 2}}]", "'1x' is not a name of an attribute"),
        (
            "resources: [{resource: a/b, attributes: {x: 1.5}}]",
            "attributes.x: is the number 1.5, expected",
        ),
        ("resources: [{resource: a/b, attributes: {x: [1]}}]", "resources[0].attributes.x: is a list, expected"),
        (
            "resources: [{resource: a/b, attributes: {x: {version: v1}}}]",
            "'v1' is not a version, expected three numbers",
        ),
        ("resources: [{resource: a/b, attributes: {x: ''}}]", "has 0 bytes, expected 1 to 64"),
        ("resources: [{resource: a/b, capacity: {m: 40K}}]", "capacity m: invalid quantity '40K'"),
        (
            "resources: [{resource: a/b, devices: [{ids: []}]}]",
            "devices[0].ids: has 0 entries, expected at least 1",
        ),
        ("resources: [{resource: a/b, groups: [{name: A, members: [x]}]}]", "group 'A': expected a name of lower case"),
        ("resources: [{resource: a/b, groups: [{name: a, members: [x, x]}]}]", "group 'a' has a member twice"),
        ("resources: [{resource: a/b, kind: " + "k" * 65 + "}]", "kind has 65 bytes"),
        (
            "resources: [{resource: a/b, attributes: {" + ", ".join(f"a{n}: 1" for n in range(21)) + "}}]",
            "21 attributes and capacities, expected at most 20",
        ),
        ("resources: [", "map.yaml:"),
        ("---\nkind: x", "expected one object of kind DeviceMapping"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_place(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_something_else_or_not_there(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_mapping(tmp_path / "none.yaml")
    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: v1\nkind: Pod\n")
    with pytest.raises(InputError, match="is Pod of v1, expected DeviceMapping"):
        read_mapping(other)
    other.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        read_mapping(other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"node": ""}, "the name of the node is not known"),
        ({"node": "n", "driver": "A.b"}, "driver name 'A.b': expected a DNS subdomain"),
        ({"node": "n", "driver": "1.b"}, "first a letter"),
        ({"node": "n", "discover": "pci,usb"}, "'usb' is not known, expected some of pci, numa, rdma"),
    ],
)
def test_settings_that_cannot_be_used(given, words):
    with pytest.raises(InputError, match=re.escape(words)):
        check_settings(given)
