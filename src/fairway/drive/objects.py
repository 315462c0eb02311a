"""What a change makes of a pod, as a new object: the old one is never changed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import ExtendedClaimStatus, Pod, PodClaimStatus
from fairway.clock import Micros, format_rfc3339, from_datetime, to_datetime
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.device_requests import RECORD_PREFIX

SCHEDULED = "PodScheduled"


def bound(
    pod: Pod,
    node: str,
    at: Micros,
    notes: Mapping[str, str],
    claims: tuple[PodClaimStatus, ...] = (),
    limits_claim: ExtendedClaimStatus | None = None,
) -> Pod:
    """A pod that has its node and does not run yet; `notes` record its devices."""
    scheduled = Condition(type=SCHEDULED, status="True", last_transition_time=to_datetime(at))
    others = tuple(condition for condition in pod.status.conditions if condition.type != SCHEDULED)
    status = replace(
        pod.status,
        conditions=(*others, scheduled),
        nominated_node_name="",
        resource_claim_statuses=claims or pod.status.resource_claim_statuses,
        extended_resource_claim_status=limits_claim or pod.status.extended_resource_claim_status,
    )
    given = annotated(pod, notes) if notes else pod
    return replace(given, spec=replace(pod.spec, node_name=node), status=status)


def bound_at(pod: Pod) -> Micros | None:
    """Since when a pod has its node, as far as it says."""
    times = [c.last_transition_time for c in pod.status.conditions if c.type == SCHEDULED and c.status == "True"]
    return next((from_datetime(time) for time in times if time is not None), None)


def terminating(pod: Pod, until: Micros) -> Pod:
    """Told to go: as in Kubernetes, the time of its deletion is the end of its grace period."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=to_datetime(until)))


def nominated(pod: Pod, node: str, at: Micros) -> Pod:
    """The node is to be this pod's; "" takes it back."""
    notes = {name: text for name, text in pod.metadata.annotations.items() if name != NOMINATED_SINCE}
    if node:
        notes[NOMINATED_SINCE] = format_rfc3339(at)
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        status=replace(pod.status, nominated_node_name=node),
    )


def annotated(pod: Pod, notes: Mapping[str, str]) -> Pod:
    """The pod with what a binding says of it; what was recorded before of its devices no longer holds."""
    return replace(pod, metadata=replace(pod.metadata, annotations={**unrecorded(pod), **notes}))


def unrecorded(pod: Pod) -> dict[str, str]:
    """A pod's annotations without the record of its devices."""
    return {name: text for name, text in pod.metadata.annotations.items() if not name.startswith(RECORD_PREFIX)}
