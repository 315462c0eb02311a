"""Each view in a browser, on a sandbox that stands still while a job starves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed, starving_demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS = (
    "jobs", "jobs?group=queue&state=waiting", "jobs/language/pretrain", "queues?queue=research", "nodes?node=gpu-0",
    "devices", "evictions", "evictions?feed=all", "history", "scheduler", "what-if", "no-such-view",
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    served = starving_demo(Path(tmp_path_factory.mktemp("demo")))
    yield served
    served.stop()


def to_the_second(time: str) -> str:
    """As the page writes it."""
    nearest = datetime.fromisoformat(time) + timedelta(milliseconds=500)
    return nearest.strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
def test_every_view_is_accessible_and_without_errors(
    started: Browser, served: ServedPage, width: int, theme: str
) -> None:
    viewed = Viewed(started, served.address, width=width, theme=theme)
    for view in VIEWS:
        viewed.go(view)
        viewed.check(view)
    assert viewed.errors == []


def test_a_menu_of_filters_is_whole_on_a_narrow_screen(started: Browser, served: ServedPage) -> None:
    viewed = Viewed(started, served.address, width=400)
    viewed.go("jobs")
    for title in ("State", "Queue", "Namespace", "Reason"):
        summary = viewed.page.locator(".facet summary", has_text=title)
        summary.click()
        box = viewed.page.locator(".facet[open] .facet-menu").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400
        assert viewed.overflow() <= 0
        summary.click()


def test_an_address_that_changes_while_the_page_is_drawn_is_followed(started: Browser, served: ServedPage) -> None:
    viewed = Viewed(started, served.address)
    viewed.page.add_init_script(
        """new MutationObserver((changes, observer) => {
             if (!document.querySelector("main h1")) return;
             observer.disconnect();
             location.hash = "#/queues";
           }).observe(document, { childList: true, subtree: true });"""
    )
    viewed.page.reload()
    viewed.page.get_by_role("heading", name="Queues", level=1).wait_for()


def test_the_token_leaves_the_address(viewed: Viewed) -> None:
    viewed.page.wait_for_url(lambda url: "token" not in url)  # once the login is answered


def test_jobs_are_listed_with_state_and_reason(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("jobs")
    rows = served.ask("jobs?limit=3")["rows"]
    first = viewed.page.locator("[role=grid] .grid-row").first
    assert rows[0]["job"].partition("/")[2] in first.inner_text()
    assert rows[0]["reason"] in first.inner_text()


def test_filters_are_in_the_address_and_back_again(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("jobs")
    viewed.page.locator(".facet summary", has_text="State").click()
    viewed.page.get_by_label("running").check()
    viewed.page.wait_for_url("**state=running*")
    viewed.settled()
    total = served.ask("jobs?state=running")["total"]
    grid = viewed.page.locator(f"[role=grid][aria-rowcount='{total + 1}']")
    grid.wait_for()
    assert "waiting" not in grid.inner_text()
    address = viewed.page.url
    viewed.go("queues")
    viewed.page.goto(address)
    grid.wait_for()
    viewed.page.get_by_role("button", name="Clear all").click()
    viewed.page.wait_for_url(lambda url: "state" not in url)


def test_rows_move_by_keyboard_and_enter_opens(viewed: Viewed) -> None:
    viewed.go("jobs")
    grid = viewed.page.locator("[role=grid]")
    grid.focus()
    grid.press("ArrowDown")
    row = viewed.page.locator(".grid-row.active")
    assert row.get_attribute("aria-rowindex") == "3"
    name = row.locator("a").get_attribute("title")
    grid.press("Enter")
    viewed.page.wait_for_url(f"**#/jobs/{name}")


def test_a_job_says_why_what_would_start_it_and_when(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("jobs/language/pretrain")
    found = served.ask("explanations/language/pretrain")
    text = viewed.text()
    change = found["explanation"]["counterfactual"]["changes"][0]["text"]
    assert change[1:].partition(" (")[0] in text  # what stands in brackets has a time, which is shortened
    start = served.ask("starts/language/pretrain?bounds=true")["interval"]
    assert to_the_second(start["start"]) in text
    assert f"at the earliest {to_the_second(start['earliest'])}" in text
    for cause in served.ask("jobs/language/pretrain")["causes"][:1]:
        assert cause["cause"] in text
    assert "starving" in text
    assert "Queue position, key by key" in text
    assert viewed.page.get_by_role("button", name="Cancel job").count() == 0  # read-only without --allow-actions


def test_the_objects_of_a_job_are_shown_as_yaml(viewed: Viewed) -> None:
    viewed.go("jobs/language/pretrain")
    viewed.page.locator("summary", has_text="YAML").click()
    viewed.page.locator("pre", has_text="kind: PodGroup").wait_for()


def test_bars_say_their_amounts_in_words(viewed: Viewed) -> None:
    viewed.go("queues")
    viewed.page.locator("[role=img][aria-label*='nvidia.com/gpu:'][aria-label*='reserved']").first.wait_for()


def test_a_node_opens_by_keyboard_from_the_heat_map(viewed: Viewed) -> None:
    viewed.go("nodes")
    heat = viewed.page.get_by_role("application")
    assert "6 nodes by gpu in use" in (heat.get_attribute("aria-label") or "")
    heat.focus()
    heat.press("End")
    heat.press("Enter")
    viewed.page.get_by_role("heading", name="Node gpu-3").wait_for()
    assert "node=gpu-3" in viewed.page.url


def test_how_many_gangs_fit_is_asked_by_the_form(served: ServedPage, viewed: Viewed) -> None:
    viewed.go("nodes")
    viewed.page.get_by_label("Gangs of").fill("3")
    viewed.page.get_by_label("Gangs of").press("Enter")
    gangs = served.ask("nodes/fit?pods=3&request=nvidia.com/gpu=1")["gangs"]
    viewed.page.locator(".tiles", has_text="of 3 pods").get_by_text(str(gangs), exact=False).first.wait_for()


def test_what_is_reserved_is_on_the_timeline_and_in_the_list(viewed: Viewed) -> None:
    viewed.go("evictions")
    viewed.page.locator("svg a[aria-label*='language/pretrain'][aria-label*='reserved']").first.wait_for(
        state="attached"
    )
    assert "language/pretrain" in viewed.text()


def test_a_chart_is_a_table_on_demand(viewed: Viewed) -> None:
    viewed.go("history")
    panel = viewed.page.locator("section", has_text="Utilisation").first
    panel.get_by_role("button", name="Show as table").click()
    panel.locator("th", has_text="cpu").wait_for()


def test_the_policy_in_force_is_shown(viewed: Viewed) -> None:
    viewed.go("scheduler")
    assert "Policy in force" in viewed.text()
    viewed.page.locator("summary", has_text="Whole policy").click()
    viewed.page.locator("pre", has_text="actions").wait_for()


def test_what_if_shows_the_difference_and_changes_nothing(served: ServedPage, viewed: Viewed) -> None:
    before = served.ask("jobs")["total"]
    viewed.go("what-if")
    viewed.page.locator(".change-form select").select_option("addNodes")
    viewed.page.get_by_label("How many").fill("2")
    viewed.page.get_by_label("Like node").fill("gpu-0")
    viewed.page.get_by_role("button", name="Add", exact=True).click()
    viewed.page.get_by_role("button", name="Show the difference").click()
    viewed.page.get_by_role("heading", name="The difference").wait_for()
    assert "language/pretrain" in viewed.text()
    assert served.ask("jobs")["total"] == before


def test_what_if_says_what_is_wrong_in_a_manifest(viewed: Viewed) -> None:
    viewed.go("what-if")
    viewed.page.locator(".change-form select").select_option("submitManifest")
    viewed.page.get_by_label("Objects").fill("kind: [")
    viewed.page.get_by_role("button", name="Add", exact=True).click()
    viewed.page.get_by_role("button", name="Show the difference").click()
    viewed.page.locator(".banner.bad").wait_for()
    assert viewed.errors.pop().startswith("Failed to load resource")  # the browser says that the answer was no success
