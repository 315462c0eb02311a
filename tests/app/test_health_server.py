"""The small server of probes and metrics: what it answers, and what it makes of requests that are none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from fairway.app.health import MAX_HEAD, HealthServer
from fairway.errors import InputError


async def page(query: Mapping[str, str]) -> bytes:
    if "bad" in query:
        raise InputError("bad is not known")
    if "slow" in query:
        raise TimeoutError
    return json.dumps(dict(query)).encode()


def guard(peer: str, host: str, origin: str | None) -> str:
    return "" if peer == "127.0.0.1" and host == "localhost" and origin is None else f"not for {host} {origin}"


def asked(*requests: bytes, ready: bool = True) -> list[tuple[int, str, str]]:
    """Status, type and body of the answer to each; each on a connection of its own, byte groups as they come."""

    async def one(port: int, request: bytes) -> tuple[int, str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for part in request.split(b"|"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        text = (await reader.read()).decode()
        writer.close()
        head, _, body = text.partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert headers["Connection"] == "close"
        assert request.startswith(b"HEAD") or int(headers["Content-Length"]) == len(body.encode())
        return int(first.split(" ")[1]), headers["Content-Type"].partition(";")[0], body

    async def run() -> list[tuple[int, str, str]]:
        server = HealthServer(lambda: (True, "ok"), lambda: (ready, "caches"), lambda: b"a 1\n")
        server.add("/debug", page, guard)
        await server.start("127.0.0.1:0")
        try:
            return [await one(server.port, request) for request in requests]
        finally:
            await server.close()

    return asyncio.run(run())


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", *(headers or ("Host: localhost",)), "", "")).encode()


def test_probes_and_metrics() -> None:
    found = asked(get("/healthz"), get("/livez?verbose"), get("/readyz"), get("/metrics"), ready=False)
    assert found == [
        (200, "text/plain", "ok\n"),
        (200, "text/plain", "ok\n"),
        (503, "text/plain", "caches\n"),
        (200, "text/plain", "a 1\n"),
    ]


def test_a_request_may_come_in_pieces_and_by_head() -> None:
    assert asked(b"GET /hea|lthz HT|TP/1.1\r|\n\r|\n", get("/healthz", method="HEAD")) == [
        (200, "text/plain", "ok\n"),
        (200, "text/plain", ""),
    ]


def test_pages_are_guarded_and_read_their_query() -> None:
    found = asked(
        get("/debug?a=1&b=%20"),
        get("/debug", "host: elsewhere"),
        get("/debug", "Host: localhost", "Origin: http://x"),
        get("/debug?bad=1"),
        get("/debug?slow=1"),
    )
    assert [(status, json.loads(body)) for status, _, body in found] == [
        (200, {"a": "1", "b": " "}),
        (403, {"error": "not for elsewhere None"}),
        (403, {"error": "not for localhost http://x"}),
        (400, {"error": "bad is not known"}),
        (503, {"error": "the deciding thread is busy; try again later"}),
    ]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/nothing"), 404),
        (get("/healthz", method="POST"), 405),
        (get("healthz"), 400),
        (get("http://other/healthz"), 400),
        (get("/healthz", "Host: a", "Host: b"), 400),
        (get("/healthz", "Host : a"), 400),
        (get("/healthz", "no colon"), 400),
        (get("//[healthz"), 400),
        (b"GET /healthz HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (get("/healthz", "X: " + "x" * MAX_HEAD), 400),
    ],
)
def test_what_is_no_request_is_refused(request_: bytes, status: int) -> None:
    assert asked(request_)[0][0] == status


def test_an_address_that_is_none_or_taken() -> None:
    async def run() -> list[str]:
        said = []
        server = HealthServer(lambda: (True, ""), lambda: (True, ""), lambda: b"")
        await server.start("127.0.0.1:0")
        for address in ("here", "127.0.0.1:99999", f"127.0.0.1:{server.port}"):
            with pytest.raises(InputError) as wrong:
                await HealthServer(lambda: (True, ""), lambda: (True, ""), lambda: b"").start(address)
            said.append(str(wrong.value))
        await server.close()
        return said

    said = asyncio.run(run())
    assert all("expected host:port" in text for text in said[:2])
    assert "in use" in said[2]


def test_a_client_that_says_nothing_holds_up_no_other_and_not_the_end() -> None:
    async def run() -> bytes:
        server = HealthServer(lambda: (True, "ok"), lambda: (True, ""), lambda: b"")
        await server.start("127.0.0.1:0")
        _, silent = await asyncio.open_connection("127.0.0.1", server.port)
        silent.write(b"GET /hea")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(get("/healthz"))
        found = await reader.read()
        await asyncio.wait_for(server.close(), 10)
        for one in (silent, writer):
            one.close()
        return found

    assert asyncio.run(run()).endswith(b"ok\n")
