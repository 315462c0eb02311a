"""Runs that outlive their time: evicted where they stand in the way of a promise, or allowed to go on."""

import pytest
from msgspec.structs import replace

from fairway.scheduler.plan import Overrun
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import Deleted
from support import engine
from support.contention import DAY, annotated, budget, cycle, evicted, plan, reserved, running, running_gang, waiting
from support.objects import at, node, pod, queue
from support.streams import Work, busy, lasting, limited, planning, promises, stream

EASY = planning("easy")
ALLOW = planning("easy", overrun="allow")


def overdue(name: str = "old", on: str = "n1", cpu: int = 2, **rest: object) -> object:
    """It has run for a hundred seconds and said it would for sixty."""
    return running(name, on, started=DAY - 100, cpu=cpu, **{**lasting(60), **rest})


def head(cpu: int = 2, **rest: object) -> object:
    return waiting("head", cpu=cpu, created=1, **{**limited(100), **rest})


def test_with_overrun_evict_it_is_evicted_when_it_stands_in_the_way_of_a_promise():
    found = plan(node("n1", cpu=2), overdue(), head(), policy=EASY)
    (eviction,) = found.evictions
    assert (eviction.pod, eviction.node, eviction.for_) == ("default/old", "n1", "default/head")
    assert eviction.action == "backfill"
    assert "exceeded its expected run time" in eviction.reason
    held = promises(found)["head"]
    assert (held.planned_start, held.soft) == (at(DAY), False)
    assert found.recheck_at is None, "its going is an event"


def test_what_it_held_is_no_longer_counted_to_its_queue():
    policy = planning("easy", plugins=engine.PLUGINS)
    found = plan(queue("q"), node("n1", cpu=2), overdue(queue="q"), head(queue="q"), policy=policy)
    assert evicted(found) == ["old"]
    assert next(q for q in found.queues if q.name == "q").allocated["cpu"] == "0"


def test_it_may_go_on_where_no_job_waits_for_its_room():
    cluster = [node("n1", cpu=2), node("n2", cpu=2), overdue(), busy("r", "n2", 30)]
    assert evicted(plan(cluster, policy=EASY)) == []
    elsewhere = head(spec={"activeDeadlineSeconds": 9, "nodeSelector": {"kubernetes.io/hostname": "n2"}})
    assert evicted(plan(cluster, elsewhere, policy=EASY)) == []


def test_only_as_many_go_as_the_promise_needs():
    """Three cpus of overdue runs, of which the head needs one; the most important and the longest there stay."""
    runs = [
        overdue("important", cpu=1, spec={"priority": 5}),
        running("z-longest", "n1", started=DAY - 200, cpu=1, **lasting(60)),
        overdue("old", cpu=1),
    ]
    assert evicted(plan(node("n1", cpu=3), runs, head(cpu=1), policy=EASY)) == ["old"]


def test_those_behind_start_on_what_is_spared_only_if_nothing_is_promised_there():
    found = plan(node("n1", cpu=3), overdue(), head(), waiting("next", created=2, cpu=1, **limited(999)), policy=EASY)
    assert engine.bound(found) == {"next": "n1"}
    assert evicted(found) == ["old"]


def test_it_has_to_go_for_a_reservation_as_well():
    policy = planning("easy", ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100}))
    found = plan(node("n1", cpu=2), overdue(), reserved(head(), ("head", "n1", "reserved")), policy=policy)
    assert evicted(found) == ["old"]
    assert promises(found)["head"].planned_start == at(DAY)


def test_a_gang_goes_whole_where_it_would_lose_its_minimum():
    cluster = [node("n1", cpu=2), node("n2", cpu=2)]
    gang = running_gang("old", ["n1", "n2"], started=DAY - 100, cpu=2, **lasting(60))
    assert evicted(plan(cluster, gang, head(), policy=EASY)) == ["old-0", "old-1"]


def test_a_gang_loses_what_it_has_above_its_minimum_first():
    cluster = [node("n1", cpu=2), node("n2", cpu=2)]
    gang = running_gang("old", ["n1", "n2"], minimum=1, started=DAY - 100, cpu=2, **lasting(60))
    on_n1 = {"activeDeadlineSeconds": 9, "nodeSelector": {"kubernetes.io/hostname": "n1"}}
    found = plan(cluster, gang, head(spec=on_n1), policy=EASY)
    assert evicted(found) == ["old-0"]


def test_a_group_states_the_run_time_of_its_pods():
    gang = running_gang("old", ["n1"], started=DAY - 100, cpu=2)
    gang[0] = annotated(gang[0], expected_runtime="60")
    assert evicted(plan(node("n1", cpu=2), gang, head(), policy=EASY)) == ["old-0"]


def test_those_marked_never_to_be_evicted_stay():
    notes = {"fairway.dev/expected-runtime": "60"}
    for mark in ({"fairway.dev/never-evict": "true"}, {"volcano.sh/preemptable": "false"}):
        found = plan(node("n1", cpu=2), overdue(annotations={**notes, **mark}), head(), policy=EASY)
        assert evicted(found) == []
        assert promises(found)["head"].soft, "its end is not enforced"
    guarded = annotated(queue("safe"), never_evict="true")
    found = plan(guarded, node("n1", cpu=2), overdue(queue="safe"), head(), policy=EASY)
    assert evicted(found) == []
    found = plan(node("n1", cpu=2), overdue(namespace="kube-system"), head(), policy=EASY)
    assert evicted(found) == []


def test_disruption_budgets_hold():
    run = overdue(labels={"app": "db"})
    assert evicted(plan(budget("b", {"app": "db"}, allowed=0), node("n1", cpu=2), run, head(), policy=EASY)) == []
    assert evicted(plan(budget("b", {"app": "db"}, allowed=1), node("n1", cpu=2), run, head(), policy=EASY)) == ["old"]


def test_a_pod_that_leaves_is_not_told_twice():
    state = engine.state_of(node("n1", cpu=2), overdue(), head())
    assert evicted(cycle(state, EASY)) == ["old"]
    state.upsert([overdue(leaving=True)])  # type: ignore[list-item]
    again = cycle(state, EASY)
    assert evicted(again) == []
    assert promises(again)["head"].planned_start == at(DAY)


def test_the_deadline_is_the_kubelets_business():
    found = plan(node("n1", cpu=2), running("old", "n1", started=DAY - 100, cpu=2, **limited(60)), head(), policy=EASY)
    assert evicted(found) == []
    assert promises(found)["head"].planned_start == at(DAY)


def test_with_overrun_allow_it_goes_on_and_the_promise_moves():
    """It said sixty seconds; after those it is given as many again, and then twice as many."""
    state = engine.state_of(node("n1", cpu=2), overdue(), head())
    for now, start in ((DAY - 50, DAY - 40), (DAY - 40, DAY + 20), (DAY, DAY + 20), (DAY + 20, DAY + 140)):
        found = cycle(state, ALLOW, now)
        assert evicted(found) == []
        assert (promises(found)["head"].planned_start, promises(found)["head"].soft) == (at(start), True)
        assert found.document()["recheckAt"] == at(start)


def test_with_overrun_allow_a_deadline_still_ends_it():
    run = overdue(spec={"activeDeadlineSeconds": 110})
    found = plan(node("n1", cpu=2), run, head(), policy=ALLOW)
    assert promises(found)["head"].planned_start == at(DAY + 10)


def test_without_planning_ahead_no_pod_is_evicted():
    found = plan(node("n1", cpu=2), overdue(), head(), policy=planning("besteffort"))
    assert evicted(found) == []


def test_a_pod_that_has_not_begun_is_not_overdue():
    bound = pod("new", node="n1", cpu=2, phase="Pending", created=0, **lasting(60))
    found = plan(node("n1", cpu=2), bound, head(), policy=EASY)
    assert evicted(found) == []
    assert promises(found)["head"].planned_start == at(DAY + 60)


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("plugins", [("gang", "predicates"), ("priority", "gang", "drf", "predicates")])
def test_two_jobs_that_both_overrun_do_not_evict_each_other_for_ever(mode: str, plugins: tuple[str, ...]):
    """The first is evicted for the second, comes after it, and then runs to its end whatever it had stated."""
    works = [
        Work("old", 0, run=30, stated=5, cpu=2, stating="group", priority=5 if "priority" in plugins else 0),
        Work("new", 1, run=30, stated=5, cpu=2, stating="group"),
    ]
    found = stream([2], planning(mode, plugins=plugins), works)
    assert found.evicted == ["default/old-0", "default/new-0"]
    assert found.started == {"old": 10, "new": 40}


def test_what_was_evicted_for_overrunning_is_remembered_by_its_reservation():
    state = engine.state_of(node("n1", cpu=2), overdue(), head())
    found = cycle(state, EASY)
    assert [(entry.job, entry.for_) for entry in found.overruns] == [("default/old", "default/head")]
    state.upsert(reservation_objects(found.reservations, found.overruns).values())
    again = waiting("old", cpu=2, created=0, **lasting(60))
    state.apply(Deleted(again))
    state.upsert([replace(again, metadata=replace(again.metadata, uid="made-again"))])
    after = cycle(state, EASY)
    assert engine.bound(after) == {"head": "n1"}
    assert [entry.job for entry in after.overruns] == ["default/old"]


def test_it_comes_after_the_other_also_where_that_starts_on_what_is_lent():
    """The queue of the one that was evicted has less than it deserves, and would be served in the first pass."""
    policy = planning("easy", plugins=("gang", "predicates", "proportion"))
    cluster = [queue("a"), queue("b"), node("n1", cpu=2), node("n2", cpu=2), running("r", "n2", cpu=2, queue="b")]
    state = engine.state_of(cluster, overdue(queue="a"), head(queue="b"))
    found = cycle(state, policy)
    assert [(entry.job, entry.for_) for entry in found.overruns] == [("default/old", "default/head")]
    state.upsert(reservation_objects(found.reservations, found.overruns).values())
    again = waiting("old", cpu=2, created=0, queue="a")
    state.apply(Deleted(again))
    state.upsert([again])
    assert engine.bound(cycle(state, policy)) == {"head": "n1"}


def test_until_the_other_has_started_it_evicts_no_pod():
    policy = planning("easy", "preempt", plugins=("priority", "gang", "drf", "predicates"))
    old = waiting("old", cpu=2, created=0, priority=10)
    cluster = [
        node("n1", cpu=2),
        running("third", "n1", cpu=2),
        head(spec={"priority": 9, "preemptionPolicy": "Never"}),
    ]
    assert evicted(plan(cluster, old, policy=policy)) == ["third"]
    state = engine.state_of(cluster, old)
    made = Overrun(job="default/old", job_kind="Pod", job_uid=old.metadata.uid, for_="default/head", for_kind="Pod")
    state.upsert(reservation_objects([], [made]).values())
    assert evicted(cycle(state, policy)) == []
    state.apply(Deleted(waiting("head", created=1)))
    assert evicted(cycle(state, policy)) == ["third"]


def test_a_job_does_not_evict_its_own_pods_for_its_planned_start():
    gang = running_gang("g", ["n1"], minimum=2, started=DAY - 100, cpu=2, **lasting(60))
    found = plan(node("n1", cpu=2), gang, waiting("g-1", group="g", cpu=2, created=0, **lasting(60)), policy=EASY)
    assert evicted(found) == []
    assert found.overruns == ()


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_cycle_ends_where_a_ready_job_waits_for_its_own_overdue_pod(mode: str):
    """Its planned start is due, and its nodes are not free: nothing of it can start."""
    policy = planning(mode, plugins=("gang", "predicates", "proportion"))
    gang = running_gang("g", ["n1"], minimum=1, started=DAY - 100, cpu=2, **lasting(60))
    more = waiting("g-1", group="g", cpu=2, created=0, **lasting(60))
    state = engine.state_of(queue("default"), node("n1", cpu=2), gang, more)
    for second in range(3):
        found = cycle(state, policy, DAY + second)
        state.upsert(reservation_objects(found.reservations, found.overruns).values())
        assert (found.bindings, evicted(found)) == ((), [])
