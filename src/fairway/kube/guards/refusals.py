"""Consequences of what the server refuses: evictions that a budget forbids, and Reservations that may not be written.

**Budgets.** What a PodDisruptionBudget allows is counted by a controller and may be out of date. When one forbids an
eviction, all budgets over that pod count as used up in our view, as an overlay that is never written: the next plan
takes another victim, and the budget counts again as soon as its object has another version. A claimant is nominated to
the victim's node; if the victim stays, the nomination is withdrawn: it would wait there for capacity that nobody frees.

**Reservations.** A Reservation that is not written does not exist: another replica, or this one after a restart, would
not have it. Access reviews alone do not tell whether one may be written, because the admission policy of `fairway
install` accepts Reservations of one user only. So a Reservation is also created in a dry run: the server answers as it
would, and stores nothing. That is done at start, and again after a Reservation was refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.meta import ApiStruct
from fairway.api.pods import Pod, matches
from fairway.api.scheduling import PodDisruptionBudget
from fairway.clock import Micros
from fairway.drive import Change, Evict, Nominate, ObjectStore, pod_key
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest, encoded, explained, is_rejected_unread, is_unsure
from fairway.kube.http.paths import FAIRWAY, collection_path
from fairway.state.cluster import ClusterState

# -- budgets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UsedUpBudget(Change):
    """An overlay: this version of a budget allows no more evictions."""

    version: str

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, PodDisruptionBudget):
            return thing
        return replace(thing, status=replace(thing.status, disruptions_allowed=0))

    def shown_by(self, thing: ApiObject) -> bool:
        return thing.metadata.resource_version != self.version


def hold_budgets(store: ObjectStore, eviction: Evict) -> int:
    """Count the budgets over a pod as used up; returns how many were not so already."""
    pod = store.get(eviction.key)
    if not isinstance(pod, Pod):
        return 0
    held = [
        UsedUpBudget(key, thing.metadata.uid, thing.metadata.resource_version)
        for key, thing in store.of_kind("PodDisruptionBudget")
        if isinstance(thing, PodDisruptionBudget)
        and key[1] == eviction.key[1]
        and thing.status.disruptions_allowed != 0
        and matches(thing.spec.selector, pod.metadata.labels)
    ]
    store.sent(held)
    return len(held)


def withdrawals(state: ClusterState, store: ObjectStore, eviction: Evict, now: Micros) -> list[Change]:
    """The nominations to withdraw, if the victim is still on its node and not terminating."""
    victim, job_key, node = store.get(eviction.key), eviction.eviction.for_, eviction.eviction.node
    if not isinstance(victim, Pod) or victim.metadata.deletion_timestamp is not None:
        return []
    lone, group = state.tasks.get(job_key), state.groups.get(job_key)
    names = [task.key for task in group.tasks] if group is not None else [] if lone is None else [job_key]
    return [
        Nominate(pod_key(name), pod.metadata.uid, "", now)
        for name in names
        if isinstance(pod := store.get(pod_key(name)), Pod)
        and pod.status.nominated_node_name == node
        and not pod.spec.node_name
    ]


# -- reservations ------------------------------------------------------------------------------------------------------


VERBS = ("create", "patch", "delete")
PROBE = "fairway-may-i-write"
MAX_WHY = 300
"""Characters of the server's answer that are kept: it becomes part of conditions."""

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _ReviewStatus(ApiStruct, frozen=True):
    allowed: bool = False


class _Review(ApiStruct, frozen=True):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


async def reservation_problem(client: ApiClient, namespace: str) -> str:
    """Why Reservations cannot be written; "" if they can, or if the server does not answer that."""
    for verb in VERBS:
        attributes = {"group": "fairway.dev", "resource": "reservations", "verb": verb}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await client.send(ApiRequest("POST", _REVIEWS, encoded(body)))
        if answer.ok and not _is_allowed(answer.body):
            return f"this identity may not {verb} reservations of fairway.dev"
    path = f"{collection_path(FAIRWAY, 'reservations', namespace)}?dryRun=All"
    head = {"apiVersion": FAIRWAY, "kind": "Reservation", "metadata": {"name": PROBE}}
    spec = {"jobRef": {"kind": "PodGroup", "name": PROBE, "uid": "probe"}, "places": []}
    answer = await client.send(ApiRequest("POST", path, encoded({**head, "spec": spec})))
    if answer.ok or answer.status == 409 or is_unsure(answer) or is_rejected_unread(answer):
        return ""
    if answer.status == 404 and "namespaces" in explained(answer):
        return ""  # the namespace of the kubeconfig does not exist: nothing is known
    if answer.status == 404:
        return "the cluster has no Reservations of fairway.dev: they are not installed"
    return explained(answer)[:MAX_WHY]


def _is_allowed(body: bytes) -> bool:
    """True if the answer cannot be read: then the dry run decides."""
    try:
        return msgspec.json.decode(body, type=_Review).status.allowed
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
