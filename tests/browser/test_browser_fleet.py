"""The view of the fleet, on the placer's own decisions; what a hub holds is given instead of read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from fairway.api.fleet import ManagedCluster
from fairway.api.manifests import load
from fairway.app.view.models.cluster import FleetPage
from fairway.clock import wall_clock
from fairway.fleet.names import FREE, REPORTED_AT, SHAPES
from fairway.web.fleet_page import fleet_page
from fairway.web.sandbox_page import SandboxPage
from support.browsing import ROOT, Viewed
from support.objects import node
from support.sandboxes import made
from support.web_pages import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def fleet() -> FleetPage:
    things = []
    for thing in load([str(ROOT / "examples/fleet/quickstart.yaml")]).objects:
        if isinstance(thing, ManagedCluster) and thing.metadata.name == "amsterdam":
            shapes = [
                {"request": {"cpu": "4", "memory": "16Gi"}, "fits": 3},
                {"request": {"nvidia.com/gpu": "8"}, "fits": 1, "nodeSelector": {"pool": "h100"}},
            ]
            at = (datetime.now(UTC) - timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
            notes = {SHAPES: json.dumps(shapes), FREE: json.dumps({"cpu": "12", "memory": "48Gi"}), REPORTED_AT: at}
            thing = replace(thing, metadata=replace(thing.metadata, annotations=notes))
        things.append(thing)
    return fleet_page(things, wall_clock())


@pytest.fixture(scope="module")
def page() -> Iterator[SandboxPage]:
    sandbox = made(node("n", cpu=4))
    page = SandboxPage(sandbox, 0, TOKEN)
    page.shown.fleet = fleet
    page.start()
    yield page
    page.stop()
    sandbox.close()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
def test_clusters_and_placements_with_scores_and_reasons(
    started: Browser, page: SandboxPage, width: int, theme: str
) -> None:
    found = fleet()
    viewed = Viewed(started, page.address, width=width, theme=theme)
    viewed.page.get_by_role("link", name="Fleet").click()
    viewed.settled()
    text = viewed.page.locator("main").inner_text()
    for cluster in found.clusters:
        assert cluster.name in text
    assert "3 of 4 cpu, 16Gi memory" in text
    assert "1 of 8 gpu on pool=h100" in text
    placement = found.placements[0]
    panel = viewed.page.locator("section", has_text=placement.placement)
    for chosen in placement.decisions:
        row = panel.locator("tbody tr", has_text=chosen.cluster).first.inner_text()
        assert all(name in row for name in chosen.scores)
    panel.locator("summary").first.click()
    for out in placement.filtered:
        assert out.reason in panel.inner_text()
    assert viewed.findings() == []
    assert viewed.overflow() <= 0
    assert viewed.errors == []


def test_without_a_hub_the_view_is_not_in_the_menu_and_says_how_to_get_it(started: Browser, page: SandboxPage) -> None:
    page.shown.fleet = None
    try:
        viewed = Viewed(started, page.address)
        viewed.go("fleet")
        viewed.page.get_by_text("No hub is connected").wait_for()
        assert viewed.page.get_by_role("link", name="Fleet").count() == 0
    finally:
        page.shown.fleet = fleet
