"""The page of `fairway run` on a real API server, in a browser: what a user sees, does, and may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.hub import Hub
from kube.page_of_run import MARK, READING, LivePageOf, Tenancy, account, running_page, tenants, their_pod
from support.browsing import Viewed, browser, why_not
from support.web_pages import TOKEN

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())
VIEWS = ("jobs", "queues", "nodes", "devices", "evictions", "evictions?feed=all", "history", "scheduler", "what-if")


@pytest.fixture(name="tenancy")
def two_users(installed: ControlPlane, cluster: Cluster) -> Iterator[Tenancy]:
    with tenants(installed, cluster) as tenancy:
        yield tenancy


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a terminal prints none."""
    monkeypatch.setenv("FAIRWAY_WEB_TOKEN", TOKEN)


def opened(page: LivePageOf) -> str:
    """The address that a terminal would print, once it is answered."""
    eventually(lambda: page.ask("/api/v1/session", TOKEN).status == 200, "the page is there")
    assert TOKEN not in page.run._log.read_text() + page.log.read_text()
    return f"http://127.0.0.1:{page.port}/#token={TOKEN}"


def signed_in(started: Any, address: str, token: str) -> Viewed:
    viewed = Viewed(started, address)
    viewed.page.get_by_label("Token").fill(token)
    viewed.page.get_by_role("button", name="Open the page").click()
    viewed.page.locator("main h1").filter(has_text="Jobs").wait_for()
    viewed.errors.clear()  # that there was no token at first
    return viewed


def test_each_view_of_a_live_scheduler(installed: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.node("n", cpu=4)
    with running_page(cluster, tmp_path, web_access="auto") as page, browser() as started:
        address = opened(page)
        cluster.pod("runs", cpu="3")
        cluster.pod("waits", cpu="3")
        eventually(lambda: cluster.places()["runs"] == "n", "the pod is bound")
        viewed = Viewed(started, address)
        viewed.go(f"jobs?namespace={cluster.namespace}")
        viewed.page.locator(".grid-row", has_text="waits").get_by_text("waiting").wait_for()
        for view in VIEWS:
            viewed.go(view)
            assert viewed.findings() == [], view
        viewed.go(f"jobs/{cluster.namespace}/waits")
        viewed.page.locator(".sentence", has_text="nodes fit").wait_for()
        viewed.page.get_by_text("What would start it now").wait_for()
        assert viewed.page.get_by_role("button", name="Cancel job").count() == 0  # read-only
        viewed.go(f"nodes?node={node}")
        viewed.page.get_by_role("region", name=f"Node {node}").get_by_text("runs").first.wait_for()
        cluster.pod("late", cpu="1")
        viewed.go(f"jobs?namespace={cluster.namespace}&search=late")
        viewed.page.locator(".grid-row", has_text="late").get_by_text("starting").wait_for()
        assert viewed.errors == []


def test_users_see_their_namespace_and_act_with_their_rights(
    installed: ControlPlane, cluster: Cluster, tenancy: Tenancy, tmp_path: Path
) -> None:
    own, other, reader, _ = tenancy
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "patch"]}
    writer = account(installed, own, "writer", [READING, pods])
    cluster.pod("lone", cpu="64")
    their_pod(cluster, other, f"{MARK}-pod")
    with running_page(cluster, tmp_path, allow_actions=True) as page, browser() as started:
        address = f"http://127.0.0.1:{page.port}/"
        eventually(lambda: page.ask("/api/v1/session", tenancy.admin).status == 200, "the page is there")
        viewed = signed_in(started, address, reader)
        viewed.page.locator(".grid-row", has_text="lone").wait_for()
        assert MARK not in viewed.page.content()
        viewed.go(f"jobs/{other}/{MARK}-pod")
        viewed.page.get_by_text("There is no such job").wait_for()
        viewed.go("nodes")
        viewed.page.get_by_text("you may not list nodes of this cluster").wait_for()
        viewed.go(f"jobs/{own}/lone")
        viewed.page.get_by_role("button", name="Hold").click()
        viewed.page.get_by_role("dialog").get_by_role("button", name="Hold").click()
        viewed.page.get_by_role("status").get_by_text("forbidden").wait_for()
        viewed.close()

        viewed = signed_in(started, address, writer)
        viewed.go(f"jobs/{own}/lone")
        for button, then in (("Hold", "Release"), ("Release", "Hold")):
            viewed.page.get_by_role("button", name=button).click()
            viewed.page.get_by_role("dialog").get_by_role("button", name=button).click()
            viewed.page.get_by_role("button", name=then).wait_for()
        viewed.page.get_by_role("button", name="Cancel job").click()
        viewed.page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
        eventually(lambda: "lone" not in cluster.places(), "the pod is deleted")
        assert writer not in viewed.page.evaluate("document.cookie + location.href + JSON.stringify(localStorage)")
        assert writer not in json.dumps(page.run.lines) + page.log.read_text()


def test_the_fleet_of_a_real_hub(installed: ControlPlane, cluster: Cluster, hub: Hub, tmp_path: Path) -> None:
    hub.managed("m")
    hub.placement("train", annotations={"fairway.dev/requirements": json.dumps({"cpu": "4"})})
    cluster.node("n", cpu=10)
    report = {"reportTo": str(hub.plane.kubeconfig()), "reportAs": hub.full("m"), "hub": str(hub.plane.kubeconfig())}
    with running_page(cluster, tmp_path, web_access="token", **report) as page, browser() as started:
        address = opened(page)
        viewed = Viewed(started, address)
        viewed.page.get_by_role("link", name="Fleet").click()
        row = viewed.page.locator("tr", has_text=hub.full("m")).first
        row.get_by_text("available").first.wait_for()
        viewed.page.get_by_role("heading", name=f"{hub.namespace}/train").wait_for()
        assert viewed.findings() == []
        assert viewed.errors == []
