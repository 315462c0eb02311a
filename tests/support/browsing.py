"""A real browser on the page of a real sandbox, for tests and for screenshots.

The browser is the machine's Chromium (`FAIRWAY_CHROMIUM` names another one); none is ever downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "src/fairway/web/page/index.html"
AXE = ROOT / "frontend/node_modules/axe-core/axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = float(os.environ.get("FAIRWAY_PATIENCE", "60"))
"""Seconds until something that must come counts as missing: tests wait for facts, never for a time."""


def chromium() -> str | None:
    return os.environ.get("FAIRWAY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def why_not() -> str:
    """Why pages cannot be looked at here, in one line; nothing if they can."""
    if chromium() is None:
        return "there is no Chromium on this machine (FAIRWAY_CHROMIUM names one)"
    if not BUILT.exists() or not AXE.exists():
        return "the page is not built: make page"
    return ""


def eventually(fact: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    end = time.monotonic() + patience
    while not (found := fact()):
        assert time.monotonic() < end, f"it never came: {what}"
        time.sleep(0.05)
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as machine:
        started = machine.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield started
        finally:
            started.close()


class ServedPage:
    """A `fairway` program that serves a page, in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str, patience: float = PATIENCE) -> None:
        self._arguments = arguments
        self._patience = patience
        self._folder = folder
        self._environment = os.environ | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self, *more: str) -> None:
        log = self._folder / "log"
        with log.open("wb") as out:
            command = [sys.executable, "-m", "fairway.cli.main", *self._arguments, *more]
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=self._environment, cwd=self._folder
            )
        address = re.compile(r"https?://\S+#token=[\w-]+")
        found = eventually(lambda: address.search(log.read_text()) or self._ended(log), "an address", self._patience)
        self.address = found[0]

    def _ended(self, log: Path) -> bool:
        """False as long as it runs; that it has ended is an error, with what it said."""
        assert self._process is not None
        assert self._process.poll() is None, log.read_text()
        return False

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    @property
    def url(self) -> str:
        return self.address.partition("/#")[0]

    def ask(self, path: str, body: Any = None) -> Any:
        """An answer of the API."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", None if body is None else json.dumps(body).encode()
        )
        request.add_header("Authorization", f"Bearer {self.address.partition('token=')[2]}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def command(self, *arguments: str) -> str:
        """`fairway` in a second terminal."""
        command = [sys.executable, "-m", "fairway.cli.main", *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def starving_demo(folder: Path) -> ServedPage:
    """The sandbox's demo, paused while `language/pretrain` starves and has nodes reserved."""
    served = ServedPage(folder, "sandbox", "--port", "0", "--state", "sandbox.db")  # pictures show the name
    served.start("--speed", "240")

    def starves() -> bool:
        rows = served.ask("jobs?state=waiting&search=pretrain")["rows"]
        return bool(rows and rows[0].get("starving") and served.ask("reservations")["rows"])

    try:
        eventually(starves, "a job that starves")
        served.ask("pace", {"paused": True})
    except BaseException:
        served.stop()
        raise
    return served


class Viewed:
    """A page in the browser, which remembers what went wrong in it."""

    def __init__(self, browser: Browser, address: str, *, width: int = 1280, theme: Any = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=theme)
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location['url']})")

    def go(self, view: str) -> None:
        """To a view, until it has loaded what it shows."""
        self.page.evaluate("address => { location.hash = address }", f"#/{view}")
        self.settled()

    def settled(self) -> None:
        self.page.locator("main h1").wait_for()
        busy = self.page.locator("main .loading, main [aria-busy=true]")
        eventually(lambda: busy.count() == 0, "all that a view loads")

    def findings(self) -> list[str]:
        """What axe finds that is serious or critical."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{rule['id']}: {node['html'][:200]} ({node['failureSummary']})"
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    def text(self) -> str:
        """What a view says."""
        return self.page.locator("main").inner_text()

    def check(self, view: str) -> None:
        """That what is shown can be used by all, and fits into the window."""
        assert self.findings() == [], view
        assert self.overflow() <= 0, view

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wide

    def close(self) -> None:
        self.context.close()
