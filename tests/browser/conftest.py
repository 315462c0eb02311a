"""Tests that look at the page in the machine's Chromium: `make web-test`. Everywhere else they are left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed, browser, why_not

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def _asked() -> bool:
    return os.environ.get("FAIRWAY_WEB") == "1"


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """One browser for all tests of a file: each page in it has cookies and a cache of its own."""
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def viewed(started: Browser, served: ServedPage) -> Iterator[Viewed]:
    """The page that a file serves, for all its tests."""
    viewed = Viewed(started, served.address)
    yield viewed
    viewed.close()


@pytest.fixture
def fresh(started: Browser, served: ServedPage) -> Iterator[Viewed]:
    """The same, opened anew for one test."""
    viewed = Viewed(started, served.address)
    yield viewed
    viewed.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Left out together, they are a number on the last line."""
    if _asked() and not why_not():
        return
    apart = [item for item in items if item.path.parent.name == "browser"]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if item not in apart]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _asked() and why_not():
        terminalreporter.write_line(f"the page was not looked at in a browser: {why_not()}")
