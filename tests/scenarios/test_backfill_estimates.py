"""Run times that are estimated: learnt from finished runs, marked wherever they are shown; or written wrongly."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.clock import SECOND, to_datetime
from fairway.state.cluster import Deleted
from support import engine
from support.cli import run_plan
from support.contention import DAY, annotated, cycle, evicted, notes, plan, running, waiting
from support.objects import BEGIN, at, group, node
from support.streams import EXPECTED, busy, limited, planning, promises

ESTIMATING = planning("easy", estimate="user-history")


def finished(name: str, ran: int, started: int = 100, **rest: object) -> Pod:
    """A pod that succeeded after so many seconds."""
    run = running(name, "n1", started=started, cpu=1, **rest)
    done = Condition(type="Ready", status="False", last_transition_time=to_datetime(BEGIN + (started + ran) * SECOND))
    return replace(run, status=replace(run.status, phase="Succeeded", conditions=(done,)))


def head(cpu: int = 2) -> Pod:
    return waiting("head", cpu=cpu, created=1, **limited(100))


def learnt(*spans: int) -> list[Pod]:
    return [finished(f"train-{i}", span, 1000 * i) for i, span in enumerate(spans)]


def begun(name: str = "train-77", **rest: object) -> Pod:
    """It runs since ten seconds and says nothing of its run time."""
    return running(name, "n1", started=DAY - 10, cpu=2, **rest)


@pytest.mark.parametrize(
    ("spans", "left"),
    [((40,), 30), ((400, 20, 40), 20), ((20, 60), 30)],
    ids=["one run", "the last two of three", "between two"],
)
def test_the_mean_of_the_last_two_runs(spans: tuple[int, ...], left: int):
    found = plan(node("n1", cpu=2), learnt(*spans), begun(), head(), policy=ESTIMATING)
    assert promises(found)["head"].planned_start == at(DAY + left)


def test_an_estimate_is_at_most_what_the_job_states():
    stated = begun(**{"annotations": {EXPECTED: "25"}})
    found = promises(plan(node("n1", cpu=2), learnt(40), stated, head(), policy=ESTIMATING))["head"]
    assert (found.planned_start, found.estimated, found.hard) == (at(DAY + 15), False, True)
    found = promises(plan(node("n1", cpu=2), learnt(20), stated, head(), policy=ESTIMATING))["head"]
    assert (found.planned_start, found.estimated, found.hard) == (at(DAY + 10), True, False)


def test_where_users_share_a_namespace_each_has_a_history_of_its_own():
    def user(name: str) -> dict[str, Any]:
        return {"annotations": {"fairway.dev/user": name}}

    past = [finished("train-0", 40, **user("ann")), finished("train-1", 90, **user("bob"))]
    found = plan(node("n1", cpu=2), past, begun(**user("ann")), head(), policy=ESTIMATING)
    assert promises(found)["head"].planned_start == at(DAY + 30)
    assert promises(plan(node("n1", cpu=2), past, begun(**user("eve")), head(), policy=ESTIMATING)) == {}


def test_past_a_soft_planned_start_runs_may_go_that_are_estimated_to_end_in_time():
    """By their past runs `r` ends in 30 seconds, and `train-5` would be gone by then; both may take longer."""
    past = [*learnt(20), finished("serve-0", 40)]
    run, guess = begun("serve-1"), waiting("train-5", created=2, cpu=1)
    found = plan(node("n1", cpu=3), past, run, head(cpu=3), guess, policy=ESTIMATING)
    assert engine.bound(found) == {"train-5": "n1"}
    assert promises(found)["head"].soft
    slow = [*learnt(31), finished("serve-0", 40)]
    assert engine.bound(plan(node("n1", cpu=3), slow, run, head(cpu=3), guess, policy=ESTIMATING)) == {}


TRUTH = "sim.fairway.dev/true-runtime"


@pytest.mark.parametrize(
    ("estimate", "left"), [("clairvoyant", 30), ({"scale": 1.5}, 50), ({"scale": 9}, 70)], ids=["true", "times", "most"]
)
def test_in_a_simulation_the_true_run_time_may_be_known(estimate: object, left: int):
    run = begun(**{"annotations": {TRUTH: "40", EXPECTED: "80"}})
    found = promises(plan(node("n1", cpu=2), run, head(), policy=planning("easy", estimate=estimate)))["head"]
    assert found.planned_start == at(DAY + left)


def test_what_rests_on_an_estimate_is_marked_everywhere(tmp_path: Path):
    cluster = [node("n1", cpu=2), *learnt(40), begun(), head()]
    found = plan(cluster, policy=ESTIMATING)
    held = promises(found)["head"]
    assert (held.soft, held.estimated) == (True, True)
    assert f"it is expected to start at {at(DAY + 30)} (an estimate)" in notes(found, "head")
    text = json.dumps(
        {
            "actions": [
                {"name": "allocate"},
                {"name": "backfill", "arguments": {"mode": "easy", "estimate": "user-history"}},
            ],
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
        }
    )
    shown = run_plan(cluster, tmp_path, policy=text).plan["reservations"][0]
    assert (shown["plannedStart"], shown["soft"], shown["estimated"]) == (at(DAY + 30), True, True)
    table = run_plan(cluster, tmp_path, policy=text, output="table").out
    assert "soft, an estimate" in " ".join(table.split())


def test_a_promise_that_needs_no_estimate_is_not_marked():
    runs = [busy("r", "n1", 30), running("train-9", "n1", started=DAY - 10, cpu=1)]
    found = plan(node("n1", cpu=3), learnt(40), runs, head(), policy=ESTIMATING)
    assert (promises(found)["head"].soft, promises(found)["head"].estimated) == (False, False)


def test_an_estimate_vouches_for_nothing():
    """By its past runs it would be gone long before the promise."""
    guess = waiting("train-5", created=2, cpu=1)
    found = plan(node("n1", cpu=3), learnt(2), busy("r", "n1", 30), head(cpu=3), guess, policy=ESTIMATING)
    assert engine.bound(found) == {}
    spare = plan(node("n1", cpu=4), learnt(2), busy("r", "n1", 30), head(cpu=3), guess, policy=ESTIMATING)
    assert engine.bound(spare) == {"train-5": "n1"}, "but its node can still promise, so what is spare is open to it"


def test_nothing_is_estimated_unless_the_policy_says_so():
    found = plan(node("n1", cpu=2), learnt(40), begun(), head(), policy=planning("easy"))
    assert promises(found) == {}


@pytest.mark.parametrize("other", [begun("serve-1"), begun(namespace="elsewhere")], ids=["name", "namespace"])
def test_only_runs_of_the_same_namespace_and_name_count(other: Pod):
    found = plan(node("n1", cpu=2), learnt(40), other, head(), policy=ESTIMATING)
    assert promises(found) == {}


def test_runs_that_failed_teach_nothing():
    failed = [replace(one, status=replace(one.status, phase="Failed")) for one in learnt(40)]
    assert promises(plan(node("n1", cpu=2), failed, begun(), head(), policy=ESTIMATING)) == {}


def test_runs_that_are_seen_to_end_are_learnt_from():
    state = engine.state_of(node("n1", cpu=2), running("train-0", "n1", started=100, cpu=1))
    state.upsert([finished("train-0", 40), begun(), head()])
    assert promises(cycle(state, ESTIMATING))["head"].planned_start == at(DAY + 30)


def test_a_run_that_is_deleted_with_its_end_counts_for_its_user():
    """A pod may be gone before it is seen to have succeeded: its last version says so, and whose it is."""
    user: dict[str, Any] = {"annotations": {"fairway.dev/user": "ann"}}
    state = engine.state_of(node("n1", cpu=2), running("train-0", "n1", started=100, cpu=1, **user))
    state.apply(Deleted(finished("train-0", 40, **user)))
    state.upsert([begun(**user), head()])
    found = cycle(state, ESTIMATING)
    assert promises(found)["head"].planned_start == at(DAY + 30)


def test_the_pods_of_a_group_make_one_run():
    pods = [finished("w-0", 10, group="train-1"), finished("w-1", 40, group="train-1"), finished("other", 1)]
    run = [group("train-2", minimum=1, phase="Running"), begun("w-0", group="train-2")]
    found = plan(node("n1", cpu=2), group("train-1", minimum=2), pods, run, head(), policy=ESTIMATING)
    assert promises(found)["head"].planned_start == at(DAY + 30)


@pytest.mark.parametrize(("ran", "left"), [(39, 1), (40, 60), (70, 30), (100, 300), (400, 900)])
def test_an_estimate_that_is_outlived_is_raised_step_by_step_and_the_run_never_evicted(ran: int, left: int):
    """Forty seconds, a minute more, five minutes more, fifteen."""
    run = running("train-7", "n1", started=DAY - ran, cpu=2)
    found = plan(node("n1", cpu=2), learnt(40), run, head(), policy=ESTIMATING)
    assert evicted(found) == []
    assert promises(found)["head"].planned_start == at(DAY + left)
    assert found.document()["recheckAt"] == at(DAY + left)


def test_it_is_raised_up_to_what_the_job_states():
    run = running("train-7", "n1", started=DAY - 50, cpu=2, **limited(70))
    found = promises(plan(node("n1", cpu=2), learnt(40), run, head(), policy=ESTIMATING))["head"]
    assert (found.planned_start, found.hard) == (at(DAY + 20), True)


@pytest.mark.parametrize("text", ["soon", "", "-5", "0", "0s", "1y", "9" * 60 + "h", "9" * 500, "1e9", "١٢", "5 m"])
def test_a_run_time_that_cannot_be_understood_is_unknown_and_said(text: str):
    run = annotated(running("r", "n1", started=DAY - 10, cpu=2), expected_runtime=text)
    found = plan(node("n1", cpu=2), run, head(), policy=planning("easy"))
    assert promises(found) == {}
    (warning,) = found.warnings
    assert warning.startswith(f"pod default/r: {EXPECTED} ")
    assert "expected seconds above zero" in warning
    assert len(warning) < 300


def test_the_same_goes_for_groups_and_ends_when_it_is_put_right():
    gang = group("g", minimum=1, phase="Running")
    state = engine.state_of(
        node("n1", cpu=2), annotated(gang, expected_runtime="often"), begun("g-0", group="g"), head()
    )
    found = cycle(state, planning("easy"))
    assert [warning.split(":")[0] for warning in found.warnings] == ["podgroup default/g"]
    state.upsert([annotated(gang, expected_runtime="1m")])
    found = cycle(state, planning("easy"))
    assert found.warnings == ()
    assert promises(found)["head"].planned_start == at(DAY + 50)


def test_many_of_them_are_counted():
    bad = [annotated(waiting(f"w{i:02d}", cpu=1), expected_runtime="?") for i in range(30)]
    warnings = plan(node("n1", cpu=2), bad, policy=planning("easy")).warnings
    assert warnings[20] == "10 more annotations are invalid"
    assert warnings[21].startswith("backfill easy: no pod has a run time")


def test_runs_of_centuries_do_no_harm():
    century = {"annotations": {EXPECTED: "36500d"}}
    jobs = [waiting(f"w{i:02d}", created=i, cpu=2, **century) for i in range(40)]
    found = plan(
        node("n1", cpu=2), running("r", "n1", started=DAY, cpu=2, **century), jobs, policy=planning("conservative")
    )
    starts = sorted(held.planned_start or "" for held in promises(found).values())
    assert starts[0].startswith("2125-")
    assert len(starts) == 10, "what lies a thousand years ahead is not promised"
