"""The page beside a running sandbox: what changes appears, and a server that was away is found again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import ROOT, ServedPage, Viewed, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GANG = ROOT / "examples/sandbox/gang.yaml"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedPage]:
    served = ServedPage(tmp_path, "sandbox", "--state", str(tmp_path / "sandbox.db"))
    served.start("--port", "0")
    yield served
    served.stop()


def test_a_job_submitted_in_the_terminal_appears(served: ServedPage, fresh: Viewed) -> None:
    fresh.go("jobs?search=giant")
    fresh.page.get_by_text("No job matches these filters").wait_for()
    served.command("apply", "-f", str(GANG))
    fresh.page.locator(".grid-row", has_text="giant").wait_for()
    served.command("delete", "job", "language/giant")
    fresh.page.locator(".grid-row", has_text="running").first.wait_for(state="detached")
    assert fresh.errors == []


def test_time_goes_on_and_can_be_paused(fresh: Viewed) -> None:
    fresh.go("jobs")
    time = fresh.page.locator("header time")
    first = time.inner_text()
    eventually(lambda: time.inner_text() != first, "a later time")
    fresh.page.get_by_role("button", name="Pause").click()
    fresh.page.get_by_role("button", name="Resume").wait_for()


def test_the_page_finds_a_restarted_server_again(served: ServedPage, fresh: Viewed) -> None:
    port = served.url.rpartition(":")[2]
    fresh.go("jobs")
    fresh.page.locator("[data-state=live]").wait_for()
    served.stop(signal.SIGKILL)
    fresh.page.get_by_role("alert").get_by_text("The server does not respond.").wait_for()
    assert fresh.page.locator(".grid-row").count() > 0  # what was known stays
    served.start("--port", port)
    fresh.page.locator("[data-state=live]").wait_for()
    served.command("apply", "-f", str(GANG))
    fresh.go("jobs?search=giant")
    fresh.page.locator(".grid-row", has_text="giant").wait_for()
    assert all("ERR_" in error for error in fresh.errors), fresh.errors


def test_without_the_token_the_page_says_how_to_open_it(started: Browser, served: ServedPage) -> None:
    stranger = Viewed(started, served.url)
    stranger.page.get_by_text("This page needs a token").wait_for()
    assert stranger.findings() == []
