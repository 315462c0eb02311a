"""Open Cluster Management's own placement controller, on what Fairway writes: the clusters' scores."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.app.live import service
from kube.cluster import Cluster, eventually
from kube.controlplane import ocm_build
from kube.controlplane.plane import ControlPlane, data_folder
from kube.hub import Hub
from kube.live import Live


@pytest.fixture(name="ocm_hub")
def a_hub_where_ocm_decides(plane: ControlPlane, tmp_path: Path) -> Iterator[Hub]:
    """A server of its own: OCM's controller acts on all namespaces. `plane` is the member's."""
    if problem := ocm_build.build():
        pytest.skip(f"OCM's placement controller cannot be built here: {problem}")
    folder = data_folder(tmp_path)
    own = ControlPlane(folder)
    own.start()
    controller = None
    try:
        hub = Hub(own, "ocm")
        with (folder / "ocm.log").open("wb") as log:
            controller = subprocess.Popen(
                ocm_build.command(own.kubeconfig()), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        yield hub
    finally:
        if controller is not None:
            controller.terminate()
            controller.wait(30)
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_ocm_chooses_by_what_a_cluster_reports_as_free(ocm_hub: Hub, cluster: Cluster, monkeypatch: Any) -> None:
    """A scheduler reports scores to a hub where OCM decides: there is no placer of Fairway's."""
    monkeypatch.setattr(service, "INTERVAL", 0.2)
    hub = ocm_hub
    for name in "mn":
        hub.make("/api/v1/namespaces", {"metadata": {"name": hub.managed(name)}})
    hub.score("n", "fairway", cpuFree=10)
    cluster.node("n", cpu=10)
    add_on = {"type": "AddOn", "addOn": {"resourceName": "fairway", "scoreName": "cpuFree"}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]}
    hub.placement("p", numberOfClusters=1, prioritizerPolicy=policy)
    eventually(lambda: hub.chosen("p") == ["n"])
    with Live(cluster, report_to=str(hub.plane.kubeconfig()), report_as=hub.full("m"), report_scores=True):
        eventually(lambda: hub.chosen("p") == ["m"])  # empty: 100 points
        cluster.pod("work", cpu="9")
        eventually(lambda: hub.chosen("p") == ["n"])  # nine of ten in use: -80 points
        cluster.delete(f"{cluster.pods}/work")
        eventually(lambda: hub.chosen("p") == ["m"])
