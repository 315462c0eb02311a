"""Tests that ask for `plane` run against a real API server: `make kube-test`. Everywhere else they are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.controlplane.build import missing
from kube.controlplane.plane import ControlPlane, data_folder


@pytest.fixture(name="plane", scope="session")
def a_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One for all tests of a run; a test uses namespaces and nodes of its own names, and removes its nodes."""
    if not os.environ.get("FAIRWAY_KUBE"):
        pytest.skip("on a real API server: make kube-test")
    if missing():
        pytest.skip(f"{', '.join(missing())} not built: make kube-test")
    folder: Path = data_folder(tmp_path_factory.mktemp("plane"))
    plane = ControlPlane(folder)
    plane.start()
    yield plane
    plane.stop()
    shutil.rmtree(folder, ignore_errors=True)
