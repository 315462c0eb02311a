"""The sums kept as things happen are those that the definitions give on the whole story."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.clock import SECOND
from fairway.sim.metrics import JobFacts, JobOutcome, MetricsRecorder, summarize
from fairway.sim.metrics.tenants import fill
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.report import charts_of
from sim.metrics.slow_metrics import (
    CAPACITY,
    RESOURCES,
    Job,
    deviation,
    held_share,
    idle_while_waiting,
    nearest_rank,
    normalised_user_waits,
    planned_verdict,
    processors,
    slow_entitlements,
    slow_fill,
    slow_jain,
    user_waits,
    utilisation,
    weighted_slowdown,
    worst_deviation,
)
from support.effort import examples


class Claim(NamedTuple):
    weight: int
    demand: tuple[int, ...]


@st.composite
def stories(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for index in range(draw(st.integers(1, 7))):
        submit = draw(st.integers(0, 6))
        start = submit + draw(st.integers(0, 6))
        end = start + draw(st.integers(1, 6))
        amounts = (draw(st.integers(0, 4)) * 1000, draw(st.integers(0, 2)) * 1000)
        queue, namespace = draw(st.sampled_from("qr")), draw(st.sampled_from("abc"))
        jobs.append(Job(f"{namespace}/{index}", queue, namespace, amounts, submit, start, end))
    return jobs


def play(
    jobs: list[Job], until: int | None = None, planned: list[tuple[str, int, int, bool]] | None = None
) -> tuple[MetricsRecorder, list[JobOutcome]]:
    """The whole story, or up to and including an instant; `planned` are (job, told at, planned start, hard)."""
    finished: list[JobOutcome] = []
    recorder = MetricsRecorder(0, RESOURCES, dict(zip(RESOURCES, CAPACITY, strict=True)), on_finish=finished.append)
    events = [(job.submit, 1, job) for job in jobs] + [(job.start, 2, job) for job in jobs]
    events += [(job.end, 0, job) for job in jobs]
    for at, kind, job in sorted(events, key=lambda event: (event[0], event[1], event[2].key)):
        if until is not None and at > until:
            break
        for key, told, start, hard in planned or ():
            if kind == 2 and key == job.key and told <= at:
                recorder.plans_start(key, start * SECOND, hard)
        amounts = dict(zip(RESOURCES, job.amounts, strict=True))
        if kind == 1:
            facts = JobFacts(job.key, job.queue, job.namespace, 1, 1, amounts, amounts, amounts)
            recorder.submitted(at * SECOND, facts)
        elif kind == 2:
            recorder.placed(at * SECOND, job.key, amounts)
        else:
            recorder.finished(at * SECOND, job.key, (job.end - job.start) * SECOND)
    recorder.close(recorder.now if until is None else until * SECOND)
    return recorder, finished


@settings(max_examples=examples(60), deadline=None)
@given(stories())
def test_the_recorder_agrees_with_the_definitions(jobs: list[Job]) -> None:
    recorder, finished = play(jobs)
    metrics = summarize(recorder)
    end, last_submit = max(job.end for job in jobs), max(job.submit for job in jobs)
    waits = [job.start - job.submit for job in jobs]

    assert metrics.wait.mean == pytest.approx(sum(waits) / len(waits), abs=1e-6)
    assert [metrics.wait.p50, metrics.wait.p95] == [nearest_rank(waits, 50), nearest_rank(waits, 95)]
    assert metrics.wait.max == max(waits)
    assert metrics.makespan == end - min(job.submit for job in jobs)
    slowdowns = [max(1, (job.end - job.submit) / max(10, job.end - job.start)) for job in jobs]
    assert metrics.wait.slowdown_mean == pytest.approx(sum(slowdowns) / len(jobs), abs=2e-6)
    assert sorted(outcome.key for outcome in finished) == sorted(job.key for job in jobs)

    for index, name in enumerate(RESOURCES):
        for until, measured in (
            (end, metrics.utilisation[name].to_last_end),
            (last_submit, metrics.utilisation[name].to_last_submit),
        ):
            used = sum(j.amounts[index] for at in range(until) for j in jobs if j.state(at) == "held")
            assert measured == pytest.approx(used / (CAPACITY[index] * until) if until else 0, abs=1e-6)

    assert metrics.jain is None
    deviations = [worst_deviation(jobs, at) for at in range(end)]
    assert metrics.deviation_mean == pytest.approx(float(sum(deviations) / end), abs=1e-5)
    assert metrics.deviation_p99 == pytest.approx(float(sorted(deviations)[-(-99 * end // 100) - 1]), abs=1e-5)


@settings(max_examples=examples(60), deadline=None)
@given(stories())
def test_waits_of_users_and_areas_agree_with_the_definitions(jobs: list[Job]) -> None:
    recorder, finished = play(jobs)
    metrics = summarize(recorder)
    assert metrics.wait.slowdown_weighted == pytest.approx(float(weighted_slowdown(jobs)), abs=2e-6)
    for measured, values in (
        (metrics.users.wait, user_waits(jobs)),
        (metrics.users.normalised_wait, normalised_user_waits(jobs)),
    ):
        assert measured.mean == pytest.approx(float(sum(values) / len(values)), abs=2e-6)
        assert measured.deviation == pytest.approx(deviation(values), abs=2e-6)
        assert measured.largest == pytest.approx(float(max(values)), abs=2e-6)
        assert dict(zip(sorted({job.namespace for job in jobs}), values, strict=True))[measured.user] == max(values)
    last_start = max(job.start for job in jobs)
    for index, name in enumerate(RESOURCES):
        expected = utilisation(jobs, index, last_start)
        assert metrics.utilisation[name].to_last_start == pytest.approx(expected, abs=1e-6)
    assert {outcome.key: outcome.processors for outcome in finished} == {
        job.key: processors(job) * 1000 for job in jobs
    }


@settings(max_examples=examples(60), deadline=None)
@given(stories())
def test_the_fragmentation_curve_is_the_mean_of_each_span(jobs: list[Job]) -> None:
    recorder, _ = play(jobs)
    charts = charts_of(recorder, NodeTimeline())
    begin = 0
    for time, measured in zip(charts.times, charts.fragmentation, strict=True):
        found = [idle for at in range(begin, int(time)) if (idle := idle_while_waiting(jobs, at)) is not None]
        assert measured == pytest.approx(float(sum(found) / len(found)) if found else 0.0, abs=2e-5)
        begin = int(time)
    assert begin == max(job.end for job in jobs)


@settings(max_examples=examples(60), deadline=None)
@given(stories(), st.integers(0, 12))
def test_jains_index_is_there_only_where_several_namespaces_still_wait(jobs: list[Job], until: int) -> None:
    recorder, _ = play(jobs, until)
    expected = slow_jain(jobs, until)
    measured = summarize(recorder).jain
    assert (measured is None) == (expected is None)
    assert measured is None or measured == pytest.approx(expected, abs=1e-5)


@settings(max_examples=examples(60), deadline=None)
@given(stories(), st.data())
def test_planned_starts_are_kept_or_missed_as_the_definition_says(jobs: list[Job], data: st.DataObject) -> None:
    times = st.tuples(st.integers(0, 14), st.booleans())
    given_starts = {job.key: data.draw(st.lists(times, max_size=3)) for job in jobs}
    planned = [(key, 0, at, hard) for key, starts in given_starts.items() for at, hard in starts]
    recorder, finished = play(jobs, planned=planned)
    verdicts = {job.key: planned_verdict(given_starts[job.key], job.start) for job in jobs}
    found = {
        outcome.key: outcome.planned
        and ("hard" if outcome.planned.hard else "soft", "kept" if outcome.planned.kept else "missed")
        for outcome in finished
    }
    assert found == verdicts
    metrics = summarize(recorder).planned
    counted = Counter(verdicts.values())
    assert (metrics.kept, metrics.missed) == (counted["hard", "kept"], counted["hard", "missed"])
    assert (metrics.soft_kept, metrics.soft_missed) == (counted["soft", "kept"], counted["soft", "missed"])


@settings(max_examples=examples(60), deadline=None)
@given(stories())
def test_starvation_is_the_longest_stretch_below_an_entitlement_that_covers_the_next_job(
    jobs: list[Job],
) -> None:
    recorder, _ = play(jobs)
    longest = 0
    for tenant in {(job.queue, job.namespace) for job in jobs}:
        stretch = 0
        for at in range(max(job.end for job in jobs) + 1):
            stretch = stretch + 1 if _below(jobs, at, tenant) else 0
            longest = max(longest, stretch)
    assert summarize(recorder).starvation.namespace_longest == longest


def _below(jobs: list[Job], at: int, tenant: tuple[str, str]) -> bool:
    mine = [job for job in jobs if (job.queue, job.namespace) == tenant]
    entitled = slow_entitlements(jobs, at).get(tenant, 0)
    if float(held_share(jobs, at, tenant)) + 1e-6 >= float(entitled):
        return False
    waiting = [job for job in mine if job.state(at) == "waits"]
    for job in waiting:
        moved = [j if j is not job else Job(j.key, *tenant, j.amounts, j.submit, at, at + 1) for j in jobs]
        if float(held_share(moved, at, tenant)) <= float(entitled) + 1e-6:
            return True
    return False


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.tuples(st.integers(0, 9000), st.integers(0, 9000))),
        min_size=1,
        max_size=6,
    )
)
def test_the_fluid_share_is_exact_up_to_rounding(claims: list[tuple[int, tuple[int, int]]]) -> None:
    fast = fill(CAPACITY, [Claim(weight, demand) for weight, demand in claims], CAPACITY)
    assert fast == pytest.approx([float(part) for part in slow_fill(CAPACITY, claims)], abs=1e-9)
    one = fill(CAPACITY[:1], [Claim(weight, demand[:1]) for weight, demand in claims], CAPACITY[:1])
    slow = slow_fill((CAPACITY[0], 1), [(weight, (demand[0], 0)) for weight, demand in claims])
    assert one == pytest.approx([float(part) for part in slow], abs=1e-9)
