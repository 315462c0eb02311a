"""Assertions: what holds passes, what does not says what happened and when."""

from __future__ import annotations

import pytest

from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.sim.assertions import Evidence, parse_assertion
from fairway.sim.metrics import JobFacts, Metrics, MetricsRecorder, QueueFacts, summarize

START = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z"""


def facts(key: str, cpu: int, queue: str) -> JobFacts:
    amounts = {"cpu": cpu * 1000}
    return JobFacts(key, queue, key.partition("/")[0], 1, 1, amounts, amounts, amounts)


@pytest.fixture(name="run")
def a_run() -> tuple[Evidence, Metrics]:
    """Queue r takes all until 60; a/train of q, whose guarantee is half, waits until 60 and runs to 90."""
    recorder = MetricsRecorder(START, ["cpu"], {"cpu": 4000}, [QueueFacts("q", guarantee={"cpu": 2000})])
    recorder.submitted(START, facts("b/big", 4, "r"))
    recorder.placed(START, "b/big", {"cpu": 4000})
    recorder.submitted(START, facts("a/train", 2, "q"))
    at = START + 60 * SECOND
    recorder.finished(at, "b/big", 60 * SECOND)
    recorder.placed(at, "a/train", {"cpu": 2000})
    recorder.finished(START + 90 * SECOND, "a/train", 30 * SECOND)
    recorder.close(START + 90 * SECOND)
    evidence = Evidence(START, START + 90 * SECOND, frozenset(), {"a/train": at}, {"a/train": START + 90 * SECOND})
    evidence.first_eviction["r"] = (START + 61 * SECOND, "b/late")
    evidence.below_since = {"namespace/q/a": START, "queue/q": START, "queue/r": START}
    evidence.came = {"a/train", "a/late"}
    evidence.waits = recorder.outcomes.waits
    return evidence, summarize(recorder)


@pytest.mark.parametrize(
    "text",
    [
        "job a/train starts before 61s",
        "job a/train  ends before 2026-01-01T00:01:31Z",
        "no namespace below its share for more than 1m",
        "no queue below its guarantee for more than 60s",
        "max wait < 61s",
        "p95 wait of queue r < 1s",
        "mean wait of namespace a < 2m",
        "no evictions of q",
    ],
)
def test_what_holds_passes(run: tuple[Evidence, Metrics], text: str) -> None:
    assert parse_assertion(text).judge(*run) is None


@pytest.mark.parametrize(
    ("text", "what", "second"),
    [
        ("job a/train starts before 50s", "it starts 10s too late", 60),
        ("job a/train starts before 60s", "it starts 0s too late", 60),
        ("job a/late ends before 50s", "by then it had not", 50),
        ("job a/late starts before 2m", "it had not by the end of the run", 90),
        ("job a/other ends before 50s", "no job of that name was submitted", 90),
        (
            "no namespace below its share for more than 10s",
            "namespace q/a was below it for 1m, from 2026",
            10,
        ),
        ("no queue below its guarantee for more than 59s", "queue q was below it for 1m", 59),
        ("p95 wait < 1m", "it was 1m", 90),
        ("p50 wait of queue nobody < 1m", "no job of queue nobody was submitted", 90),
        ("no evictions of nobody", "there is no queue nobody", 90),
        ("no evictions of queue r", "b/late of queue r was evicted", 61),
        ("no evictions", "b/late of queue r was evicted", 61),
    ],
)
def test_what_does_not_hold_says_what_and_when(
    run: tuple[Evidence, Metrics], text: str, what: str, second: int
) -> None:
    breach = parse_assertion(text, line=7).judge(*run)
    assert breach is not None
    assert breach.what.startswith(what)
    assert (breach.when, breach.line) == (START + second * SECOND, 7)
    assert str(breach).startswith(f"{text}: {what}")


@pytest.mark.parametrize(
    "text",
    [
        "job x begins before 5s",
        "p96 wait < 5s",
        "p95 wait < soon",
        "no evictions of a b",
        "",
        "job x starts before 5",
    ],
)
def test_other_sentences_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_assertion(text)


def test_jobs_that_still_wait_count_with_their_wait_so_far() -> None:
    """One of two jobs never starts: waits of finished jobs alone would look fine."""
    recorder = MetricsRecorder(START, ["cpu"], {"cpu": 4000}, [])
    recorder.submitted(START, facts("a/quick", 4, "q"))
    recorder.placed(START, "a/quick", {"cpu": 4000})
    recorder.submitted(START, facts("a/never", 8, "q"))
    recorder.finished(START + 5 * SECOND, "a/quick", 5 * SECOND)
    recorder.close(START + 60 * SECOND)
    metrics = summarize(recorder)
    evidence = Evidence(START, START + 60 * SECOND, waits=recorder.outcomes.waits)
    assert metrics.wait.max == 0
    for text in ("p95 wait < 1m", "max wait of queue q < 1m", "p99 wait of namespace a < 30s"):
        breach = parse_assertion(text).judge(evidence, metrics)
        assert breach is not None
        assert breach.what == "it was 1m so far"
    assert parse_assertion("mean wait < 31s").judge(evidence, metrics) is None
    assert parse_assertion("p50 wait < 1s").judge(evidence, metrics) is None


def test_a_job_without_a_namespace_is_in_default() -> None:
    assert parse_assertion("job train starts before 5s").jobs == ("default/train",)
