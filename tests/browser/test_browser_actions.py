"""What a user does to jobs by the buttons of the page, and what other pages cannot do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from support.browsing import ServedPage, Viewed, eventually
from support.busy_sandbox import job

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("actions"))
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": amounts}}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    items = [node, high, *job("runs", "team", "default", cpu="3"), *job("waits", "team", "default", pods=2, cpu="2")]
    (folder / "first.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    served = ServedPage(folder, "sandbox", "--port", "0", "--state", str(folder / "sandbox.db"), "--allow-actions")
    served.start("-f", str(folder / "first.json"), "--speed", "10")
    eventually(lambda: served.ask("jobs?state=running")["total"] == 1, "a job that runs")
    yield served
    served.stop()


def act(viewed: Viewed, button: str) -> None:
    """A button, and the same again in its dialog."""
    viewed.page.get_by_role("button", name=button).click()
    viewed.page.get_by_role("dialog").get_by_role("button", name=button).click()


def test_a_job_is_held_released_reprioritised_and_cancelled(served: ServedPage, fresh: Viewed) -> None:
    fresh.go("jobs/team/waits")
    fresh.page.get_by_role("button", name="Hold").click()
    fresh.page.get_by_role("dialog").wait_for()
    assert fresh.findings() == []
    fresh.page.get_by_role("button", name="Back").click()  # nothing is done without the second click
    assert served.ask("jobs/team/waits")["allowed"] == ["cancel", "reprioritise", "hold"]
    act(fresh, "Hold")
    fresh.page.get_by_role("button", name="Release").wait_for()
    fresh.page.locator(".sentence", has_text="it is held").wait_for()
    assert served.ask("jobs/team/waits")["job"]["held"] is True
    act(fresh, "Release")
    fresh.page.locator(".sentence", has_text="nodes fit").wait_for()

    fresh.page.get_by_role("button", name="Change priority").click()
    dialog = fresh.page.get_by_role("dialog")
    dialog.get_by_label("PriorityClass").fill("high")
    dialog.get_by_role("button", name="Change priority").click()
    fresh.page.get_by_role("status").get_by_text("its priority class is high now").wait_for()
    eventually(lambda: served.ask("jobs/team/waits")["job"].get("priority") == 7, "the priority")

    assert fresh.errors == []

    act(fresh, "Cancel job")
    eventually(lambda: served.ask("jobs/team/waits")["job"]["state"] == "finished", "the end of the job")
    fresh.page.locator(".sentence", has_text="deleted").wait_for()
    assert all("/team/waits" in error for error in fresh.errors)  # a question that came too late: it waits no more


def test_what_cannot_be_done_is_said(fresh: Viewed) -> None:
    fresh.go("jobs/team/runs")
    fresh.page.get_by_role("button", name="Change priority").click()
    dialog = fresh.page.get_by_role("dialog")
    dialog.get_by_label("PriorityClass").fill("")
    dialog.get_by_role("button", name="Change priority").click()
    fresh.page.get_by_role("status").get_by_text("reprioritise needs `priorityClass`").wait_for()


@pytest.mark.parametrize("address", ["", "/#token=wrong", "/#token=", "/#token=%E0%A4", "/?token={token}"])
def test_without_the_right_token_nothing_is_shown(started: Browser, served: ServedPage, address: str) -> None:
    token = served.address.partition("token=")[2]
    stranger = Viewed(started, served.url + address.replace("{token}", token))
    stranger.page.get_by_text("This page needs a token").wait_for()
    stranger.page.get_by_label("Token").fill("guessed")
    stranger.page.get_by_role("button", name="Open the page").click()
    stranger.page.get_by_role("alert").filter(has_text="token").wait_for()
    assert "team/runs" not in stranger.page.content()
    assert all("Failed to load resource" in error for error in stranger.errors)  # 401, and nothing else
    stranger.page.get_by_label("Token").fill(token)
    stranger.page.get_by_role("button", name="Open the page").click()
    stranger.page.locator(".grid-row", has_text="runs").wait_for()
    if "?" not in address:  # which the page neither reads nor writes
        assert token not in stranger.page.evaluate("document.cookie + location.href + JSON.stringify(localStorage)")


def test_the_token_of_the_address_opens_the_page_and_leaves_the_address(started: Browser, served: ServedPage) -> None:
    token = served.address.partition("token=")[2]
    viewed = Viewed(started, "about:blank")
    asked: list[str] = []
    viewed.page.on("request", lambda request: asked.append(request.url))
    viewed.page.goto(served.address)
    viewed.page.locator(".grid-row", has_text="runs").wait_for()
    assert viewed.page.url.startswith(f"{served.url}/")
    assert token not in viewed.page.evaluate("document.cookie + location.href + JSON.stringify(localStorage)")
    assert asked
    assert not any(token in url.partition("#")[0] for url in asked)
    viewed.page.go_back()  # nor is it in the history
    assert viewed.page.url == "about:blank"
    assert viewed.errors == []
    viewed.close()


def test_the_address_opens_a_page_that_asks_for_a_token_already(started: Browser, served: ServedPage) -> None:
    viewed = Viewed(started, served.url)
    viewed.page.get_by_text("This page needs a token").wait_for()
    viewed.page.evaluate("address => { location.href = address }", served.address)
    viewed.page.locator(".grid-row", has_text="runs").wait_for()
    assert "token=" not in viewed.page.url
    viewed.close()


class _Evil(BaseHTTPRequestHandler):
    """Another site, which the user's browser visits while it is signed in."""

    def __init__(self, victim: str, *arguments: object) -> None:
        self._victim = victim
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        page = f"""<!doctype html><title>evil</title><body><img src="{self._victim}/api/v1/jobs">
        <form id="f" method="post" enctype="text/plain" action="{self._victim}/api/v1/actions/team/runs" target="frame">
        <input name='{{"action":"cancel","x":"' value='"}}'></form><iframe name="frame"></iframe>
        <iframe src="{self._victim}/"></iframe><script>
        const address = "{self._victim}/api/v1/actions/team/runs";
        const body = JSON.stringify({{action: "cancel"}});
        const tried = ["application/json", "text/plain"].map((type) => fetch(address,
          {{method: "POST", body, credentials: "include", mode: type === "text/plain" ? "no-cors" : "cors",
            headers: {{"Content-Type": type}}}}).then((answer) => answer.type, () => "refused"));
        const read = fetch("{self._victim}/api/v1/jobs", {{credentials: "include"}})
          .then((answer) => answer.text(), () => "refused");
        document.getElementById("f").submit();
        Promise.all([...tried, read]).then((found) => {{ document.title = "done " + found.join(" | "); }});
        </script>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.mark.parametrize("site", ["127.0.0.1", "localhost"])
def test_another_site_can_neither_read_nor_act(served: ServedPage, fresh: Viewed, site: str) -> None:
    fresh.go("jobs")
    fresh.page.locator(".grid-row", has_text="runs").wait_for()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Evil, served.url))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        other = fresh.context.new_page()  # with the same cookies
        other.goto(f"http://{site}:{server.server_address[1]}/")
        eventually(lambda: other.title().startswith("done"), "the answers")
        assert "team/runs" not in other.title()
        assert other.title().endswith("refused")
        assert not any("grid-row" in frame.content() for frame in other.frames)
    finally:
        server.shutdown()
        server.server_close()
    assert served.ask("jobs/team/runs")["job"]["state"] == "running"
