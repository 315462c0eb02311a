"""The view of the scheduler itself: cycle times, backlog, API latency, errors and policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from fairway.api.policy import Policy
from fairway.app.view.mirror import CycleReport, Mirror
from fairway.app.view.models.common import SeriesLine, TimeSeries
from fairway.app.view.models.history import (
    ApiLatency,
    CycleTimes,
    PolicyInForce,
    SchedulerBacklog,
    SchedulerPage,
    SchedulerProblem,
    ShadowDifference,
)
from fairway.clock import SECOND, format_rfc3339
from fairway.sim.policies import policy_text

MAX_POINTS = 500


class ProgramFacts(msgspec.Struct, rename="camel", frozen=True):
    """What a live scheduler reports about itself besides its cycles."""

    leads: bool | None = None
    unanswered: int | None = None
    stalled: float = 0.0
    """Seconds for which a call of the scheduling thread has been running, or due cycles have been held back."""
    api: ApiLatency | None = None
    problems: tuple[SchedulerProblem, ...] = ()
    shadow_policy: str | None = None
    shadow: tuple[ShadowDifference, ...] = ()


NO_FACTS = ProgramFacts()


def scheduler_page(
    mirror: Mirror, waiting_jobs: int, waiting_pods: int, facts: ProgramFacts, viewers: int
) -> SchedulerPage:
    return SchedulerPage(
        revision=mirror.revision,
        now=format_rfc3339(mirror.now),
        leads=facts.leads,
        cycles=cycle_times(mirror.cycles, mirror.cycle_count),
        backlog=SchedulerBacklog(waiting_jobs, waiting_pods, facts.unanswered),
        api=facts.api,
        problems=list(facts.problems),
        policy=policy_in_force(mirror.policy),
        shadow_policy=facts.shadow_policy,
        shadow=list(facts.shadow),
        objects=dict(sorted(Counter(key[0] for key in mirror.objects).items())),
        viewers=viewers,
    )


def cycle_times(reports: Sequence[CycleReport], count: int) -> CycleTimes:
    spent = sorted(report.nanoseconds / 1e6 for report in reports)
    shown = list(reports)[-MAX_POINTS:]
    series = TimeSeries(
        title="Time of each cycle",
        unit="milliseconds",
        times=[report.now / SECOND for report in shown],
        lines=[SeriesLine("decide", [round(report.nanoseconds / 1e6, 3) for report in shown])],
    )
    if not spent:
        return CycleTimes(count, 0.0, 0.0, 0.0, 0.0, series)
    return CycleTimes(
        count=count,
        last=round(shown[-1].nanoseconds / 1e6, 3),
        median=round(_below(spent, 50), 3),
        p99=round(_below(spent, 99), 3),
        longest=round(spent[-1], 3),
        over_time=series,
    )


def _below(spent: Sequence[float], percent: int) -> float:
    """The percentile of sorted values, by nearest rank."""
    return spent[-(-len(spent) * percent // 100) - 1]


def policy_in_force(policy: Policy) -> PolicyInForce:
    return PolicyInForce(
        source=policy.source,
        actions=[action.name for action in policy.actions],
        plugins=[[plugin.name for plugin in tier] for tier in policy.tiers],
        text=policy_text(policy),
    )
