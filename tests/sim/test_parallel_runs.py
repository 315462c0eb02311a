"""Many runs at once: in order, and without waiting for those that are not needed any more."""

from __future__ import annotations

from multiprocessing import active_children
from multiprocessing.connection import wait
from pathlib import Path

from fairway.sim.parallel import RunTask, run_all, run_task

POLICY = "actions: [enqueue, allocate]\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"


def task(path: Path, jobs: int, seed: int = 1) -> RunTask:
    job = f"{{name: a, count: {jobs}, every: 1s, request: {{cpu: 1}}, run: 5s}}"
    text = f"cluster: {{nodes: 1 x {{cpu: 4}}}}\nworkload: {{jobs: [{job}]}}\n"
    return RunTask(str(path / "s.yaml"), text, "p", POLICY, seed)


def test_reports_come_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    tasks = [task(tmp_path, 300), task(tmp_path, 2, seed=2), task(tmp_path, 3, seed=3)]
    found = list(run_all(tasks, run_task, workers=2))
    assert [(report.seed, report.metrics.finished) for report in found] == [(1, 300), (2, 2), (3, 3)]
    assert [report.metrics for report in run_all(tasks, run_task, workers=1)] == [report.metrics for report in found]


def test_who_leaves_early_does_not_wait_for_the_other_runs(tmp_path: Path) -> None:
    before = set(active_children())
    runs = run_all([task(tmp_path, 2), task(tmp_path, 100_000_000)], run_task, workers=2)
    assert next(runs).metrics.finished == 2
    children = set(active_children()) - before
    assert children
    runs.close()
    # Asked of the system: the pool's own thread reaps the processes too, and whoever comes second learns nothing.
    sentinels = {child.sentinel for child in children}
    ended: set[object] = set()
    while sentinels - ended:
        now = wait(list(sentinels - ended), timeout=60)
        assert now, "a run goes on though it is not needed any more"
        ended |= set(now)
