"""The page of a sandbox with 50,000 jobs: rows that are not in sight do not exist, and the server filters."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed

if TYPE_CHECKING:
    pass

JOBS = 50_000
NODES = 10_000
MAX_ROWS = 80
"""In sight, with some above and below."""
LONGEST_TASK = 400.0
"""Milliseconds, on a busy machine: alone it is some tens."""
SOON = 1.0
"""Seconds from a jump to its rows, with all that a test adds."""


def node(number: int) -> dict[str, object]:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number:04}"}, "status": status}


def pod(number: int) -> dict[str, object]:
    resources = {"requests": {"cpu": "8", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    labels = {"app": f"app-{number % 5}"}
    meta = {"name": f"run-{number:05}", "namespace": f"team-{number % 4}", "labels": labels}
    spec = {"schedulerName": "fairway", "containers": [{"name": "main", "resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("crowded"))
    items = [*map(node, range(NODES)), *map(pod, range(JOBS))]
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    served = ServedPage(folder, "sandbox", "--port", "0", "--state", str(folder / "sandbox.db"))
    served.start("-f", str(folder / "objects.json"), "--speed", "1")
    yield served
    served.stop()


def test_the_last_of_all_rows_is_reached_by_one_key(viewed: Viewed) -> None:
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS + 1}']")
    grid.focus()
    grid.press("End")
    viewed.page.locator(".grid-row", has_text=f"run-{JOBS - 1:05}").wait_for()
    assert viewed.page.locator(".grid-row").count() <= MAX_ROWS
    grid.press("Home")
    viewed.page.locator(".grid-row", has_text="run-00000").wait_for()
    assert viewed.errors == []


LONG_TASKS = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""


def test_moving_through_all_rows_does_not_lag(viewed: Viewed) -> None:
    """What a user feels: how long the page is busy without a pause, and until the rows of a new place are there."""
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS + 1}']")
    grid.focus()
    viewed.page.evaluate(LONG_TASKS)
    spent = []
    for step in range(40):
        begin = time.monotonic()
        if step % 2:
            grid.press("PageDown")
        else:
            grid.evaluate("(box, part) => { box.scrollTop = box.scrollHeight * part; }", step / 40)
        viewed.page.locator(".grid-row[aria-busy=true]").first.wait_for(state="detached")
        spent.append(time.monotonic() - begin)
    longest = viewed.page.evaluate("window.longest")
    assert longest < LONGEST_TASK, f"the page was busy for {longest:.0f} ms"
    assert statistics.median(spent) < SOON, spent
    assert viewed.page.locator(".grid-row").count() <= MAX_ROWS


def test_another_order_shows_its_rows_where_the_table_stands(viewed: Viewed) -> None:
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{JOBS + 1}']")
    grid.focus()
    grid.press("End")
    viewed.page.locator(".grid-row", has_text=f"run-{JOBS - 1:05}").wait_for()
    viewed.page.get_by_role("button", name="Job").click()
    viewed.page.wait_for_url("**sort=-job*")
    viewed.page.locator(".grid-row", has_text="run-00000").wait_for()
    viewed.settled()


def test_a_search_is_answered_by_the_server(viewed: Viewed) -> None:
    viewed.go("jobs")
    viewed.page.get_by_label("Find jobs by name").fill("run-49999")
    viewed.page.locator("[role=grid][aria-rowcount='2']", has_text="run-49999").wait_for()


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


def test_the_heat_map_of_all_nodes_moves_without_lag(viewed: Viewed) -> None:
    viewed.go("nodes")
    heat = viewed.page.get_by_role("application")
    assert f"{NODES} nodes by gpu in use" in (heat.get_attribute("aria-label") or "").replace("\u202f", "")
    viewed.page.evaluate(LONG_TASKS)
    heat.focus()
    for key in ("End", *(["ArrowUp"] * 10), *(["ArrowRight"] * 10)):
        heat.press(key)
    viewed.page.get_by_label("Find nodes by name").fill("node-0999")
    viewed.page.wait_for_url("**search=node-0999*")
    viewed.settled()
    assert viewed.page.evaluate("window.longest") < LONGEST_TASK
    assert viewed.errors == []
