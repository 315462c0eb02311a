"""A server whose data are restored from a backup under a scheduler that runs: what was written since never happened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.app.live.program import LeaderElection
from kube.access import grant, grant_in
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane, data_folder
from kube.live import Live


@pytest.fixture(name="own")
def a_plane_of_its_own(plane: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """`plane` says whether there are servers at all."""
    folder = data_folder(tmp_path)
    own = ControlPlane(folder)
    own.start()
    try:
        grant(own)
        yield own
    finally:
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


def backup(own: ControlPlane) -> None:
    own.stop()
    shutil.copytree(own.folder / "etcd", own.folder / "backup")
    own.start()


def restore(own: ControlPlane) -> None:
    own.stop()
    shutil.rmtree(own.folder / "etcd")
    shutil.copytree(own.folder / "backup", own.folder / "etcd")
    own.start()


def test_K1_data_that_are_restored_from_a_backup_are_read_as_they_are(own: ControlPlane) -> None:
    """Versions go back: what was bound waits again, and what was made is gone."""
    cluster = Cluster(own, "restored")
    grant_in(own, cluster.namespace)
    cluster.node("n", cpu=2)
    cluster.pod("waits", cpu="1")
    backup(own)
    lease = LeaderElection(namespace=cluster.namespace, duration=5, renew_deadline=3, retry=1)
    with Live(cluster, leader_election=lease) as live:
        eventually(lambda: cluster.places() == {"waits": "n"})
        for number in range(20):  # versions go on
            cluster.pod(f"later-{number}", cpu="10m")
        eventually(lambda: all(cluster.places().values()))
        restore(own)
        eventually(lambda: cluster.places() == {"waits": "n"}, "it is bound again")
        cluster.pod("next", cpu="1")
        eventually(lambda: cluster.places() == {"waits": "n", "next": "n"}, "what is gone uses nothing")
        names = live.on_loop(lambda: sorted(live.scheduler._scheduler.state.tasks))
        assert names == [f"{cluster.namespace}/next", f"{cluster.namespace}/waits"]
