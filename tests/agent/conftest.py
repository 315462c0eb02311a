"""Tests that ask for `peers` run programs in Go beside the agent: `make kube-test`. Elsewhere they are left out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.peers import build
from agent.players import Looped, looped
from agent.small_api import SmallApi


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("FAIRWAY_KUBE"):
        return
    apart = [item for item in items if "peers" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if item not in apart]


@pytest.fixture(name="players")
def an_event_loop() -> Iterator[Looped]:
    with looped() as one:
        yield one


@pytest.fixture(name="api")
def a_small_api() -> Iterator[SmallApi]:
    api = SmallApi()
    api.node("n1", zone="a")
    yield api
    api.close()


@pytest.fixture(name="host")
def a_folder_of_sockets() -> Iterator[Path]:
    """With a short name: a socket's path has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="fw", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(name="peers", scope="session")
def programs_in_go() -> None:
    problem = build()
    if problem:
        pytest.skip(problem)
