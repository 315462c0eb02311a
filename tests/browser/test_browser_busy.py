"""Views on a sandbox in which all of them have something to show: loans, evictions, devices, marked nodes, reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed
from support.busy_sandbox import busy_sandbox

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS = ("jobs?group=reason", "jobs/team-blue/tune", "queues?queue=batch", "nodes?node=gpu-0", "devices", "evictions",
         "evictions?feed=all", "history", "scheduler", "what-if")  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    served = busy_sandbox(Path(tmp_path_factory.mktemp("busy")))
    yield served
    served.stop()


@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (400, "light")])
def test_full_views_are_accessible_and_without_errors(
    started: Browser, served: ServedPage, width: int, theme: str
) -> None:
    viewed = Viewed(started, served.address, width=width, theme=theme)
    for view in VIEWS:
        viewed.go(view)
        viewed.check(view)
    assert viewed.errors == []


def test_each_reason_is_a_group_with_its_count(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("jobs?group=reason&state=waiting")
    counts = {row["value"]: row["count"] for row in served.ask("jobs?group=reason&state=waiting")["groups"]}
    assert {"QueueOverused", "NotEnqueued", "SchedulingGated", "QueueNotFound"} <= counts.keys()
    table = viewed.page.locator("[aria-label='Jobs by reason']")
    for reason, number in counts.items():
        row = table.locator("tbody tr").filter(has_text=reason)
        assert str(number) in row.inner_text()


def test_runs_on_the_timeline_are_no_stops_of_the_keyboard(viewed: Viewed) -> None:
    """There may be thousands; tables name them, too."""
    viewed.go("evictions")
    runs = viewed.page.locator(".gantt a", has=viewed.page.locator(".span.running"))
    assert set(runs.evaluate_all("found => found.map(one => one.tabIndex)")) == {-1}


def test_the_tree_says_who_borrows_from_whom(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("queues?queue=batch")
    tree = viewed.page.locator(".queue-tree > li")
    depths = dict(
        zip(tree.locator("h2").all_inner_texts(), [one.get_attribute("data-depth") for one in tree.all()], strict=True)
    )
    assert (depths["science"], depths["vision"], depths["language"]) == ("0", "1", "1")
    batch = viewed.page.get_by_role("article", name="Queue batch")
    assert "borrowed" in batch.inner_text()
    assert "capability 40" in batch.inner_text()
    assert "team-blue" in batch.inner_text()
    assert batch.locator("canvas").count() == 3  # over time
    assert "guarantee 8" in viewed.page.get_by_role("article", name="Queue production").inner_text()
    loan = next(one for one in served.ask("queues")["loans"] if one["borrower"] == "batch")
    rows = viewed.page.locator("section", has_text="Who borrows from whom").locator("tbody tr")
    assert rows.filter(has_text=loan["lender"]).filter(has_text="batch").count() > 0


def test_an_eviction_says_which_for_which_by_which_rule_and_what_was_lost(served: ServedPage, viewed: Viewed) -> None:
    row = served.ask("evictions")["rows"][0]
    viewed.go("evictions")
    text = viewed.page.locator("tbody tr").filter(has_text=row["job"].partition("/")[2]).first.inner_text()
    assert row["forJob"].partition("/")[2] in text
    assert "reclaim" in text
    viewed.go(f"jobs/{row['forJob']}")
    assert (
        row["job"].partition("/")[2]
        in viewed.page.get_by_role("region", name="Evicted for this job", exact=True).inner_text()
    )
    viewed.go(f"jobs/{row['job']}")
    assert (
        row["forJob"].partition("/")[2]
        in viewed.page.get_by_role("region", name="Evicted for others", exact=True).inner_text()
    )
    assert "evicted" in viewed.page.locator(".story").inner_text()


def test_devices_say_which_pod_has_them(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("devices")
    assert "3 of 16" in viewed.page.locator("tr", has_text="gpu.large").first.inner_text()
    viewed.page.get_by_label("Pod that has it").fill("render-0")
    viewed.page.wait_for_url("**holder=render-0*")
    viewed.settled()
    rows = viewed.page.locator("section", has_text="Allocated to").locator("tbody tr")
    rows.filter(has_text="team-red/render-0-0").first.wait_for()
    assert served.ask("devices?holder=render-0")["total"] == 2
    rows.nth(2).wait_for(state="detached")  # the rows of other pods go when the answer comes
    assert rows.count() == 2


def test_marked_nodes_are_said_in_words(viewed: Viewed) -> None:
    viewed.go("nodes")
    assert "1 cordoned" in viewed.text()
    assert "1 not ready" in viewed.text()
    viewed.page.get_by_label("State").select_option("SchedulingDisabled")
    viewed.page.wait_for_url("**state=SchedulingDisabled*")
    heat = viewed.page.get_by_role("application")
    heat.focus()
    heat.press("Home")
    viewed.page.get_by_text("gpu-6: ").wait_for()
    viewed.go("nodes?node=gpu-0")
    panel = viewed.page.locator("section", has_text="Node gpu-0")
    assert "render-" in panel.inner_text()  # pods and devices
    assert "gpu-1" in panel.inner_text()


def test_a_held_job_says_so(viewed: Viewed) -> None:
    viewed.go("jobs/team-blue/held")
    assert "it is held (annotation fairway.dev/hold of PodGroup team-blue/held)" in viewed.text()
    answer = viewed.page.get_by_role("region", name="What would start it now")
    answer.get_by_text("Remove the annotation fairway.dev/hold").wait_for()


def test_a_simulation_of_what_if_says_what_starts_earlier(viewed: Viewed) -> None:
    viewed.go("what-if")
    viewed.page.locator(".change-form select").select_option("queueWeight")
    viewed.page.get_by_label("Queue", exact=True).fill("science")
    viewed.page.get_by_role("spinbutton", name="Weight").fill("20")
    viewed.page.get_by_role("button", name="Add", exact=True).click()
    viewed.page.locator(".change-form select").select_option("submitForm")
    viewed.page.get_by_label("Name", exact=True).fill("probe")
    viewed.page.get_by_label("Each requests").fill("cpu=1")
    viewed.page.get_by_role("button", name="Add", exact=True).click()
    viewed.page.get_by_role("button", name="Simulate").click()
    viewed.page.get_by_role("button", name="Show the difference").click()
    viewed.page.get_by_role("heading", name="The difference").wait_for()
    assert "default/probe" in viewed.text()
    assert "Mean wait" in viewed.text()
    assert viewed.errors == []
