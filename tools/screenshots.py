"""Take the pictures of the page in `docs/images`, from the sandbox's demo and from a busier one: `make screenshots`,
or `PYTHONPATH=tests python -m tools.screenshots [FOLDER]`.

Needs the built page, Playwright and the machine's Chromium. The sandboxes are paused, so repeated pictures are nearly
identical.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from support.browsing import ROOT, ServedPage, Viewed, browser, chromium, starving_demo
from support.busy_sandbox import busy_sandbox

FOLDER = ROOT / "docs/images"


class Picture(NamedTuple):
    name: str
    view: str
    width: int = 1280
    height: int = 800
    theme: Literal["light", "dark"] = "light"


DEMO = (
    Picture("jobs", "jobs"),
    Picture("jobs-narrow", "jobs", 400, 760, "dark"),
    Picture("job", "jobs/language/pretrain", height=1080),
    Picture("queues", "queues", height=760),
    Picture("nodes", "nodes?node=gpu-0", height=940),
    Picture("timeline", "evictions", height=1080, theme="dark"),
    Picture("history", "history", height=980, theme="dark"),
    Picture("scheduler", "scheduler", height=820),
    Picture("what-if", "what-if", height=1000),
)
BUSY = (
    Picture("borrowing", "queues?queue=batch", height=1000),
    Picture("devices", "devices", height=860, theme="dark"),
    Picture("evictions", "evictions", height=640),
    Picture("reasons", "jobs?group=reason", height=760),
)


def main(folder: Path) -> None:
    if chromium() is None:
        raise SystemExit("there is no Chromium on this machine (FAIRWAY_CHROMIUM names one)")
    folder.mkdir(parents=True, exist_ok=True)
    for start, pictures in ((starving_demo, DEMO), (busy_sandbox, BUSY)):
        with tempfile.TemporaryDirectory() as place:
            served = start(Path(place))
            try:
                _take(served, pictures, folder)
            finally:
                served.stop()


def _take(served: ServedPage, pictures: Sequence[Picture], folder: Path) -> None:
    with browser() as started:
        for picture in pictures:
            viewed = Viewed(started, served.address, width=picture.width, theme=picture.theme)
            viewed.page.set_viewport_size({"width": picture.width, "height": picture.height})
            viewed.go(picture.view)
            if picture.name == "what-if":
                _ask(viewed)
            viewed.page.screenshot(path=folder / f"page-{picture.name}.png")
            viewed.close()
            print(f"page-{picture.name}.png")


def _ask(viewed: Viewed) -> None:
    page = viewed.page
    page.locator(".change-form select").select_option("addNodes")
    page.get_by_label("How many").fill("2")
    page.get_by_label("Like node").fill("gpu-0")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Show the difference").click()
    page.get_by_role("heading", name="The difference").wait_for()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
