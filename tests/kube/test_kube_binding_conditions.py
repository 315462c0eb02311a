"""Devices whose drivers have to make them ready first: what is asked of the server, and what ends the wait."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.api.devices import ResourceClaim
from fairway.drive.change import Bind, MakeClassClaim
from fairway.drive.planned_changes import changes_of
from fairway.drive.store import ObjectStore
from fairway.kube.http.exchange import ApiAnswer, Ending, WriteResult
from fairway.kube.requests.claims import devices_ready
from fairway.scheduler.plan import Binding
from support.claims import claim, claiming, device_class, exactly
from support.devices import DRIVER, asking, device_node, kind_class, published, resource_slice
from support.engine import decided, state_of
from support.engine import policy as make_policy

SLOW = {"bindingConditions": ["Ready", "Wired"], "bindingFailureConditions": ["Broken"], "bindsToNode": True}
KEY = ("ResourceClaim", "default", "c")


def allocated(*said: tuple[str, str], device: str = "slow", share: str | None = None) -> bytes:
    """A claim that has the device, and what its driver says of a device."""
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": "slow"}
    conditions = [{"type": kind, "status": status} for kind, status in said]
    devices = [
        {
            "driver": DRIVER,
            "pool": "n",
            "device": device,
            "conditions": conditions,
            **({"shareID": share} if share else {}),
        }
    ]
    results = [{**result, "bindingConditions": ["Ready", "Wired"], "bindingFailureConditions": ["Broken"]}]
    status = {"allocation": {"devices": {"results": results}}, "devices": devices}
    return msgspec.json.encode({"metadata": {"name": "c", "namespace": "default"}, "status": status})


def ended(body: bytes, status: int = 200, *, expired: bool = False) -> Ending:
    script = devices_ready(
        Bind(("Pod", "default", "p"), "", Binding("default/p", "n"), 0, awaits=(KEY,)), lambda: expired
    )
    request = next(script)
    assert (request.method, request.path) == ("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c")
    with pytest.raises(StopIteration) as end:
        script.send(ApiAnswer(status, body))
    ending: Ending = end.value.value
    return ending


def test_it_waits_until_all_conditions_are_true() -> None:
    for said in ([], [("Ready", "True")], [("Ready", "True"), ("Wired", "False")]):
        assert ended(allocated(*said)).result is WriteResult.AGAIN
    assert ended(allocated(("Ready", "True"), ("Wired", "True"))).result is WriteResult.DONE


def test_only_what_is_said_of_the_very_device_counts() -> None:
    ready = (("Ready", "True"), ("Wired", "True"))
    assert ended(allocated(*ready, device="other")).result is WriteResult.AGAIN
    assert ended(allocated(*ready, share="5f0b2f0e-6c0a-5d0f-9a54-b0a3f3d7c1e2")).result is WriteResult.AGAIN


@pytest.mark.parametrize(
    ("body", "status", "expired", "why"),
    [
        (allocated(("Broken", "True"), ("Ready", "True")), 200, False, "cannot be used: Broken"),
        (allocated(("Ready", "True")), 200, True, "not ready: Ready, Wired"),
        (b"", 404, False, "claim c is gone"),
        (msgspec.json.encode({"metadata": {"name": "c"}}), 200, False, "no longer allocated"),
    ],
)
def test_it_gives_up_where_it_cannot_come_true(body: bytes, status: int, expired: bool, why: str) -> None:
    ending = ended(body, status, expired=expired)
    assert ending.result is WriteResult.REFUSED
    assert why in ending.why


def test_an_answer_that_is_cut_off_is_asked_for_again() -> None:
    assert ended(b"{", 200).result is WriteResult.AGAIN
    assert ended(b"", 503).result is WriteResult.AGAIN


def changes(*objects: Any) -> list[Any]:
    node = [
        device_node("n"),
        resource_slice("s", "n", published("slow", attributes={"kind": {"string": "gpu"}}, **SLOW)),
    ]
    things = [*node, *objects]
    store = ObjectStore()
    for thing in things:
        store.seen(thing)
    plan = decided(state_of(*things), make_policy(devices={}))
    return changes_of(plan, store, 0, class_claims=True)


def test_bindings_say_which_claims_they_wait_for() -> None:
    allocate, bind = changes(device_class(), claim("c", exactly()), claiming("p", "c"))
    (result,) = allocate.claim.status.allocation.devices.results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("Ready", "Wired"), ("Broken",))
    assert bind.awaits == (KEY,)
    make, bind = changes(kind_class("gpu", "gpu"), asking("p", classes={"gpu": 1}))
    assert isinstance(make, MakeClassClaim)
    assert bind.awaits == (make.key,)
    assert make.claim.status.allocation is not None
    assert make.claim.status.allocation.devices.results[0].binding_conditions == ("Ready", "Wired")


def test_a_claim_that_is_ready_is_not_waited_for() -> None:
    body = allocated(("Ready", "True"), ("Wired", "True"))
    ready = msgspec.json.decode(body, type=ResourceClaim)
    (bind,) = (one for one in changes(device_class(), ready, claiming("p", "c")) if isinstance(one, Bind))
    assert bind.awaits == ()
