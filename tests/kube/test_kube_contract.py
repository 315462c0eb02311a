"""The stories of `tests/contract` on a real API server, as the user that `fairway install` grants its rights to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from contract.test_worlds import *  # noqa: F403 - every story there is one here
from contract.test_worlds import Make
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.controlplane.plane import ControlPlane, data_folder
from kube.played import OnServer
from kube.servers import apply
from support.engine import flat, policy


@pytest.fixture(name="stage", scope="module")
def a_control_plane_of_its_own(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Stories name nodes and pods themselves, and give pods a priority without a class."""
    folder = data_folder(tmp_path_factory.mktemp("stage"))
    stage = ControlPlane(folder, {"disable-admission-plugins": "ServiceAccount,TaintNodesByCondition,Priority"})
    stage.start()
    apply(stage, objects(InstallOptions(admission=False)))
    yield stage
    stage.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="make")
def on_the_server(stage: ControlPlane) -> Iterator[Make]:
    made: list[OnServer] = []

    def make(*things: object, with_policy: Policy | None = None) -> OnServer:
        found: list[ApiObject] = flat(things)
        made.append(OnServer(stage, found, with_policy or policy()))
        return made[-1]

    yield make
    for played in made:
        played.close()
