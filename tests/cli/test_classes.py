"""The page on devices: what it shows is what a user sees, and what it says of values is what the matcher does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.api.devices import ClassRequirement, ClassSelector
from fairway.devices import Device, compile_selector
from fairway.devices.model.values import Raw
from support.cli import invoke
from support.pages import ROOT, in_the_checkout, plain  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("in_the_checkout")

PAGE = (ROOT / "docs" / "devices.md").read_text()
VALUES = re.findall(
    r"^\| `([^`]+)` \| `(\w+) ([^`]+)` \| (yes|no)(?:.*`(\w+Mismatch|NotOrdered)`)?.*\|$", PAGE, re.MULTILINE
)
EXAMPLES = sorted((ROOT / "examples").glob("device*/*.yaml"))


def plan(*files: str, policy: str | None = None) -> dict[str, Any]:
    arguments = [part for file in files for part in ("-f", f"examples/device-features/{file}.yaml")]
    chosen = ["--policy", policy] if policy else []
    return invoke("plan", *arguments, *chosen, "--now", "2026-01-02T00:00:00Z", "-o", "json", "--paranoid").plan


def given(plan: dict[str, Any]) -> dict[str, list[str]]:
    return {b["pod"].removeprefix("default/"): [d["device"] for d in b["devices"]] for b in plan["bindings"]}


def waiting(plan: dict[str, Any]) -> dict[str, str]:
    return {job["job"].removeprefix("default/"): job["reason"] for job in plan["pending"]}


def test_the_page_was_read() -> None:
    assert len(VALUES) >= 10


@pytest.mark.parametrize("row", VALUES, ids=" ".join)
def test_a_value_meets_a_requirement_as_the_page_says(row: tuple[str, str, str, str, str]) -> None:
    found, operator, values, answer, fault = row
    requirement = ClassRequirement("key", operator, tuple(values.split(", ")))  # type: ignore[arg-type]
    device = Device("n", "", "", "d", "k", attributes={"key": Raw(found)})
    result = compile_selector([ClassSelector((requirement,))]).match(device)
    assert result.matched is (answer == "yes")
    assert result.problems == ((fault,) if fault else ())


def test_the_three_classes_of_the_proposal_are_those_of_the_example() -> None:
    shown = next(block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "fast.nic" in block)
    classes = list(yaml.safe_load_all(shown))
    example = yaml.safe_load_all((ROOT / "examples" / "devices" / "classes.yaml").read_text())
    assert [thing["metadata"]["name"] for thing in classes] == ["nvidia.high.mem", "hugepages-1gig", "fast.nic"]
    assert [thing for thing in example if thing in classes] == classes


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_on_the_page(example: Path) -> None:
    assert str(example.relative_to(ROOT)) in PAGE


def test_a_group_takes_its_members_along_and_is_whole_or_not_to_be_had() -> None:
    found = plan("numa")
    assert given(found) == {"pinned": ["numa-0"], "small": ["core-4"]}
    assert waiting(found) == {"pinned-too": "DeviceUnavailable"}
    standings = {c["name"]: (c["allocatable"], c["requested"]) for c in found["resourceClasses"]}
    assert standings == {"numa-node": (2, 2), "single-core": (8, 5)}


def test_parts_share_a_device() -> None:
    found = plan("sharing")
    assert given(found) == {"chat": ["acc-0"], "search": ["acc-1"], "rank": ["acc-0"]}
    assert waiting(found) == {"train": "DeviceUnavailable"}


def test_claims_are_served_as_they_ask() -> None:
    found = plan("claims")
    assert given(found) == {"trainer": ["gpu-1", "gpu-2"], "server": ["gpu-3"], "server-too": ["gpu-0"]}
    assert waiting(found) == {"benchmark": "DeviceUnavailable"}
    (taken,) = [binding["devices"] for binding in found["bindings"] if binding["pod"] == "default/server-too"]
    assert [(choice["class"], choice["request"]) for choice in taken] == [("big.gpu", "gpu/big")]


def test_a_device_on_a_network_is_given_once() -> None:
    found = plan("far")
    assert given(found) == {"search": ["card-1"]}
    assert {c["name"]: (c["allocatable"], c["requested"]) for c in found["resourceClasses"]} == {"fpga": (2, 2)}


def test_the_pod_goes_before_the_policy_in_choosing_the_strategy() -> None:
    assert given(plan("strategies")) == {"modest": ["a-big"]}
    least_loss = plan("strategies", policy="examples/policies/gpu-cluster.yaml")
    assert given(least_loss) == {"modest": ["b-small"], "hungry": ["a-big"]}
    assert given(plan("strategies", "override"))["thoughtful"] == ["b-small"]
