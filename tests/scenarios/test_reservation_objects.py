"""Reservation objects: whose they are, which of them count, and that nothing else reserves (spec S6.8)."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.scheduling import MAX_PLACES, JobReference, Reservation, reservation_name
from fairway.clock import SECOND, to_datetime
from fairway.errors import InputError
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import objects as make
from support.cli import invoke, write
from support.contention import (
    DAY,
    acting,
    annotated,
    cycle,
    plan,
    released,
    reservation,
    reservations,
    reserving,
    running,
    waiting,
    waiting_gang,
)
from support.engine import bound, state_of
from support.objects import BEGIN

PATIENT = reserving(starvingJobTimeThreshold=10 * DAY)
"""No job starves: what is reserved is what the objects say."""
BIG = waiting("big", cpu=4)
SMALL = waiting("small", cpu=1, created=DAY)


def full(name: str = "n1") -> list[Any]:
    return [make.node(name, cpu=4, pods=10), running(f"on-{name}", name, cpu=3)]


def decided(*things: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    found = plan(full(), BIG, SMALL, *things, policy=PATIENT)
    return bound(found), reservations(found)


HELD = ({}, {"big": ("n1", "reserved")})  # type: ignore[var-annotated]
FREE = ({"small": "n1"}, {})  # type: ignore[var-annotated]


def test_the_reservation_of_a_job_keeps_its_node():
    assert decided(reservation(BIG, ("big", "n1", "reserved"))) == HELD


# -- forged ---------------------------------------------------------------------------------------------------------


def forged(**changes: Any) -> Reservation:
    """The reservation of `big` with something else in it, past all checks that a file goes through."""
    whole = reservation(BIG, ("big", "n1", "reserved"))
    assert isinstance(whole, Reservation)
    name, namespace = changes.pop("name", None), changes.pop("namespace", None)
    meta = replace(
        whole.metadata, **({"name": name} if name else {}), **({"namespace": namespace} if namespace else {})
    )
    places = changes.pop("places", whole.spec.places)
    return replace(
        whole, metadata=meta, spec=replace(whole.spec, job_ref=replace(whole.spec.job_ref, **changes), places=places)
    )


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (forged(uid="other"), "its uid 'other' is not that of Pod default/big"),
        (forged(uid=""), "its uid '' is not that of Pod default/big"),
        (forged(kind="PodGroup"), "the reservation of PodGroup big is named big"),
        (forged(kind="PodGroup", name="big"), "there is no PodGroup default/big"),
        (forged(name="other"), "the reservation of Pod big is named pod-big"),
        (forged(name="big"), "the reservation of Pod big is named pod-big"),
        (forged(namespace="elsewhere"), "there is no Pod elsewhere/big"),
        (forged(name="pod-no", **{"uid": "x"}), "the reservation of Pod big is named pod-big"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_that_is_not_the_jobs_reserves_nothing_and_the_plan_says_so(thing, why):
    assert decided(thing) == FREE
    (warning,) = plan(full(), BIG, SMALL, thing, policy=PATIENT).warnings
    assert warning.endswith(f"{why}: ignored")


def test_a_job_without_a_uid_has_no_reservation():
    bare = replace(BIG, metadata=replace(BIG.metadata, uid=""))
    found = plan(full(), bare, SMALL, forged(uid=""), policy=PATIENT)
    assert (bound(found), reservations(found)) == FREE


def test_that_of_another_job_keeps_nothing_for_this_one():
    """The other job's reservation names this job's pod: a place counts only for pods of its own job."""
    other = waiting("other", cpu=4, created=DAY)
    assert decided(other, reservation(other, ("big", "n1", "reserved"))) == FREE


def test_a_group_keeps_nothing_for_pods_that_are_not_in_it():
    group, *pods = waiting_gang("g", 1, cpu=4, created=DAY)
    assert decided(group, pods, reservation(group, ("big", "n1", "reserved"), ("zzz", "n1", "allocated"))) == FREE


def test_a_node_that_does_not_exist_is_released():
    found = plan(full(), BIG, SMALL, reservation(BIG, ("big", "nowhere", "reserved")), policy=PATIENT)
    assert (bound(found), reservations(found), released(found)) == (*FREE, {"big": "its node is gone"})


def test_a_job_made_again_under_the_same_name_has_no_reservation():
    state = state_of(full(), BIG, SMALL, reservation(BIG, ("big", "n1", "reserved")))
    assert reservations(cycle(state, PATIENT)) == {"big": ("n1", "reserved")}
    state.apply(Deleted(BIG))
    state.apply(Upserted(replace(BIG, metadata=replace(BIG.metadata, uid="second-life"))))
    found = cycle(state, PATIENT)
    assert (bound(found), reservations(found)) == FREE


def test_one_that_begins_to_name_another_job_lets_the_first_go():
    state = state_of(full(), BIG, SMALL, forged())
    assert bound(cycle(state, PATIENT)) == {}
    state.apply(Upserted(forged(uid="other")))
    assert bound(cycle(state, PATIENT)) == {"small": "n1"}
    state.apply(Upserted(forged()))
    assert bound(cycle(state, PATIENT)) == {}
    moved = forged()
    moved = replace(moved, spec=replace(moved.spec, job_ref=JobReference("Pod", "elsewhere", "x")))
    state.apply(Upserted(moved))
    assert bound(cycle(state, PATIENT)) == {"small": "n1"}


def test_objects_may_come_in_any_order():
    held = reservation(BIG, ("big", "n1", "reserved"))
    for order in ([held, BIG], [BIG, held]):
        assert decided(*order) == HELD
    group, *pods = waiting_gang("g", 1, cpu=4)
    mine = reservation(group, ("g-0", "n1", "reserved"))
    for things in ([group, pods, mine], [mine, pods, group], [pods, mine, group]):
        found = plan(full(), SMALL, *things, policy=PATIENT)
        assert (bound(found), reservations(found)) == ({}, {"g-0": ("n1", "reserved")})


def test_a_lone_pod_and_a_group_of_one_name_have_each_their_own():
    group, *pods = waiting_gang("big", 1, cpu=4)
    state = state_of(full(), full("n2"), BIG, group, pods)
    state.apply(Upserted(reservation(BIG, ("big", "n1", "reserved"))))
    state.apply(Upserted(reservation(group, ("big-0", "n2", "reserved"))))
    policy = reserving(starvingJobTimeThreshold=10 * DAY, reservedNodePercent=100)
    found = cycle(state, policy)
    assert reservations(found) == {"big": ("n1", "reserved"), "big-0": ("n2", "reserved")}
    assert {entry.pod: entry.job_kind for entry in found.reservations} == {
        "default/big": "Pod",
        "default/big-0": "PodGroup",
    }
    assert set(reservation_objects(found.reservations)) == {("default", "big"), ("default", "pod-big")}


def test_no_two_jobs_share_a_name_for_their_reservations():
    names = ["x", "pod-x", "podgroup-x", "podgroup-pod-x", "pod-pod-x", "x" * 253, "x" * 252 + "y"]
    made = [reservation_name(kind, name) for kind in ("Pod", "PodGroup") for name in names]
    assert len(set(made)) == len(made)
    assert max(map(len, made)) == 253
    assert reservation_name("PodGroup", "train") == "train"
    assert reservation_name("Pod", "train") == "pod-train"


# -- what pods and groups say about themselves ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reservations", "reservation", "reserved"])
def test_no_annotation_reserves_anything(name):
    rows = json.dumps([{"pod": "big", "node": "n1", "state": "reserved", "since": make.at(0)}])
    noted = annotated(BIG, **{name: rows})
    found = plan(full(), noted, SMALL, policy=PATIENT)
    assert (bound(found), reservations(found), found.warnings) == (*FREE, ())
    group, *pods = waiting_gang("g", 1, cpu=4)
    found = plan(full(), annotated(group, **{name: rows}), pods, SMALL, policy=PATIENT)
    assert (bound(found), reservations(found)) == FREE


# -- damaged --------------------------------------------------------------------------------------------------------


def manifest(**spec: Any) -> dict[str, Any]:
    whole = {"jobRef": {"kind": "Pod", "name": "big", "uid": "u"}, "places": []}
    return {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "pod-big", "namespace": "default"},
        "spec": {**whole, **spec},
    }


def place(**changes: Any) -> dict[str, Any]:
    return {"pod": "big", "node": "n1", "state": "reserved", **changes}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"jobRef": {"kind": "Pod", "name": "big"}}, "spec.jobRef.uid"),
        ({"jobRef": {"kind": "Pod", "name": "big", "uid": "u" * 200}}, "spec.jobRef.uid"),
        ({"jobRef": {"kind": "Deployment", "name": "big", "uid": "u"}}, "spec.jobRef.kind"),
        ({"jobRef": {"kind": "Pod", "name": "a/b", "uid": "u"}}, "spec.jobRef.name"),
        ({"jobRef": {"kind": "Pod", "name": "other", "uid": "u"}}, "metadata.name"),
        ({"jobRef": None}, "spec.jobRef"),
        ({"places": -1}, "spec.places"),
        ({"places": [place(), place()]}, "spec.places[1].pod"),
        ({"places": [place(pod="default/big")]}, "spec.places[0].pod"),
        ({"places": [place(pod="")]}, "spec.places[0].pod"),
        ({"places": [place(node="")]}, "spec.places[0].node"),
        ({"places": [place(node="n1\x1b[31m")]}, "spec.places[0].node"),
        ({"places": [place(state="running")]}, "spec.places[0].state"),
        ({"places": [place(since="yesterday")]}, "spec.places[0].since"),
        ({"places": [place(pod=f"p{i}") for i in range(MAX_PLACES + 1)]}, "spec.places"),
        ({"plannedStart": 5}, "spec.plannedStart"),
        ({"hard": "yes"}, "spec.hard"),
    ],
)
def test_a_file_with_a_reservation_that_cannot_be_right_is_refused(spec, path):
    from fairway.api.manifests import parse_object

    with pytest.raises(InputError) as error:
        parse_object(manifest(**spec))
    assert f"{path}: " in str(error.value)


def test_past_all_checks_of_places_for_one_pod_the_first_counts():
    first, second = (reservation(BIG, ("big", node, "reserved")).spec.places[0] for node in ("n1", "n2"))
    assert decided(forged(places=(first, second))) == HELD
    many = tuple(replace(first, pod=f"p{number}") for number in range(MAX_PLACES))
    assert decided(forged(places=(*many, first))) == FREE


def test_a_reservation_from_the_future_began_now():
    later = forged().spec.places[0]
    later = replace(later, since=to_datetime(BEGIN + 99 * DAY * SECOND))
    found = plan(full(), BIG, forged(places=(later,)), policy=PATIENT)
    assert [entry.since for entry in found.reservations] == [make.at(DAY)]


# -- carried --------------------------------------------------------------------------------------------------------


def test_it_is_read_from_files_and_its_job_is_shown(tmp_path):
    objects = [*full(), BIG, SMALL, reservation(BIG, ("big", "n1", "reserved"))]
    result = invoke("plan", "-f", str(write(objects, tmp_path)), "--now", make.at(DAY), "-o", "json")
    (entry,) = result.plan["reservations"]
    assert (entry["job"], entry["jobKind"], entry["jobUid"]) == ("default/big", "Pod", BIG.metadata.uid)


def test_the_object_that_carries_it_is_named_after_its_job_and_owned_by_it():
    group, *pods = waiting_gang("g", 2, cpu=4)
    found = plan(make.node("n1", cpu=4), full("n2"), group, pods, policy=reserving(reservedNodePercent=100))
    (made,) = reservation_objects(found.reservations).values()
    written = make.manifest(made)
    assert written["metadata"]["name"] == "g"
    assert list(written["metadata"]["ownerReferences"]) == [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "name": "g", "uid": group.metadata.uid}
    ]
    assert written["spec"] == {
        "jobRef": {"kind": "PodGroup", "name": "g", "uid": group.metadata.uid},
        "places": (
            {"pod": "g-0", "node": "n1", "state": "allocated", "since": make.at(DAY)},
            {"pod": "g-1", "node": "n2", "state": "reserved", "since": make.at(DAY)},
        ),
    }
    assert make.made("Reservation", "g", "default", spec=written["spec"]).spec == made.spec


def test_where_run_times_are_known_it_says_when_the_job_is_planned_to_start():
    runs = annotated(running("runs", "n1", cpu=3, started=DAY - 60), expected_runtime="100")
    policy = acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1}), "allocate", ("backfill", {"mode": "easy"}))
    found = plan(make.node("n1", cpu=4), runs, BIG, policy=policy)
    (made,) = reservation_objects(found.reservations).values()
    assert made.spec.planned_start == to_datetime(BEGIN + (DAY + 40) * SECOND)


def test_states_forget_reservations_that_are_gone():
    state = ClusterState()
    held = reservation(BIG, ("big", "n1", "reserved"))
    state.upsert([*full(), BIG, held])
    state.apply(Deleted(held))
    assert len(state.reservations) == 0
