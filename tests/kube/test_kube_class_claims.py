"""The claim that tells a kubelet a pod's devices by class: what it says, how it is made, and that it counts once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fairway.api.devices import ResourceClaim
from fairway.api.pods import Pod
from fairway.drive.change import MakeClassClaim
from fairway.drive.claims import class_claim
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, WriteResult
from fairway.kube.requests.changes import script_of
from fairway.scheduler.plan import Binding, DeviceChoice
from support.objects import BEGIN

CLASS = "resourceclass.fairway.dev/"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims"


def pod(containers: list[dict[str, str]], init: list[dict[str, Any]] = []) -> Pod:  # noqa: B006 - not changed
    def made(prefix: str, number: int, classes: dict[str, Any]) -> dict[str, Any]:
        more = {"restartPolicy": "Always"} if classes.pop("sidecar", "") else {}
        limits = {CLASS + name: count for name, count in classes.items()}
        return {"name": f"{prefix}{number}", "resources": {"limits": limits}, **more}

    spec = {
        "containers": [made("c", number, dict(one)) for number, one in enumerate(containers)],
        "initContainers": [made("i", number, dict(one)) for number, one in enumerate(init)],
    }
    meta = {"name": "p", "namespace": "a", "uid": "u1"}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


def choice(class_name: str, device: str, **more: Any) -> DeviceChoice:
    return DeviceChoice(class_name, device, 1, **{"driver": "d", "pool": "n1/x.com/gpu", **more})


def shares(made: Any) -> dict[str, list[str]]:
    """The devices of each container."""
    claim, mappings = made[0], made[1].request_mappings
    results = claim.status.allocation.devices.results
    found: dict[str, list[str]] = {}
    for mapping in mappings:
        found.setdefault(mapping.container_name, []).extend(
            one.device for one in results if one.request == mapping.request_name
        )
    return found


def test_containers_that_run_together_have_different_devices():
    binding = Binding("a/p", "n1", (choice("g", "g0"), choice("g", "g1"), choice("g", "g2"), choice("nic", "n0")))
    made = class_claim(pod([{"g": "1"}, {"g": "2", "nic": "1"}], [{"g": "3"}]), binding, BEGIN)
    assert made is not None
    assert shares(made) == {"i0": ["g0", "g1", "g2"], "c0": ["g0"], "c1": ["g1", "g2", "n0"]}
    claim, mappings = made[0], made[1].request_mappings
    assert [mapping.request_name for mapping in mappings] == [
        "container-0-request-0",
        "container-1-request-0",
        "container-2-request-0",
        "container-2-request-1",
    ]
    assert mappings[3].resource_name == f"{CLASS}nic"
    exactly = claim.spec.devices.requests[2].exactly
    assert (exactly.device_class_name, exactly.count) == ("g", 2)
    assert claim.status.reserved_for[0].uid == claim.metadata.owner_references[0].uid == "u1"
    again = class_claim(pod([{"g": "1"}]), binding, BEGIN)
    assert again is not None
    assert again[0].metadata.name == claim.metadata.name


def test_a_sidecar_keeps_its_device_while_others_run():
    binding = Binding("a/p", "n1", (choice("g", "g0"), choice("g", "g1")))
    made = class_claim(pod([{"g": "1"}], [{"g": "1", "sidecar": "yes"}, {"g": "1"}]), binding, BEGIN)
    assert shares(made) == {"i0": ["g0"], "i1": ["g1"], "c0": ["g1"]}


def test_a_name_that_is_recorded_with_its_pool_is_the_published_one():
    made = class_claim(pod([{"g": "1"}]), Binding("a/p", "n1", (choice("g", "n1/x.com/gpu.g0"),)), BEGIN)
    assert shares(made) == {"c0": ["g0"]}


@pytest.mark.parametrize(
    "chosen",
    [
        (),
        (choice("g", "g0", driver=""),),
        (DeviceChoice("g", "g0", 0.5, driver="d", pool="p"),),
        (choice("g", "g0"), choice("g", "other", driver="")),
        (choice("g", "g0", claim="a/c", request="r"),),
        tuple(choice("g", f"g{number}") for number in range(33)),
    ],
)
def test_what_no_claim_can_say_stays_a_record(chosen):
    assert class_claim(pod([{"g": str(max(1, len(chosen)))}]), Binding("a/p", "n1", chosen), BEGIN) is None


# -- requests ----------------------------------------------------------------------------------------------------


def change(device: str = "g0", node: str = "n1") -> MakeClassClaim:
    made = class_claim(pod([{"g": "1"}]), Binding("a/p", node, (choice("g", device),)), BEGIN)
    assert made is not None
    claim, named = made
    key = ("ResourceClaim", "a", claim.metadata.name)
    return MakeClassClaim(key, "", claim, "a/p", "u1", named)


def on_server(claim: ResourceClaim, *, allocated: bool = False, **meta: Any) -> ApiAnswer:
    """As a server gives it back: with a uid, a version and what it fills in."""
    full = replace(claim, metadata=replace(claim.metadata, uid="c1", resource_version="7", **meta))
    return ApiAnswer(200, msgspec.json.encode(full if allocated else replace(full, status=type(claim.status)())))


def run(made: MakeClassClaim, *answers: ApiAnswer) -> tuple[list[tuple[str, str]], Any, WriteResult]:
    script, sent, last = script_of(made), [], None
    request = next(script)
    for answer in answers:
        sent.append((request.method, request.path.removeprefix(CLAIMS)))
        last = request.body
        try:
            request = script.send(answer)
        except StopIteration as end:
            return sent, msgspec.json.decode(last) if last else None, end.value.result
    raise AssertionError(f"it goes on with {request}")


OK = ApiAnswer(200, b'{"metadata":{"name":"n","resourceVersion":"9"}}')
NAME = f"/{change().claim.metadata.name}"
POD_STATUS = "/api/v1/namespaces/a/pods/p/status"


def test_the_claim_is_made_then_allocated_then_named_by_the_pod():
    sent, body, result = run(change(), on_server(change().claim), OK, OK)
    assert sent == [("POST", ""), ("PATCH", f"{NAME}/status"), ("PATCH", POD_STATUS)]
    assert result is WriteResult.DONE
    assert body["metadata"] == {"uid": "u1"}
    assert body["status"]["extendedResourceClaimStatus"] == {
        "requestMappings": [
            {"containerName": "c0", "resourceName": f"{CLASS}g", "requestName": "container-0-request-0"}
        ],
        "resourceClaimName": NAME[1:],
    }


def test_after_a_crash_what_was_made_already_is_found():
    """Killed after each step, or without an answer: the next attempt goes on, and makes no second claim."""
    exists, lost = ApiAnswer(409, b"{}"), NO_ANSWER
    for first in (exists, lost):
        sent, _, result = run(change(), first, on_server(change().claim, allocated=True), OK)
        assert sent == [("POST", ""), ("GET", NAME), ("PATCH", POD_STATUS)]
        assert result is WriteResult.DONE
        sent, _, result = run(change(), first, on_server(change().claim), OK, OK)
        assert sent[2:] == [("PATCH", f"{NAME}/status"), ("PATCH", POD_STATUS)]
    assert run(change(), lost, ApiAnswer(404))[2] is WriteResult.AGAIN


def test_a_choice_of_an_earlier_attempt_is_taken_back_first():
    """The choice may differ in devices or in node: nothing of it may stay."""
    for earlier in (change("g9"), change(node="n2")):
        there = on_server(earlier.claim, allocated=True)
        sent, _, result = run(change(), ApiAnswer(409, b"{}"), there, on_server(earlier.claim), OK, OK)
        assert sent[2:] == [("PATCH", f"{NAME}/status"), ("PATCH", NAME), ("DELETE", NAME)]
        assert result is WriteResult.AGAIN


def test_a_claim_of_that_name_that_another_made_is_left_alone():
    foreign = on_server(change().claim, owner_references=())
    sent, _, result = run(change(), ApiAnswer(409, b"{}"), foreign)
    assert result is WriteResult.REFUSED
    assert len(sent) == 2


def test_refusals_and_conflicts():
    assert run(change(), ApiAnswer(403, b"{}"))[2] is WriteResult.REFUSED
    assert run(change(), ApiAnswer(429, b"{}"))[2] is WriteResult.AGAIN
    assert run(change(), on_server(change().claim), ApiAnswer(409, b"{}"))[2] is WriteResult.AGAIN
    assert run(change(), on_server(change().claim), OK, ApiAnswer(404, b"{}"))[2] is WriteResult.REFUSED
