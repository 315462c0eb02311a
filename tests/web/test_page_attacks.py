"""Clients that overdo it: slow heads, unread answers, too many connections, odd paths, many questions."""

import asyncio
import http.client
import socket
import sqlite3
import sys
import threading
import time

import msgspec
import pytest

from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.models.what_if import WhatIfRequest
from fairway.errors import InputError, StoreError
from fairway.web import application as application_module
from fairway.web import connections, shown
from fairway.web import server as server_module
from fairway.web import stream as stream_module
from fairway.web.answers import ANSWERS
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.stream import EventHub
from fairway.web.worker import WhatIfWorker
from support.browsing import eventually
from support.objects import node, pod, queue
from support.sandboxes import after, made
from support.web_pages import HOST, TOKEN, AskedPage, served, under_way

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def sandbox():
    made_one = after(made(node("n", cpu=4), queue("q"), pod("w", cpu=9)), 5)
    yield made_one
    made_one.close()


def closed(one: socket.socket) -> bool:
    """Waits for the end, whatever comes before it."""
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        return True
    return True


def test_a_slow_head_ends_the_connection_also_after_a_first_request(sandbox, monkeypatch):
    monkeypatch.setattr(server_module, "HEADERS", 1.0)
    with served(sandbox) as page, socket.create_connection(("127.0.0.1", page.server.port), timeout=10) as slow:
        host = f"Host: 127.0.0.1:{page.server.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        slow.sendall(f"GET /api/v1/overview HTTP/1.1\r\n{host}".encode())
        assert b"200 OK" in slow.recv(65536)
        slow.sendall(b"GET /api/v1/over")
        assert closed(slow)


def test_an_answer_that_is_not_read_ends(sandbox, monkeypatch):
    monkeypatch.setattr(server_module, "STALLED", 0.2)
    monkeypatch.setitem(ANSWERS, "overview", lambda shown, asked: "x" * 30_000_000)
    with served(sandbox) as page, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(10)
        lazy.connect(("127.0.0.1", page.server.port))
        host = f"Host: 127.0.0.1:{page.server.port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        lazy.sendall(f"GET /api/v1/overview HTTP/1.1\r\n{host}".encode())
        end = time.monotonic() + 10
        while page.server._server.server_state.connections and time.monotonic() < end:
            threading.Event().wait(0.02)
        assert not page.server._server.server_state.connections


def test_connections_beyond_the_limit_are_closed_and_the_others_go_on(sandbox, monkeypatch):
    """A new connection is answered; the oldest of those that ask nothing is closed for it."""
    monkeypatch.setattr(connections, "MAX_ANONYMOUS", 20)
    with served(sandbox) as page:
        address = ("127.0.0.1", page.server.port)
        held = [socket.create_connection(address, timeout=10) for _ in range(50)]
        assert all(closed(one) for one in held[:30])
        connection = http.client.HTTPConnection(*address, timeout=10)
        connection.request("GET", "/api/v1/overview", headers=BEARER)
        assert connection.getresponse().status == 200
        for one in held:
            one.close()
        connection.close()


def test_one_user_does_not_take_all_streams(sandbox, monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_OF_ONE", 2)

    async def scenario() -> None:
        hub = EventHub(AskedPage(sandbox).shown.watch)
        greedy, other = Viewer("greedy", token="t"), Viewer("other", token="t")
        opened = [hub.connect(greedy, None) for _ in range(2)]
        with pytest.raises(RequestRefusedError, match="of your") as refused:
            hub.connect(greedy, None)
        assert refused.value.status == 429
        opened.append(hub.connect(other, None))
        for events in opened:
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_streams_of_a_cluster_end_so_that_rights_are_asked_for_again(sandbox, monkeypatch):
    monkeypatch.setattr(stream_module, "LONGEST", -1.0)

    async def scenario() -> None:
        hub = EventHub(AskedPage(sandbox).shown.watch)
        events = [text async for text in hub.connect(Viewer("user", token="t"), None)]
        assert b"event: goodbye" in events[-1]
        assert hub.clients == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "FOO"])
def test_other_methods_do_nothing(sandbox, method):
    page = AskedPage(sandbox)
    for path in ("/api/v1/jobs", "/api/v1/events", "/", "/assets/x.js"):
        kind = {"Content-Type": "application/json"}
        answer = page.client.request(method, path, headers=kind)
        assert answer.status_code in ((200, 404) if method == "HEAD" else (404, 405, 411)), (method, path)
        assert "content-security-policy" in answer.headers
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/assets/%00.js", "/assets/" + "x" * 5000 + ".js", "/x.%ff", "/assets/..", "/a//b.c"])
def test_odd_paths_are_not_there(sandbox, path):
    assert AskedPage(sandbox).client.get(f"http://{HOST}{path}").status_code in (200, 400, 404)


@pytest.mark.parametrize(
    "query",
    [
        "label=" + "a" * 20_000,
        "&".join(f"label=k{number}=v" for number in range(1_500)),
        "search=(a%2B)%2B%24",
        "group=label:" + "x" * 9_000,
        "offset=99999999999999999999",
        "limit=-1",
        "sort=" + "-" * 1_000,
    ],
)
def test_odd_filters_take_no_time(sandbox, query):
    begin = time.process_time()
    answer = AskedPage(sandbox).get(f"jobs?{query}")
    assert answer.status in (200, 422, 431)
    assert time.process_time() - begin < 5


def test_many_questions_leave_the_views_free(sandbox, monkeypatch):
    monkeypatch.setattr(application_module, "MAX_QUESTIONS", 3)
    page = AskedPage(sandbox)
    with under_way(page, "order", "orders/default/w", 3) as statuses:
        assert page.ask("GET", "orders/default/w").status == 503
        assert page.ask("GET", "overview").status == 200
    assert statuses == [200, 200, 200]


# -- what if ---------------------------------------------------------------------------------------------------------

QUESTION = msgspec.convert({"changes": [{"kind": "queueWeight", "queue": "q", "weight": 2}]}, WhatIfRequest)


class Ended(WhatIfWorker):
    """A worker whose process ends so."""

    def __init__(self, code: int, stderr: bytes = b"", stdout: bytes = b"") -> None:
        super().__init__()
        self._done = code, stderr, stdout

    def _put(self, situation, question, gone):
        import subprocess

        code, stderr, stdout = self._done
        return self._result(subprocess.CompletedProcess([], code, stdout, stderr))


def test_a_worker_that_is_killed_or_has_no_memory_left(sandbox):
    for worker in (Ended(-9), Ended(1, b"Traceback\nMemoryError\n"), Ended(-24)):
        with pytest.raises(RequestRefusedError, match="exceeds the limits of a worker") as refused:
            worker.ask(sandbox.situation(), QUESTION)
        assert refused.value.status == 507
    with pytest.raises(RuntimeError, match="KeyError"):  # an error of ours: logged, and 500
        Ended(1, b"KeyError: 'x'").ask(sandbox.situation(), QUESTION)


@pytest.mark.parametrize(("method", "path"), [("GET", "starts/default/w"), ("POST", "what-if")])
def test_a_question_of_a_client_that_left_ends(sandbox, monkeypatch, tmp_path, method, path):
    """Who goes from job to job would else wait for the answers of all jobs before."""
    endless = tmp_path / "python"
    endless.write_text("#!/bin/sh\nexec sleep 60\n")
    endless.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(endless))
    monkeypatch.setattr(shown, "MAX_HERE", 0)
    body = msgspec.json.encode(QUESTION) if method == "POST" else b""
    with served(sandbox) as page:
        port, worker = page.server.port, page.shown.what_if if body else page.shown.ahead._asked
        headers = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", port)) as client:
            length = f"Content-Length: {len(body)}\r\n\r\n"
            client.sendall(f"{method} /api/v1/{path} HTTP/1.1\r\n{headers}{length}".encode() + body)
            eventually(lambda: worker.turns.free == 0, "a worker")
        eventually(lambda: worker.turns.free == 1, "its end", 10)


def test_two_questions_at_once_wait_for_each_other(sandbox, monkeypatch):
    monkeypatch.setattr("fairway.web.worker.PATIENCE", 0.05)
    worker = WhatIfWorker()
    worker.turns.take("other", 1)
    with pytest.raises(RequestRefusedError, match="busy with other questions"):
        worker.ask(sandbox.situation(), QUESTION)


# -- the history -------------------------------------------------------------------------------------------------------


def test_a_damaged_history_is_put_aside(tmp_path):
    path = tmp_path / "h.db"
    ring = HistoryRing(path)
    ring.close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 8192)
    again = HistoryRing(path)
    assert again.kept().samples == 0
    assert (tmp_path / "h.db.damaged").exists()
    again.close()


def test_a_file_that_is_no_history_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes, and more of them, " * 50)
    with pytest.raises(InputError, match="cannot be used for the history"):
        HistoryRing(path)
    with pytest.raises(InputError, match="cannot be used for the history"):
        HistoryRing(tmp_path / "none" / "h.db")
    assert path.read_text().startswith("my notes")


def test_a_full_disk_leaves_a_gap_and_ends_nothing(sandbox, tmp_path):
    page = AskedPage(sandbox)
    ring = HistoryRing(tmp_path / "h.db")
    page.shown.history = ring
    page.shown.watch.drawn = ring.take
    told: list[str] = []
    ring.failed = told.append
    ring._database.execute("PRAGMA max_page_count = 1")
    ring._database.execute("DROP TABLE waits")
    for name in ("a", "b"):
        sandbox.apply([pod(name, cpu=9)])
        assert page.get("overview").status == 200
    assert len(told) == 1
    ring._database.close()
    status, answer = page.ask("GET", "history")
    assert (status, "the history cannot be read" in answer["error"]) == (507, True)
    with pytest.raises(StoreError):
        ring.kept()
    assert isinstance(StoreError("x"), InputError)
    assert issubclass(sqlite3.OperationalError, sqlite3.Error)
