"""backfill `easy`: who may start ahead of the first job that waits, and what that one is promised."""

import pytest

from fairway.api.policy import Policy
from support import engine
from support.contention import DAY, annotated, cycle, nominated, notes, plan, running, waiting, waiting_gang
from support.objects import anti_affinity, at, group, node, pod, priority_class, queue
from support.streams import busy, lasting, limited, planning, promises

EASY = planning("easy")


def head(cpu: int = 2, **rest: object) -> object:
    return waiting("head", cpu=cpu, **{**limited(100), **rest})


def test_the_head_is_promised_the_time_at_which_its_node_is_free():
    found = plan(node("n1", cpu=2), busy("r", "n1", 30), head(), policy=EASY)
    held = promises(found)["head"]
    assert (held.node, held.planned_start, held.state) == ("n1", at(DAY + 30), "reserved")
    assert (held.soft, held.estimated) == (False, False)
    assert held.anew, "nothing that a driver should carry: it is made anew"
    assert found.recheck_at is not None
    assert found.document()["recheckAt"] == at(DAY + 30)
    assert f"it is planned to start at {at(DAY + 30)}" in notes(found, "head")


def test_the_earliest_nodes_are_taken_and_ties_fall_by_name():
    cluster = [node(name, cpu=2) for name in ("n4", "n2", "n3", "n1")]
    runs = [busy("a", "n1", 90), busy("b", "n2", 30), busy("c", "n3", 30), busy("d", "n4", 20)]
    found = plan(cluster, runs, waiting_gang("head", 2, cpu=2), policy=EASY)
    assert {pod: held.node for pod, held in promises(found).items()} == {"head-0": "n2", "head-1": "n3"}
    assert {held.planned_start for held in promises(found).values()} == {at(DAY + 30)}


def test_a_gang_is_promised_the_time_at_which_all_of_it_has_room():
    cluster = [node("n1", cpu=4), node("n2", cpu=2)]
    runs = [busy("a", "n1", 10), busy("b", "n1", 50), busy("c", "n2", 40)]
    found = plan(cluster, runs, waiting_gang("head", 3, cpu=2), policy=EASY)
    assert {pod: held.node for pod, held in promises(found).items()} == {
        "head-0": "n1",
        "head-1": "n1",
        "head-2": "n2",
    }
    assert promises(found)["head-0"].planned_start == at(DAY + 50)


@pytest.mark.parametrize(("run", "starts"), [(29, True), (30, True), (31, False)])
def test_a_short_job_may_use_promised_nodes_until_the_promise(run: int, starts: bool):
    """One cpu is free on n1, and n1 is promised whole from 30 seconds on."""
    found = plan(
        node("n1", cpu=3),
        busy("r", "n1", 30),
        head(cpu=3),
        waiting("next", created=1, cpu=1, **limited(run)),
        policy=EASY,
    )
    assert engine.bound(found) == ({"next": "n1"} if starts else {})
    assert promises(found)["head"].planned_start == at(DAY + 30)
    if not starts:
        assert engine.reasons(found)["next"] == "NodeResourceReserved"
        assert engine.waiting(found)["next"].nodes == {"node(s) resource was(were) reserved": 1}


def test_a_long_job_may_use_what_the_promise_does_not_need():
    """n1 has four cpus, the head needs three of them later: one is free."""
    jobs = [
        head(cpu=3),
        waiting("long", created=1, cpu=1, **limited(9999)),
        waiting("late", created=2, cpu=1, **limited(9999)),
    ]
    found = plan(node("n1", cpu=4), busy("r", "n1", 30), jobs, policy=EASY)
    assert engine.bound(found) == {"long": "n1"}
    assert promises(found)["head"].planned_start == at(DAY + 30)
    assert engine.reasons(found)["late"] == "NodeResourceReserved"


def test_the_head_itself_waits_for_room_and_not_for_its_own_promise():
    found = plan(node("n1", cpu=2), node("n2", cpu=1), busy("r", "n1", 30), head(), policy=EASY)
    assert engine.reasons(found)["head"] == "InsufficientResources"
    assert engine.waiting(found)["head"].nodes == {"insufficient cpu": 2}


def test_a_job_of_unknown_run_time_keeps_off_promised_nodes_and_is_free_on_others():
    """Where it ran the node could promise nothing any more, whatever room it left."""
    cluster = [node("n1", cpu=4), node("n2", cpu=1)]
    found = plan(
        cluster,
        busy("r", "n1", 30),
        head(cpu=3),
        waiting("who-knows", created=1, cpu=1),
        waiting("nor-this", created=2, cpu=1),
        policy=EASY,
    )
    assert engine.bound(found) == {"who-knows": "n2"}
    assert engine.waiting(found)["nor-this"].nodes == {"insufficient cpu": 1, "node(s) resource was(were) reserved": 1}


def test_a_node_with_a_running_pod_of_unknown_run_time_promises_nothing():
    known, unknown = node("n2", cpu=2), node("n1", cpu=4)
    runs = [running("u", "n1", cpu=1), busy("a", "n1", 5, cpu=3), busy("b", "n2", 40)]
    found = plan(known, unknown, runs, head(), policy=EASY)
    assert (promises(found)["head"].node, promises(found)["head"].planned_start) == ("n2", at(DAY + 40))


def test_where_no_run_time_is_known_nothing_is_promised_and_others_go_ahead():
    found = plan(node("n1", cpu=2), running("u", "n1", cpu=1), head(), waiting("next", created=1, cpu=1), policy=EASY)
    assert promises(found) == {}
    assert engine.bound(found) == {"next": "n1"}
    assert found.recheck_at is None


def test_a_job_with_no_start_in_sight_does_not_keep_the_next_from_being_the_head():
    jobs = [waiting("giant", cpu=99, **limited(5)), head(created=1), waiting("long", created=2, cpu=1, **limited(99))]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=EASY)
    assert set(promises(found)) == {"head"}
    assert engine.bound(found) == {"long": "n1"}


@pytest.mark.parametrize(
    "stays",
    [
        pod("sidekick", node="n1", annotations={}),
        pod("proxy", "kube-system", node="n1", cpu=1),
    ],
    ids=["asks for nothing", "of the system"],
)
def test_pods_that_stay_with_their_node_only_keep_their_room(stays: object):
    found = plan(node("n1", cpu=3, pods=9), stays, busy("r", "n1", 30), head(), policy=EASY)
    assert promises(found)["head"].planned_start == at(DAY + 30)


def test_pods_of_other_schedulers_only_keep_their_room():
    ours = {"spec": {"schedulerName": "fairway", "activeDeadlineSeconds": 40}}
    state = engine.state_of(
        node("n1", cpu=3),
        pod("proxy", node="n1", cpu=1, spec={"schedulerName": "default-scheduler"}),
        running("r", "n1", started=DAY - 10, cpu=2, **ours),
        waiting("head", cpu=2, **ours),
        scheduler_names=["fairway"],
    )
    assert promises(cycle(state, EASY))["head"].planned_start == at(DAY + 30)


def test_pods_that_ask_for_nothing_leave_the_slots_that_a_promise_needs():
    tight = [node("n1", cpu=2, pods=2), busy("r", "n1", 30), head()]
    found = plan(tight, pod("tiny", created=1), policy=EASY)
    assert engine.bound(found) == {"tiny": "n1"}, "when r is gone there are two slots"
    found = plan(tight, waiting_gang("more", 1, created=1), pod("tiny", created=2), policy=EASY)
    assert len(found.bindings) == 1, "the third slot there will never be"


def test_the_promise_is_made_anew_in_each_cycle():
    state = engine.state_of(node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 50), head())
    assert promises(cycle(state, EASY))["head"].planned_start == at(DAY + 30)
    state.upsert([running("b", "n2", started=DAY - 10, cpu=2, **limited(25))])
    found = promises(cycle(state, EASY))["head"]
    assert (found.node, found.planned_start) == ("n2", at(DAY + 15))


def test_a_job_of_higher_priority_is_the_head_from_then_on():
    policy = planning("easy", plugins=("priority", "gang", "predicates"))
    state = engine.state_of(priority_class("high", 10), node("n1", cpu=2), busy("r", "n1", 30), head())
    assert set(promises(cycle(state, policy))) == {"head"}
    state.upsert([pod("vip", created=5, cpu=2, spec={"priorityClassName": "high", "activeDeadlineSeconds": 9})])
    assert set(promises(cycle(state, policy))) == {"vip"}


def test_a_job_that_its_queue_does_not_allow_is_no_head():
    policy = planning("easy", plugins=engine.PLUGINS)
    found = plan(
        queue("small", capability={"cpu": 1}),
        node("n1", cpu=3),
        busy("r", "n1", 30),
        waiting("never", cpu=2, queue="small", **limited(5)),
        waiting("head", created=1, cpu=3, **limited(5)),
        policy=policy,
    )
    assert set(promises(found)) == {"head"}
    assert engine.reasons(found)["never"] == "QueueCapability"


@pytest.mark.parametrize("stating", ["pod", "group", "deadline"])
def test_run_times_are_stated_by_pod_group_or_deadline(stating: str):
    made = group("short", minimum=1, created=1)
    member = {"group": "short", "cpu": 1, "created": 1}
    short: list[object] = {
        "pod": [made, pod("short-0", **member, **lasting("20s"))],
        "group": [annotated(made, expected_runtime="20"), pod("short-0", **member)],
        "deadline": [made, pod("short-0", **member, **limited(20))],
    }[stating]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), head(cpu=3), short, policy=EASY)
    assert engine.bound(found) == {"short-0": "n1"}


def test_the_shorter_of_two_stated_run_times_counts():
    both = {**lasting(20), **limited(99)}
    found = plan(
        node("n1", cpu=3), busy("r", "n1", 30), head(cpu=3), waiting("x", created=1, cpu=1, **both), policy=EASY
    )
    assert engine.bound(found) == {"x": "n1"}
    both = {**lasting(99), **limited(20)}
    found = plan(
        node("n1", cpu=3), busy("r", "n1", 30), head(cpu=3), waiting("x", created=1, cpu=1, **both), policy=EASY
    )
    assert engine.bound(found) == {"x": "n1"}


@pytest.mark.parametrize(
    ("policy", "starts"),
    [(EASY, True), (planning("easy", overrun="allow"), False)],
    ids=["overrun: evict", "overrun: allow"],
)
def test_only_runs_that_end_for_sure_may_run_past_a_promise(policy: Policy, starts: bool):
    jobs = [head(cpu=3), waiting("maybe", created=1, cpu=1, **lasting(20))]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=policy)
    assert engine.bound(found) == ({"maybe": "n1"} if starts else {})
    assert not promises(found)["head"].soft, "r ends for sure"
    sure = waiting("sure", created=1, cpu=1, **lasting(5), **limited(20))
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), head(cpu=3), sure, policy=policy)
    assert engine.bound(found) == {"sure": "n1"}, "a deadline holds whatever the policy"


def test_a_run_that_may_not_be_evicted_is_not_sure_to_end():
    kept = {"annotations": {"fairway.dev/expected-runtime": "20", "fairway.dev/never-evict": "true"}}
    found = plan(
        node("n1", cpu=3), busy("r", "n1", 30), head(cpu=3), waiting("k", created=1, cpu=1, **kept), policy=EASY
    )
    assert engine.bound(found) == {}
    found = plan(node("n1", cpu=2), running("r", "n1", started=DAY, cpu=2, **kept), head(), policy=EASY)
    assert promises(found)["head"].soft


def test_with_overrun_allow_promises_are_soft():
    run = running("r", "n1", started=DAY - 10, cpu=2, **lasting(40))
    firm = promises(plan(node("n1", cpu=2), run, head(), policy=EASY))["head"]
    found = plan(node("n1", cpu=2), run, head(), policy=planning("easy", overrun="allow"))
    soft = promises(found)["head"]
    assert firm.planned_start == soft.planned_start == at(DAY + 30)
    assert (firm.soft, soft.soft) == (False, True)
    assert not soft.estimated
    assert "it is expected to start at" in notes(found, "head")


def test_a_promise_is_firm_where_what_is_not_sure_is_not_needed():
    runs = [busy("sure", "n1", 30, cpu=3), running("unsure", "n1", started=DAY, cpu=1, **lasting(5))]
    found = plan(node("n1", cpu=4), runs, head(cpu=3), policy=planning("easy", overrun="allow"))
    assert promises(found)["head"].planned_start == at(DAY + 30)
    assert not promises(found)["head"].soft


def test_pods_that_leave_are_gone_at_any_moment():
    found = plan(
        node("n1", cpu=2), running("r", "n1", cpu=2, leaving=True), head(), waiting("x", created=1, cpu=2), policy=EASY
    )
    assert promises(found)["head"].planned_start == at(DAY)
    assert engine.reasons(found)["head"] == "WaitingForRelease"
    assert engine.bound(found) == {}
    assert found.recheck_at is None, "their going is an event"


def test_gangs_whose_pods_keep_off_each_other_are_promised_a_node_each():
    apart = {"spec": {**anti_affinity(app="a"), "activeDeadlineSeconds": 9}, "labels": {"app": "a"}}
    cluster = [node("n1", cpu=4), node("n2", cpu=4)]
    runs = [busy("a", "n1", 10, cpu=4), busy("b", "n2", 40, cpu=4)]
    found = plan(cluster, runs, waiting_gang("head", 2, cpu=1, **apart), policy=EASY)
    assert {pod: held.node for pod, held in promises(found).items()} == {"head-0": "n1", "head-1": "n2"}
    assert promises(found)["head-0"].planned_start == at(DAY + 40)


def test_the_mode_besteffort_looks_at_no_run_time():
    jobs = [head(cpu=3), waiting("long", created=1, cpu=1, **limited(9999))]
    found = plan(node("n1", cpu=3), busy("r", "n1", 30), jobs, policy=planning("besteffort"))
    assert engine.bound(found) == {"long": "n1"}
    assert promises(found) == {}
    assert found.recheck_at is None


def test_room_that_is_being_made_for_another_is_not_promised():
    policy = planning("easy", ("preempt", {}), plugins=("priority", "gang", "drf", "predicates"))
    leaving = running("victim", "n1", cpu=2, leaving=True)
    claimant = nominated(waiting("claimant", priority=9, cpu=2, **limited(5)), "n1")
    found = plan(node("n1", cpu=2), node("n2", cpu=2), busy("r", "n2", 40), leaving, claimant, head(), policy=policy)
    assert (promises(found)["head"].node, promises(found)["head"].planned_start) == ("n2", at(DAY + 40))


def test_a_rule_between_pods_that_is_broken_now_keeps_a_node_from_being_promised():
    cluster = [node("n1", cpu=2), node("n2", cpu=2)]
    runs = [busy("a", "n1", 10, ports=[80]), busy("b", "n2", 40)]
    found = plan(cluster, runs, head(ports=[80]), policy=EASY)
    assert (promises(found)["head"].node, promises(found)["head"].planned_start) == ("n2", at(DAY + 40))


def test_a_head_that_its_share_does_not_allow_is_not_passed_by():
    """With shares lent, the head is refused within its share first; no job behind it may use the node meanwhile."""
    lent = planning("easy", plugins=("gang", "predicates", "proportion"))
    found = plan(
        node("n1", cpu=3),
        busy("r", "n1", 30),
        head(cpu=3),
        waiting("long", created=1, cpu=1, **limited(9999)),
        policy=lent,
    )
    assert engine.bound(found) == {}
    assert promises(found)["head"].planned_start == at(DAY + 30)
