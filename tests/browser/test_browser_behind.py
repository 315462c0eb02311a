"""The head of the page says when what is shown is behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browsing import PATIENCE, ServedPage, Viewed

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    """The demo, faster than any machine: what cannot be kept up with."""
    folder = Path(tmp_path_factory.mktemp("behind"))
    served = ServedPage(folder, "sandbox", "--port", "0", "--state", str(folder / "sandbox.db"))
    served.start("--speed", "1000000")
    yield served
    served.stop()


@pytest.mark.parametrize("width", [1280, 400])
def test_the_head_says_behind_and_then_live_again(started: Browser, served: ServedPage, width: int) -> None:
    from playwright.sync_api import expect

    served.ask("pace", {"speed": 1_000_000, "paused": False})
    viewed = Viewed(started, served.address, width=width)
    viewed.go("jobs")
    state = viewed.page.locator(".link-state")
    said = re.compile(r"^Behind: (x\d+ of x1000000|the clock has been stopped for \d+ s)")
    expect(state).to_have_text(said, timeout=PATIENCE * 1000)
    box = state.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= width, "it is all in sight"
    served.ask("pace", {"speed": 1.0})
    expect(state).to_have_text("Live", timeout=PATIENCE * 1000)
    assert viewed.errors == []
