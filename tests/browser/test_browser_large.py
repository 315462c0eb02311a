"""The page with thousands of jobs: rows that are not in sight do not exist, and the server filters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browsing import ServedPage, Viewed, browser

JOBS = 5_000
MOST_ROWS = 80
"""In sight, with some above and below."""


def node(number: int) -> dict[str, object]:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number:03}"}, "status": status}


def pod(number: int) -> dict[str, object]:
    resources = {"requests": {"cpu": "8", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    labels = {"app": f"app-{number % 5}"}
    meta = {"name": f"run-{number:04}", "namespace": f"team-{number % 4}", "labels": labels}
    spec = {"schedulerName": "fairway", "containers": [{"name": "main", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("crowded"))
    items = [*map(node, range(100)), *map(pod, range(JOBS))]
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    served = ServedPage(folder, "sandbox", "--port", "0", "--state", str(folder / "sandbox.db"))
    served.start("-f", str(folder / "objects.json"), "--speed", "1")
    yield served
    served.stop()


@pytest.fixture(scope="module")
def viewed(crowded: ServedPage) -> Iterator[Viewed]:
    with browser() as started:
        yield Viewed(started, crowded.address)


def test_the_last_of_all_rows_is_reached_by_one_key(viewed: Viewed) -> None:
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS + 1}']")
    grid.focus()
    grid.press("End")
    viewed.page.locator(".grid-row", has_text=f"run-{JOBS - 1:04}").wait_for()
    assert viewed.page.locator(".grid-row").count() <= MOST_ROWS
    grid.press("Home")
    viewed.page.locator(".grid-row", has_text="run-0000").wait_for()
    assert viewed.errors == []


def test_a_search_is_answered_by_the_server(viewed: Viewed) -> None:
    viewed.go("jobs")
    viewed.page.get_by_label("Find jobs by name").fill("run-4999")
    viewed.page.locator("[role=grid][aria-rowcount='2']", has_text="run-4999").wait_for()


def test_groups_count_all_jobs(viewed: Viewed) -> None:
    viewed.go("jobs?group=namespace")
    rows = viewed.page.locator("[aria-label='Jobs by namespace'] tbody tr")
    rows.first.wait_for()
    assert rows.count() == 4
    rows.filter(has_text="team-3").get_by_role("button").click()
    viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS // 4 + 1}']").wait_for()


def test_labels_filter(viewed: Viewed) -> None:
    viewed.go("jobs?label=app%3Dapp-2")
    viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS // 5 + 1}']").wait_for()
