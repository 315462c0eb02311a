"""The sums kept as things happen are those that the definitions give on the whole story."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_metrics import (
    CAPACITY,
    RESOURCES,
    Job,
    held_share,
    nearest_rank,
    slow_entitlements,
    slow_fill,
    worst_deviation,
)

from fairway.clock import SECOND
from fairway.sim.metrics import JobFacts, JobOutcome, Recorder, summarize
from fairway.sim.metrics.entitlement import fill


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


def play(jobs: list[Job]) -> tuple[Recorder, list[JobOutcome]]:
    finished: list[JobOutcome] = []
    recorder = Recorder(0, RESOURCES, dict(zip(RESOURCES, CAPACITY, strict=True)), on_finish=finished.append)
    events = [(job.submit, 1, job) for job in jobs] + [(job.start, 2, job) for job in jobs]
    events += [(job.end, 0, job) for job in jobs]
    for at, kind, job in sorted(events, key=lambda event: (event[0], event[1], event[2].key)):
        amounts = dict(zip(RESOURCES, job.amounts, strict=True))
        if kind == 1:
            facts = JobFacts(job.key, job.queue, job.namespace, 1, 1, amounts, amounts, amounts)
            recorder.submitted(at * SECOND, facts)
        elif kind == 2:
            recorder.placed(at * SECOND, job.key, amounts)
        else:
            recorder.finished(at * SECOND, job.key, (job.end - job.start) * SECOND)
    recorder.close(recorder.now)
    return recorder, finished


@settings(max_examples=60, deadline=None)
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

    tenants = sorted({(job.queue, job.namespace) for job in jobs})
    services = [sum(held_share(jobs, at, tenant) for at in range(end)) for tenant in tenants]
    if any(services):
        index = float(sum(services) ** 2 / (len(services) * sum(s * s for s in services)))
        assert metrics.jain == pytest.approx(index, abs=1e-5)
    deviations = [worst_deviation(jobs, at) for at in range(end)]
    assert metrics.deviation_mean == pytest.approx(float(sum(deviations) / end), abs=1e-5)
    assert metrics.deviation_p99 == pytest.approx(float(sorted(deviations)[-(-99 * end // 100) - 1]), abs=1e-5)


@settings(max_examples=60, deadline=None)
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
