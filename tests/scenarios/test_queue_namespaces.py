"""A queue may say which namespaces use it; jobs of others wait with that reason."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairway.api.meta import LabelSelector, LabelSelectorRequirement
from fairway.state.cluster import Deleted, Upserted
from support.engine import bound, decided, state_of, waiting
from support.objects import namespace, node, pod, queue


def closed_to(name: str, selector: LabelSelector, **spec: Any) -> Any:
    made: Any = queue(name, **spec)
    return replace(made, spec=replace(made.spec, allowed_namespaces=selector))


TEAM_A = LabelSelector(match_labels={"team": "a"})


def test_only_namespaces_with_the_labels_may_use_a_queue() -> None:
    state = state_of(
        node("n1", cpu=8),
        closed_to("q", TEAM_A),
        namespace("a", team="a"),
        namespace("b", team="b"),
        pod("p", "a", cpu=1, queue="q"),
        pod("p", "b", cpu=1, queue="q"),
        pod("p", "unknown", cpu=1, queue="q"),
        pod("free", "b", cpu=1),
    )
    plan = decided(state)
    assert sorted(bound(plan)) == ["a/p", "b/free"]
    entry = waiting(plan)["b/p"]
    assert (entry.reason, entry.message) == ("NamespaceNotAllowed", "namespace b may not use queue q")
    assert waiting(plan)["unknown/p"].reason == "NamespaceNotAllowed"


def test_a_queue_above_counts_too() -> None:
    plan = decided(
        state_of(
            node("n1", cpu=8),
            closed_to("top", TEAM_A),
            queue("leaf", parent="top"),
            namespace("b", team="b"),
            pod("p", "b", cpu=1, queue="leaf"),
        )
    )
    assert waiting(plan)["b/p"].message == "namespace b may not use queue top"


def test_labels_queues_and_selectors_may_change() -> None:
    state = state_of(node("n1", cpu=8), closed_to("q", TEAM_A), pod("p", "b", cpu=1, queue="q"))
    assert "b/p" in waiting(decided(state))
    state.apply(Upserted(namespace("b", team="a")))
    assert "b/p" in bound(decided(state))
    by_name = LabelSelectorRequirement("kubernetes.io/metadata.name", "NotIn", ("b",))
    state.apply(Upserted(closed_to("q", LabelSelector(match_expressions=(by_name,)))))
    assert "b/p" in waiting(decided(state))
    state.apply(Upserted(queue("q")))
    assert "b/p" in bound(decided(state))
    state.apply(Upserted(closed_to("default", TEAM_A)))
    state.apply(Upserted(pod("r", "c", cpu=1)))
    assert "c/r" in waiting(decided(state))
    state.apply(Deleted(closed_to("default", TEAM_A)))
    assert "c/r" in bound(decided(state))
