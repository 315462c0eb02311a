"""CEL in the selectors of claims and DeviceClasses: what it sees of a device, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fairway.api.kinds import ApiObject
from fairway.scheduler.plan import ExplainedPlan, Plan
from support.claims import claim, claiming, device_class, exactly
from support.devices import DRIVER, device_node, published, resource_slice
from support.engine import decided, reasons, state_of, waiting
from support.engine import policy as make_policy
from support.objects import node

POLICY = make_policy(devices={})
A = published(
    "a",
    attributes={
        "model": {"string": "A100"},
        "index": {"int": 0},
        "driverVersion": {"version": "1.2.3"},
        "links": {"ints": [1, 2]},
        "modes": {"strings": ["mig", "vgpu"]},
        "other.example.com/rack": {"string": "r1"},
        "healthyEnough": {"bool": True},
    },
    capacity={"memory": {"value": "40Gi"}},
)
B = published(
    "b",
    attributes={"model": {"string": "H100"}, "index": {"int": 1}, "driverVersion": {"version": "1.10.0"}},
    capacity={"memory": {"value": "80Gi"}},
    allowMultipleAllocations=True,
)
C = published("c", attributes={"model": {"string": "spare"}}, capacity={"memory": {"value": "1Gi"}})
OWN = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'


def chosen(text: str, *more: str, others: Sequence[ApiObject] = ()) -> ExplainedPlan:
    devices = [device_node("n1"), resource_slice("s1", "n1", A, B, C)]
    found = claim("c", exactly(selectors=[text, *more]))
    spare = claim("d", exactly(selectors=[f'{OWN}.model == "spare"']))
    other = [spare, claiming("other", "d", created=9)]
    return decided(state_of(device_class(), devices, found, claiming("p", "c"), other, list(others)), POLICY)


def given(plan: Plan) -> dict[str, list[str]]:
    return {b.pod.removeprefix("default/"): [d.device for d in b.devices] for b in plan.bindings}


@pytest.mark.parametrize(
    ("text", "device"),
    [
        (f'{OWN}.model == "H100"', "b"),
        (f'{OWN}.driverVersion.isGreaterThan(semver("1.9.0"))', "b"),
        (f'{OWN}.driverVersion == semver("1.2.3")', "a"),
        (f"{OWN}.driverVersion.major() == 1 && {OWN}.index == 1", "b"),
        (f'{CAPACITY}.memory.compareTo(quantity("60Gi")) > 0', "b"),
        (f'{CAPACITY}.memory == quantity("40960Mi")', "a"),
        (f'{CAPACITY}.memory.add(quantity("40Gi")) == quantity("80Gi")', "a"),
        (f"{OWN}.links.includes(2)", "a"),
        (f'{OWN}.?modes.orValue([]).exists(m, m == "vgpu")', "a"),
        (f'{OWN}.model.includes("H100")', "b"),
        (f'{OWN}.model.lowerAscii().split("1")[0] == "h"', "b"),
        (f'{OWN}.model.find("[0-9]+") == "100" && {OWN}.index > 0', "b"),
        ("device.allowMultipleAllocations", "b"),
        (f"{OWN}.?healthyEnough.orValue(false)", "a"),
        ('device.attributes["other.example.com"].?rack.hasValue()', "a"),
        ('!("tape" in device.attributes["unknown.example.com"]) && device.driver != ""', "a"),
        (f"cel.bind(own, {OWN}, own.index == 1)", "b"),
        (f"has({OWN}.links)", "a"),
        (f'"model" in {OWN} && "{DRIVER}" in device.attributes && !("x" in device.attributes)', "a"),
    ],
)
def test_what_an_expression_sees_of_a_device(text: str, device: str) -> None:
    assert given(chosen(text))["p"] == [device]


def test_an_expression_that_fails_on_a_device_does_not_select_it() -> None:
    assert given(chosen(f"{OWN}.index == 1"))["p"] == ["b"], "c has no index: it fails there"
    assert reasons(chosen(f"{OWN}.gone == 1")) == {"p": "DeviceUnavailable"}


def test_all_expressions_have_to_agree() -> None:
    assert reasons(chosen(f"{OWN}.index == 0", f'{OWN}.model == "H100"')) == {"p": "DeviceUnavailable"}


def test_nodes_without_a_device_that_is_selected_say_so() -> None:
    """No node "has devices that cannot serve": one has none at all, the other none that the request selects."""
    found = waiting(chosen(f'{OWN}.model == "none"', others=[node("bare", cpu=8)]))["p"]
    assert found.message == "0/2 nodes fit: 2 nodes have no device that request r selects"


def test_an_expression_that_fails_on_all_devices_of_a_node_says_what_went_wrong() -> None:
    found = waiting(chosen(f"{OWN}.index / 0 == 1"))["p"]
    assert found.message.startswith("0/1 nodes fit: 1 node has no device that request r selects (CEL: ")
    assert "zero" in found.message


TEN = "[1,2,3,4,5,6,7,8,9,10]"


@pytest.mark.parametrize(
    "bomb",
    [
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, true)))))",
        "size('x'" + ".replace('x', 'xxxxxxxxxx')" * 12 + ") > 0",
        'lists.range(9999).map(x, "a").join().matches("(((a*)*)*)*b")',
    ],
)
def test_a_bomb_harms_no_other_claim(bomb: str) -> None:
    found = chosen(bomb)
    assert given(found) == {"other": ["c"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 + 1", "gives INT, expected BOOL"),
        (f'{CAPACITY}.memory == "40Gi"', "does not compile"),
        (f'{CAPACITY}.memory > quantity("1")', "does not compile"),
        ("managedCluster == 1", "does not compile"),
        ("device.gone", "does not compile"),
    ],
)
def test_what_does_not_compile_is_a_reason_of_the_claims_pods(text: str, message: str) -> None:
    found = chosen(text)
    assert waiting(found)["p"].reason == "ClassNotFound"
    assert message in waiting(found)["p"].message
    assert given(found) == {"other": ["c"]}
