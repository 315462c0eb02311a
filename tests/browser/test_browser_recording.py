"""The page of a recorded run of 5,000 jobs: each view shows what was, and it stands still."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

JOBS = 5_000
SCENARIO = f"""\
name: recorded
end: 2h
cluster:
  nodes:
  - {{count: 40, name: gpu, allocatable: {{cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}}}
  queues: [{{name: research, weight: 2}}, {{name: product, guarantee: {{cpu: 200}}}}]
  manifests: [devices.json]
workload:
  jobs:
  - {{name: sweep, namespace: vision, queue: research, request: {{cpu: 8}}, run: exponential 30m, count: 2000,
     every: exponential 1s}}
  - {{name: small, namespace: shop, queue: product, request: {{cpu: 8}}, run: exponential 10m, count: {JOBS - 2500},
     arrive: 20m, every: exponential 1s}}
  - {{name: train, namespace: vision, queue: research, tasks: 4, request: {{cpu: 8, nvidia.com/gpu: 4}}, run: 20m,
     count: 500, every: 10s}}
  manifests: [{{file: render.json, arrive: 1m, run: 3h}}]
timing: {{cycles: interval, interval: 30s}}
"""
VIEWS = {
    "jobs": "small-", "jobs?group=queue&state=waiting": "product", "queues?queue=research": "borrowed",
    "nodes?node=gpu-01": "Node gpu-01", "devices": "shop/render", "evictions": "reclaim",
    "evictions?feed=all": "evicted", "history": "shop", "scheduler": "241 cycles", "what-if": "Nothing is changed",
}  # fmt: skip
"""A text that each view has where it shows what was recorded."""


def devices() -> list[dict[str, object]]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    cards = [{"name": f"card-{number}", "kind": "card"} for number in range(2)]
    meta = {"name": "render", "annotations": {"fairway.dev/devices": json.dumps(cards)}}
    selector = [{"matchExpressions": [{"key": "Kind", "operator": "In", "values": ["card"]}]}]
    kind = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ResourceClass", "metadata": {"name": "card"}}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}},
        {**kind, "spec": {"resourceSelector": selector}},
    ]


def render() -> dict[str, object]:
    limits = {"resourceclass.fairway.dev/card": "1"}
    meta = {"name": "render", "namespace": "shop", "annotations": {"fairway.dev/queue": "product"}}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "fairway", "containers": containers},
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("recording"))
    (folder / "scenario.yaml").write_text(SCENARIO)
    for name, items in (("devices", devices()), ("render", [render()])):
        (folder / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
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


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
def test_each_view_has_what_was_recorded(started: Browser, served: ServedPage, width: int, theme: str) -> None:
    viewed = Viewed(started, served.address, width=width, theme=theme)
    for view, text in VIEWS.items():
        viewed.go(view)
        assert text in viewed.text(), view
        viewed.check(view)
    assert viewed.page.locator("[data-state=recorded]").count() == 1
    assert viewed.errors == []


def test_a_job_of_it_is_explained_and_has_its_victims(served: ServedPage, viewed: Viewed) -> None:
    waiting = served.ask("jobs?state=waiting&search=train&limit=1")["rows"][0]["job"]
    viewed.go(f"jobs/{waiting}")
    viewed.page.get_by_role("region", name="What would start it now").get_by_text("Found by deciding").wait_for()
    viewed.page.get_by_role("region", name="Queue position, key by key").locator("tbody tr").first.wait_for()
    evicted = served.ask("evictions?limit=1")["rows"][0]
    viewed.go(f"jobs/{evicted['job']}")
    viewed.page.get_by_role("region", name="Evicted for others", exact=True).wait_for()
    assert viewed.page.get_by_role("button", name="Cancel job").count() == 0  # what was cannot be changed
    assert viewed.errors == []


def test_what_would_start_a_job_is_there_before_a_look_ahead_ends(served: ServedPage, viewed: Viewed) -> None:
    """Of thousands of jobs that wait, when one starts takes seconds to say; nothing else waits for that."""
    asked, go_on = [], threading.Event()

    def held(route: Route) -> None:
        asked.append(route.request.url)
        if go_on.is_set():
            route.continue_()
        else:
            route.fulfill(status=503, json={"error": "busy with other questions, try again"})

    viewed.page.route("**/api/v1/starts/**", held)
    try:
        job = served.ask("jobs?state=waiting&search=train&limit=100")["rows"][50]["job"]
        viewed.go(f"jobs/{job}")
        viewed.page.get_by_role("region", name="What would start it now").get_by_text("Found by deciding").wait_for()
        when = viewed.page.get_by_role("region", name="When it starts")
        when.get_by_text("busy with other questions").wait_for()
        go_on.set()
        when.get_by_role("button", name="Try again").click()
        when.get_by_text("if nothing else arrives").wait_for()
        when.get_by_text("at the earliest").wait_for()
        assert [url.rpartition("?")[2] for url in asked[1:]] == [asked[0], "bounds=true"]
    finally:
        viewed.page.unroute("**/api/v1/starts/**")
        viewed.errors.clear()  # the refusal was meant


def test_rows_in_sight_have_estimated_starts_though_thousands_wait(served: ServedPage, viewed: Viewed) -> None:
    assert served.ask("jobs?state=waiting&limit=0")["total"] > 2_000
    viewed.go("jobs?state=waiting")
    viewed.page.locator("[title^='estimated start']").first.wait_for()
    eventually(lambda: viewed.page.locator("[title*='not computed yet']").count() == 0, "all starts in sight")
    known = ("estimatedStart", "plannedStart", "startsAfter", "noStart")
    rows = served.ask("jobs?state=waiting&limit=1000")["rows"]
    assert all(any(row.get(name) for name in known) for row in rows)


def test_what_if_is_answered_from_the_recorded_state(viewed: Viewed) -> None:
    viewed.go("what-if")
    viewed.page.locator(".change-form select").select_option("addNodes")
    viewed.page.get_by_label("How many").fill("4")
    viewed.page.get_by_label("Like node").fill("gpu-01")
    viewed.page.get_by_role("button", name="Add", exact=True).click()
    viewed.page.get_by_role("button", name="Show the difference").click()
    viewed.page.get_by_role("heading", name="The difference").wait_for()
    viewed.page.get_by_role("region", name="Jobs with a different outcome").first.wait_for()


def test_a_deep_link_opens_its_view(served: ServedPage, viewed: Viewed) -> None:
    """In a browser that has only just got the token."""
    assert viewed.context.browser is not None
    linked = Viewed(viewed.context.browser, f"{served.address}#/jobs?queue=product&state=running&sort=-job")
    linked.settled()
    total = served.ask("jobs?queue=product&state=running")["total"]
    linked.page.locator(f"[role=grid][aria-rowcount='{total + 1}']").wait_for()
    assert linked.page.get_by_role("columnheader", name="Job").get_attribute("aria-sort") == "descending"
    linked.close()


def test_all_jobs_are_there_and_the_last_row_is_reached(served: ServedPage, viewed: Viewed) -> None:
    total = served.ask("jobs?limit=1")["total"]
    viewed.go("jobs?sort=job")
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{total + 1}']")
    grid.focus()
    grid.press("End")
    last = served.ask(f"jobs?sort=job&offset={total - 1}")["rows"][0]["job"]
    viewed.page.locator(f".grid-row a[title='{last}']").wait_for()
    assert viewed.page.locator(".grid-row").count() <= 80


def test_history_has_the_whole_run(viewed: Viewed) -> None:
    viewed.go("history")
    assert "shop" in viewed.text()
    assert "vision" in viewed.text()
    assert viewed.page.locator("canvas").count() >= 4
