"""Expressions of one tenant that cost too much or cannot be run: a reason on its own object, and nothing for others."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.fleet import FleetState, place
from fairway.scheduler.plan import ExplainedPlan
from support.bombs import BOMBS, doubled, mapped, nested_all, shared
from support.cli import invoke, write
from support.devices import DRIVER, device_node, published, resource_slice
from support.engine import bound, decided, reasons, state_of, waiting
from support.engine import policy as make_policy
from support.objects import made, pod

POLICY = make_policy(devices={})
NODE = [
    device_node("n1"),
    resource_slice("s1", "n1", published("a"), published("b")),
    made("DeviceClass", "gpu", spec={}),
]


def claimed(name: str, *expressions: str, namespace: str = "default") -> list[Any]:
    """A pod and its claim."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
    return [
        made("ResourceClaim", name, namespace, spec={"devices": {"requests": [request]}}),
        pod(name, namespace, cpu=1, spec=spec),
    ]


def plan(*objects: Any) -> ExplainedPlan:
    return decided(state_of(NODE, *objects), POLICY)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_the_pod_waits_with_a_reason_and_the_other_gets_its_device(bomb: str) -> None:
    found = plan(claimed("bad", bomb), claimed("good", f'device.driver == "{DRIVER}"'))
    assert bound(found) == {"good": "n1"}
    assert set(reasons(found)) == {"bad"}


@pytest.mark.parametrize("bomb", [nested_all(3), doubled(), doubled(start="[1, 2, 3]"), shared(), mapped()])
def test_a_budget_that_is_exceeded_is_named_in_the_reason(bomb: str) -> None:
    assert "costs too much" in waiting(plan(claimed("bad", bomb)))["bad"].message


def test_a_budget_that_is_exceeded_only_on_some_devices_is_named_too() -> None:
    found = plan(claimed("bad", f"device.driver == '' ? false : {nested_all(3)}"))
    assert reasons(found) == {"bad": "DeviceUnavailable"}
    assert "costs too much" in waiting(found)["bad"].message


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_device_class_fails_for_those_alone_that_ask_for_it(bomb: str) -> None:
    hostile = made("DeviceClass", "bad", spec={"selectors": [{"cel": {"expression": bomb}}]})
    request = {"name": "r", "exactly": {"deviceClassName": "bad"}}
    found = plan(
        hostile,
        made("ResourceClaim", "c", "default", spec={"devices": {"requests": [request]}}),
        pod("bad", cpu=1, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
        claimed("good"),
    )
    assert bound(found) == {"good": "n1"}


def test_plan_exits_with_status_0_on_a_bomb_in_a_file(tmp_path: Any) -> None:
    objects = [*NODE, *claimed("bad", nested_all()), *claimed("good")]
    result = invoke("plan", "-f", str(write(objects, tmp_path)), "--all-pods", "-o", "json")
    assert result.code == 0, result.err


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_placement_with_a_bomb_leaves_the_others_alone(bomb: str) -> None:
    predicate = {"requiredClusterSelector": {"celSelector": {"celExpressions": [bomb]}}}
    whole = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    fleet = [
        made("ManagedCluster", "c1"),
        made("ManagedClusterSet", "global", spec=whole),
        made("ManagedClusterSetBinding", "global", "ns", spec={"clusterSet": "global"}),
        made("Placement", "good", "ns", spec={}),
        made(
            "Placement",
            "bad",
            "ns",
            spec={"predicates": [predicate]},
        ),
    ]
    outcomes = {outcome.name: outcome for outcome in place(FleetState(fleet), 0).outcomes}
    assert [item.cluster for item in outcomes["ns/good"].decisions] == ["c1"]
    assert "ns/bad" not in outcomes or not outcomes["ns/bad"].decisions, "it is set aside, or selects nothing"
