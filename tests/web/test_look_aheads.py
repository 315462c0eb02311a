"""When jobs start, in parts: on a thread or in a worker, with limits, and in no turn that others wait for."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from fairway.app.explain import explain
from fairway.app.explain.situation import Situation
from fairway.app.view import estimates as estimating
from fairway.app.view.estimates import NO_ESTIMATES, EstimatedStarts, estimates_of
from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.picture import picture_of
from fairway.web import shown
from fairway.web.application import SLOW_THREADS
from fairway.web.asking import RequestRefusedError
from fairway.web.shown import QUESTIONS, LookAheads
from support.objects import node, pod, queue
from support.sandboxes import after, made, running_for
from support.web_pages import AskedPage, under_way

KNOWN = {**running_for("10m"), "fairway.dev/expected-runtime": "10m"}
NAMES = [f"job-{number}" for number in range(5)]
JOBS = [f"default/{name}" for name in NAMES[1:]]


@pytest.fixture(scope="module")
def page() -> Iterator[AskedPage]:
    """One job after the other, and one that never starts."""
    things = [pod(name, cpu=3, queue="q", annotations=KNOWN) for name in NAMES]
    sandbox = after(made(node("n", cpu=4), queue("q"), things, pod("never", cpu=9, queue="q")), 5)
    yield AskedPage(sandbox)
    sandbox.close()


@pytest.fixture(scope="module")
def situation(page: AskedPage) -> Situation:
    return page.shown.situation()


def test_the_parts_are_those_of_the_whole(page: AskedPage) -> None:
    whole = json.loads(msgspec.json.encode(explain(page.shown.situation(), "default/job-3")))
    now = page.get("explanations/default/job-3").document["explanation"]
    start = page.get("starts/default/job-3").document
    bounds = page.get("starts/default/job-3?bounds=true").document
    assert now | {"forecast": start["forecast"]} == whole
    assert now["forecast"] is start["interval"] is None
    assert bounds["forecast"] == start["forecast"]
    assert bounds["interval"]["earliest"] <= start["forecast"]["start"] == bounds["interval"]["start"]


def test_a_job_that_runs_has_no_start(page: AskedPage) -> None:
    found = page.get("starts/default/job-0?bounds=true").document
    assert (found["forecast"], found["interval"]) == (None, None)


def test_a_look_ahead_takes_no_turn_of_other_questions(page: AskedPage) -> None:
    for _ in range(QUESTIONS):
        page.shown.asking.take("other", 1)
    try:
        assert page.get("starts/default/job-3").status == 200
    finally:
        for _ in range(QUESTIONS):
            page.shown.asking.give_back()


def test_any_number_of_long_questions_leaves_the_others_free(page: AskedPage) -> None:
    with under_way(page, "start", "starts/default/job-3", SLOW_THREADS):
        assert page.ask("GET", "explanations/default/job-3").status == 200
        assert page.ask("GET", "orders/default/job-3").status == 200


def test_a_worker_answers_as_a_thread_does(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    here = LookAheads(lambda: 1)
    found = here.start(situation, "default/job-3", bounds=True), here.estimates(situation, JOBS)
    monkeypatch.setattr(shown, "MAX_HERE", 0)
    ahead = LookAheads(lambda: 1)
    assert ahead.start(situation, "default/job-3", bounds=False).forecast == found[0].forecast
    assert (ahead.start(situation, "default/job-3", bounds=True), ahead.estimates(situation, JOBS)) == found


def test_a_worker_reads_a_question_of_any_size(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds, for longer than a look whether the client is still there."""
    monkeypatch.setattr(shown, "MAX_HERE", 0)
    many = [*JOBS, *(f"default/{number:0>60}" for number in range(50_000))]
    found = LookAheads(lambda: 1).estimates(situation, many)
    assert found is not None
    assert sorted(found.starts) == JOBS


def test_a_large_cluster_is_looked_ahead_of_only_while_a_page_is_open(
    situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "MAX_HERE", 0)
    monkeypatch.setattr(shown, "MAX_COPIED", 0)
    ahead = LookAheads()
    assert ahead.estimates(situation, JOBS) is None
    ahead.viewed()
    assert ahead.estimates(situation, JOBS) is NO_ESTIMATES  # too large


def test_a_look_ahead_that_meets_a_limit_leaves_the_table_without(
    situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "MAX_HERE", 0)
    monkeypatch.setattr(shown, "MEGABYTES", 64)
    ahead = LookAheads(lambda: 1)
    assert ahead.estimates(situation, JOBS) is NO_ESTIMATES
    with pytest.raises(RequestRefusedError, match="exceeds the limits of a worker"):
        ahead.start(situation, "default/job-3", bounds=False)


def rows(page: AskedPage, estimates: EstimatedStarts) -> dict[str, JobSummary]:
    with page.shown.watch.mirror() as mirror:
        return picture_of(mirror, estimates=estimates).jobs.by_name


def test_a_row_says_what_is_known_of_its_start(page: AskedPage, situation: Situation) -> None:
    asked = [*JOBS, "default/never"]
    whole = rows(page, estimates_of(situation, asked))
    starts = [whole[job].estimated_start for job in JOBS]
    assert None not in starts
    assert starts == sorted(starts, key=str)
    assert (whole["default/never"].estimated_start, whole["default/never"].no_start) == (None, True)
    assert whole["default/job-0"].no_start is False  # it runs
    unknown = rows(page, NO_ESTIMATES)["default/never"]
    assert (unknown.estimated_start, unknown.starts_after, unknown.no_start) == (None, None, False)


def test_where_time_is_short_the_rest_starts_later(
    page: AskedPage, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter([False] * 6)
    monkeypatch.setattr(estimating, "after", lambda seconds: lambda: next(steps, True))
    found = estimates_of(situation, JOBS)
    assert 0 < len(found.starts) < len(JOBS)
    assert found.until is not None
    assert max(found.starts.values()) <= found.until
    last = rows(page, found)[JOBS[-1]]
    assert (last.estimated_start, last.starts_after, last.no_start) == (None, found.until, False)
    monkeypatch.undo()
    assert estimates_of(situation, JOBS).starts[JOBS[-1]] > found.until
