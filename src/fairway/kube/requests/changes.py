"""Each change of a plan as requests to an API server, and what the answers mean (spec K17 to K20).

Every request that decides something carries a precondition: the uid of the object that was meant, or the version that
was read. So a scheduler that acts on stale data is refused, and can do no harm. Every script may be run again from its
start after any answer, or after none: it then finds out what was done already.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.api.meta import ApiStruct
from fairway.clock import format_rfc3339
from fairway.drive import (
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    DeleteStops,
    Evict,
    MakeClassClaim,
    Nominate,
    PreBindVolume,
    ReleaseClaim,
    SelectNode,
    WriteReservation,
    WriteStops,
)
from fairway.kube.http.exchange import (
    DONE,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiAnswer,
    ApiRequest,
    Ending,
    Script,
    WriteResult,
    again,
    encoded,
    explained,
    is_budget_refusal,
    is_unsure,
    plain_ending,
    refused,
)
from fairway.kube.http.paths import pod_path
from fairway.kube.requests.claims import allocate_claim, make_class_claim, release_claim
from fairway.kube.requests.reservations import (
    GroupVersions,
    delete_reservation,
    delete_stops,
    write_reservation,
    write_stops,
)
from fairway.kube.requests.volumes import pre_bind_volume, select_node
from fairway.state.annotations import NOMINATED_SINCE

NO_VERSIONS: GroupVersions = {}


def script_of(change: Change, groups: GroupVersions = NO_VERSIONS) -> Script:
    """The requests for a change. `groups` has the PodGroups that are not Volcano's."""
    match change:
        case Bind():
            return bind(change)
        case AllocateClaim():
            return allocate_claim(change)
        case MakeClassClaim():
            return make_class_claim(change)
        case PreBindVolume():
            return pre_bind_volume(change)
        case SelectNode():
            return select_node(change)
        case ReleaseClaim():
            return release_claim(change)
        case Evict():
            return evict(change)
        case Nominate():
            return nominate(change)
        case WriteReservation():
            return write_reservation(change, groups)
        case DeleteReservation():
            return delete_reservation(change)
        case WriteStops():
            return write_stops(change, groups)
        case DeleteStops():
            return delete_stops(change)
        case _:
            raise TypeError(f"no request makes a {type(change).__name__}")


# -- pods: binding, eviction, nomination -------------------------------------------------------------------------------


GONE = "the pod is gone"


class PodReadMeta(ApiStruct, frozen=True):
    uid: str = ""
    deletion_timestamp: str | None = None


class PodReadSpec(ApiStruct, frozen=True):
    node_name: str = ""


class PodRead(ApiStruct, frozen=True):
    """The part of a pod that shows the outcome of a write to it."""

    metadata: PodReadMeta
    spec: PodReadSpec


def bind(change: Bind) -> Script:
    path = pod_path(change.key)
    answer = yield ApiRequest("POST", f"{path}/binding", _binding_body(change))
    if _is_success(answer):
        return DONE
    if answer.status == 404:
        return refused(GONE)
    if answer.status != 409 and not answer.ok and not is_unsure(answer):
        return plain_ending(answer)
    look = yield ApiRequest("GET", path)
    return _bound_as_seen(change, answer, look)


def _is_success(answer: ApiAnswer) -> bool:
    """Whether the API server itself confirms it. A gateway's 200 proves nothing: the pod is read."""
    return answer.ok and b'"Success"' in answer.body


def _binding_body(change: Bind) -> bytes:
    _, namespace, name = change.key
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if change.uid:
        meta["uid"] = change.uid
    if change.binding.annotations:
        meta["annotations"] = change.binding.annotations
    target = {"apiVersion": "v1", "kind": "Node", "name": change.binding.node}
    return encoded({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


def _bound_as_seen(change: Bind, answer: ApiAnswer, look: ApiAnswer) -> Ending:
    """After a conflict or no answer the pod itself shows the outcome of the binding. If it has no node and no answer
    came, the request may still arrive: only repeating it gives a final answer.
    """
    pod = _read_pod(change, look)
    if isinstance(pod, Ending):
        return pod
    if pod.spec.node_name == change.binding.node:
        return DONE
    if pod.spec.node_name:
        return refused(f"the pod is on node {pod.spec.node_name}")
    return refused(explained(answer)) if answer.status == 409 else again(answer)


def _read_pod(change: Change, look: ApiAnswer) -> PodRead | Ending:
    """The pod that was meant; an ending if it is gone, or cannot be read."""
    if look.status == 404:
        return refused(GONE)
    if not look.ok:
        return again(look)
    try:
        pod = msgspec.json.decode(look.body, type=PodRead)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(look)  # truncated
    if change.uid and pod.metadata.uid != change.uid:
        return refused(f"{GONE}; another one has its name")
    return pod


def evict(change: Evict) -> Script:
    path = pod_path(change.key)
    answer = yield ApiRequest("POST", f"{path}/eviction", _eviction_body(change))
    if is_budget_refusal(answer):
        why = f"a PodDisruptionBudget forbids the eviction: {explained(answer)}"
        return Ending(WriteResult.REFUSED, why, by_budget=True)
    if is_unsure(answer) or (answer.ok and not _is_success(answer)):
        look = yield ApiRequest("GET", path)
        ending = _evicted_as_seen(change, answer, look)
    else:
        ending = plain_ending(answer)
    if ending is DONE:
        # The eviction API overwrites the condition; ours has the job and the rule, so it follows. Written first, it
        # would also stay on a pod that a budget protects. The pod may be gone by now: the answer does not matter.
        yield ApiRequest("PATCH", f"{path}/status", _disruption_body(change), STRATEGIC_PATCH)
    return ending


def _eviction_body(change: Evict) -> bytes:
    _, namespace, name = change.key
    meta = {"name": name, "namespace": namespace}
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    if change.uid:
        body["deleteOptions"] = {"preconditions": {"uid": change.uid}}
    return encoded(body)


def _disruption_body(change: Evict) -> bytes:
    eviction = change.eviction
    by = f"{eviction.action} for {eviction.for_}" if eviction.for_ else eviction.action
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{by}: {eviction.reason}",
    }
    return encoded({**precondition(change), "status": {"conditions": [condition]}})


def _evicted_as_seen(change: Evict, answer: ApiAnswer, look: ApiAnswer) -> Ending:
    pod = _read_pod(change, look)
    if isinstance(pod, Ending):
        return pod
    if pod.metadata.deletion_timestamp is not None:
        return DONE
    if answer.status == 500 and "more than one PodDisruptionBudget" in explained(answer):
        return Ending(WriteResult.REFUSED, explained(answer), by_budget=True)
    return again(answer)


def nominate(change: Nominate) -> Script:
    since = format_rfc3339(change.at) if change.node else None
    body = precondition(change, annotations={NOMINATED_SINCE: since})
    body["status"] = {"nominatedNodeName": change.node or None}
    answer = yield ApiRequest("PATCH", f"{pod_path(change.key)}/status", encoded(body), MERGE_PATCH)
    return plain_ending(answer)


def precondition(change: Change, **metadata: Any) -> dict[str, Any]:
    """The start of a patch that is refused (409) if the object is not the one that was meant."""
    if change.uid:
        metadata["uid"] = change.uid
    return {"metadata": metadata} if metadata else {}
