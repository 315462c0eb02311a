"""The two policies that benchmarks run under: the same but for the score."""

from __future__ import annotations

from fairway.api.policy import Policy, parse_policy
from fairway.scheduler.plugins.installed import default_registry

SCORES = {"binpack": "binpack", "least": "nodeorder"}
"""Best-fit, and least-allocated (with balance, as `nodeorder` has it by default)."""


def policy_for(score: str) -> Policy:
    text = f"""
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: {SCORES[score]}}}]
"""
    return parse_policy(text, f"the policy of the benchmark ({score})", default_registry().catalog)
