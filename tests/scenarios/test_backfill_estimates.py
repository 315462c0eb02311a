"""Run times that nobody stated: learnt from finished runs, marked wherever they are shown; or written wrongly."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import Pod
from fairway.clock import SECOND, to_datetime
from support import engine
from support.cli import run_plan
from support.contention import DAY, annotated, cycle, evicted, notes, plan, running, waiting
from support.objects import BEGIN, at, group, node
from support.streams import EXPECTED, busy, limited, planning, promises

ESTIMATING = planning("easy", estimate="user-history")
TWICE = planning("easy", estimate="user-history", safetyFactor=2)


def finished(name: str, ran: int, **rest: object) -> Pod:
    """A pod that succeeded after so many seconds."""
    run = running(name, "n1", started=100, cpu=1, **rest)
    done = Condition(type="Ready", status="False", last_transition_time=to_datetime(BEGIN + (100 + ran) * SECOND))
    return replace(run, status=replace(run.status, phase="Succeeded", conditions=(done,)))


def head(cpu: int = 2) -> Pod:
    return waiting("head", cpu=cpu, created=1, **limited(100))


def learnt(*spans: int) -> list[Pod]:
    return [finished(f"train-{i}", span) for i, span in enumerate(spans)]


def begun(name: str = "train-77", **rest: object) -> Pod:
    """It runs since ten seconds and says nothing of its run time."""
    return running(name, "n1", started=DAY - 10, cpu=2, **rest)


@pytest.mark.parametrize(
    ("spans", "policy", "left"),
    [
        ((40,), ESTIMATING, 50),
        ((20, 40, 400), ESTIMATING, 50),
        ((20, 60), ESTIMATING, 50),
        ((20, 40, 400), TWICE, 70),
    ],
    ids=["one run", "the median of three", "between two", "another safety factor"],
)
def test_the_median_of_past_runs_times_the_safety_factor(spans: tuple[int, ...], policy: object, left: int):
    found = plan(node("n1", cpu=2), learnt(*spans), begun(), head(), policy=policy)  # type: ignore[arg-type]
    assert promises(found)["head"].promised_start == at(DAY + left)


def test_what_rests_on_an_estimate_is_marked_everywhere(tmp_path: Path):
    cluster = [node("n1", cpu=2), *learnt(40), begun(), head()]
    found = plan(cluster, policy=ESTIMATING)
    held = promises(found)["head"]
    assert (held.soft, held.estimated) == (True, True)
    assert f"it is expected to start at {at(DAY + 50)} (an estimate)" in notes(found, "head")
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
    assert (shown["promisedStart"], shown["soft"], shown["estimated"]) == (at(DAY + 50), True, True)
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


def test_what_is_stated_goes_before_what_is_estimated():
    found = plan(node("n1", cpu=2), learnt(40), begun(**{"annotations": {EXPECTED: "25"}}), head(), policy=ESTIMATING)
    assert promises(found)["head"].promised_start == at(DAY + 15)
    assert not promises(found)["head"].estimated


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
    assert promises(cycle(state, ESTIMATING))["head"].promised_start == at(DAY + 50)


def test_the_pods_of_a_group_make_one_run():
    pods = [finished("w-0", 10, group="train-1"), finished("w-1", 40, group="train-1"), finished("other", 1)]
    run = [group("train-2", minimum=1, phase="Running"), begun("w-0", group="train-2")]
    found = plan(node("n1", cpu=2), group("train-1", minimum=2), pods, run, head(), policy=ESTIMATING)
    assert promises(found)["head"].promised_start == at(DAY + 50)


def test_a_run_that_outlives_its_estimate_is_given_as_much_again_and_never_evicted():
    run = running("train-7", "n1", started=DAY - 70, cpu=2)
    found = plan(node("n1", cpu=2), learnt(40), run, head(), policy=ESTIMATING)
    assert evicted(found) == []
    assert promises(found)["head"].promised_start == at(DAY + 50)
    assert found.document()["recheckAt"] == at(DAY + 50)


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
    assert promises(found)["head"].promised_start == at(DAY + 50)


def test_many_of_them_are_counted():
    bad = [annotated(waiting(f"w{i:02d}", cpu=1), expected_runtime="?") for i in range(30)]
    warnings = plan(node("n1", cpu=2), bad, policy=planning("easy")).warnings
    assert len(warnings) == 21
    assert warnings[-1] == "10 more annotations cannot be understood"


def test_runs_of_centuries_do_no_harm():
    century = {"annotations": {EXPECTED: "36500d"}}
    jobs = [waiting(f"w{i:02d}", created=i, cpu=2, **century) for i in range(40)]
    found = plan(
        node("n1", cpu=2), running("r", "n1", started=DAY, cpu=2, **century), jobs, policy=planning("conservative")
    )
    starts = sorted(held.promised_start or "" for held in promises(found).values())
    assert starts[0].startswith("2125-")
    assert len(starts) == 10, "what lies a thousand years ahead is not promised"


def test_nor_do_estimates_of_millennia():
    policy = planning("easy", estimate="user-history", safetyFactor=100)
    ancient = finished("train-1", 90 * 365 * 86_400)
    found = plan(node("n1", cpu=2), ancient, begun(), head(), policy=policy)
    assert promises(found) == {}
