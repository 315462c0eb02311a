"""Scenarios as tables: a cluster, what waits, and what a user would see."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairway.api.policy import Policy
from fairway.scheduler.plan import ExplainedPlan, Plan
from support import engine
from support.engine import Objects

Expectation = Callable[[ExplainedPlan], None]


@dataclass(frozen=True)
class Scenario:
    """`jobs` are pods and groups, waiting or running; `expect` all that must hold of the plan."""

    name: str
    nodes: Objects
    jobs: Objects
    expect: Sequence[Expectation] | Expectation
    queues: Objects = ()
    also: Objects = ()
    policy: Policy | None = field(default=None)

    def play(self) -> None:
        plan = engine.plan(self.nodes, self.queues, self.also, self.jobs, policy=self.policy)
        for expectation in [self.expect] if callable(self.expect) else self.expect:
            expectation(plan)


def scenarios(*given: Scenario) -> Any:
    """Parametrises a test over scenarios by their names."""
    return pytest.mark.parametrize("scenario", given, ids=lambda scenario: scenario.name)


def placed(**where: str | int) -> Expectation:
    """Pods (dashes written as underscores) on these nodes, or jobs with this many pods; nothing is said of others."""

    def check(plan: Plan) -> None:
        bound = engine.bound(plan)
        for name, expected in where.items():
            key = name.replace("_", "-")
            if isinstance(expected, int):
                jobs = [binding.job.removeprefix("default/") for binding in plan.bindings]
                assert jobs.count(key) == expected, (key, engine.bound(plan))
            else:
                assert bound.get(key) == expected, (key, bound)

    return check


def only(*pods: str) -> Expectation:
    """These pods are bound, in this order, and no others."""

    def check(plan: Plan) -> None:
        assert engine.order(plan) == list(pods)

    return check


def nothing_placed(plan: Plan) -> None:
    assert engine.bound(plan) == {}


def waits(job: str, reason: str, message: str | None = None, **nodes: int) -> Expectation:
    """A job waits for this reason; `message` is a part of its sentence, `nodes` counts causes (blanks as _)."""

    def check(plan: ExplainedPlan) -> None:
        pending = engine.waiting(plan)
        assert job in pending, sorted(pending)
        found = pending[job]
        assert found.reason == reason, found
        if message is not None:
            assert message in found.message, found.message
        if nodes:
            assert found.nodes == {cause.replace("_", " "): count for cause, count in nodes.items()}

    return check


def nothing_waits(plan: ExplainedPlan) -> None:
    assert engine.reasons(plan) == {}
