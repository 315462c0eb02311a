"""Take screenshots of every view of the page, in both themes and two widths, full and empty, for review:
`PYTHONPATH=tests python -m tools.every_view FOLDER [busy] [demo] [hub] [empty]`.

Each picture has a wide and a narrow page side by side, in full length. Needs the same as `tools.screenshots`.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from browser.test_browser_fleet import fleet
from fairway.web.sandbox_page import SandboxPage
from support.browsing import ServedPage, Viewed, browser, starving_demo
from support.busy_sandbox import busy_sandbox
from support.sandboxes import made
from support.web_pages import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE, NARROW = 1280, 400
LONGEST = 2600
"""Maximum height of a picture in pixels; the rest looks the same."""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEWS = ("jobs", "queues", "nodes", "devices", "evictions", "history", "scheduler", "what-if", "fleet")
BUSY = (*VIEWS[:-1], "jobs?group=reason", "jobs/team-red/pretrain", "jobs/team-blue/held", "queues?queue=batch",
        "nodes?node=gpu-0", "evictions?feed=all")  # fmt: skip
DEMO = ("jobs", "jobs/language/pretrain", "evictions", "history")


@contextmanager
def _served(start: Callable[[Path], ServedPage]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        served = start(Path(place))
        try:
            yield served.address
        finally:
            served.stop()


@contextmanager
def _empty(*, hub: bool) -> Iterator[str]:
    sandbox = made()
    page = SandboxPage(sandbox, 0, TOKEN)
    page.shown.fleet = fleet if hub else None
    page.start()
    try:
        yield page.address
    finally:
        page.stop()
        sandbox.close()


def main(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sets = (
        ("busy", _served(busy_sandbox), BUSY),
        ("demo", _served(starving_demo), DEMO),
        ("hub", _empty(hub=True), ("fleet",)),
        ("empty", _empty(hub=False), VIEWS),
    )
    for name, source, views in sets:
        if wanted and name not in wanted:
            continue
        with source as address, browser() as started:
            for theme in THEMES:
                _take(started, address, views, theme, folder, name)


def _take(
    started: Browser, address: str, views: tuple[str, ...], theme: Literal["light", "dark"], folder: Path, name: str
) -> None:
    pages = [Viewed(started, address, width=width, theme=theme) for width in (WIDE, NARROW)]
    for view in views:
        pictures = []
        for viewed in pages:
            viewed.go(view)
            height = viewed.page.evaluate("document.documentElement.scrollHeight")
            width = WIDE if viewed is pages[0] else NARROW
            pictures.append(
                viewed.page.screenshot(
                    full_page=True, clip={"x": 0, "y": 0, "width": width, "height": min(height, LONGEST)}
                )
            )
        path = folder / f"{name}-{view.translate(str.maketrans('/?=&', '----'))}-{theme}.png"
        _beside(started, pictures, path)
        print(path.name)
    for viewed in pages:
        viewed.close()


def _beside(started: Browser, pictures: list[bytes], path: Path) -> None:
    images = "".join(
        f'<img src="data:image/png;base64,{base64.b64encode(one).decode()}" style="vertical-align:top;margin:4px">'
        for one in pictures
    )
    page = started.new_page(viewport={"width": WIDE + NARROW + 30, "height": 400})
    page.set_content(f'<body style="margin:0;background:#888;white-space:nowrap">{images}')
    page.screenshot(path=path, full_page=True)
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
