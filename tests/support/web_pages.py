"""Pages for tests: of a sandbox, asked without a browser and without a socket, or served on a port of their own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Semaphore, Thread
from typing import Any, NamedTuple
from unittest.mock import patch

from starlette.testclient import TestClient

from fairway.app.logs import RunLog
from fairway.app.sandbox.engine import Sandbox
from fairway.web.access import LoopbackAccess
from fairway.web.answers import ANSWERS
from fairway.web.application import application
from fairway.web.sandbox_page import SandboxPage, sandbox_watch
from fairway.web.shown import ShownCluster

TOKEN = "a-token-for-tests-of-more-than-32-characters"
HOST = "testserver"
PATIENCE = 20.0


class PageAnswer(NamedTuple):
    status: int
    document: Any


class AskedPage:
    """The API of a sandbox. What it shows is up to date at every question."""

    def __init__(self, sandbox: Sandbox, token: str | None = TOKEN) -> None:
        self.lines: list[dict[str, Any]] = []
        """Of its log."""
        log = RunLog("json", write=lambda line: self.lines.append(json.loads(line)))
        self.shown = ShownCluster("sandbox", "Sandbox", sandbox_watch(sandbox), sandbox=sandbox, log=log)
        self.site = application(self.shown, LoopbackAccess(TOKEN), lambda: frozenset({HOST}))
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = TestClient(self.site.app, headers=headers, raise_server_exceptions=False, follow_redirects=False)

    def get(self, path: str, **headers: str) -> PageAnswer:
        self.shown.watch.catch_up()
        return self.ask("GET", path, None, **headers)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> PageAnswer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        answer = self.client.request(method, f"/api/v1/{path}", content=body, headers=given)
        return PageAnswer(answer.status_code, answer.json())

    def post(self, path: str, document: Any) -> PageAnswer:
        return self.ask("POST", path, json.dumps(document).encode())


@contextmanager
def served(sandbox: Sandbox) -> Iterator[SandboxPage]:
    """On a free port; its `address` has the token in it."""
    page = SandboxPage(sandbox, 0, TOKEN)
    page.start()
    try:
        yield page
    finally:
        page.stop()


@contextmanager
def under_way(page: AskedPage, operation: str, path: str, number: int) -> Iterator[list[int]]:
    """So many requests are being answered for as long as it lasts; the list has their statuses afterwards."""
    begun, go_on, statuses = Semaphore(0), Event(), list[int]()

    def slow(shown: object, asked: object) -> dict[str, str]:
        begun.release()
        assert go_on.wait(PATIENCE)
        return {}

    threads = [Thread(target=lambda: statuses.append(page.ask("GET", path).status)) for _ in range(number)]
    with patch.dict(ANSWERS, {operation: slow}), page.client:
        for thread in threads:
            thread.start()
        try:
            for _ in threads:
                assert begun.acquire(timeout=PATIENCE)
            yield statuses
        finally:
            go_on.set()
            for thread in threads:
                thread.join(PATIENCE)
