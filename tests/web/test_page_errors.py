"""Unexpected errors of the page: a plain answer with a reference, all of it in the log, and no secret in either."""

import json
import logging

import pytest

from fairway.app.logs import RunLog
from fairway.web import answers
from fairway.web.page_log import forward_server_logs, printable, to_file
from support.objects import node, pod, queue
from support.sandboxes import made
from support.web_pages import TOKEN, AskedPage


@pytest.fixture
def page():
    sandbox = made(node("n", cpu=4), queue("q"), pod("w", cpu=9))
    yield AskedPage(sandbox)
    sandbox.close()


def test_an_unexpected_error_has_a_reference_that_the_log_has_too(page, monkeypatch):
    def broken(shown, asked):
        raise KeyError(f"a table has no {TOKEN} and no /home/operator")

    monkeypatch.setitem(answers.ANSWERS, "jobs", broken)
    status, answer = page.get("jobs?search=x")
    assert status == 500
    (line,) = page.lines
    assert answer == {
        "error": f"internal error; the log has the details under the reference {line['reference']}",
    }
    assert (line["level"], line["message"], line["method"], line["path"]) == (
        "error",
        "error in the page",
        "GET",
        "/api/v1/jobs",
    )
    assert "KeyError" in line["traceback"]
    assert "in broken" in line["traceback"]
    assert TOKEN not in json.dumps(line)
    assert page.get("session").status == 200
    assert page.get("jobs").document != answer  # each has a reference of its own


def test_secrets_of_cookies_and_addresses_are_cut_too(page, monkeypatch):
    async def broken(token):
        raise ValueError(f"cannot look up {token}")

    page.post("login", {"token": TOKEN})
    cookie = page.client.cookies["fairway-0"]

    def told(shown, asked):
        raise ValueError(f"seen: {cookie}")

    monkeypatch.setitem(answers.ANSWERS, "overview", told)
    page.get("overview")
    assert cookie not in json.dumps(page.lines)
    assert "seen: (secret)" in json.dumps(page.lines)
    access = page.site.app._app.routes[-1].endpoint.__self__._access
    monkeypatch.setattr(access, "login", broken)
    answer = page.post("login", {"token": "another-secret"})
    assert answer.status == 500
    assert "another-secret" not in json.dumps(answer.document) + json.dumps(page.lines)
    assert "cannot look up (secret)" in json.dumps(page.lines)


def test_errors_of_views_are_logged_and_the_page_goes_on(page):
    watch = page.shown.watch
    told: list[Exception] = []
    watch.failed = told.append
    watch._inbox.put(lambda mirror: 1 / 0)
    watch._stopped.wait = lambda seconds: True
    watch.start()
    revision = watch.picture.revision
    watch.begin([node("m", cpu=1)])
    assert watch.wait(revision, 20)
    watch.stop()
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_what_the_web_server_says_goes_to_the_log():
    lines: list[str] = []
    forward_server_logs(RunLog(write=lines.append))
    forward_server_logs(RunLog(write=lines.append))
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.error").info("Started")
    assert len(lines) == 1
    assert 'library message source=uvicorn.error why="Invalid HTTP request received."' in lines[0]


def test_a_log_file_is_bounded_and_its_owner_s_alone(tmp_path):
    path = tmp_path / "page.log"
    write = to_file(path, most=40)
    for _ in range(10):
        write("a line\x1b[2J of some length")
    text = path.read_text()
    assert text.count("\n") == 2
    assert "\x1b" not in text
    assert path.stat().st_mode & 0o777 == 0o600
    to_file(tmp_path / "none" / "page.log")("goes nowhere")
    assert printable("a\x07\u202eb") == "a\\u0007\\u202eb"
