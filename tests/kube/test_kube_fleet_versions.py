"""A hub of 2022, whose sets, bindings, placements and decisions are v1alpha1 and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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
        made = hub.placement("p", numberOfClusters=2, prioritizerPolicy=by_memory)  # as the seed's second example
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
