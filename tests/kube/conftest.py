"""Tests that ask for `plane` run against a real API server: `make kube-test`. Everywhere else they are left out."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube import audit
from kube.access import grant, grant_in, may
from kube.cluster import Cluster, eventually
from kube.controlplane.build import missing
from kube.controlplane.plane import ControlPlane, data_folder
from kube.hub import Hub
from kube.servers import apply

pytest.register_assert_rewrite("kube.chaos")
MAX_LINES = 15
"""Of a log, where a test fails."""
_CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a control plane those that need one are left out together, and are a number on the last line."""
    if os.environ.get("FAIRWAY_KUBE"):
        return
    apart = [item for item in items if "plane" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if item not in apart]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A test that fails says what its programs logged last, and what its pods are like: it may not fail again."""
    report = yield
    if report.when != "call" or not report.failed:
        return report
    given = getattr(item, "funcargs", {})
    if isinstance(cluster := given.get("cluster"), Cluster):
        report.sections.append(("pods of the test", cluster.summary()))
    for log in sorted(given["tmp_path"].glob("*.log")) if "tmp_path" in given else ():
        lines = log.read_text(errors="replace").splitlines()[-MAX_LINES:]
        report.sections.append((f"end of {log.name}", "\n".join(lines)))
    return report


@pytest.fixture(name="plane", scope="session")
def a_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One for all tests of a run; a test uses namespaces and nodes of its own names, and removes its nodes."""
    if missing():
        pytest.skip(f"{', '.join(missing())} not built: make kube-test")
    folder: Path = data_folder(tmp_path_factory.mktemp("plane"))
    plane = ControlPlane(folder)
    plane.start()
    grant(plane)
    yield plane
    plane.stop()
    assert audit.report(plane.audit_file.read_text().splitlines()).forbidden == []
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="cluster")
def a_cluster(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A namespace on the control plane, for one test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-").removeprefix("test-")
    cluster = Cluster(plane, name)
    for left in (cluster.get(_CLASSES) or {"items": []})["items"]:  # by tests before: classes are cluster-wide
        cluster.delete(f"{_CLASSES}/{left['metadata']['name']}")
    grant_in(plane, cluster.namespace)
    yield cluster
    cluster.clean()


@pytest.fixture(name="installed")
def an_installed_plane(plane: ControlPlane) -> ControlPlane:
    """With all that `fairway install` prints."""
    apply(plane, objects(InstallOptions()))
    eventually(lambda: may(plane, "patch", "fairway.dev", "reservations"), "access is granted")
    return plane


@pytest.fixture(name="hub")
def a_hub(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Hub]:
    """A namespace on a hub with OCM's definitions, for one test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-").removeprefix("test-")
    hub = Hub(plane, name[:25])
    yield hub
    hub.clean()
