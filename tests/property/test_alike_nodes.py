"""Pods of which no two are alike are compared with one node of each kind, and no plan differs by that."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.placement import alike, kernel
from fairway.scheduler.placement.alike import AlikeNodes
from fairway.state.cluster import ClusterState
from support import clusters
from support import objects as make
from support.contention import acting
from support.effort import examples
from support.engine import flat, state_of
from support.engine import policy as make_policy

ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, preempt, reclaim, backfill")
ALL, NONE = 0, 1 << 30


def documents(state: ClusterState, policy: Policy, singles: int) -> Any:
    limits = patch.multiple(kernel, FEW_SINGLES=singles, MANY_NODES=0)
    with limits, patch.object(alike, "_SHARE", 0):
        return decide_and_explain(state, policy, make.NOW).document()


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(clusters.clusters(), clusters.policies(ACTIONS))
def test_any_plan_is_that_of_whole_columns(objects: list[ApiObject], policy: Policy) -> None:
    grouped, whole = ClusterState(), ClusterState()
    grouped.upsert(objects)
    whole.upsert(objects)
    assert documents(grouped, policy, ALL) == documents(whole, policy, NONE)


@st.composite
def crowds(draw: st.DrawFn) -> list[ApiObject]:
    """Nodes of a few kinds, some of them used, and pods that each request something else."""
    kinds = draw(st.lists(st.tuples(st.integers(2, 9), st.sampled_from(["a", "b"])), min_size=1, max_size=3))
    nodes: list[Any] = []
    for number in range(draw(st.integers(2, 12))):
        cpu, pool = draw(st.sampled_from(kinds))
        name = f"n{draw(st.integers(0, 99)):02}-{number}"
        nodes.append(make.node(name, cpu=cpu, memory="8Gi", pods=draw(st.sampled_from([2, 9])), labels={"pool": pool}))
        if draw(st.integers(0, 3)) == 0:
            nodes.append(make.pod(f"on-{name}", node=name, cpu=1))
    pods = [
        make.pod(
            f"p{number}",
            cpu=f"{300 + 7 * number * draw(st.integers(1, 30))}m",
            memory=f"{100 + number}Mi",
            created=0,
            spec=draw(st.sampled_from([{}, {}, {"nodeSelector": {"pool": "a"}}])),
        )
        for number in range(draw(st.integers(1, 24)))
    ]
    return flat([nodes, pods])


POLICIES = [
    make_policy(),
    make_policy(plugins=["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]),
    acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1}), "allocate", "backfill"),
]


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(crowds(), st.sampled_from(POLICIES))
def test_a_crowd_of_distinct_pods_is_placed_as_by_whole_columns(objects: list[ApiObject], policy: Policy) -> None:
    grouped, whole = ClusterState(), ClusterState()
    grouped.upsert(objects)
    whole.upsert(objects)
    assert documents(grouped, policy, ALL) == documents(whole, policy, NONE)


def distinct(count: int) -> list[Any]:
    return [make.pod(f"p{number:03}", cpu=f"{500 + number}m", created=0) for number in range(count)]


@pytest.mark.parametrize(("kinds", "grouped"), [(1, True), (200, False)])
def test_groups_are_used_where_many_nodes_are_alike(kinds: int, grouped: bool) -> None:
    nodes = [make.node(f"n{number:03}", cpu=64 + number % kinds, pods=50) for number in range(200)]
    used: list[bool] = []
    original = AlikeNodes.is_worth_it.fget  # type: ignore[attr-defined]

    def noted(self: AlikeNodes) -> bool:
        used.append(original(self))
        return used[-1]

    with patch.object(AlikeNodes, "is_worth_it", property(noted)):
        decide_and_explain(state_of(*nodes, *distinct(100)), make_policy(), make.NOW)
    assert used
    assert used[-1] is grouped
    assert (len(used) > 50) is grouped, "where they are not worth it they are not tried for every pod"
