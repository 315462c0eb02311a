"""How often a job was stopped, and until when it is protected from being stopped again."""

from __future__ import annotations

from fairway.api.arguments import EvictionArguments
from fairway.api.policy import Policy
from fairway.app.explain.model import StopHistory
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.eviction.protections import protection
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job


def stop_history(state: ClusterState, policy: Policy, job: Job, now: Micros) -> StopHistory | None:
    """None where it was never stopped. Where preempt and reclaim differ, the shorter protection is told."""
    found = state.eviction_records.stops(job, now)
    if found is None:
        return None
    times = "once" if found.stops == 1 else f"{found.stops} times"
    spans = [
        protection(action.arguments, found.stops)
        for action in policy.actions
        if isinstance(action.arguments, EvictionArguments)
    ]
    span = min(spans, default=None)
    if span is None:
        return StopHistory(found.stops, text=f"stopped {times}")
    if found.since is None:
        seconds = span // SECOND
        text = f"stopped {times}; protected for {seconds} s from its next start"
        return StopHistory(found.stops, protected_for=seconds, text=text)
    until = format_rfc3339(found.since + span)
    verb = "protected until" if found.since + span > now else "was protected until"
    return StopHistory(found.stops, until, text=f"stopped {times}, {verb} {until}")
