"""What a client may cost before and after it is known: connections, bodies, turns, and the memory of the process."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.web import connections, limits, worker
from fairway.web.asking import RequestRefusedError
from fairway.web.connections import ConnectionTable, Ticket
from fairway.web.limits import BodyBudget, UserTurns
from support.browsing import ServedPage, eventually

MEGABYTE = 1 << 20


# -- memory of a process ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    folder = Path(tmp_path_factory.mktemp("limits"))
    page = ServedPage(folder, "sandbox", "--port", "0", "--state", str(folder / "sandbox.db"))
    page.start("--speed", "1")
    page.ask("overview")
    yield page
    page.stop()


def resident(page: ServedPage) -> int:
    """MiB that the process has in memory."""
    assert page._process is not None
    text = Path(f"/proc/{page._process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) >> 10


class Flood:
    """Connections that send the head of a request with a large body, part of it, and then nothing."""

    def __init__(self, page: ServedPage, number: int, token: str, send: int, address: str = "127.0.0.1") -> None:
        self._port = int(page.url.rpartition(":")[2])
        self._token, self._send, self._address = token, send, address
        self.sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._one, daemon=True) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def _one(self) -> None:
        bearer = f"Authorization: Bearer {self._token}\r\n" if self._token else ""
        head = (
            f"POST /api/v1/apply HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{bearer}"
            f"Content-Type: application/json\r\nContent-Length: {16 * MEGABYTE}\r\n\r\n"
        )
        with suppress(OSError):  # it was refused, and closed
            client = socket.create_connection(("127.0.0.1", self._port), 20, (self._address, 0))
            self.sockets.append(client)
            client.sendall(head.encode())
            client.sendall(b" " * self._send)

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(60)

    def close(self) -> None:
        self.wait()
        for client in self.sockets:
            client.close()


@pytest.mark.parametrize(
    ("number", "token", "send"),
    [
        (80, "", 12 * MEGABYTE),
        (500, "", 64 << 10),
        (80, "wrong", 12 * MEGABYTE),
        (80, "right", 12 * MEGABYTE),
        (300, "right", MEGABYTE),
    ],
)
def test_large_and_slow_bodies_take_little_memory_and_other_users_are_served(
    served: ServedPage, number: int, token: str, send: int
) -> None:
    """80 connections with 16 MiB each once took 930 MiB."""
    token = served.address.partition("token=")[2] if token == "right" else token
    before = resident(served)
    flood = Flood(served, number, token, send)
    try:
        most, slowest = 0, 0.0
        end = time.monotonic() + 4
        while time.monotonic() < end:
            begin = time.monotonic()
            assert served.ask("overview")["revision"] >= 0
            slowest = max(slowest, time.monotonic() - begin)
            most = max(most, resident(served))
        assert most - before < 150, f"{most - before} MiB more"
        assert slowest < 5
    finally:
        flood.close()


@pytest.mark.parametrize(
    ("path", "token", "length", "status", "said"),
    [
        ("apply", "", 1000, 401, "no token"),
        ("apply", "wrong", 1000, 401, "wrong token"),
        ("nothing-here", "", 1000, 404, "there is nothing here"),
        ("login", "", 33 << 10, 413, "expected at most 32768"),
        ("apply", "right", 17 * MEGABYTE, 413, "expected at most 16777216"),
        ("pace", "right", 65537, 413, "expected at most 65536"),
    ],
)
def test_a_body_is_refused_before_it_is_sent(
    served: ServedPage, path: str, token: str, length: int, status: int, said: str
) -> None:
    port = int(served.url.rpartition(":")[2])
    token = served.address.partition("token=")[2] if token == "right" else token
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}Content-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        answer = b""
        while part := client.recv(65536):  # and then the connection is closed
            answer += part
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert said.encode() in answer


def test_a_client_that_sends_all_before_it_reads_gets_to_know_why(served: ServedPage) -> None:
    request = urllib.request.Request(f"{served.url}/api/v1/apply", b" " * (8 * MEGABYTE))
    request.add_header("Content-Type", "application/json")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    assert refused.value.code == 401
    refused.value.close()


def test_a_large_body_of_a_user_is_still_taken(served: ServedPage) -> None:
    body = b'{"objects": []}' + b" " * (15 * MEGABYTE)
    request = urllib.request.Request(f"{served.url}/api/v1/apply", body)
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {served.address.partition('token=')[2]}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


# -- connections -----------------------------------------------------------------------------------------------------


def test_silent_connections_of_one_address_push_out_their_own() -> None:
    table, closed = ConnectionTable(), list[str]()
    quiet = [table.admit("quiet", lambda: closed.append("quiet")) for _ in range(3)]
    for _ in range(10 * connections.MAX_ANONYMOUS):
        table.admit("noisy", lambda: closed.append("noisy"))
    assert set(closed) == {"noisy"}
    assert table.anonymous == connections.MAX_ANONYMOUS
    assert all(table.identify(ticket, "user") is None for ticket in quiet)


def test_connections_of_one_user_are_limited_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_KNOWN", 5)
    table = ConnectionTable()

    def known(user: str) -> tuple[int, str] | None:
        return table.identify(table.admit("proxy", lambda: None), user, 3)

    assert [known("greedy") for _ in range(3)] == [None] * 3
    refused = known("greedy")
    assert refused is not None
    assert refused[0] == 429
    assert [known("other") for _ in range(2)] == [None] * 2
    refused = known("third")
    assert refused is not None
    assert refused[0] == 503


@given(st.lists(st.tuples(st.sampled_from(["admit", "name", "leave"]), st.integers(0, 4), st.integers(0, 300))))
def test_connections_are_counted_truly(steps: list[tuple[str, int, int]]) -> None:
    table, tickets = ConnectionTable(), dict[int, Ticket]()
    for step, who, which in steps:
        ticket = tickets.get(which)
        if step == "admit" and ticket is None:
            tickets[which] = table.admit(f"address-{who}", partial(_drop, tickets, which))
        elif step == "name" and ticket is not None:
            table.identify(ticket, f"user-{who}")
        elif step == "leave" and ticket is not None:
            table.leave(tickets.pop(which))
            table.leave(ticket)
        known = [ticket for ticket in tickets.values() if ticket.user is not None]
        assert table.known == len(known) <= connections.MAX_KNOWN
        assert table.anonymous == len(tickets) - len(known) <= connections.MAX_ANONYMOUS


# -- bodies ----------------------------------------------------------------------------------------------------------


def test_one_user_s_bodies_leave_memory_for_others() -> None:
    budget = BodyBudget()
    with budget.reading("greedy") as first, budget.reading("greedy") as second, budget.reading("other") as third:
        first.add(16 * MEGABYTE)
        with pytest.raises(RequestRefusedError) as refused:
            second.add(16 * MEGABYTE)
        assert refused.value.status == 429
        third.add(16 * MEGABYTE)
        with budget.reading("a third") as fourth, budget.reading("a fourth") as small:
            with pytest.raises(RequestRefusedError) as refused:
                fourth.add(20 * MEGABYTE)
            assert refused.value.status == 503
            small.add(limits.SMALL)  # an ordinary request is read in any case
    assert budget.held == 0


@given(st.lists(st.lists(st.integers(0, 4 * MEGABYTE), max_size=8), max_size=12), st.integers(1, 4))
def test_the_memory_of_all_bodies_is_bounded_and_given_back(sizes: list[list[int]], users: int) -> None:
    budget, opened = BodyBudget(), []
    for number, parts in enumerate(sizes):
        reading = budget.reading(f"user-{number % users}")
        body = reading.__enter__()
        opened.append(reading)
        for part in parts:
            with suppress(RequestRefusedError):
                body.add(part)
            assert budget.held <= limits.TOTAL_BYTES
    for reading in opened:
        reading.__exit__(None, None, None)
    assert budget.held == 0


# -- turns -----------------------------------------------------------------------------------------------------------


def test_a_user_with_many_questions_waits_for_a_user_with_one() -> None:
    turns, order = UserTurns(1, most_waiting=10), list[str]()

    def ask(user: str) -> None:
        turns.take(user, 20)
        order.append(user)
        turns.give_back()

    turns.take("greedy", 1)
    threads = []
    for user in ("greedy", "greedy", "greedy", "patient"):
        threads.append(threading.Thread(target=ask, args=(user,)))
        threads[-1].start()
        number = len(threads)
        eventually(partial(_waits, turns, number), "it waits")
    turns.give_back()
    for thread in threads:
        thread.join(20)
    assert order[0] == "patient"
    assert order[1:] == ["greedy"] * 3


def test_questions_of_one_user_are_limited_and_those_who_left_are_forgotten() -> None:
    turns, gone = UserTurns(1, most_waiting=1), threading.Event()
    turns.take("a", 1)
    waiting = threading.Thread(target=lambda: _refused(turns, gone))
    waiting.start()
    eventually(lambda: len(turns._waiting) == 1, "it waits")
    with pytest.raises(RequestRefusedError) as refused:
        turns.take("a", 1)
    assert refused.value.status == 429
    gone.set()
    waiting.join(20)
    assert not turns._waiting
    turns.give_back()
    turns.take("b", 1)


def _waits(turns: UserTurns, number: int) -> bool:
    return len(turns._waiting) == number


def _drop(tickets: dict[int, Ticket], which: int) -> None:
    tickets.pop(which, None)


def _refused(turns: UserTurns, gone: threading.Event) -> None:
    with suppress(RequestRefusedError):
        turns.take("a", 60, gone)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_no_user_is_served_twice_while_another_waits(users: list[str]) -> None:
    """Of those who wait, each is served once before any is served again."""
    turns = UserTurns(1, most_waiting=100)
    turns._waiting = dict(enumerate(users))
    order = []
    while turns._waiting:
        number = turns._next()
        user = turns._waiting.pop(number)
        turns._turn += 1
        turns._served[user] = turns._turn
        order.append(user)
    for place, user in enumerate(order):
        before = order[:place]
        others = {other for other in order[place:] if other != user}
        assert all(before.count(user) <= before.count(other) for other in others), order


# -- workers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "megabytes"), [("4294967296\n", 1024), ("max\n", 2048), (None, 2048)])
def test_a_worker_s_memory_is_a_part_of_its_container_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, megabytes: int
) -> None:
    limit = tmp_path / "memory.max"
    if text is not None:
        limit.write_text(text)
    monkeypatch.setattr(worker, "container_megabytes", partial(worker.container_megabytes, limit))
    assert worker.QuestionWorker(megabytes=2048)._megabytes == megabytes
