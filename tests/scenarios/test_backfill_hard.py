"""Which planned starts are hard, who stays the head of the queue, and in which order jobs are tried behind it."""

import pytest

from fairway.scheduler.plan import Plan
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import ClusterState, Deleted
from support import engine
from support.contention import DAY, cycle, plan, running, waiting, waiting_gang
from support.objects import anti_affinity, at, group, node, pod, queue
from support.streams import Work, busy, lasting, limited, planning, promises, stream

EASY = planning("easy")
SHARES = ("gang", "drf", "predicates")
PRIORITIES = ("priority", "gang", "predicates")


def carry(state: ClusterState, found: Plan) -> None:
    """What a driver does with the planned starts of a plan."""
    state.upsert(reservation_objects(found.reservations, found.overruns).values())


def head(cpu: int = 2, **rest: object) -> object:
    return waiting("head", cpu=cpu, **{**limited(100), **rest})


@pytest.mark.parametrize(
    ("policy", "hard"),
    [
        (EASY, True),
        (planning("conservative"), True),
        (planning("easy", overrun="allow"), True),
        (planning("easy", plugins=SHARES), False),
        (planning("easy", plugins=PRIORITIES), False),
        (planning("easy", plugins=SHARES, keepHead=True), True),
        (planning("easy", plugins=PRIORITIES, keepHead=True), True),
        (planning("conservative", plugins=SHARES), True),
        (planning("conservative", plugins=PRIORITIES), True),
        (planning("easy", ("preempt", {}), plugins=(*SHARES, "conformance")), False),
        (planning("easy", ("reclaim", {})), False),
        (planning("easy", ("reserve", {})), False),
    ],
    ids=["first come", "every", "allow", "shares", "priority", "kept", "kept priority", "every by share",
         "every by priority", "preempt", "reclaim", "reserve"],
)  # fmt: skip
def test_a_planned_start_is_hard_where_ends_are_sure_and_no_job_can_overtake(policy: object, hard: bool):
    found = promises(plan(node("n1", cpu=2), busy("r", "n1", 30), head(), policy=policy))["head"]
    assert (found.planned_start, found.hard, found.soft) == (at(DAY + 30), hard, not hard)


def test_a_planned_start_is_soft_where_a_run_may_go_on():
    run = running("r", "n1", started=DAY - 10, cpu=2, **lasting(40))
    assert promises(plan(node("n1", cpu=2), run, head(), policy=EASY))["head"].hard
    allow = planning("easy", overrun="allow")
    assert promises(plan(node("n1", cpu=2), run, head(), policy=allow))["head"].soft


def test_a_planned_start_is_soft_where_a_limit_of_the_queue_may_refuse_the_job():
    policy = planning("easy", plugins=("gang", "predicates", "proportion"), keepHead=True)
    cluster = [node("n1", cpu=4), busy("r", "n1", 30, cpu=3)]
    limit = queue("q", capability={"cpu": 3})
    assert promises(plan(queue("q"), cluster, head(queue="q"), policy=policy))["head"].hard
    assert promises(plan(limit, cluster, head(queue="q"), policy=policy))["head"].soft


def test_a_planned_start_is_soft_where_other_pods_decide():
    apart = {"spec": {**anti_affinity(app="a"), "activeDeadlineSeconds": 9}, "labels": {"app": "a"}}
    found = promises(plan(node("n1", cpu=2), busy("r", "n1", 30), head(**apart), policy=EASY))["head"]
    assert found.soft


def lower_share() -> list[object]:
    """A job of a namespace that has nothing, while the head's has something."""
    return [waiting("other", namespace="poor", created=2, cpu=2, **limited(50))]


@pytest.mark.parametrize(("keep", "first"), [(False, "other"), (True, "head")])
def test_with_keep_head_no_share_takes_the_place_of_the_head(keep: bool, first: str):
    policy = planning("easy", plugins=SHARES, keepHead=keep)
    state = engine.state_of(node("n1", cpu=2), busy("r", "n1", 30), head())
    carry(state, cycle(state, policy))
    state.upsert(lower_share())
    found = cycle(state, policy)
    (entry,) = [held for held in found.reservations if held.planned_start]
    assert entry.job.endswith(first)
    assert entry.hard is keep


def test_a_job_of_higher_priority_is_the_head_all_the_same():
    policy = planning("easy", plugins=PRIORITIES, keepHead=True)
    state = engine.state_of(node("n1", cpu=2), busy("r", "n1", 30), head())
    carry(state, cycle(state, policy))
    state.upsert([waiting("equal", created=0, priority=0, cpu=2, **limited(9))])
    assert set(promises(cycle(state, policy))) == {"head"}
    state.upsert([waiting("vip", priority=9, created=5, cpu=2, **limited(9))])
    assert set(promises(cycle(state, policy))) == {"vip"}


def test_an_older_job_that_becomes_valid_late_does_not_delay_a_hard_planned_start():
    """Its group was created first, its pods come last."""
    gang = waiting_gang("late", 1, cpu=2, **limited(500))
    state = engine.state_of(node("n1", cpu=2), busy("r", "n1", 30), gang[0], head(created=1))
    found = cycle(state, EASY)
    assert promises(found)["head"].hard
    carry(state, found)
    state.upsert(gang[1:])
    again = cycle(state, EASY)
    assert set(promises(again)) == {"head"}
    assert promises(again)["head"].planned_start == at(DAY + 30)


def test_conservative_reads_planned_starts_back_after_a_restart():
    """A second job of higher priority comes: those that have a planned start keep it, also in a new process."""
    policy = planning("conservative", plugins=PRIORITIES)
    objects = [node("n1", cpu=2), busy("r", "n1", 30), head(), waiting("second", created=1, cpu=2, **limited(10))]
    state = engine.state_of(*objects)
    first = cycle(state, policy)
    starts = {name: held.planned_start for name, held in promises(first).items()}
    assert starts == {"head": at(DAY + 30), "second": at(DAY + 130)}
    carried = list(reservation_objects(first.reservations).values())
    vip = waiting("vip", priority=9, created=5, cpu=2, **limited(9))
    restarted = engine.state_of(*objects, vip, *carried)
    found = promises(cycle(restarted, policy))
    assert {name: found[name].planned_start for name in starts} == starts
    assert found["vip"].planned_start == at(DAY + 140)
    fresh = promises(cycle(engine.state_of(*objects, vip), policy))
    assert fresh["vip"].planned_start == at(DAY + 30), "without them the most important goes first"


def test_when_a_run_ends_early_planned_starts_are_compressed_in_order():
    works = [
        Work("a", 0, run=3, stated=10, cpu=2),
        Work("b", 1, run=5, stated=5, cpu=2),
        Work("c", 2, run=5, stated=5, cpu=2),
    ]
    found = stream([2], planning("conservative"), works)
    assert found.started == {"a": 0, "b": 3, "c": 8}
    assert [one.promised for one in found.passes][1:3] == [{"b": 10}, {"b": 10, "c": 15}]


def test_shortest_first_tries_those_behind_the_head_by_their_run_time():
    """One cpu is free for thirty seconds, for one job."""
    jobs = [head(cpu=3), *(waiting(f"j{i}", created=i, cpu=1, **limited(span)) for i, span in ((1, 30), (2, 10)))]
    cluster = [node("n1", cpu=3), busy("r", "n1", 30)]
    assert engine.bound(plan(cluster, jobs, policy=EASY)) == {"j1": "n1"}
    assert engine.bound(plan(cluster, jobs, policy=planning("easy", order="shortest"))) == {"j2": "n1"}


def test_shortest_first_does_not_change_which_job_is_the_head():
    jobs = [waiting("long", cpu=3, **limited(90)), waiting("short", created=1, cpu=3, **limited(5))]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=planning("easy", order="shortest"))
    assert set(promises(found)) == {"long"}


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_no_run_times_at_all_are_said(mode: str):
    cluster = [node("n1", cpu=2), running("u", "n1", cpu=1), waiting("w", cpu=2)]
    (warning,) = plan(cluster, policy=planning(mode)).warnings
    assert warning.startswith(f"backfill {mode}: no pod has a run time")
    assert "activeDeadlineSeconds" in warning
    assert plan(cluster, head(), policy=planning(mode)).warnings == ()
    assert plan(cluster, policy=planning("besteffort")).warnings == ()
    assert plan(node("n1", cpu=2), pod("tiny"), policy=planning(mode)).warnings == ()


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_job_whose_time_has_come_starts_as_planned_if_scores_would_scatter_it(mode: str):
    """The emptiest node is best by score; the small pod there would leave none for the large one."""
    policy = planning(mode, plugins=("gang", "predicates", "nodeorder"))
    gang = group("head", minimum=2, created=0)
    pods = [pod("head-0", group="head", cpu=1, **limited(9)), pod("head-1", group="head", cpu=3, **limited(9))]
    cluster = [node("n1", cpu=2), node("n2", cpu=3)]
    state = engine.state_of(cluster, busy("a", "n1", 30), busy("b", "n2", 30, cpu=3), gang, pods)
    found = cycle(state, policy)
    assert {name: held.node for name, held in promises(found).items()} == {"head-0": "n1", "head-1": "n2"}
    assert promises(found)["head-0"].hard
    carry(state, found)
    for name in ("a", "b"):
        state.apply(Deleted(pod(name)))
    assert engine.bound(cycle(state, policy, DAY + 30)) == {"head-0": "n1", "head-1": "n2"}
