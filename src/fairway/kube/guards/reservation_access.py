"""Whether this identity can keep reservations: asked at start, and again after a Reservation was refused.

A Reservation that is not written is none: another replica, or this one after a restart, would not know of it. Rights
alone do not tell, because the admission policy that `fairway install` sets up accepts Reservations of one user only. So
a Reservation is written as well, by a dry run: the server answers as it would, and keeps nothing.
"""

from __future__ import annotations

import msgspec

from fairway.api.meta import ApiStruct
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest, encoded, explained, is_rejected_unread, is_unsure
from fairway.kube.http.paths import FAIRWAY, collection_path

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
    """Why Reservations cannot be written; "" if they can, or if the server does not say."""
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
    """True where the answer cannot be read: then the dry run decides."""
    try:
        return msgspec.json.decode(body, type=_Review).status.allowed
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
