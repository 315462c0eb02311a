"""Past runs: whose they are, how long they took, and how little is kept of them."""

import pytest
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import Pod, PodStatus
from fairway.clock import SECOND, to_datetime
from fairway.state import history
from fairway.state.history import KEPT, RunHistory, stem
from support.engine import state_of
from support.objects import BEGIN, pod


def done(name: str, began: int, ended: int, namespace: str = "default", **rest: object) -> Pod:
    times = [to_datetime(BEGIN + seconds * SECOND) for seconds in (began, ended)]
    over = Condition(type="Ready", status="False", last_transition_time=times[1])
    made = pod(name, namespace, cpu=1, **rest)
    assert isinstance(made, Pod)
    return replace(made, status=PodStatus(phase="Succeeded", start_time=times[0], conditions=(over,)))


def learnt(*pods: Pod) -> RunHistory:
    return state_of(*pods).history


def seconds(found: int | None) -> float | None:
    return None if found is None else found / SECOND


@pytest.mark.parametrize(
    ("name", "kind"),
    [("train-17", "train"), ("train_3", "train"), ("v1.2", "v1"), ("train", "train"), ("42", "42"), ("a-1-2", "a-1")],
)
def test_runs_of_one_kind_differ_by_a_number_at_the_end(name: str, kind: str) -> None:
    assert stem(name) == kind


def test_the_mean_of_the_last_two_runs() -> None:
    runs = [done(f"j-{i}", 0, span) for i, span in enumerate((90, 10, 20, 41))]
    assert seconds(learnt(runs[0]).mean("default", "j-9")) == 90
    assert seconds(learnt(*runs).mean("default", "j")) == 65.5, "those that ended last"
    assert learnt(*runs).mean("default", "k") is None
    assert learnt(*runs).mean("elsewhere", "j") is None
    assert learnt(*runs).mean("default", "j", "ann") is None


def test_hearing_of_a_run_twice_changes_nothing() -> None:
    again = [done("j", 0, 10), done("j", 0, 10), done("j", 0, 10), done("j", 50, 90)]
    assert seconds(learnt(*again).mean("default", "j")) == 25


def test_the_order_in_which_runs_are_heard_of_changes_nothing() -> None:
    runs = [done(f"j-{i}", i, 2 * i + 1) for i in range(KEPT + 9)]
    assert learnt(*runs).mean("default", "j") == learnt(*reversed(runs)).mean("default", "j")


def test_pods_of_a_job_that_ran_together_are_one_run() -> None:
    worker = {"annotations": {"scheduling.k8s.io/group-name": "job-1"}}
    alone = done("job-2", 0, 10)
    assert seconds(learnt(done("a", 0, 30, **worker), done("b", 20, 50, **worker), alone).mean("default", "job")) == 30


def test_only_the_last_runs_count() -> None:
    runs = [done(f"j-{i}", 1000 * i, 1000 * i + 5) for i in range(KEPT)]
    later = [done(f"j-{i + KEPT}", 1000 * (i + KEPT), 1000 * (i + KEPT) + 70) for i in range(KEPT)]
    assert seconds(learnt(*runs).mean("default", "j")) == 5
    assert seconds(learnt(*runs, *later).mean("default", "j")) == 70


def test_names_least_recently_heard_of_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_NAMES", 2)
    found = learnt(done("a", 0, 1), done("b", 0, 1), done("a-2", 5, 6), done("c", 0, 1))
    assert [found.mean("default", name) is not None for name in "abc"] == [True, False, True]


@pytest.mark.parametrize(
    "broken",
    [
        PodStatus(phase="Succeeded"),
        PodStatus(phase="Succeeded", start_time=to_datetime(BEGIN)),
        replace(done("j", 9, 9).status),
        replace(done("j", 9, 3).status),
        replace(done("j", 0, 9).status, phase="Failed"),
        replace(done("j", 0, 9).status, phase="Running"),
    ],
    ids=["no times", "no end", "no length", "ends before it begins", "failed", "still runs"],
)
def test_what_does_not_say_how_long_it_ran_teaches_nothing(broken: PodStatus) -> None:
    assert learnt(replace(done("j", 0, 9), status=broken)).mean("default", "j") is None


def test_pods_of_other_schedulers_teach_nothing() -> None:
    assert state_of(done("j", 0, 9), scheduler_names=["other"]).history.mean("default", "j") is None
