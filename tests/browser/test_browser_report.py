"""Reports in a browser: opened as files, without a server, they show every view and ask for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import Viewed
from support.cli import invoke

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCENARIO = """\
name: "busy </script><b>day"
end: 12h
cluster:
  nodes: 4 x {cpu: 16}
  queues: [{name: research, weight: 2}, {name: product}]
workload:
  jobs:
  - {name: sweep, namespace: vision, queue: research, request: {cpu: 4}, run: 90m, count: 40, every: 1m}
  - {name: shop, namespace: shop, queue: product, request: {cpu: 4}, run: 20m, count: 20, arrive: 30m, every: 1m}
  - {name: gang, namespace: language, queue: research, tasks: 2, request: {cpu: 16}, run: 20m, arrive: 3h}
assert: [job shop/shop-0 starts before 1h]
"""
VIEWS = {
    "overview": ("busy </script><b>day", "Jobs finished", "61 of 61", "job shop/shop-0 starts before 1h"),
    "shares": ("research", "research/vision", "entitled"),
    "waits": ("waiting jobs", "95% waited at most", "shop"),
    "evictions": ("evicted pods",),
    "nodes": ("Timeline of nodes", "ran until it was evicted"),
    "about": ("fairway simulate", "Policy: ", "seed 0"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "s.yaml").write_text(SCENARIO)
    (folder / "p.yaml").write_text("actions: [enqueue, allocate]\n")
    scenario = str(folder / "s.yaml")
    assert invoke("simulate", scenario, "--out", str(folder)).code == 0
    policies = ("--policy", "default", "--policy", str(folder / "p.yaml"))
    assert invoke("diff", scenario, *policies, "--workers", "1", "--out", str(folder)).code == 0
    return folder


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1024, "dark"), (390, "light"), (390, "dark")])
def test_each_view_of_a_report(started: Browser, folder: Path, width: int, theme: str) -> None:
    viewed = Viewed(started, (folder / "report.html").as_uri(), width=width, theme=theme)
    requests: list[str] = []
    viewed.page.on("request", lambda request: requests.append(request.url))
    viewed.page.reload()
    for view, texts in VIEWS.items():
        viewed.go(view)
        for text in texts:
            assert text in viewed.text(), view
        viewed.check(view)
    assert viewed.page.locator("nav a").all_inner_texts() == [name.capitalize() for name in VIEWS]
    assert all(url.startswith(("file:", "data:")) for url in requests)
    assert viewed.errors == []
    viewed.close()


def test_a_comparison_has_both_runs_on_one_scale(started: Browser, folder: Path) -> None:
    viewed = Viewed(started, (folder / "diff.html").as_uri(), width=1440)
    viewed.settled()
    assert "A against B" in viewed.text()
    assert viewed.page.locator(".better, .worse").count() > 0
    viewed.check("comparison")
    viewed.go("waits")
    assert viewed.page.locator("h3", has_text="A: default").count() == 5
    assert viewed.page.locator("h3", has_text="B: p.yaml").count() == 5
    panel = viewed.page.get_by_role("region", name="Waiting jobs", exact=True)
    assert panel.locator("canvas").count() == 2
    viewed.check("waits")
    viewed.go("nodes")
    first, second = viewed.page.locator("svg[aria-label='Timeline of 4 nodes']").all()
    ticks = [chart.locator(".tick text").all_inner_texts() for chart in (first, second)]
    assert ticks[0] == ticks[1]
    assert viewed.errors == []
    viewed.close()


def test_a_bar_says_what_ran_and_links_nowhere(started: Browser, folder: Path) -> None:
    viewed = Viewed(started, (folder / "report.html").as_uri())
    viewed.go("nodes")
    bar = viewed.page.locator("[aria-label^='language/gang on node-']").first
    bar.wait_for()
    assert ": ran, 1 pod, from 2026-01-01" in (bar.get_attribute("aria-label") or "")
    assert viewed.page.locator(".gantt a").count() == 0
    viewed.close()
