"""Classes against devices: terms, keys, explanations, faults, warnings; where devices come from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairway.devices
from fairway.api.devices import ResourceClass, ResourceSlice
from fairway.devices import Device, Matcher, compile_selector
from fairway.devices.model.device import from_annotation, from_extended_resource, from_slice
from fairway.devices.model.values import Raw, Text
from fairway.devices.select.selectors import AMBIGUOUS_UNIT, INVALID
from fairway.errors import InputError
from fairway.resources.quantity import parse_quantity
from support import devices as made_devices
from support.objects import made


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def matcher(*terms: list[dict[str, Any]]) -> Matcher:
    spec = {"resourceSelector": [{"matchExpressions": term} for term in terms]}
    return compile_selector(msgspec.convert({"spec": spec}, ResourceClass).spec.resource_selector)


def gpu(memory: str = "32G", **more: str) -> Device:
    attributes = {"memory": Raw(memory), **{key: Raw(text) for key, text in more.items()}}
    return Device("n1", "", "", "gpu-0", "nvidia-gpu", quantity=4, attributes=attributes)


HIGH_MEMORY = [expression("Kind", "In", "nvidia-gpu"), expression("memory", "GtEq", "30G")]


def test_the_proposals_first_class_selects_by_kind_and_memory() -> None:
    found = matcher(HIGH_MEMORY)
    assert found.selects(gpu("32G"))
    assert found.selects(gpu("32GiB"))
    assert not found.selects(gpu("24G"))
    assert not found.selects(msgspec.structs.replace(gpu(), kind="amd-gpu"))
    assert found.keys == ("Kind", "memory")


def test_the_explanation_goes_term_by_term() -> None:
    result = matcher(HIGH_MEMORY, [expression("model", "Eq", "a100")]).match(gpu("24G"))
    assert not result.matched
    assert [[str(r) for r in term.requirements] for term in result.terms] == [
        ["Kind 'nvidia-gpu' in nvidia-gpu", "memory '24G' does not meet: >= 30G (OutOfRange)"],
        ["model (absent) does not meet: = a100 (Absent)"],
    ]
    assert [missed.requirement.key for missed in result.terms[0].missed] == ["memory"]


def test_several_values_and_none_in_the_explanation() -> None:
    result = matcher([expression("Kind", "NotIn", "a", "b"), expression("memory", "DoesNotExist")]).match(gpu())
    assert [str(r) for r in result.terms[0].requirements] == [
        "Kind 'nvidia-gpu' not in [a, b]",
        "memory '32G' does not meet: DoesNotExist (Present)",
    ]


def test_an_empty_selector_and_an_empty_term_match_nothing() -> None:
    assert not matcher().selects(gpu())
    assert not matcher([]).selects(gpu())
    assert matcher([], HIGH_MEMORY).selects(gpu())
    assert matcher([]).problems == ()


def test_a_bad_term_does_not_poison_the_others() -> None:
    """One whose values cannot be compared, and one with a fault that should have been refused."""
    uncomparable = [expression("memory", "GtEq", "30W")]
    assert matcher(uncomparable, HIGH_MEMORY).selects(gpu())
    assert matcher(uncomparable, HIGH_MEMORY).match(gpu()).problems == ("DimensionMismatch",)
    faulty = matcher([expression("memory", "GtEq", "lots")], HIGH_MEMORY)
    assert faulty.selects(gpu())
    assert faulty.match(gpu()).terms[0].requirements[0].reason == INVALID
    assert [str(fault) for fault in faulty.problems] == [
        "resourceSelector[0].matchExpressions[0]: operand is neither a number nor a version: 'lots'"
    ]


def test_every_fault_is_reported_with_its_place() -> None:
    found = matcher([expression("a", "Eq"), expression("b", "In", "x")], [expression("c", "Gt", "1", "2")])
    assert [(fault.path, fault.message) for fault in found.problems] == [
        ("resourceSelector[0].matchExpressions[0]", "exactly one value, Eq got none"),
        ("resourceSelector[1].matchExpressions[0]", "exactly one value, Gt got 2"),
    ]


def test_an_ambiguous_unit_is_a_warning_not_a_fault() -> None:
    nic = matcher([expression("Kind", "In", "nic"), expression("speed", "GtEq", "40GBPS")])
    assert nic.problems == ()
    assert [(w.path, w.reason) for w in nic.warnings] == [("resourceSelector[0].matchExpressions[1]", AMBIGUOUS_UNIT)]
    assert "bits per second" in nic.warnings[0].message
    card = Device("n", "", "", "eth0", "nic", attributes={"speed": Raw("100Gbps")})
    assert nic.selects(card)
    assert matcher([expression("speed", "GtEq", "40Gbps")]).warnings == ()


SLICE = {
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "p1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "kind": {"string": "gpu"},
                    "cores": {"int": 128},
                    "ecc": {"bool": True},
                    "driverVersion": {"version": "535.86.10"},
                    "other.example.com/family": {"string": "ampere"},
                    "memory": {"string": "an attribute hides a capacity"},
                },
                "capacity": {"memory": {"value": "80Gi"}, "bandwidth": {"value": "2T"}},
                "taints": [{"key": "broken", "effect": "NoSchedule"}],
                "consumesCounters": [
                    {
                        "counterSet": "board",
                        "counters": {"slots": {"value": "2"}, "memory": {"value": "40Gi"}},
                    }
                ],
                "allowMultipleAllocations": True,
            },
            {"name": "gpu-1", "attributes": {"type": {"string": "vgpu"}, "shareable": {"bool": True}}},
            {
                "name": "gpu-2",
                "attributes": {"kind": {"int": 5}, "type": {"string": ""}, "numa": {"ints": [0, 1]}},
            },
        ],
    },
}


@pytest.fixture
def published() -> tuple[Device, ...]:
    return from_slice(msgspec.convert(SLICE, ResourceSlice).spec)


def test_devices_of_a_resource_slice(published: tuple[Device, ...]) -> None:
    first, second, third = published
    assert first.id == ("n1", "gpu.example.com", "p1", "gpu-0")
    assert [device.kind for device in published] == ["gpu", "vgpu", "gpu.example.com"]
    assert [device.shareable for device in published] == [True, True, False]
    assert [taint.key for taint in first.taints] == ["broken"]
    assert [(use.counter_set, use.counter, str(use.amount)) for use in first.consumes] == [
        ("board", "memory", "40Gi"),
        ("board", "slots", "2"),
    ]
    assert first.capacity == {
        "gpu.example.com/memory": parse_quantity("80Gi"),
        "gpu.example.com/bandwidth": parse_quantity("2T"),
    }
    assert second.taints == third.taints == ()


@pytest.mark.parametrize(
    ("requirement", "selected"),
    [
        (expression("Kind", "Eq", "gpu"), True),
        (expression("Type", "Eq", "gpu"), True),
        (expression("driver", "Eq", "gpu.example.com"), True),
        (expression("pool", "Eq", "p1"), True),
        (expression("device", "In", "gpu-0", "gpu-9"), True),
        (expression("node", "NotIn", "n1"), False),
        (expression("cores", "Gt", "100"), True),
        (expression("gpu.example.com/cores", "Gt", "100"), True),
        (expression("other.example.com/cores", "Exists"), False),
        (expression("family", "Exists"), False),
        (expression("other.example.com/family", "Eq", "ampere"), True),
        (expression("driverVersion", "Lt", "550.54.15"), True),
        (expression("ecc", "Eq", "true"), True),
        (expression("bandwidth", "GtEq", "1TB"), True),
        (expression("memory", "GtEq", "30G"), False),
        (expression("memory", "Eq", "an attribute hides a capacity"), True),
    ],
)
def test_keys_of_a_published_device(published: tuple[Device, ...], requirement: dict[str, Any], selected: bool) -> None:
    assert matcher([requirement]).selects(published[0]) is selected


def test_a_list_attribute(published: tuple[Device, ...]) -> None:
    assert matcher([expression("numa", "In", "1")]).selects(published[2])
    assert not matcher([expression("numa", "NotIn", "1")]).selects(published[2])


def test_devices_of_the_node_annotation_are_raw_text_as_written() -> None:
    text = """[{"name": "nvidia_a100", "kind": "nvidia-gpu", "quantity": 4,
                "attributes": {"memory": "80G", "cores": 128, "version": 3.10, "ecc": true,
                               "numa": [0, "1"]}},
               {"name": "eth0", "kind": "nic", "attributes": {"shareable": "true"}}]"""
    first, second = from_annotation("n7", text)
    assert (first.node, first.name, first.kind, first.quantity) == ("n7", "nvidia_a100", "nvidia-gpu", 4)
    assert {key: value.text for key, value in first.attributes.items()} == {
        "memory": "80G",
        "cores": "128",
        "version": "3.10",
        "ecc": "true",
        "numa": "[0, 1]",
    }
    assert (second.quantity, second.shareable) == (1, True)
    assert matcher([expression("version", "Gt", "v3.9")]).selects(first)
    assert first.lookup("driver") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "expected a list"),
        ("{}", "expected a list"),
        ('[{"kind": "x"}]', "required field `name`"),
        ('[{"name": "", "kind": "x"}]', r"length >= 1 - at `\$\[0\].name`"),
        ('[{"name": "a", "quantity": -1}]', "Expected `int` >= 0"),
        ('[{"name": "a", "attributes": {"m": null}}]', "attribute 'm' is neither"),
        ('[{"name": "a", "attributes": {"m": [[1]]}}]', "attribute 'm' is neither"),
        ('[{"name": "a"}, {"name": "a"}]', "device 'a' is listed twice"),
        ("[" * 100_000, "annotation fairway.dev/devices"),
    ],
)
def test_a_bad_annotation_says_where_and_what(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        from_annotation("n7", text)
    assert str(caught.value).startswith("node n7: annotation fairway.dev/devices: ")


def test_an_extended_resource_is_a_device_without_attributes() -> None:
    device = from_extended_resource("n1", "nvidia.com/gpu", 8)
    assert (device.kind, device.quantity, device.attributes) == ("nvidia.com/gpu", 8, {})
    assert matcher([expression("Kind", "Eq", "nvidia.com/gpu")]).selects(device)
    assert not matcher(HIGH_MEMORY).selects(device)


small = st.builds(gpu, st.sampled_from(["16G", "32G", "x", "3W"]), model=st.sampled_from(["a", "b", "1"]))
requirements = st.builds(
    expression,
    st.sampled_from(["memory", "model", "gone"]),
    st.sampled_from(["Eq", "In", "NotIn"]),
    st.sampled_from(["16G", "a", "1", "true"]),
)


@given(st.lists(small, max_size=8), st.lists(st.lists(requirements, max_size=3), max_size=3))
def test_an_answer_does_not_depend_on_what_was_asked_before(
    devices: list[Device], terms: list[list[dict[str, Any]]]
) -> None:
    one = matcher(*terms)
    assert [one.match(device) for device in devices] == [matcher(*terms).match(device) for device in devices]


@given(small, st.lists(st.lists(requirements, max_size=3), max_size=3))
def test_a_device_is_selected_exactly_if_a_term_alone_selects_it(
    device: Device, terms: list[list[dict[str, Any]]]
) -> None:
    alone = [matcher(term).selects(device) for term in terms]
    assert matcher(*terms).selects(device) is any(alone)
    for term, answer in zip(terms, alone, strict=True):
        assert answer is (bool(term) and all(matcher([r]).selects(device) for r in term))


def test_the_same_text_of_another_type_is_another_device() -> None:
    found = matcher([expression("memory", "GtEq", "30G")])
    assert found.selects(gpu("32G"))
    typed = msgspec.structs.replace(gpu(), attributes={"memory": Text("32G")})
    assert not found.selects(typed)


def test_what_the_package_says_it_offers_is_there() -> None:
    assert all(hasattr(fairway.devices, name) for name in fairway.devices.__all__)


@pytest.mark.parametrize(
    ("terms", "includes", "text"),
    [
        ([[("Kind", "In", ["gpu"]), ("memory", "GtEq", ["60Gi"])]], [], "Kind=gpu,memory>=60Gi"),
        ([[("Kind", "In", ["a", "b"])], [("x", "NotIn", ["c"])]], [], "Kind in (a,b) or x!=c"),
        ([[("x", "Exists", []), ("y", "DoesNotExist", []), ("z", "NotIn", ["1", "2"])]], [], "x,!y,z notin (1,2)"),
        ([[("v", "Lt", ["v3.10"]), ("w", "Eq", ["1"])]], [("fast", 2), ("nic", 1)], "v<v3.10,w=1 [2 fast + 1 nic]"),
        ([], [("core", 4)], "[4 core]"),
        ([], [], ""),
        ([[("k", "In", ["\x1b[2J\u202e"])]], [], "k=?[2J?"),
        ([[("k", "In", ["x" * 200])]], [], "k=" + "x" * 95 + "..."),
    ],
)
def test_a_class_is_summed_up_in_a_line(terms, includes, text):
    spec = {
        "resourceSelector": [made_devices.term(*expressions) for expressions in terms],
        "includes": [{"class": name, "count": count} for name, count in includes],
    }
    assert made("ResourceClass", "c", spec=spec).spec.summary() == text
