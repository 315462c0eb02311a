"""What a live scheduler says of itself on the page, from its metrics and its log."""

from __future__ import annotations

from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import RunMetrics, Tally, TimeSpread
from fairway.app.live.shadow import ShadowPolicy
from fairway.app.view.models.history import ApiLatency, SchedulerProblem, ShadowDifference
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.clock import format_rfc3339

_FIRST_ERROR = 400


def program_facts(
    metrics: RunMetrics,
    log: RunLog,
    leads: bool,
    unanswered: int,
    shadow: ShadowPolicy | None,
    stalled: float = 0.0,
) -> ProgramFacts:
    """From any thread."""
    return ProgramFacts(
        leads=leads,
        unanswered=unanswered,
        stalled=round(stalled, 1),
        api=api_latency(metrics.requests, metrics.request_seconds),
        problems=tuple(problems(log)),
        shadow_policy=None if shadow is None else shadow.source,
        shadow=() if shadow is None or shadow.last is None else (_difference(shadow.last),),
    )


def api_latency(requests: Tally, seconds: TimeSpread) -> ApiLatency:
    count, failed = 0, 0
    for (_, code), number in requests.counts().items():
        count += number
        failed += number if not 0 < int(code) < _FIRST_ERROR else 0
    total, buckets = 0.0, list[tuple[float, float]]()
    for metric in seconds.collect():
        for one in metric.samples:
            if one.name.endswith("_sum"):
                total = one.value
            elif one.name.endswith("_bucket"):
                buckets.append((float(one.labels["le"]), one.value))
    whole = buckets[-1][1] if buckets else 0.0
    finite = [(bound, number) for bound, number in buckets if bound != float("inf")]
    p99 = next((bound for bound, number in finite if number >= 0.99 * whole), finite[-1][0] if finite else 0.0)
    return ApiLatency(count, failed, round(total / whole, 4) if whole else 0.0, p99 if whole else 0.0)


def problems(log: RunLog) -> list[SchedulerProblem]:
    """The newest first; the same ones in a row as one."""
    found: list[SchedulerProblem] = []
    for at, level, text in reversed(list(log.recent)):
        if found and (found[-1].level, found[-1].text) == (level, text):
            last = found.pop()
            found.append(SchedulerProblem(last.at, level, text, last.count + 1))
        else:
            found.append(SchedulerProblem(format_rfc3339(at), level, text))
    return found


def _difference(last: dict[str, object]) -> ShadowDifference:
    differences = last["differences"]
    assert isinstance(differences, dict)
    return ShadowDifference(
        int(str(last["cycle"])),
        str(last["now"]),
        list(differences.get("bindings", [])),
        list(differences.get("evictions", [])),
    )
