"""Metrics in examples small enough to check by head."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from fairway.clock import SECOND
from fairway.sim.metrics import JobFacts, MetricsRecorder, QueueFacts, summarize
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.metrics.recorder import UsageSnapshot, UsageTimeline


def facts(key: str, cpu: int, *, tasks: int = 1, minimum: int | None = None, queue: str = "default") -> JobFacts:
    least = tasks if minimum is None else minimum
    one = {"cpu": cpu * 1000}
    demand, first = {"cpu": cpu * 1000 * tasks}, {"cpu": cpu * 1000 * least}
    return JobFacts(key, queue, key.partition("/")[0], tasks, least, demand, first, one)


def test_a_gang_starts_when_its_minimum_is_placed() -> None:
    recorder = MetricsRecorder(0, ["cpu"], {"cpu": 4000})
    recorder.submitted(0, facts("a/gang", 1, tasks=3, minimum=2))
    recorder.placed(5 * SECOND, "a/gang", {"cpu": 1000})
    recorder.placed(7 * SECOND, "a/gang", {"cpu": 1000})
    recorder.placed(9 * SECOND, "a/gang", {"cpu": 1000})
    recorder.finished(20 * SECOND, "a/gang", 13 * SECOND)
    recorder.close(20 * SECOND)
    metrics = summarize(recorder)
    assert metrics.wait.max == 7
    assert metrics.utilisation["cpu"].to_last_end == pytest.approx((2 * 1 + 2 * 2 + 11 * 3) / 80, abs=1e-6)


def test_evictions_are_counted_with_the_work_they_cost() -> None:
    recorder = MetricsRecorder(0, ["cpu"], {"cpu": 4000})
    recorder.submitted(0, facts("a/j", 2, tasks=2))
    recorder.placed(0, "a/j", {"cpu": 4000}, tasks=2)
    recorder.evicted(10 * SECOND, "a/j", {"cpu": 4000}, ran=10 * SECOND, tasks=2)
    recorder.placed(12 * SECOND, "a/j", {"cpu": 4000}, tasks=2)
    recorder.evicted(13 * SECOND, "a/j", {"cpu": 4000}, ran=1 * SECOND, tasks=2)
    recorder.placed(15 * SECOND, "a/j", {"cpu": 4000}, tasks=2)
    recorder.finished(35 * SECOND, "a/j", 20 * SECOND)
    recorder.close(35 * SECOND)
    metrics = summarize(recorder)
    assert (metrics.preemption.evictions, metrics.preemption.repeat_victims) == (4, 1)
    assert (metrics.preemption.most_stops, metrics.preemption.most_stopped_job) == (2, "a/j")
    assert metrics.preemption.lost_work == {"cpu": 44}
    assert metrics.wait.longest is not None
    assert (metrics.wait.max, metrics.wait.longest.evictions) == (15, 2)


def test_a_queue_starves_while_its_guarantee_covers_what_it_waits_for() -> None:
    recorder = MetricsRecorder(0, ["cpu"], {"cpu": 4000}, [QueueFacts("q", guarantee={"cpu": 2000}), QueueFacts("r")])
    recorder.submitted(0, facts("b/big", 4, queue="r"))
    recorder.placed(0, "b/big", {"cpu": 4000})
    recorder.submitted(3 * SECOND, facts("a/large", 3, queue="q"))
    recorder.submitted(5 * SECOND, facts("a/small", 2, queue="q"))
    recorder.finished(11 * SECOND, "b/big", 11 * SECOND)
    recorder.placed(11 * SECOND, "a/small", {"cpu": 2000})
    recorder.close(20 * SECOND)
    starvation = summarize(recorder).starvation
    assert (starvation.queue, starvation.queue_longest) == ("q", 6)


def test_shares_are_of_the_cluster_as_it_stands() -> None:
    recorder = MetricsRecorder(0, ["cpu"], {"cpu": 4000})
    recorder.submitted(0, facts("a/j", 2))
    recorder.placed(0, "a/j", {"cpu": 2000})
    recorder.capacity(10 * SECOND, {"cpu": 2000})
    recorder.finished(20 * SECOND, "a/j", 20 * SECOND)
    recorder.close(20 * SECOND)
    metrics = summarize(recorder)
    assert metrics.service == {"a": 15}
    assert metrics.utilisation["cpu"].to_last_end == pytest.approx(40 / 60, abs=1e-6)


def test_what_is_not_done_at_the_end_is_said() -> None:
    recorder = MetricsRecorder(0, ["cpu"], {"cpu": 1000})
    for name in ("runs", "waits", "waits-too", "goes"):
        recorder.submitted(0, facts(f"a/{name}", 1))
    recorder.placed(0, "a/runs", {"cpu": 1000})
    recorder.withdrawn(1 * SECOND, "a/goes")
    recorder.close(9 * SECOND)
    metrics = summarize(recorder)
    assert (metrics.running, metrics.waiting, metrics.withdrawn, metrics.finished) == (1, 2, 1, 0)
    assert (metrics.longest_waiting, metrics.longest_waiting_job) == (9, "a/waits")


def test_a_spread_of_many_values_stays_small_and_close() -> None:
    dice = random.Random(7)
    values = [int(dice.lognormvariate(12, 3)) for _ in range(150_000)]
    spread = Distribution()
    tracemalloc.start()
    for value in values:
        spread.add(value)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    ordered = sorted(values)
    assert (spread.count, spread.total, spread.largest) == (len(values), sum(values), ordered[-1])
    for percent in (1, 50, 95, 99):
        assert spread.percentile(percent) == pytest.approx(ordered[len(values) * percent // 100 - 1], rel=1e-3)
    assert used < 3_000_000


def test_the_timeline_keeps_its_size_and_its_sums_however_long_the_run() -> None:
    from array import array

    timeline = UsageTimeline(0, lambda at: UsageSnapshot(at, array("d", [at * 3.0]), array("d")), wanted=10)
    for at in range(0, 5_000_000 * SECOND, 777_777 * SECOND):
        timeline.reach(at)
    timeline.close(5_000_000 * SECOND)
    assert 10 <= len(timeline.snapshots) <= 22
    assert timeline.snapshots[0].at == 0
    assert timeline.snapshots[-1].at == 5_000_000 * SECOND
    spans = [b.at - a.at for a, b in zip(timeline.snapshots, timeline.snapshots[1:], strict=False)]
    assert len(set(spans[:-1])) == 1
    assert all(snapshot.sums[0] == snapshot.at * 3 for snapshot in timeline.snapshots)
