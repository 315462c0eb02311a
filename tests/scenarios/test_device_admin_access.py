"""Admin access to devices: it needs the label of a namespace, and takes nothing; classes closed to a namespace."""

from __future__ import annotations

import pytest

from fairway.api.kinds import ApiObject
from scenarios.test_device_claims import NODE, given, plan
from support.claims import allocated, claim, claiming, device_class, exactly, template
from support.devices import held, kind_class
from support.engine import bound, reasons, state_of, waiting
from support.objects import made, queue


def namespace(**labels: str) -> ApiObject:
    return made("Namespace", "default", metadata={"labels": labels})


ADMIN = namespace(**{"resource.kubernetes.io/admin-access": "true"})


def test_who_has_admin_access_looks_on_and_takes_nothing() -> None:
    looking = template("look", exactly(adminAccess=True, count=2))
    using = [template("use", exactly()), [claiming(f"u{i}", template="use", created=i + 1) for i in range(4)]]
    world = [ADMIN, NODE, looking, claiming("p", template="look", created=0), using]
    found = plan(world, queue("default", capability={"resourceclass.fairway.dev/gpu": 3}))
    assert given(found) == {"p": [("r", "a"), ("r", "b")], "u0": [("r", "a")], "u1": [("r", "b")], "u2": [("r", "c")]}
    (look,) = [binding for binding in found.bindings if binding.pod == "default/p"]
    assert [(choice.admin_access, choice.quantity) for choice in look.devices] == [(True, 0), (True, 0)]
    assert not any(choice.admin_access for b in found.bindings if b is not look for choice in b.devices)


def test_admin_access_is_had_to_devices_that_others_hold() -> None:
    busy = claim("other", exactly(count=3), status=allocated("other", "n1", "a", "b", "c"))
    everything = template("look", exactly(adminAccess=True, allocationMode="All"))
    found = plan(ADMIN, NODE, busy, everything, claiming("p", template="look"))
    assert given(found) == {"p": [("r", "a"), ("r", "b"), ("r", "c")]}
    too_many = template("look", exactly(adminAccess=True, count=4))
    assert reasons(plan(ADMIN, NODE, busy, too_many, claiming("p", template="look"))) == {"p": "DeviceUnavailable"}


@pytest.mark.parametrize("labels", [{}, {"resource.kubernetes.io/admin-access": "false"}])
def test_admin_access_needs_a_label_of_the_namespace(labels: dict[str, str]) -> None:
    looking = [template("look", exactly(adminAccess=True)), claiming("p", template="look")]
    found = waiting(plan(namespace(**labels), NODE, looking))["p"]
    assert found.reason == "NamespaceNotAllowed"
    assert "resource.kubernetes.io/admin-access=true" in found.message


def test_a_pod_that_runs_with_admin_access_holds_nothing() -> None:
    looking = [template("look", exactly(adminAccess=True)), claiming("p", template="look", node="n1")]
    assert held(state_of(ADMIN, device_class(), NODE, looking)) == {}


@pytest.mark.parametrize("alternatives", [False, True])
def test_a_class_that_is_not_open_to_a_namespace_is_not_open_to_its_claims(alternatives: bool) -> None:
    closed = kind_class("closed", "gpu", allowedNamespaces={"matchLabels": {"team": "a"}})
    wish = {"name": "x", "deviceClassName": "closed"}
    asked = {"name": "r", "firstAvailable": [wish]} if alternatives else exactly(device_class="closed")
    world = [closed, NODE, template("t", asked), claiming("p", template="t")]
    found = waiting(plan(*world))["p"]
    assert found.reason == "NamespaceNotAllowed"
    assert "may not request resource class closed" in found.message
    assert bound(plan(*world, namespace(team="a"))) == {"p": "n1"}
