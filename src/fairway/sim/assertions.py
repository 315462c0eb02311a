"""What a user asserts of a run, one sentence each, so that a policy can be tested like code.

job team-a/train starts before 2h            also: ends; after the start of the run, or an RFC 3339 time
no namespace below its share for more than 10m
no queue below its guarantee for more than 5m
p95 wait < 30m                               also: mean, p50, p99, max; `of queue Q`, `of namespace N`; jobs that
                                             are not done count with their wait so far
no evictions of research                     a queue; without `of` no pod is evicted
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairway.clock import SECOND, Micros, format_rfc3339, parse_rfc3339
from fairway.errors import InputError
from fairway.sim.metrics import Metrics
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.spans import format_span, parse_span


@dataclass(frozen=True, slots=True)
class Breach:
    """An assertion that did not hold: what happened, and when."""

    assertion: str
    line: int
    when: Micros
    what: str

    def __str__(self) -> str:
        return f"{self.assertion}: {self.what} (at {format_rfc3339(self.when)})"


@dataclass(slots=True)
class Evidence:
    """What assertions are judged by: collected during the run, judged at its end."""

    start: Micros
    end: Micros = 0
    watched: frozenset[str] = frozenset()
    """Jobs whose times an assertion is about."""
    started: dict[str, Micros] = field(default_factory=dict)
    ended: dict[str, Micros] = field(default_factory=dict)
    first_eviction: dict[str, tuple[Micros, str]] = field(default_factory=dict)
    """By queue: when its first eviction was, and of which pod."""
    below_since: Mapping[str, Micros] = field(default_factory=dict)
    """When the longest period below its share (or guarantee) began, for every namespace (or queue)."""
    came: set[str] = field(default_factory=set)
    """The watched jobs that were submitted."""
    waits: Mapping[str, Distribution] = field(default_factory=dict)
    """Of all jobs (""), of `queue/NAME` and `namespace/NAME`; unfinished jobs count with their wait so far."""


Check = Callable[[Evidence, Metrics], tuple[Micros, str] | None]


@dataclass(frozen=True, slots=True)
class Assertion:
    """One sentence and how it is judged; `jobs` are those whose times it needs."""

    text: str
    line: int
    check: Check
    jobs: tuple[str, ...] = ()

    def judge(self, evidence: Evidence, metrics: Metrics) -> Breach | None:
        found = self.check(evidence, metrics)
        return None if found is None else Breach(self.text, self.line, *found)


def parse_assertion(text: str, line: int = 0) -> Assertion:
    """InputError if the sentence has none of the known forms."""
    for pattern, make in _SENTENCES:
        if match := pattern.fullmatch(" ".join(text.split())):
            check, jobs = make(match)
            return Assertion(text, line, check, jobs)
    known = "; ".join(_EXAMPLES)
    raise InputError(f"{text!r} is not an assertion, expected for example: {known}")


Made = tuple[Check, tuple[str, ...]]


def _job_before(match: re.Match[str]) -> Made:
    job, verb, limit_text = match["job"], match["verb"], match["limit"]
    job = job if "/" in job else f"default/{job}"
    limit = _moment(limit_text)

    def check(evidence: Evidence, _: Metrics) -> tuple[Micros, str] | None:
        latest = limit(evidence.start)
        at = (evidence.started if verb == "starts" else evidence.ended).get(job)
        if at is not None and at < latest:
            return None
        if at is not None:
            return at, f"it {verb} {format_span(at - latest)} too late"
        if job not in evidence.came:
            return evidence.end, "no job of that name was submitted"
        if evidence.end < latest:
            return evidence.end, "it had not by the end of the run"
        return latest, "by then it had not"

    return check, (job,)


def _moment(text: str) -> Callable[[Micros], Micros]:
    """A time, as a function of the run's start."""
    if "T" in text.upper() and ":" in text:
        fixed = parse_rfc3339(text)
        return lambda _: fixed
    span = parse_span(text)
    return lambda start: start + span


def _namespace_share(match: re.Match[str]) -> Made:
    limit = parse_span(match["limit"])

    def check(evidence: Evidence, metrics: Metrics) -> tuple[Micros, str] | None:
        longest, name = metrics.starvation.namespace_longest, metrics.starvation.namespace
        return _below(evidence, f"namespace/{name}", longest, limit, f"namespace {name}")

    return check, ()


def _queue_guarantee(match: re.Match[str]) -> Made:
    limit = parse_span(match["limit"])

    def check(evidence: Evidence, metrics: Metrics) -> tuple[Micros, str] | None:
        longest, name = metrics.starvation.queue_longest, metrics.starvation.queue
        return _below(evidence, f"queue/{name}", longest, limit, f"queue {name}")

    return check, ()


def _below(evidence: Evidence, key: str, longest: float, limit: Micros, who: str) -> tuple[Micros, str] | None:
    length = round(longest * SECOND)
    if length <= limit:
        return None
    since = evidence.below_since.get(key, evidence.start)
    return since + limit, f"{who} was below it for {format_span(length)}, from {format_rfc3339(since)}"


def _wait_below(match: re.Match[str]) -> Made:
    limit, measure = parse_span(match["limit"]), match["measure"]

    def check(evidence: Evidence, metrics: Metrics) -> tuple[Micros, str] | None:
        waits = evidence.waits.get(f"{match['kind']}/{match['name']}" if match["kind"] else "")
        if waits is None or not waits.count:
            whose = f" of {match['kind']} {match['name']}" if match["kind"] else ""
            return evidence.end, f"no job{whose} was submitted"
        found = _measured(waits, measure)
        if found < limit:
            return None
        open_ = " so far" if metrics.waiting else ""
        return evidence.end, f"it was {format_span(found)}{open_}"

    return check, ()


def _measured(waits: Distribution, measure: str) -> Micros:
    if measure == "mean":
        return round(waits.mean())
    return waits.largest if measure == "max" else waits.percentile(int(measure[1:]))


def _no_evictions(match: re.Match[str]) -> Made:
    queue = match["queue"]

    def check(evidence: Evidence, _: Metrics) -> tuple[Micros, str] | None:
        if queue is not None and f"queue/{queue}" not in evidence.below_since:
            return evidence.end, f"there is no queue {queue}"
        found = [
            (at, pod, name) for name, (at, pod) in evidence.first_eviction.items() if queue is None or queue == name
        ]
        if not found:
            return None
        at, pod, name = min(found)
        return at, f"{pod} of queue {name} was evicted"

    return check, ()


_NAME = r"[A-Za-z0-9._-]+"
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Made]], ...] = (
    (
        re.compile(rf"job (?P<job>{_NAME}(?:/{_NAME})?) (?P<verb>starts|ends) before (?P<limit>\S+)"),
        _job_before,
    ),
    (re.compile(r"no namespace below its share for more than (?P<limit>\S+)"), _namespace_share),
    (re.compile(r"no queue below its guarantee for more than (?P<limit>\S+)"), _queue_guarantee),
    (
        re.compile(
            r"(?P<measure>mean|p50|p95|p99|max) wait (?:of (?P<kind>queue|namespace) "
            rf"(?P<name>{_NAME}) )?< ?(?P<limit>\S+)"
        ),
        _wait_below,
    ),
    (re.compile(rf"no evictions(?: of (?:queue )?(?P<queue>{_NAME}))?"), _no_evictions),
)
_EXAMPLES = (
    "job team-a/train starts before 2h",
    "no namespace below its share for more than 10m",
    "p95 wait < 30m",
    "no evictions of research",
)
