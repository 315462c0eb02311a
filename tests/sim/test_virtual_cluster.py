"""The virtual cluster carries plans out: starts, ends, delays, evictions, failures, drains and joins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.sim.report import to_json
from sim.simulating import PLAIN, Run
from support.effort import examples

STORY = """
cluster: {nodes: 1 x {cpu: 3, memory: 3G}}
workload:
  jobs:
  - {name: pod-1, request: {cpu: 1, memory: 1G}, run: 2s}
  - {name: pod-2, request: {cpu: 1, memory: 1G}, run: 4s}
  - {name: pod-3, request: {cpu: 1, memory: 1G}, run: 4s}
  - {name: pod-4, request: {cpu: 3, memory: 3G}, run: 2s}
  - {name: pod-5, request: {cpu: 1, memory: 1G}, run: 4s}
  - {name: pod-6, request: {cpu: 1, memory: 1G}, run: 4s}
  - {name: pod-7, request: {cpu: 1, memory: 1G}, run: 4s}
"""
RESERVE = "actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 3}}, allocate, backfill]"


def one_node(jobs: str, more: str = "") -> str:
    return f"cluster: {{nodes: 1 x {{cpu: 4}}}}\nworkload:\n  jobs:\n{jobs}\n{more}"


def test_the_proposals_starvation_story_without_reserve() -> None:
    starts = {name: start for name, (start, _) in Run(STORY).times.items()}
    assert starts == {"pod-1": 0, "pod-2": 0, "pod-3": 0, "pod-5": 2, "pod-6": 4, "pod-7": 4, "pod-4": 8}


def test_the_proposals_starvation_story_with_reserve() -> None:
    run = Run(STORY, RESERVE)
    starts = {name: start for name, (start, _) in run.times.items()}
    assert starts == {"pod-1": 0, "pod-2": 0, "pod-3": 0, "pod-5": 2, "pod-4": 6, "pod-6": 8, "pod-7": 8}
    hold = run.result.report.charts.reservations[0]
    assert (hold.job, hold.nodes) == ("default/pod-4", 1)
    assert hold.end - run.simulation.scenario.start == 6 * SECOND


def test_a_gang_starts_together_and_ends_when_its_last_task_does() -> None:
    run = Run(one_node("  - {name: gang, tasks: 3, request: {cpu: 1}, run: 5s, arrive: 2s}"))
    assert run.times == {"gang": (2, 7)}
    assert run.jobs["gang"].tasks == 3


def test_an_elastic_job_starts_with_its_minimum_and_takes_more_as_room_comes() -> None:
    run = Run(
        one_node(
            "  - {name: a, request: {cpu: 2}, run: 3s}\n"
            "  - {name: elastic, tasks: 4, minimum: 2, request: {cpu: 1}, run: 10s, arrive: 1s}"
        )
    )
    assert run.times == {"a": (0, 3), "elastic": (1, 13)}


def test_the_start_delay_holds_the_room_before_the_run() -> None:
    run = Run(one_node("  - {name: a, request: {cpu: 4}, run: 5s}", "timing: {startDelay: 2s}"))
    assert run.times == {"a": (0, 7)}
    assert run.jobs["a"].run == 5 * SECOND
    assert run.metrics.utilisation["cpu"].to_last_end == 1


def test_cycles_at_an_interval_start_jobs_at_fixed_times() -> None:
    jobs = (
        "  - {name: a, request: {cpu: 4}, run: 5s, arrive: 1s}\n  - {name: b, request: {cpu: 4}, run: 5s, arrive: 2s}"
    )
    run = Run(one_node(jobs, "timing: {cycles: interval, interval: 4s}"))
    assert run.times == {"a": (4, 9), "b": (12, 17)}


def test_a_limit_ends_a_job() -> None:
    assert Run(one_node("  - {name: a, request: {cpu: 1}, run: 1h, limit: 9s}")).times == {"a": (0, 9)}


def test_a_failed_node_loses_its_pods_and_comes_back() -> None:
    run = Run(one_node("  - {name: a, request: {cpu: 4}, run: 10s}", "failures: [{node: node, at: 4s, lasts: 3s}]"))
    assert run.times == {"a": (7, 17)}
    assert (run.metrics.preemption.evictions, run.metrics.preemption.failures) == (0, 1)
    assert run.metrics.preemption.failed_work == {"cpu": 16}
    (outage,) = run.result.report.charts.outages
    assert outage.end - outage.start == 3 * SECOND


def test_a_drained_node_gives_its_pods_their_grace_and_takes_no_new_ones() -> None:
    text = """
cluster: {nodes: 2 x {cpu: 4}}
workload: {jobs: [{name: a, request: {cpu: 4}, run: 10s}, {name: b, request: {cpu: 4}, run: 20s}]}
timing: {grace: 2s}
changes: [{at: 5s, drain: node-0}]
"""
    run = Run(text)
    assert run.times == {"b": (0, 20), "a": (20, 30)}
    assert run.metrics.preemption.evictions == 1
    assert run.metrics.preemption.lost_work == {"cpu": 28}


def test_nodes_join_and_go() -> None:
    text = """
cluster: {nodes: 1 x {cpu: 4}}
workload: {jobs: [{name: a, request: {cpu: 4}, run: 10s}, {name: b, request: {cpu: 4}, run: 10s}]}
changes: [{at: 3s, join: {name: new, allocatable: {cpu: 4}}}, {at: 5s, remove: node}]
"""
    run = Run(text)
    assert run.times == {"b": (3, 13), "a": (13, 23)}
    assert run.metrics.preemption.failures == 1


def test_reclaim_evicts_and_the_victim_runs_again() -> None:
    text = """
cluster:
  nodes: 2 x {cpu: 4}
  queues: [{name: q}, {name: r}]
workload:
  jobs:
  - {name: borrower, queue: q, count: 2, every: 0s, request: {cpu: 4}, run: 100s}
  - {name: owner, queue: r, request: {cpu: 4}, run: 10s, arrive: 20s}
timing: {grace: 5s}
assert: [no evictions of q, job owner starts before 26s]
"""
    run = Run(text, None)
    assert run.times["owner"] == (25, 35)
    assert run.metrics.preemption.evictions == 1
    assert sorted(end for _, end in run.times.values()) == [35, 100, 135]
    (breach,) = run.result.breaches
    assert breach.assertion == "no evictions of q"
    assert breach.when - run.simulation.scenario.start == 20 * SECOND


def test_pods_of_manifests_arrive_and_run_as_they_are_annotated(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(
        """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: g-0, annotations: {scheduling.k8s.io/group-name: g, sim.fairway.dev/arrive: 3s}}
spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: g-1
  annotations: {scheduling.k8s.io/group-name: g, sim.fairway.dev/arrive: 3s, sim.fairway.dev/run: 9s}
spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}
"""
    )
    text = "cluster: {nodes: 1 x {cpu: 4}}\nworkload: {manifests: [{file: jobs.yaml, run: 5s}]}"
    assert Run(text, folder=tmp_path).times == {"alone": (0, 5), "g": (5, 14)}


def test_a_pod_without_a_run_time_is_refused(tmp_path: Path) -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
    (tmp_path / "p.yaml").write_text(pod)
    with pytest.raises(InputError, match="pod default/p has no run time"):
        Run("cluster: {nodes: 1 x {cpu: 4}}\nworkload: {manifests: [{file: p.yaml}]}", folder=tmp_path)


def test_a_trace_comes_with_its_own_distances_in_one_queue_or_its_own(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,run,n,user\n100,5,2,A\n103,5,4,B\n900,5,1,A\n")
    columns = "columns: {submit: when, run: run, tasks: n, namespace: user, request: {cpu: n}}"
    text = (
        f"cluster: {{nodes: 8 x {{cpu: 4}}}}\nworkload: {{trace: {{format: csv, file: t.csv, until: 60s, {columns}}}}}"
    )
    run = Run(text, folder=tmp_path)
    assert run.times == {"a/job-000000": (0, 5), "b/job-000001": (3, 8)}


def test_a_name_that_is_still_there_is_a_wrong_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("when,run,name\n0,50,x\n10,5,x\n90,5,x\n")
    columns = "columns: {submit: when, run: run, name: name}"
    text = f"cluster: {{nodes: 1 x {{cpu: 4}}}}\nworkload: {{trace: {{format: csv, file: t.csv, {columns}}}}}"
    run = Run(text, folder=tmp_path)
    assert run.metrics.finished == 2
    assert "default/x is submitted while a job of that name still exists" in run.result.report.warnings[1]


def test_the_end_cuts_the_run_and_says_what_was_left() -> None:
    jobs = "  - {name: a, request: {cpu: 4}, run: 1h}\n  - {name: b, request: {cpu: 4}, run: 1h}"
    run = Run(one_node(jobs, "end: 10m"))
    assert (run.metrics.running, run.metrics.waiting, run.metrics.longest_waiting) == (1, 1, 600)
    assert run.result.report.end == "2026-01-01T00:10:00Z"
    assert not run.result.report.partial


def test_what_never_fits_does_not_keep_the_run_going() -> None:
    run = Run(one_node("  - {name: huge, request: {cpu: 5}, run: 1s}\n  - {name: a, request: {cpu: 1}, run: 3s}"), None)
    assert run.times == {"a": (0, 3)}
    assert run.metrics.waiting == 1


def test_an_interrupted_run_leaves_a_partial_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairway.sim.loop import EventLoop

    step, seen = EventLoop.step, []

    def stop_soon(loop: EventLoop) -> bool:
        seen.append(1)
        if len(seen) == 9:
            raise KeyboardInterrupt
        return step(loop)

    monkeypatch.setattr(EventLoop, "step", stop_soon)
    run = Run(STORY)
    assert run.result.report.partial
    assert 0 < run.metrics.finished + run.metrics.running < 7


MIXED = """
cluster: {nodes: 3 x {cpu: 4, memory: 8Gi}, queues: [{name: q, weight: 2}, {name: r}], namespaces: {a: {weight: 2}}}
workload:
  jobs:
  - {name: small, namespace: a, queue: q, request: {cpu: 1, memory: 1Gi}, run: uniform 10s 90s,
     count: 40, every: exponential 20s}
  - {name: gang, namespace: b, queue: r, tasks: 3, request: {cpu: 2, memory: 1Gi}, run: exponential 60s,
     count: 8, load: 0.4}
timing: {startDelay: uniform 0s 3s, grace: 4s}
failures: [{every: exponential 5m, lasts: uniform 10s 60s}]
"""


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (to_json(Run(MIXED, None, seed=seed).result.report) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([PLAIN, RESERVE, None]))
def test_every_job_runs_to_its_end_and_nothing_is_left_behind(seed: int, policy: str | None) -> None:
    run = Run(MIXED, policy, seed=seed)
    assert (run.metrics.finished, run.metrics.waiting, run.metrics.running) == (48, 0, 0)
    simulation = run.simulation
    assert not simulation.cluster.pods
    assert not simulation.cluster.jobs
    assert not simulation.state.tasks
    for job in run.jobs.values():
        assert job.submit <= job.start <= job.end
        assert job.end - job.start >= job.run
    assert all(part.to_last_end <= 1 for part in run.metrics.utilisation.values())
