"""A hub of 2022, whose sets, bindings, placements and decisions are v1alpha1 and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import eventually
from kube.controlplane.build import missing
from kube.controlplane.plane import ControlPlane, data_folder
from kube.hub import Hub, LiveFleet, install
from kube.ocm import V1ALPHA1, old_definitions


class OldHub(Hub):
    """With the definitions of an older release."""

    sets = placements = V1ALPHA1

    def _install(self, plane: ControlPlane) -> None:
        install(plane, old_definitions())


@pytest.fixture(name="old_plane")
def an_api_server_of_its_own(plane: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """The one of all other tests has the definitions of today."""
    assert not missing()
    folder = data_folder(tmp_path)
    own = ControlPlane(folder)
    own.start()
    yield own
    own.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_hub_that_serves_v1alpha1_alone(old_plane: ControlPlane) -> None:
    hub = OldHub(old_plane, "old")
    for name, memory in (("a", "1Gi"), ("b", "3Gi"), ("c", "2Gi")):
        hub.managed(name, {"memory": memory})
    by_memory = {"mode": "Exact", "configurations": [{"name": "ResourceAllocatableMemory", "weight": 1}]}
    with LiveFleet(hub) as live:
        made = hub.placement("p", numberOfClusters=2, prioritizerPolicy=by_memory)  # as the proposal's second example
        eventually(lambda: hub.chosen("p") == ["b", "c"])
        (decision,) = hub.slices("p")
        (owner,) = decision["metadata"]["ownerReferences"]
        assert (decision["apiVersion"], owner["apiVersion"]) == (V1ALPHA1, V1ALPHA1)
        assert owner["uid"] == made["metadata"]["uid"]
        eventually(lambda: hub.status("p").get("numberOfSelectedClusters") == 2)
        assert hub.condition("p") == ("True", "AllDecisionsScheduled", "2 clusters chosen of 3")
        hub.reports("a", {"memory": "9Gi"})
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        live.settle()
        assert all("v1beta1" not in path for _, path in live.requests)

        def status_read() -> Any:
            return live.on_loop(lambda: live.placer.loop.store.get(("Placement", hub.namespace, "p")).status)

        eventually(lambda: status_read().number_of_selected_clusters == 2)
        assert live.on_loop(lambda: live.placer.loop._overwritten) == set()  # nothing written that the server drops
    with LiveFleet(hub) as live:  # another start writes nothing
        live.settle()
        assert live.requests == []
    hub.clean()


EXAMPLES: dict[str, dict[str, Any]] = {
    "placement1": {
        "numberOfClusters": 3,
        "prioritizerPolicy": {"configurations": [{"name": "ResourceRatioCPU"}, {"name": "ResourceRatioMemory"}]},
    },
    "placement2": {
        "numberOfClusters": 1,
        "prioritizerPolicy": {"configurations": [{"name": "ResourceAllocatableMemory"}]},
    },
    "placement3": {
        "numberOfClusters": 2,
        "prioritizerPolicy": {
            "configurations": [
                {"name": "ResourceRatioCPU", "weight": 2},
                {"name": "ResourceAllocatableMemory", "weight": 2},
            ]
        },
    },
    "placement4": {
        "numberOfClusters": 4,
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [{"name": "ResourceAllocatableCPU"}, {"name": "Steady", "weight": 3}],
        },
    },
}
"""The four examples of the proposal, unchanged."""


def _has(hub: Hub, placement: str, clusters: str) -> bool:
    return hub.chosen(placement) == list(clusters)


def test_the_examples_of_the_proposal_as_they_stand(old_plane: ControlPlane) -> None:
    hub = OldHub(old_plane, "seed")
    size = {"cpu": "100", "memory": "100Gi"}
    for name, part in zip("abcde", (90, 80, 70, 60, 10), strict=True):
        hub.managed(name, {"cpu": str(part), "memory": f"{part}Gi"}, size)
    expected = {"placement1": "abc", "placement2": "a", "placement3": "ab", "placement4": "abcd"}
    with LiveFleet(hub) as live:
        for name, spec in EXAMPLES.items():
            hub.placement(name, **spec)
            eventually(partial(_has, hub, name, expected[name]))
            if name in ("placement1", "placement2"):  # one by one: else Balance has its say
                hub.delete(hub.placement_path(name), grace=None)
                hub.delete(f"{hub.decisions_path}/{name}-decision-1")  # as the garbage collector would
                live.settle()
        hub.delete(hub.placement_path("placement3"), grace=None)
        hub.delete(f"{hub.decisions_path}/placement3-decision-1")
        live.settle()
        hub.reports("a", {"cpu": "5", "memory": "90Gi"}, size)
        hub.reports("e", {"cpu": "99", "memory": "99Gi"}, size)
        live.settle()
        assert hub.chosen("placement4") == list("abcd")  # pinned
        hub.delete(hub.placement_path("placement4"), grace=None)
        hub.delete(f"{hub.decisions_path}/placement4-decision-1")
        hub.placement("placement3", **EXAMPLES["placement3"])
        eventually(lambda: hub.chosen("placement3") == ["b", "e"])
        hub.reports("e", {"cpu": "10", "memory": "10Gi"}, size)
        eventually(lambda: hub.chosen("placement3") == ["b", "c"])  # it follows
    hub.clean()
