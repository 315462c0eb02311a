"""A placer whose requests meet with faults: answers are lost, refused, late or cut off, watches break. In the end the
decisions are those of a placer that met with none, and no cluster that stayed chosen was ever missing."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kube.cluster import eventually
from kube.history import DirectClient, History
from kube.hub import Hub, LiveFleet
from kube.proxy import Asked, FaultProxy
from support.effort import examples

WRITES = ("reset", "lost", "failed-after", "truncated", "error", "unavailable", "conflict", "too-many", "unauthorized")
WATCHES = ("cut", "end", "gone-event", "garbage")
OFTEN = 0.25
MEMORY = {
    "mode": "Exact",
    "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 1}],
}


@pytest.mark.parametrize("seed", range(examples(1, 5)))
def test_decisions_come_through_faults(hub: Hub, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for number in range(6):
        hub.managed(f"c{number}", {"memory": f"{number + 1}Gi"})
    client = DirectClient(hub.plane)

    def choose(asked: Asked) -> str:
        if random.random() > OFTEN:
            return ""
        if asked.is_watch:
            return random.choice(WATCHES)
        return random.choice(WRITES) if asked.is_write else ""

    try:
        with (
            FaultProxy(hub.plane, user="fleet", random=random) as proxy,
            History(client, {"PlacementDecision": hub.decisions_path}) as history,
        ):
            proxy.choose = choose
            with LiveFleet(hub, kubeconfig=str(proxy.kubeconfig(tmp_path))):
                for number in range(4):
                    hub.placement(f"p{number}", numberOfClusters=2 + number % 2, prioritizerPolicy=MEMORY)
                wanted = ["c4", "c5"], ["c3", "c4", "c5"]
                eventually(lambda: all(hub.chosen(f"p{number}") == wanted[number % 2] for number in range(4)))
                hub.reports("c0", {"memory": "99Gi"})
                wanted = ["c0", "c5"], ["c0", "c4", "c5"]
                eventually(lambda: all(hub.chosen(f"p{number}") == wanted[number % 2] for number in range(4)))
                assert sum(proxy.injected.values()) > 0
                proxy.choose = lambda asked: ""
            held: dict[str, set[str]] = {}
            for entry in sorted(history.entries(), key=lambda entry: entry.revision):
                found = {one["clusterName"] for one in entry.thing.get("status", {}).get("decisions", [])}
                if hub.full("c5") in held.get(entry.name, set()):
                    assert hub.full("c5") in found
                    assert not entry.is_deleted
                held[entry.name] = found
    finally:
        client.close()


def test_a_hub_without_lists_by_streaming_is_read_by_pages(hub: Hub, tmp_path: Path) -> None:
    hub.managed("a")
    hub.placement("p")
    with FaultProxy(hub.plane, user="fleet") as proxy:
        proxy.choose = lambda asked: "no-streaming" if asked.is_list else ""
        with LiveFleet(hub, kubeconfig=str(proxy.kubeconfig(tmp_path))):
            eventually(lambda: hub.chosen("p") == ["a"])
            hub.managed("b")
            eventually(lambda: hub.chosen("p") == ["a", "b"])
