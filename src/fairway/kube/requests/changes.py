"""Each change of a plan as requests to an API server, and what the answers mean (spec K17 to K20).

Every request that decides something carries a precondition: the uid of the object that was meant, or the version that
was read. So a scheduler that acts on old news is refused, and can do no harm. Every script may be run again from its
beginning after any answer, or after none: it then finds out what was done already.
"""

from __future__ import annotations

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
from fairway.kube.http.exchange import Script
from fairway.kube.requests.claims import allocate_claim, release_claim
from fairway.kube.requests.class_claims import make_class_claim
from fairway.kube.requests.pods import bind, evict, nominate
from fairway.kube.requests.reservations import (
    GroupVersions,
    delete_reservation,
    delete_stops,
    write_reservation,
    write_stops,
)
from fairway.kube.requests.volumes import pre_bind_volume, select_node

NO_VERSIONS: GroupVersions = {}


def script_of(change: Change, groups: GroupVersions = NO_VERSIONS) -> Script:
    """The requests that make a change, one after the other. `groups` says which PodGroups are not Volcano's."""
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
