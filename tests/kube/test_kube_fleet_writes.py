"""What one change costs on a hub, counted on the server's side: watches that go past the placer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kube.cluster import eventually
from kube.history import DirectClient, History
from kube.hub import Hub, LiveFleet

COUNT = 12


def by(what: str) -> dict[str, Any]:
    coordinate = {"type": "BuiltIn", "builtIn": what}
    return {"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 1}]}


def test_one_change_writes_only_the_decisions_that_it_moves(hub: Hub) -> None:
    """A third of the placements weighs what changes, and of those a half has the cluster in view."""
    for name, cpu, memory in (("a", "10", "1Gi"), ("b", "20", "3Gi"), ("c", "30", "2Gi")):
        hub.managed(name, {"cpu": cpu, "memory": memory}, labels={"near": str(name != "a").lower()})
    near = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"near": "true"}}}}]
    for number in range(COUNT):
        policy = by("ResourceAllocatableCPU" if number % 3 == 0 else "ResourceAllocatableMemory")
        hub.placement(
            f"p{number}", numberOfClusters=1, prioritizerPolicy=policy, predicates=near if number % 6 == 0 else []
        )
    moved = {f"p{number}" for number in range(COUNT) if number % 6 == 3}
    client = DirectClient(hub.plane)
    events = f"/apis/events.k8s.io/v1/namespaces/{hub.namespace}/events"
    placements = hub.placement_path("")[:-1]
    with LiveFleet(hub) as live:
        eventually(lambda: all(hub.status(f"p{number}") for number in range(COUNT)))
        live.settle()
        before = {f"p{number}": hub.chosen(f"p{number}") for number in range(COUNT)}
        assert all(before[name] == ["c"] for name in moved)
        paths = {"PlacementDecision": hub.decisions_path, "Placement": placements, "Event": events}
        with History(client, paths) as history:
            known = len(history.entries())
            hub.reports("a", {"cpu": "40", "memory": "1Gi"})
            eventually(lambda: all(hub.chosen(name) == ["a"] for name in moved))
            live.settle()
            history.reaches()
            written = history.entries()[known:]
    client.close()
    assert {name for name, chosen in before.items() if hub.chosen(name) != chosen} == moved
    assert Counter(entry.name for entry in written if entry.kind == "PlacementDecision") == {
        f"{name}-decision-1": 1 for name in moved
    }
    assert [entry.name for entry in written if entry.kind == "Placement"] == []  # as many clusters as before
    told = Counter(entry.thing["regarding"]["name"] for entry in written if entry.kind == "Event")
    assert told == dict.fromkeys(moved, 2)  # one cluster joined, one left
