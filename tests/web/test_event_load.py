"""A hundred clients of the stream of events, over sockets, while the sandbox goes on and pages are asked for."""

from __future__ import annotations

import select
import socket
import time
import urllib.request

from support.objects import node, pod, queue
from support.sandboxes import after, made
from support.web_pages import TOKEN, served

CLIENTS = 100
PATIENCE = 30.0


def connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    head = f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    client.sendall(head.encode())
    return client


def read_until(clients: list[socket.socket], texts: dict[socket.socket, bytes], what: bytes) -> None:
    """Until each of them has got it."""
    end = time.monotonic() + PATIENCE
    missing = {client for client in clients if what not in texts[client]}
    while missing:
        assert time.monotonic() < end, f"{len(missing)} clients never got {what.decode()}"
        for client in select.select(list(missing), [], [], 1.0)[0]:
            part = client.recv(1 << 16)
            assert part, "a stream was closed"
            texts[client] += part
            if what in texts[client]:
                missing.discard(client)


def test_a_hundred_clients_get_all_that_happens_and_pages_are_answered() -> None:
    sandbox = after(made(node("n", cpu=64), queue("q"), pod("first", cpu=1)), 5)
    try:
        with served(sandbox) as page:
            port = page.server.port
            clients = [connected(port) for _ in range(CLIENTS)]
            try:
                texts = dict.fromkeys(clients, b"")
                read_until(clients, texts, b"event: hello")
                for number in range(5):
                    sandbox.apply([pod(f"later-{number}", cpu=1)])
                    after(sandbox, 10 + number)
                    read_until(clients, texts, f"default/later-{number}".encode())
                assert page.shown.viewers() == CLIENTS
                request = urllib.request.Request(f"{page.url}/api/v1/jobs")
                request.add_header("Authorization", f"Bearer {TOKEN}")
                begin = time.monotonic()
                with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                    assert answer.status == 200
                assert time.monotonic() - begin < PATIENCE / 10
            finally:
                for client in clients:
                    client.close()
    finally:
        sandbox.close()
