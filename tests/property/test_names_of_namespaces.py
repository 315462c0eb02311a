"""What a namespace gets does not depend on what it is called (spec S3.2).

Ties between namespaces go to the larger weight, then to the older job at the head; only where both are equal the name
decides. So renaming a namespace changes nothing, as long as weights or creation times differ.
"""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.core import Namespace
from fairway.api.kinds import ApiObject
from fairway.api.manifests import load
from fairway.api.policy import Policy
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan, Plan
from support import objects as make
from support.contention import acting
from support.effort import examples
from support.engine import bound, flat, policy, state_of
from support.objects import NOW

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
TEAMS = ("team-language", "team-vision", "products")
NAMES = ("aaa", "mmm", "zzz")


def renamed(objects: list[ApiObject], names: dict[str, str]) -> list[ApiObject]:
    def rename(thing: Any) -> Any:
        meta = thing.metadata
        if isinstance(thing, Namespace):
            meta = replace(meta, name=names.get(meta.name, meta.name))
        return replace(thing, metadata=replace(meta, namespace=names.get(meta.namespace, meta.namespace)))

    return [rename(thing) for thing in objects]


def told_by(plan: Plan, back: dict[str, str]) -> list[tuple[str, str]]:
    """Bindings in the order decided, under the old names."""

    def old(pod: str) -> str:
        namespace, _, name = pod.partition("/")
        return f"{back.get(namespace, namespace)}/{name}"

    return [(old(binding.pod), binding.node) for binding in plan.bindings]


def shares(plan: ExplainedPlan, back: dict[str, str]) -> dict[tuple[str, str], float]:
    return {(entry.queue, back.get(entry.namespace, entry.namespace)): entry.share for entry in plan.namespaces}


@pytest.mark.parametrize("names", list(permutations(NAMES)))
def test_renaming_the_teams_of_the_example_changes_nothing(names):
    objects = load([str(EXAMPLE)]).objects
    before = decide_and_explain(state_of(objects), policy(), NOW)
    new = dict(zip(TEAMS, names, strict=True))
    back = {name: team for team, name in new.items()}
    after = decide_and_explain(state_of(renamed(objects, new)), policy(), NOW)
    assert told_by(after, back) == told_by(before, {})
    assert shares(after, back) == shares(before, {})


def tie(**weights: int) -> list[ApiObject]:
    """Room for one of the pods of the namespaces."""
    quotas = [make.quota(name, str(weight)) for name, weight in weights.items()]
    return flat([make.node("n", cpu=1), quotas])


def test_the_larger_weight_goes_first():
    pods = [make.pod("p", "a", cpu=1, created=0), make.pod("p", "b", cpu=1, created=5)]
    assert bound(decide_and_explain(state_of(tie(a=1, b=3), pods), policy(), NOW)) == {"b/p": "n"}


def test_then_the_older_job_at_the_head():
    pods = [make.pod("p", "a", cpu=1, created=5), make.pod("p", "b", cpu=1, created=3)]
    assert bound(decide_and_explain(state_of(tie(a=3, b=3), pods), policy(), NOW)) == {"b/p": "n"}
    headed = [*pods, make.pod("first", "a", cpu=1, created=9, spec={"priority": 5})]
    assert bound(decide_and_explain(state_of(tie(a=3, b=3), headed), policy(), NOW)) == {"b/p": "n"}


def test_then_the_name():
    pods = [make.pod("p", "b", cpu=1, created=3), make.pod("p", "a", cpu=1, created=3)]
    assert bound(decide_and_explain(state_of(tie(), pods), policy(), NOW)) == {"a/p": "n"}


def test_positions_follow_the_same_rule():
    pods = [
        make.pod("p", "a", cpu=1, created=0),
        make.pod("p", "b", cpu=1, created=5),
        make.pod("q", "b", created=1, cpu=1),
    ]
    full = flat([make.node("n", cpu=1, pods=0), pods, make.quota("b", "3")])
    found = decide_and_explain(state_of(full), policy(), NOW)
    assert [(entry.job, entry.position) for entry in found.pending] == [("b/q", 1), ("b/p", 2), ("a/p", 3)]


@st.composite
def crowds(draw: st.DrawFn) -> list[ApiObject]:
    """Jobs of three namespaces in two queues; each has a creation time of its own."""
    count = draw(st.integers(3, 12))
    ages = draw(st.permutations(range(count)))
    jobs: list[Any] = []
    for number in range(count):
        kind = {
            "cpu": draw(st.integers(1, 3)),
            "created": ages[number],
            "queue": draw(st.sampled_from(("", "q"))),
        }
        namespace = draw(st.sampled_from(TEAMS))
        members = draw(st.sampled_from((1, 1, 2, 3)))
        if members == 1:
            jobs.append(make.pod(f"j{number}", namespace, spec={"priority": draw(st.sampled_from((0, 0, 7)))}, **kind))
        else:
            jobs.append(make.gang(f"j{number}", namespace, members=members, **kind))
    nodes = [make.node(f"n{i}", cpu=draw(st.integers(1, 6)), pods=20) for i in range(draw(st.integers(1, 3)))]
    quotas = [make.quota(name, str(draw(st.integers(1, 3)))) for name in TEAMS]
    return flat([nodes, make.queue("q", weight=draw(st.integers(1, 2))), quotas, jobs])


POLICIES = [
    policy(),
    policy(drf={"priorityFirst": True}),
    acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100}), "allocate", "backfill"),
    acting("enqueue", "allocate", ("backfill", {"mode": "conservative"})),
]


@settings(max_examples=examples(60))
@given(crowds(), st.permutations(NAMES), st.sampled_from(POLICIES))
def test_renaming_never_changes_what_each_gets(objects: list[ApiObject], names: list[str], chosen: Policy):
    new = dict(zip(TEAMS, names, strict=True))
    back = {name: team for team, name in new.items()}
    before = decide_and_explain(state_of(objects), chosen, NOW)
    after = decide_and_explain(state_of(renamed(objects, new)), chosen, NOW)
    assert told_by(after, back) == told_by(before, {})
    assert shares(after, back) == shares(before, {})
