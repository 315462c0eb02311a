"""The policies that benchmarks run under: two that differ in the score, and one with every action."""

from __future__ import annotations

from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.plugins.installed import default_registry

SCORES = {"binpack": "binpack", "least": "nodeorder"}
"""Best-fit, and least-allocated (with balance, as `nodeorder` has it by default)."""


EVERY_ACTION = "enqueue, allocate, reserve, backfill, reclaim, preempt"


def policy_for(score: str, actions: str = "enqueue, allocate, backfill") -> Policy:
    text = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: {SCORES[score]}}}]
"""
    return parse_policy(text, f"the policy of the benchmark ({score})", default_registry().catalog)
