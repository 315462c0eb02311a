"""The page of a recorded run of 5,000 jobs: each view shows what was, and it stands still."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browsing import ServedPage, Viewed, browser

JOBS = 5_000
SCENARIO = f"""\
name: recorded
end: 2h
cluster:
  nodes:
  - {{count: 40, name: gpu, allocatable: {{cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}}}
  queues: [{{name: research, weight: 2}}, {{name: product}}]
workload:
  jobs:
  - {{name: small, namespace: shop, queue: product, request: {{cpu: 8}}, run: exponential 10m, count: {JOBS - 500},
     every: exponential 1s}}
  - {{name: train, namespace: vision, queue: research, tasks: 4, request: {{cpu: 8, nvidia.com/gpu: 4}}, run: 20m,
     count: 500, every: 10s}}
timing: {{cycles: interval, interval: 30s}}
"""
VIEWS = ("jobs", "queues", "nodes", "devices", "evictions", "history", "scheduler", "what-if")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("recording"))
    (folder / "scenario.yaml").write_text(SCENARIO)
    command = [
        sys.executable,
        "-m",
        "fairway.cli.main",
        "simulate",
        str(folder / "scenario.yaml"),
        "--record",
        str(folder / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    served = ServedPage(folder, "web", str(folder / "run"), patience=300)
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def viewed(recording: ServedPage) -> Iterator[Viewed]:
    with browser() as started:
        yield Viewed(started, recording.address)


def test_each_view_has_what_was_recorded(viewed: Viewed) -> None:
    for view in VIEWS:
        viewed.go(view)
        assert viewed.findings() == [], view
    assert viewed.page.locator("[data-state=recorded]").count() == 1
    assert viewed.errors == []


def test_all_jobs_are_there_and_the_last_row_is_reached(recording: ServedPage, viewed: Viewed) -> None:
    total = recording.ask("jobs?limit=1")["total"]
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{total + 1}']")
    grid.focus()
    grid.press("End")
    last = recording.ask(f"jobs?sort=job&offset={total - 1}")["rows"][0]["job"]
    viewed.page.locator(f".grid-row a[title='{last}']").wait_for()
    assert viewed.page.locator(".grid-row").count() <= 80


def test_history_has_the_whole_run(viewed: Viewed) -> None:
    viewed.go("history")
    assert "shop" in viewed.page.locator("main").inner_text()
    assert "vision" in viewed.page.locator("main").inner_text()
    assert viewed.page.locator("canvas").count() >= 4
