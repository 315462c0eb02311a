"""Devices in a sandbox and in explanations: who was given which is known, after a restart too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.app.sandbox.engine import Sandbox
from support.devices import asking, device_node, gpu, held, kind_class, published, resource_slice
from support.engine import policy
from support.explaining import explained, texts
from support.objects import made as thing
from support.objects import pod
from support.sandboxes import after, made, phases, reopened, running_for

POLICY = policy(devices={})
SMALL_FIRST = {
    "name": "r",
    "firstAvailable": [{"name": "small", "deviceClassName": "small"}, {"name": "big", "deviceClassName": "big"}],
}
ALL_BIG = {"name": "r", "exactly": {"deviceClassName": "big", "allocationMode": "All"}}


def world() -> list[ApiObject]:
    kinds = {"a-big": "big", "b-small": "small"}
    devices = [published(name, attributes={"kind": {"string": kind}}) for name, kind in kinds.items()]
    return [
        device_node("n", cpu=8),
        resource_slice("s", "n", *devices),
        kind_class("big", "big"),
        kind_class("small", "small"),
        thing("ResourceClaimTemplate", "t", "default", spec={"spec": {"devices": {"requests": [SMALL_FIRST]}}}),
        thing("ResourceClaim", "all", "default", spec={"devices": {"requests": [ALL_BIG]}}),
    ]


def claiming(name: str, spec: dict[str, Any], **rest: Any) -> ApiObject:
    return pod(name, cpu=1, spec={"resourceClaims": [{"name": "c", **spec}]}, **rest)


BY_TEMPLATE, BY_NAME = {"resourceClaimTemplateName": "t"}, {"resourceClaimName": "all"}


def claims(sandbox: Sandbox) -> dict[str, list[str]]:
    """By claim: its devices and its users."""
    found = [one for one in sandbox.objects() if isinstance(one, ResourceClaim)]
    return {
        claim.metadata.name: [
            *(result.device for result in (claim.status.allocation.devices.results if claim.status.allocation else ())),
            *(user.name for user in claim.status.reserved_for),
        ]
        for claim in sorted(found, key=lambda claim: claim.metadata.name)
    }


def test_claims_survive_a_restart_at_every_stage(tmp_path: Path) -> None:
    pods = [claiming(name, BY_TEMPLATE, annotations=running_for("1m"), created=n) for n, name in enumerate("xy")]
    waits = claiming("z", BY_NAME, annotations=running_for("1m"), created=9)
    sandbox = made(world(), pods, waits, path=tmp_path / "s.db", with_policy=POLICY)
    stages: dict[float, dict[str, list[str]]] = {}
    for second in (0, 1, 2, 30, 61, 63, 64, 70, 123, 130):
        sandbox = reopened(after(sandbox, second))
        stages[second] = claims(sandbox)
    given = {"all": [], "x-c": ["b-small", "x"], "y-c": ["a-big", "y"]}
    assert [stages[second] for second in (0, 1, 2, 30, 61)] == [given] * 5
    assert [stages[second] for second in (63, 64, 70, 123)] == [{"all": ["a-big", "z"]}] * 4
    assert stages[130] == {"all": []}
    assert phases(sandbox) == {"x": "finished", "y": "finished", "z": "finished"}


def test_a_claim_that_is_applied_again_keeps_what_it_has() -> None:
    sandbox = after(made(world(), claiming("z", BY_NAME), with_policy=POLICY), 10)
    applied = sandbox.apply([one for one in world() if isinstance(one, ResourceClaim)])
    assert [one.result for one in applied] == ["unchanged"]
    assert claims(sandbox) == {"all": ["a-big", "z"]}


def test_who_is_deleted_leaves_nothing_behind() -> None:
    sandbox = after(made(world(), claiming("x", BY_TEMPLATE), claiming("z", BY_NAME), with_policy=POLICY), 10)
    sandbox.delete([("Pod", "default", "x"), ("Pod", "default", "z")])
    assert claims(sandbox) == {"all": []}


def records(sandbox: Sandbox) -> dict[str, list[str]]:
    return {
        one.metadata.name: sorted(key.rpartition("_")[2] for key in one.metadata.annotations if "resClass" in key)
        for one in sandbox.objects()
        if isinstance(one, Pod)
    }


@pytest.mark.parametrize("second", [0, 1, 3])
def test_the_record_of_a_class_survives_a_restart(tmp_path: Path, second: float) -> None:
    objects = [device_node("n", gpu("g0"), gpu("g1"), cpu=8), kind_class("gpu", "nvidia-gpu")]
    sandbox = made(objects, asking("a", classes={"gpu": 1}), path=tmp_path / "s.db", with_policy=POLICY)
    sandbox = reopened(after(sandbox, second))
    assert records(sandbox) == {"a": ["g0"]}
    assert held(sandbox.state) == {"n/g0": [("a", 1)]}


def test_a_pod_that_is_made_anew_has_only_what_it_is_given_now() -> None:
    objects = [device_node("n", gpu("g0"), cpu=8), kind_class("gpu", "nvidia-gpu")]
    sandbox = made(objects, asking("a", classes={"gpu": 1}), with_policy=POLICY)
    assert records(after(sandbox, 5)) == {"a": ["g0"]}
    sandbox.delete([("Node", "", "n")])
    assert records(after(sandbox, 6)) == {"a": []}
    sandbox.apply([device_node("m", gpu("h0"), cpu=8)])
    assert records(after(sandbox, 8)) == {"a": ["h0"]}
    assert held(sandbox.state) == {"m/h0": [("a", 1)]}


def test_explain_names_those_that_were_given_what_is_needed() -> None:
    pods = [claiming("a-first", BY_TEMPLATE, created=0), claiming("b-second", BY_TEMPLATE, created=1)]
    said = explained("z", world(), pods, claiming("z", BY_NAME, created=2), with_policy=POLICY)
    assert [text.split(" (")[0] for text in texts(said, "ends")] == ["wait for the end of default/b-second"]


def test_explain_knows_when_a_claimed_device_is_free() -> None:
    one_minute = {"fairway.dev/expected-runtime": "60"}
    other = thing("ResourceClaim", "too", "default", spec={"devices": {"requests": [ALL_BIG]}})
    first = claiming("a", BY_NAME, created=0, annotations=one_minute)
    then = claiming("z", {"resourceClaimName": "too"}, created=1)
    said = explained("z", world(), other, first, then, with_policy=POLICY)
    assert said.forecast is not None
    assert "(in 1m)" in said.forecast.text
