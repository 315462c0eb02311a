"""Each change as requests: what is sent, with which precondition, and what every answer means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.api.devices import (
    AllocatedDevices,
    Allocation,
    ClaimConsumer,
    DeviceResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from fairway.api.kinds import ObjectKey
from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import JobReference, Reservation, ReservationSpec
from fairway.drive.change import (
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    Evict,
    Nominate,
    ReleaseClaim,
    WriteReservation,
)
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest, Ending, WriteResult
from fairway.kube.requests.changes import script_of
from fairway.scheduler.plan import Binding, Eviction
from support.objects import BEGIN

POD: ObjectKey = ("Pod", "team", "p")
PATH = "/api/v1/namespaces/team/pods/p"
RESERVATIONS = "/apis/fairway.dev/v1alpha1/namespaces/team/reservations"
CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c"
FINALIZER = "resource.kubernetes.io/delete-protection"

BIND = Bind(POD, "u1", Binding("team/p", "n1", annotations={"a": "b"}), BEGIN)
EVICT = Evict(POD, "u1", Eviction("team/p", "n1", "team/big", "preempt", "higher priority"), BEGIN)
NOMINATE = Nominate(POD, "u1", "n2", BEGIN)


def answer(status: int, body: Any = None, retry_after: float | None = None) -> ApiAnswer:
    return ApiAnswer(status, b"" if body is None else msgspec.json.encode(body), retry_after)


def pod(uid: str = "u1", node: str = "", deleted: bool = False) -> ApiAnswer:
    meta = {"uid": uid, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    return answer(200, {"metadata": meta, "spec": {"nodeName": node} if node else {}})


def error(status: int, message: str = "", cause: str = "") -> ApiAnswer:
    details = {"causes": [{"reason": cause, "message": message}]} if cause else {}
    return answer(status, {"kind": "Status", "message": message, "details": details})


def run(change: Change, *answers: ApiAnswer, groups: Any = None) -> tuple[list[ApiRequest], Ending]:
    """What is sent when these answers come, and how it ends. All answers must be used."""
    script, sent, left = script_of(change, groups or {}), [], list(answers)
    try:
        sent.append(next(script))
        while True:
            sent.append(script.send(left.pop(0)))
    except StopIteration as end:
        assert not left, "the script ended before it had all answers"
        return sent, end.value


def body(request: ApiRequest) -> Any:
    assert request.body is not None
    return msgspec.json.decode(request.body)


SUCCESS = ApiAnswer(201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}')


# -- binding -----------------------------------------------------------------------------------------------------


def test_a_binding_names_the_uid_and_carries_the_annotations() -> None:
    (request,), ending = run(BIND, SUCCESS)
    assert (request.method, request.path, request.content_type) == ("POST", f"{PATH}/binding", "application/json")
    assert body(request) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "team", "uid": "u1", "annotations": {"a": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert ending.result == WriteResult.DONE


@pytest.mark.parametrize(
    ("answers", "result", "why"),
    [
        ([answer(404)], "refused", "gone"),
        ([error(409, "is being deleted"), pod(deleted=True)], "refused", "is being deleted"),
        ([error(409, "already assigned"), pod(node="n9")], "refused", "on node n9"),
        ([error(409, "already assigned"), pod(node="n1")], "done", ""),
        ([error(409, "precondition"), pod(uid="u2")], "refused", "another one has its name"),
        ([NO_ANSWER, pod(node="n1")], "done", ""),
        ([NO_ANSWER, pod()], "again", "no answer"),
        ([NO_ANSWER, NO_ANSWER], "again", "no answer"),
        ([NO_ANSWER, answer(404)], "refused", "gone"),
        ([error(500, "etcdserver: request timed out"), pod(node="n1")], "done", ""),
        ([error(500, 'Internal error occurred: failed calling webhook "w": EOF')], "refused", "failed calling webhook"),
        ([error(504, "timeout"), pod()], "again", "timeout"),
        ([error(429, "too many requests")], "again", "too many"),
        ([answer(401)], "again", "401"),
        ([error(403, "quota policy")], "refused", "quota policy"),
        ([error(422, "is invalid")], "refused", "is invalid"),
        ([NO_ANSWER, ApiAnswer(200, b'{"metadata": {"uid"')], "again", ""),
        ([ApiAnswer(200, b"<html>hello</html>"), pod()], "again", "200"),
        ([ApiAnswer(200), pod(node="n1")], "done", ""),
    ],
)
def test_answers_to_a_binding(answers: list[ApiAnswer], result: str, why: str) -> None:
    sent, ending = run(BIND, *answers)
    assert ending.result == result
    assert why in ending.why
    assert [request.method for request in sent] == ["POST", "GET"][: len(answers)]


def test_a_refusal_that_reading_again_does_not_cure_is_kept_back() -> None:
    assert run(BIND, error(403, "no"))[1].wait > 0
    assert run(BIND, answer(404))[1].wait == 0


def test_the_server_says_how_long_to_wait() -> None:
    assert run(BIND, answer(429, {}, 7.0))[1].wait == 7.0
    assert run(BIND, answer(429, {"details": {"retryAfterSeconds": 3}}))[1].wait == 3.0
    assert run(BIND, ApiAnswer(429, b"<html>busy</html>"))[1].wait > 0
    assert run(BIND, answer(429, {}, 999_999.0))[1].wait == 300.0, "within reason"
    assert run(BIND, answer(429, {"details": {"retryAfterSeconds": 999_999}}))[1].wait == 300.0


# -- eviction ----------------------------------------------------------------------------------------------------


def test_an_eviction_names_the_uid_and_then_says_why() -> None:
    (first, second), ending = run(EVICT, SUCCESS, answer(200))
    assert (first.method, first.path) == ("POST", f"{PATH}/eviction")
    assert body(first)["deleteOptions"] == {"preconditions": {"uid": "u1"}}
    assert body(first)["apiVersion"] == "policy/v1"
    assert (second.method, second.path) == ("PATCH", f"{PATH}/status")
    assert second.content_type == "application/strategic-merge-patch+json"
    (condition,) = body(second)["status"]["conditions"]
    assert body(second)["metadata"] == {"uid": "u1"}
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert condition["message"] == "preempt for team/big: higher priority"
    assert ending.result == WriteResult.DONE


@pytest.mark.parametrize("last", [answer(404), answer(409), NO_ANSWER, answer(500)])
def test_the_condition_of_a_victim_may_come_too_late(last: ApiAnswer) -> None:
    assert run(EVICT, SUCCESS, last)[1].result == WriteResult.DONE


@pytest.mark.parametrize(
    ("answers", "result", "why"),
    [
        ([error(429, "Cannot evict", "DisruptionBudget")], "refused", "PodDisruptionBudget"),
        ([error(429, "too many requests")], "again", "too many"),
        ([answer(404)], "refused", "gone"),
        ([error(409, "uid")], "refused", "uid"),
        ([NO_ANSWER, pod()], "again", "no answer"),
        ([NO_ANSWER, pod(deleted=True), answer(200)], "done", ""),
        ([NO_ANSWER, pod(uid="u2")], "refused", "another"),
        ([ApiAnswer(200, b"<html>hello</html>"), pod()], "again", "200"),
        ([answer(200), pod(deleted=True), answer(200)], "done", ""),
        ([error(500, "This pod has more than one PodDisruptionBudget, which"), pod()], "refused", "more than one"),
    ],
)
def test_answers_to_an_eviction(answers: list[ApiAnswer], result: str, why: str) -> None:
    _, ending = run(EVICT, *answers)
    assert ending.result == result
    assert why in ending.why


# -- nomination --------------------------------------------------------------------------------------------------


def test_a_nomination_says_since_when_and_is_taken_back() -> None:
    (request,), ending = run(NOMINATE, answer(200))
    assert (request.method, request.path) == ("PATCH", f"{PATH}/status")
    assert body(request) == {
        "metadata": {"uid": "u1", "annotations": {"fairway.dev/nominated-since": "2026-01-01T00:00:00Z"}},
        "status": {"nominatedNodeName": "n2"},
    }
    assert ending.result == WriteResult.DONE
    (request,), _ = run(Nominate(POD, "u1", "", BEGIN), answer(200))
    assert body(request)["status"] == {"nominatedNodeName": None}
    assert body(request)["metadata"]["annotations"] == {"fairway.dev/nominated-since": None}


@pytest.mark.parametrize(
    ("given", "result"),
    [(answer(404), "refused"), (answer(409), "refused"), (NO_ANSWER, "again"), (answer(503), "again")],
)
def test_answers_to_a_nomination(given: ApiAnswer, result: str) -> None:
    assert run(NOMINATE, given)[1].result == result


# -- reservations ------------------------------------------------------------------------------------------------

SPEC = ReservationSpec(JobReference("PodGroup", "big", "g1"))
KEY: ObjectKey = ("Reservation", "team", "big")
VERSION = {"metadata": {"resourceVersion": "12"}}


def test_a_reservation_is_created_with_its_owner() -> None:
    (request,), ending = run(WriteReservation(KEY, "", Reservation(SPEC)), answer(201, VERSION))
    assert (request.method, request.path) == ("POST", RESERVATIONS)
    assert body(request)["metadata"]["ownerReferences"] == [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "name": "big", "uid": "g1"}
    ]
    assert ending.result == WriteResult.DONE


def test_the_owner_of_a_reservation_is_named_under_its_own_api() -> None:
    groups = {("PodGroup", "team", "big"): "scheduling.k8s.io/v1beta1"}
    (request,), _ = run(WriteReservation(KEY, "", Reservation(SPEC)), answer(201), groups=groups)
    assert body(request)["metadata"]["ownerReferences"][0]["apiVersion"] == "scheduling.k8s.io/v1beta1"


def test_a_reservation_that_is_known_is_replaced_whole() -> None:
    (request,), ending = run(WriteReservation(KEY, "r1", Reservation(SPEC)), answer(200, VERSION))
    assert (request.method, request.path) == ("PATCH", f"{RESERVATIONS}/big")
    assert request.content_type == "application/json-patch+json"
    steps = body(request)
    assert steps[0] == {"op": "test", "path": "/metadata/uid", "value": "r1"}
    assert [step["path"] for step in steps[1:]] == ["/metadata/ownerReferences", "/spec", "/status"]
    assert ending.result == WriteResult.DONE


def test_a_reservation_that_was_created_by_a_lost_request_is_found() -> None:
    there = answer(200, {"metadata": {"uid": "r7"}})
    sent, ending = run(WriteReservation(KEY, "", Reservation(SPEC)), answer(409), there, answer(200, VERSION))
    assert [request.method for request in sent] == ["POST", "GET", "PATCH"]
    assert body(sent[2])[0]["value"] == "r7"
    assert ending == Ending(WriteResult.DONE, version="12")


@pytest.mark.parametrize(("given", "result"), [(404, "done"), (409, "done"), (200, "done"), (500, "again")])
def test_a_reservation_is_deleted_by_its_uid(given: int, result: str) -> None:
    (request,), ending = run(DeleteReservation(KEY, "r1"), answer(given))
    assert (request.method, request.path) == ("DELETE", f"{RESERVATIONS}/big")
    assert body(request)["preconditions"] == {"uid": "r1"}
    assert ending.result == result


# -- claims ------------------------------------------------------------------------------------------------------

CLAIM_KEY: ObjectKey = ("ResourceClaim", "team", "c")
ALLOCATION = Allocation(AllocatedDevices((DeviceResult("r", "d", "pool", "gpu-0"),)))
MINE, OTHERS = ClaimConsumer("pods", "p", "u1"), ClaimConsumer("pods", "q", "u2")


def claim(
    version: str = "5", users: tuple[ClaimConsumer, ...] = (MINE,), allocation: Allocation | None = ALLOCATION
) -> ResourceClaim:
    meta = ObjectMeta(name="c", namespace="team", uid="c1", resource_version=version)
    return ResourceClaim(metadata=meta, status=ResourceClaimStatus(allocation, users))


ALLOCATE = AllocateClaim(CLAIM_KEY, "c1", claim(), "team/p")


def stored(version: str, protected: bool = True, uid: str = "c1", **status: Any) -> ApiAnswer:
    meta = {"name": "c", "uid": uid, "resourceVersion": version, **({"finalizers": [FINALIZER]} if protected else {})}
    return answer(200, {"metadata": meta, "status": status})


def test_a_claim_is_protected_then_allocated_each_at_the_version_that_was_read() -> None:
    (first, second), ending = run(ALLOCATE, stored("6"), stored("7"))
    assert (first.method, first.path) == ("PATCH", CLAIM_PATH)
    assert body(first)["metadata"] == {"uid": "c1", "resourceVersion": "5", "finalizers": [FINALIZER]}
    assert (second.method, second.path) == ("PATCH", f"{CLAIM_PATH}/status")
    assert body(second)["metadata"] == {"uid": "c1", "resourceVersion": "6"}
    assert body(second)["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "u1"}]
    assert body(second)["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert ending.result == WriteResult.DONE


def test_a_claim_that_moved_on_is_read_and_its_other_users_are_kept() -> None:
    allocation = msgspec.to_builtins(ALLOCATION)
    now = stored("9", allocation=allocation, reservedFor=[msgspec.to_builtins(OTHERS)])
    (_, look, patch), ending = run(ALLOCATE, error(409, "modified"), now, stored("10"))
    assert look.method == "GET"
    assert body(patch)["metadata"]["resourceVersion"] == "9"
    assert [user["name"] for user in body(patch)["status"]["reservedFor"]] == ["q", "p"]
    assert ending.result == WriteResult.DONE


@pytest.mark.parametrize(
    ("look", "result", "why"),
    [
        (answer(404), "refused", "gone"),
        (stored("9", uid="c2"), "refused", "another"),
        (
            stored(
                "9",
                allocation={
                    "devices": {"results": [{"request": "r", "driver": "d", "pool": "pool", "device": "gpu-7"}]}
                },
            ),
            "refused",
            "other devices",
        ),
        (NO_ANSWER, "again", "no answer"),
    ],
)
def test_a_claim_that_cannot_be_had_any_more(look: ApiAnswer, result: str, why: str) -> None:
    _, ending = run(ALLOCATE, error(409, "modified"), look)
    assert ending.result == result
    assert why in ending.why


def test_a_claim_that_changes_all_the_time_is_tried_again_later() -> None:
    answers = [given for _ in range(5) for given in (error(409, "modified"), stored("9"))]
    assert run(ALLOCATE, *answers)[1].result == WriteResult.AGAIN


def test_a_claim_that_its_controller_has_not_made_yet_is_not_made_here() -> None:
    sent, ending = run(AllocateClaim(CLAIM_KEY, "", claim(), "team/p"))
    assert sent == []
    assert ending.result == WriteResult.REFUSED


def test_a_claim_is_released_only_as_it_was() -> None:
    (request,), ending = run(ReleaseClaim(CLAIM_KEY, "c1", claim("8")), answer(200))
    assert body(request) == {
        "metadata": {"uid": "c1", "resourceVersion": "8"},
        "status": {"allocation": None, "reservedFor": None, "devices": None},
    }
    assert ending.result == WriteResult.DONE
    assert run(ReleaseClaim(CLAIM_KEY, "c1", claim("8")), answer(409))[1].result == WriteResult.REFUSED
