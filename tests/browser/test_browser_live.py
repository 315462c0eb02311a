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
def sandbox(tmp_path: Path) -> Iterator[ServedPage]:
    served = ServedPage(tmp_path, "sandbox", "--state", str(tmp_path / "sandbox.db"))
    served.start("--port", "0")
    yield served
    served.stop()


@pytest.fixture
def viewed(started: Browser, sandbox: ServedPage) -> Iterator[Viewed]:
    viewed = Viewed(started, sandbox.address)
    yield viewed
    viewed.close()


def test_a_job_submitted_in_the_terminal_appears(sandbox: ServedPage, viewed: Viewed) -> None:
    viewed.go("jobs?search=giant")
    viewed.page.get_by_text("No job passes these filters").wait_for()
    sandbox.command("apply", "-f", str(GANG))
    viewed.page.locator(".grid-row", has_text="giant").wait_for()
    sandbox.command("delete", "job", "language/giant")
    viewed.page.locator(".grid-row", has_text="running").first.wait_for(state="detached")
    assert viewed.errors == []


def test_time_goes_on_and_can_be_paused(viewed: Viewed) -> None:
    viewed.go("jobs")
    time = viewed.page.locator("header time")
    first = time.inner_text()
    eventually(lambda: time.inner_text() != first, "a later time")
    viewed.page.get_by_role("button", name="Pause").click()
    viewed.page.get_by_role("button", name="Resume").wait_for()


def test_the_page_finds_a_restarted_server_again(sandbox: ServedPage, viewed: Viewed) -> None:
    port = sandbox.url.rpartition(":")[2]
    viewed.go("jobs")
    viewed.page.locator("[data-state=live]").wait_for()
    sandbox.stop(signal.SIGKILL)
    viewed.page.get_by_role("alert").get_by_text("The server does not answer.").wait_for()
    assert viewed.page.locator(".grid-row").count() > 0  # what was known stays
    sandbox.start("--port", port)
    viewed.page.locator("[data-state=live]").wait_for()
    sandbox.command("apply", "-f", str(GANG))
    viewed.go("jobs?search=giant")
    viewed.page.locator(".grid-row", has_text="giant").wait_for()
    assert all("ERR_" in error for error in viewed.errors), viewed.errors


def test_without_the_token_the_page_says_how_to_open_it(started: Browser, sandbox: ServedPage) -> None:
    stranger = Viewed(started, sandbox.url)
    stranger.page.get_by_text("This page needs a token").wait_for()
    assert stranger.findings() == []
