"""Reservations."""

from __future__ import annotations

from fairway.api.reservations import MAX_PLACES, Reservation, ReservedPlace, reservation_name
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.names import check_dns_subdomain, check_unique

_LONGEST_UID = 128


def check_reservation(reservation: Reservation, findings: list[Finding]) -> None:
    job, path = reservation.spec.job_ref, ("spec", "jobRef")
    found = len(findings)
    check_dns_subdomain(job.name, (*path, "name"), findings)
    if not job.uid:
        findings.append(((*path, "uid"), "is empty, expected the uid of the job"))
    elif len(job.uid) > _LONGEST_UID:
        findings.append(((*path, "uid"), f"has {len(job.uid)} characters, expected at most {_LONGEST_UID}"))
    expected = reservation_name(job.kind, job.name)
    if len(findings) == found and reservation.metadata.name != expected:
        said = f"is {describe(reservation.metadata.name)}, expected {describe(expected)}, after its job"
        findings.append((("metadata", "name"), said))
    _check_places(reservation.spec.places, ("spec", "places"), findings)
    _check_places(reservation.status.places, ("status", "places"), findings)


def _check_places(places: tuple[ReservedPlace, ...], path: Path, findings: list[Finding]) -> None:
    if len(places) > MAX_PLACES:
        findings.append((path, f"has {len(places)} places, expected at most {MAX_PLACES}"))
        return
    for index, place in enumerate(places):
        check_dns_subdomain(place.pod, (*path, index, "pod"), findings)
        check_dns_subdomain(place.node, (*path, index, "node"), findings)
    check_unique((place.pod for place in places), path, "pod", findings)
