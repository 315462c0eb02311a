"""Which pods `plan` schedules: those that name one of Fairway's schedulers."""

from pathlib import Path

from support.cli import invoke, write
from support.objects import node, pod

AT = ("--now", "2026-01-02T00:00:00Z", "-o", "json")


def _cluster(folder: Path) -> str:
    objects = [
        node("n", cpu=4, pods=10),
        pod("mine", cpu=1),
        pod("volcano", cpu=1, spec={"schedulerName": "volcano"}),
        pod("stock", cpu=1, spec={"schedulerName": "default-scheduler"}),
        pod("used", node="n", cpu=1, spec={"schedulerName": "default-scheduler"}),
    ]
    return str(write(objects, folder))


def _bound(*arguments: str) -> list[str]:
    return sorted(
        binding["pod"].removeprefix("default/") for binding in invoke("plan", *arguments, *AT).plan["bindings"]
    )


def test_only_fairway_s_pods_are_planned_by_default(tmp_path: Path) -> None:
    file = _cluster(tmp_path)
    assert _bound("-f", file) == ["mine"]
    plan = invoke("plan", "-f", file, *AT).plan
    assert plan["pending"] == []
    assert plan["queues"][0]["allocated"]["cpu"] == "1", "the pod of another scheduler belongs to no queue"


def test_names_are_repeatable_and_replace_the_default(tmp_path: Path) -> None:
    file = _cluster(tmp_path)
    assert _bound("-f", file, "--scheduler-name", "volcano") == ["volcano"]
    assert _bound("-f", file, "--scheduler-name", "volcano", "--scheduler-name", "fairway") == ["mine", "volcano"]


def test_all_pods_asks_what_if(tmp_path: Path) -> None:
    file = _cluster(tmp_path)
    assert _bound("-f", file, "--all-pods") == ["mine", "stock", "volcano"]
    refused = invoke("plan", "-f", file, "--all-pods", "--scheduler-name", "volcano")
    assert refused.code == 2
    assert "cannot be combined" in refused.err


def test_pods_that_wait_for_another_scheduler_are_named(tmp_path: Path) -> None:
    said = invoke("plan", "-f", _cluster(tmp_path), *AT).err
    assert "1 pending pod has schedulerName 'default-scheduler', not 'fairway', and is left out" in said
    assert "--all-pods" in said
    assert "used" not in said


def test_explain_and_queues_see_the_same_pods(tmp_path: Path) -> None:
    file = _cluster(tmp_path)
    assert "there is no such job" in invoke("explain", "stock", "-f", file).err
    assert invoke("explain", "stock", "-f", file, "--all-pods").code == 0
    assert invoke("queues", "-f", file, "--all-pods").code == 0


def test_a_share_that_counts_what_is_reserved_says_so(tmp_path: Path) -> None:
    starving = [node("n", cpu=4, pods=10), pod("used", node="n", cpu=4), pod("big", cpu=3, created=0)]
    file = str(write(starving, tmp_path))
    later = ("--now", "2026-02-01T00:00:00Z")
    text = "share of the cluster including reservations, and"
    assert text in invoke("plan", "-f", file, *later).out
    assert "of the cluster including reservations" in invoke("explain", "big", "-f", file, *later).out
    assert text not in invoke("plan", "-f", _cluster(tmp_path), *later).out
