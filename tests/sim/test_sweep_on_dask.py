"""`fairway sweep --dask` on a cluster of Dask's own on the loopback address; needs the extra `sweep`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.main import fairway, run

SCENARIO = """
cluster: {nodes: 2 x {cpu: 4}}
workload: {jobs: [{name: a, count: 12, every: exponential 10s, request: {cpu: 2}, run: exponential 60s}]}
"""
SWEEP = ("--set", "drf.priorityFirst=true,false", "--seeds", "2", "-o", "json")

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="the extra `sweep` is not installed")


@pytest.fixture(name="address", scope="module")
def an_address() -> Iterator[str]:
    import distributed

    where: dict[str, Any] = {"protocol": "tcp://", "host": "127.0.0.1", "scheduler_port": 0, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **where) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(name="scenario")
def a_scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return path


@needs_dask
def test_a_cluster_gives_the_same_rows_as_processes(
    address: str, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fairway, ["sweep", str(scenario), *SWEEP, "--workers", "1"]) == 0
    here = capsys.readouterr().out
    assert run(fairway, ["sweep", str(scenario), *SWEEP, "--dask", address]) == 0
    assert capsys.readouterr().out == here


@needs_dask
def test_a_fault_that_a_worker_finds_is_said_as_it_is(
    address: str, scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(SCENARIO.replace("{cpu: 4}}", "{cpu: 4}, manifests: [none.yaml]}"))
    assert run(fairway, ["sweep", str(scenario), *SWEEP, "--dask", address]) == 2
    assert "none.yaml" in capsys.readouterr().err


@needs_dask
def test_an_address_where_no_scheduler_answers(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fairway, ["sweep", str(scenario), *SWEEP, "--dask", "nonsense:here"]) == 2
    assert "--dask nonsense:here: no Dask scheduler answers there" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(fairway, ["sweep", str(scenario), *SWEEP, "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "pip install 'fairway[sweep]'" in capsys.readouterr().err
