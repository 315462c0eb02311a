"""Requests about pods: binding, eviction, nomination. See `changes` for the rules they follow."""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.api.meta import ApiStruct
from fairway.clock import format_rfc3339
from fairway.drive import Bind, Change, Evict, Nominate
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
from fairway.state.annotations import NOMINATED_SINCE

GONE = "the pod is gone"


class PodReadMeta(ApiStruct, frozen=True):
    uid: str = ""
    deletion_timestamp: str | None = None


class PodReadSpec(ApiStruct, frozen=True):
    node_name: str = ""


class PodRead(ApiStruct, frozen=True):
    """What has to be known of a pod to say what became of a write to it."""

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
    """Whether the API server itself says so. What a gateway answers with 200 says nothing: the pod is looked at."""
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
    """After a conflict or no answer: the pod itself says what became of the binding. If it has no node although no
    answer came, the request may still be on its way: only sending the same again gives an answer that lasts.
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
    """The pod that was meant; an ending if it is gone, or cannot be read now."""
    if look.status == 404:
        return refused(GONE)
    if not look.ok:
        return again(look)
    try:
        pod = msgspec.json.decode(look.body, type=PodRead)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(look)  # cut off on the way
    if change.uid and pod.metadata.uid != change.uid:
        return refused(f"{GONE}, another has its name")
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
        # The eviction API writes a condition of its own over any that is there; ours says for which job and by which
        # rule, so it comes after. Before, it would also stay on a pod that a budget protects. The pod may be gone by
        # now: what becomes of this request changes nothing.
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
    """The start of a patch that is refused (409) if the object is another than the one that was meant."""
    if change.uid:
        metadata["uid"] = change.uid
    return {"metadata": metadata} if metadata else {}
