"""The fleet's state forgets: after clusters, placements, scores and decisions have come and gone it is as large as one
that never saw them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.api import fleet as api
from fairway.fleet import FleetState, state, table
from fleet.fleet_objects import cluster, everywhere, exact, fleet, placement, run
from support.sizes import sizes

ROUNDS = 40


def lasting() -> list[Any]:
    return [
        *(cluster(f"c{i}", {"cpu": "4", "memory": "4Gi"}, labels={"env": "prod"}) for i in range(4)),
        placement("stays", prioritizerPolicy=exact("ResourceAllocatableCPU"), numberOfClusters=2),
    ]


def passing(i: int) -> list[Any]:
    """A tenant's objects, each with names of its own."""
    wanted = {"labelSelector": {"matchLabels": {f"key-{i}": "x"}}}
    return [
        *everywhere(f"ns-{i}")[1:],
        cluster(f"gone-{i}", {"cpu": "1", f"odd-{i}.example.com/r": "1"}, labels={f"key-{i}": "x"}),
        placement(f"p-{i}", f"ns-{i}", predicates=[{"requiredClusterSelector": wanted}]),
        addon_score(f"score-{i}", f"gone-{i}", {f"value-{i}": 7}),
    ]


def addon_score(name: str, cluster_name: str, values: dict[str, int]) -> api.AddOnPlacementScore:
    listed = [{"name": value, "value": number} for value, number in values.items()]
    given = {"metadata": {"name": name, "namespace": cluster_name}, "status": {"scores": listed}}
    return msgspec.convert(given, api.AddOnPlacementScore)


def grown(rounds: int) -> FleetState:
    made = fleet(*lasting())
    run(made)
    for i in range(rounds):
        objects = passing(i)
        for thing in objects:
            made.upsert(thing)
        run(made)
        for thing in objects:
            made.delete(thing)
        run(made)
    return made


def test_after_churn_it_is_as_large_as_after_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are kept until some placements have gone, and changes until some came after, which are few here."""
    monkeypatch.setattr(state, "FEW_GONE", 4)
    monkeypatch.setattr(table, "KEPT", 4)
    few, many = sizes(grown(6)), sizes(grown(ROUNDS))
    larger = {path: (few[path], many[path]) for path in many if many[path] > few[path] * 1.1 + 4}
    assert larger == {}
    assert sum(many.values()) <= sum(few.values()) * 1.1
