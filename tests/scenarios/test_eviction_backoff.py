"""preempt and reclaim: a job that was stopped is protected for a while after it starts again (spec S7.6)."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.clock import SECOND, to_datetime
from fairway.drive.planned_changes import eviction_record
from fairway.scheduler.plan import Plan
from support import objects as make
from support.contention import DAY, acting, evicted, notes, plan, preempting, reclaiming, running, running_gang, waiting
from support.objects import BEGIN
from support.preempting import POLICY, high, low, one_node

HOUR = 3600


def reborn(pod: ApiObject, life: str, **meta: Any) -> Pod:
    """The pod that its controller created in the place of one of the same name."""
    assert isinstance(pod, Pod)
    return replace(pod, metadata=replace(pod.metadata, uid=f"{pod.metadata.uid}-{life}", **meta))


def record(
    job: str, kind: str, uid: str, stops: int, *, stopped: int, restarted: int | None = None, **status: Any
) -> Any:
    """An EvictionRecord; the last stop was of pods that are gone."""
    name = {"PodGroup": job, "Controller": "controller-" + job.replace("/", "-")}[kind]
    status = {"stops": stops, "stoppedAt": make.at(stopped), **status}
    if restarted is not None:
        status["restartedAt"] = make.at(restarted)
    return make.made(
        "EvictionRecord", name, "default", spec={"jobRef": {"kind": kind, "name": job, "uid": uid}}, status=status
    )


def of_gang(name: str, stops: int, **rest: Any) -> Any:
    return record(name, "PodGroup", f"uid-of-PodGroup-default-{name}", stops, **rest)


def gang(started: int, **rest: Any) -> list[ApiObject]:
    return running_gang("g", ["n1"], cpu=1, started=started, **rest)


# -- for how long ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stops", "seconds"),
    [
        ({}, 1, 120),
        ({}, 3, 480),
        ({"minRuntime": 30}, 1, 120),
        ({"minRuntime": 300}, 1, 600),
        ({"minRuntime": 300}, 3, 2400),
        ({}, 10, 61_440),
        ({}, 11, DAY),
        ({}, 2_000_000_000, DAY),
        ({"minRuntime": 50_000}, 1, DAY),
    ],
)
def test_the_protection_doubles_with_every_stop_and_is_a_day_at_most(arguments, stops, seconds):
    policy, start = preempting(**arguments), DAY
    objects = [one_node(), gang(start), of_gang("g", stops, stopped=start - 10, restarted=start), high()]
    assert evicted(plan(objects, policy=policy, at=start + seconds - 1)) == []
    assert evicted(plan(objects, policy=policy, at=start + seconds)) == ["g-0"]


def test_minimum_runtime_counts_beside_it():
    """Back-off is a day at most; a longer minRuntime holds all the same."""
    policy = preempting(minRuntime=2 * DAY)
    objects = [one_node(), gang(DAY), of_gang("g", 1, stopped=DAY - 10, restarted=DAY), high()]
    assert evicted(plan(objects, policy=policy, at=3 * DAY - 1)) == []
    assert evicted(plan(objects, policy=policy, at=3 * DAY)) == ["g-0"]


def test_the_plan_says_when_the_protection_ends_and_the_claimant_why_it_waits():
    objects = [one_node(), gang(DAY - 20), of_gang("g", 1, stopped=DAY - 60, restarted=DAY - 20), high()]
    found = plan(objects, policy=POLICY)
    assert evicted(found) == []
    assert found.document()["recheckAt"] == make.at(DAY + 100)
    said = f"a possible victim was evicted before and is protected until {make.at(DAY + 100)}"
    assert said in notes(found, "high")


def test_a_claimant_that_a_protection_does_not_stop_does_not_speak_of_it():
    """It asks for more than the whole node: without the protection it would wait as well."""
    objects = [one_node(), gang(DAY - 20), of_gang("g", 1, stopped=DAY - 60, restarted=DAY - 20), high(cpu=2)]
    found = plan(objects, policy=POLICY)
    assert "stopped before" not in notes(found, "high")
    assert found.document()["recheckAt"] is None


def test_other_victims_are_taken_meanwhile():
    objects = [one_node(2), gang(DAY - 20), low("old"), of_gang("g", 1, stopped=DAY - 60, restarted=DAY - 20), high()]
    assert evicted(plan(objects, policy=POLICY)) == ["old"]


def test_reclaim_respects_it_too():
    queues = [make.queue("a"), make.queue("b")]
    rich = running_gang("g", ["n1"], cpu=1, queue="a", started=DAY - 20)
    rich += running_gang("h", ["n1"], cpu=1, queue="a", started=0)
    claim = waiting("c", queue="b", cpu=1, created=DAY)
    objects = [one_node(2), queues, rich, claim]
    assert evicted(plan(objects, policy=reclaiming())) == ["g-0"]
    protected = [*objects, of_gang("g", 1, stopped=DAY - 60, restarted=DAY - 20)]
    assert evicted(plan(protected, policy=reclaiming())) == ["h-0"]


def test_the_surplus_of_a_protected_job_is_protected_too():
    group = [make.group("g", minimum=1, created=0, phase="Running")]
    pods = [low(f"g-{i}", group="g", started=DAY - 20) for i in range(2)]
    objects = [one_node(2), group, pods, high()]
    assert len(evicted(plan(objects, policy=POLICY))) == 1
    assert evicted(plan([*objects, of_gang("g", 1, stopped=DAY - 60, restarted=DAY - 20)], policy=POLICY)) == []


# -- what counts ----------------------------------------------------------------------------------------------------


def stops(found: Plan) -> dict[str, int]:
    return {entry.job: entry.stops for entry in found.stops}


def test_a_plan_that_stops_a_gang_records_it():
    gang_of_two = running_gang("g", ["n1", "n1"], cpu=1)
    (entry,) = plan(one_node(2), gang_of_two, high(), policy=POLICY).stops
    assert (entry.job, entry.job_kind, entry.job_uid) == ("default/g", "PodGroup", "uid-of-PodGroup-default-g")
    assert (entry.stops, entry.stopped_at, entry.restarted_at) == (1, make.at(DAY), None)
    assert [victim.pod for victim in entry.victims] == ["g-0", "g-1"]
    assert entry.owner is not None
    assert (entry.owner.kind, entry.owner.name) == ("PodGroup", "g")


def test_surplus_pods_that_go_are_no_stop():
    elastic = running_gang("g", ["n1", "n1"], minimum=1, cpu=1)
    found = plan(one_node(2), elastic, high(), policy=POLICY)
    assert len(evicted(found)) == 1
    assert found.stops == ()
    assert stops(plan(one_node(2), elastic, high(cpu=2), policy=POLICY)) == {"default/g": 1}


def test_a_lone_pod_without_an_owner_has_no_record():
    found = plan(one_node(), low("a"), high(), policy=POLICY)
    assert (evicted(found), found.stops) == (["a"], ())


def test_pods_of_one_controller_are_counted_together():
    job = [low(f"train-{i}", owner="Job/train") for i in range(2)]
    found = plan(one_node(2), job, high(cpu=2), policy=POLICY)
    assert stops(found) == {"default/job/train": 1}


def test_a_jobset_is_known_by_its_own_uid():
    """Its Jobs are created again when it restarts."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/jobset-uid": "uid-of-the-set"}
    pod = low("set-w-0", owner="Job/set-w", labels=labels)
    (entry,) = plan(one_node(), pod, high(), policy=POLICY).stops
    assert (entry.job, entry.job_uid) == ("default/jobset/set", "uid-of-the-set")
    assert entry.owner is not None
    assert entry.owner.kind == "JobSet"
    again = reborn(low("set-w-0", owner="Job/set-w2", labels=labels, started=DAY), "2")
    known = record("jobset/set", "Controller", "uid-of-the-set", 1, stopped=DAY - 5)
    assert evicted(plan(one_node(), again, known, high(), policy=POLICY, at=DAY + 119)) == []


def test_a_recreated_group_keeps_the_count_of_its_controller():
    """A Volcano job that restarts deletes its PodGroup and creates another."""
    owner = {
        "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "v-uid"}]
    }
    owner["ownerReferences"][0]["controller"] = True  # type: ignore[assignment]

    def group(uid: str) -> ApiObject:
        return make.made("PodGroup", "g", "default", metadata={**owner, "uid": uid}, spec={"minMember": 1})

    (entry,) = plan(one_node(), group("first"), low("g-0", group="g"), high(), policy=POLICY).stops
    assert (entry.job_uid, entry.owner and entry.owner.kind) == ("v-uid", "Job")
    known = eviction_record(entry)
    again = reborn(low("g-0", group="g", started=DAY + 5), "2")
    assert evicted(plan(one_node(), group("second"), again, known, high(), policy=POLICY, at=DAY + 124)) == []
    assert evicted(plan(one_node(), group("second"), again, known, high(), policy=POLICY, at=DAY + 125)) == ["g-0"]


def test_a_record_counts_only_for_the_job_of_its_uid():
    forged = record("g", "PodGroup", "another", 5, stopped=DAY - 60, restarted=DAY - 20)
    assert evicted(plan(one_node(), gang(DAY - 20), forged, high(), policy=POLICY)) == ["g-0"]


def test_lone_pods_of_one_owner_share_the_count_and_those_that_ran_on_are_not_protected():
    old = low("web-a", owner="ReplicaSet/web", created=0, started=0)
    new = reborn(low("web-b", owner="ReplicaSet/web", created=DAY - 30, started=DAY - 20), "2")
    known = record("replicaset/web", "Controller", "ReplicaSet/web", 1, stopped=DAY - 60)
    assert evicted(plan(one_node(2), old, new, high(), policy=POLICY)) == ["web-b"]
    assert evicted(plan(one_node(2), old, new, known, high(), policy=POLICY)) == ["web-a"]
    assert stops(plan(one_node(2), old, new, known, high(), policy=POLICY)) == {"default/replicaset/web": 2}


# -- once, whatever happens -----------------------------------------------------------------------------------------


def recorded(*objects: Any, at: int = DAY) -> list[Any]:
    """What was written of a plan whose scheduler ended before it evicted anything."""
    found = plan(*objects, policy=POLICY, at=at)
    return [eviction_record(entry) for entry in found.stops]


def test_a_stop_that_is_recorded_is_not_counted_again():
    objects = [one_node(2), running_gang("g", ["n1", "n1"], cpu=1), high(cpu=2)]
    known = recorded(*objects)
    later = plan(*objects, known, policy=POLICY, at=DAY + 5)
    assert evicted(later) == ["g-0", "g-1"]
    assert later.stops == ()


def test_a_stop_of_which_only_a_part_was_carried_out_is_the_same_stop():
    """g-0 went, and its controller has created it again, for another node; g-1 is still there."""
    group, first, second = running_gang("g", ["n1", "n1"], cpu=1)
    known = recorded(one_node(2), group, first, second, high(cpu=2))
    pending = reborn(make.pod("g-0", group="g", cpu=9, created=DAY + 1), "2")
    later = plan(one_node(2), group, pending, second, known, high(cpu=2), policy=POLICY, at=DAY + 5)
    assert evicted(later) == ["g-1"]
    assert later.stops == ()


def test_a_stop_that_never_happened_protects_nothing_and_counts_for_nothing():
    """The claimant went before the next leader decided."""
    objects = [one_node(2), running_gang("g", ["n1", "n1"], cpu=1)]
    known = recorded(*objects, high(cpu=2))
    assert stops(plan(*objects, known, policy=POLICY, at=DAY + 50)) == {}
    later = plan(*objects, known, high("other", cpu=2, created=DAY + 60), policy=POLICY, at=DAY + 60)
    assert evicted(later) == ["g-0", "g-1"]
    assert stops(later) == {}  # the record says 1 already


def test_the_next_stop_is_counted_from_what_happened():
    again = [reborn(pod, "2") for pod in gang(DAY - 200)[1:]]
    known = of_gang("g", 1, stopped=DAY - 300, restarted=DAY - 200)
    found = plan(one_node(), gang(DAY - 200)[0], again, known, high(), policy=POLICY)
    assert (evicted(found), stops(found)) == (["g-0"], {"default/g": 2})


# -- when the job runs again ----------------------------------------------------------------------------------------


def test_the_restart_is_recorded_when_the_job_has_its_minimum_again():
    group = make.group("g", minimum=2, created=0, phase="Running")
    known = of_gang("g", 1, stopped=DAY - 100)
    first = reborn(running("g-0", "n1", group="g", cpu=1, started=DAY - 50), "2")
    second = reborn(running("g-1", "n1", group="g", cpu=1, started=DAY - 30), "2")
    pending = reborn(make.pod("g-1", group="g", cpu=4, created=DAY - 90), "2")
    assert plan(one_node(2), group, first, pending, known, policy=POLICY).stops == ()
    (entry,) = plan(one_node(2), group, first, second, known, policy=POLICY).stops
    assert (entry.stops, entry.restarted_at) == (1, make.at(DAY - 30))


def test_a_restart_of_pods_does_not_prolong_the_protection():
    known = of_gang("g", 1, stopped=DAY - 300, restarted=DAY - 100)
    again = [reborn(pod, "3") for pod in gang(DAY - 1)[1:]]
    objects = [one_node(), gang(0)[0], again, known, high(created=DAY)]
    assert evicted(plan(objects, policy=POLICY, at=DAY + 19)) == []
    assert evicted(plan(objects, policy=POLICY, at=DAY + 20)) == ["g-0"]


def test_a_bound_pod_that_has_not_started_is_protected_from_its_binding():
    known = of_gang("g", 1, stopped=DAY - 100)
    pod = reborn(make.pod("g-0", group="g", cpu=1, node="n1", created=DAY - 5000, phase="Pending"), "2")
    bound = Condition("PodScheduled", "True", last_transition_time=to_datetime(BEGIN + (DAY - 20) * SECOND))
    pod = replace(pod, status=replace(pod.status, conditions=(bound,)))
    objects = [one_node(), gang(0)[0], pod, known, high()]
    found = plan(objects, policy=POLICY)
    assert (evicted(found), found.stops) == ([], ())
    assert evicted(plan(objects, policy=POLICY, at=DAY + 100)) == ["g-0"]


# -- when it is forgotten -------------------------------------------------------------------------------------------


def test_a_job_that_ran_for_a_week_has_a_clean_record():
    known = of_gang("g", 4, stopped=0, restarted=10)
    (kept,) = plan(one_node(), gang(10), known, high(), policy=POLICY, at=10 + 7 * DAY - 1).stops
    assert kept.stops == 5
    (fresh,) = plan(one_node(), gang(10), known, high(), policy=POLICY, at=10 + 7 * DAY).stops
    assert fresh.stops == 1
    (deleted,) = plan(one_node(), gang(10), known, policy=POLICY, at=10 + 7 * DAY).stops
    assert (deleted.job, deleted.stops) == ("default/g", 0)


def test_a_job_that_waits_is_not_forgotten_and_one_that_is_gone_is():
    known = of_gang("g", 4, stopped=0)
    pending = [make.group("g", minimum=1, created=0), make.pod("g-0", group="g", cpu=9, created=1)]
    assert plan(one_node(), pending, known, policy=POLICY, at=30 * DAY).stops == ()
    assert stops(plan(one_node(), known, policy=POLICY, at=7 * DAY - 1)) == {}
    assert stops(plan(one_node(), known, policy=POLICY, at=7 * DAY)) == {"default/g": 0}


def test_evictions_for_an_overrun_are_not_counted():
    """The job said how long it runs, and outlived it: that is no reason to protect it."""
    easy = acting("enqueue", "allocate", ("backfill", {"mode": "easy"}))
    stated = {"fairway.dev/expected-runtime": "10"}
    group = make.group("g", minimum=1, created=0, phase="Running", annotations=stated)
    pod = low("g-0", group="g", annotations=stated)
    head = waiting("head", cpu=1, created=1, spec={"activeDeadlineSeconds": 5})
    found = plan(one_node(), group, pod, head, policy=easy)
    assert evicted(found) == ["g-0"]
    assert found.stops == ()
