"""Server-sent events: deltas, ids, resuming, and clients that do not read."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from fairway.app.view.watch import ClusterWatch
from fairway.web import stream
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.sandbox_page import sandbox_watch
from fairway.web.stream import EventHub, delta, visible
from support.objects import node, pod, queue
from support.sandboxes import after, made

ALL = Viewer("you")


def events_of(text: bytes) -> list[tuple[str, str, Any]]:
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


class Shown:
    """A sandbox, its watch and a hub, driven by hand."""

    def __init__(self) -> None:
        self.sandbox = after(made(node("n", cpu=4), queue("q"), pod("first", cpu=1)), 5)
        self.watch: ClusterWatch = sandbox_watch(self.sandbox)
        self.last = self.watch.catch_up()
        self.hub = EventHub(self.watch)
        self.seconds = 5

    def happens(self, name: str, **fields) -> None:
        self.sandbox.apply([pod(name, cpu=1, **fields)])
        self.seconds += 1
        after(self.sandbox, self.seconds)
        before, self.last = self.last, self.watch.catch_up()
        self.hub._publish(delta(before, self.last))


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_clients_are_told_that_what_is_shown_is_behind_and_when_that_ends():
    async def scenario() -> None:
        shown = Shown()
        said: list[str | None] = [None]
        shown.hub = EventHub(shown.watch, lambda: said[0])
        shown.hub.start()
        events = shown.hub.connect(ALL, None)
        assert [kind for _, kind, _ in events_of(await anext(events))] == ["hello"]
        for text in ("x12 of x60", "x11 of x60", None):
            said[0] = text  # and no picture comes
            ((_, kind, found),) = events_of(await anext(events))
            assert (kind, found["text"]) == ("behind", text)
            if text is not None:
                later = shown.hub.connect(ALL, None)
                assert events_of(await anext(later))[-1][1:] == ("behind", {"type": "behind", "text": text})
        shown.hub.stop()

    run(scenario)


def test_hello_then_deltas_with_what_changed():
    async def scenario() -> None:
        shown = Shown()
        events = shown.hub.connect(ALL, None)
        ((_, kind, hello),) = events_of(await anext(events))
        assert (kind, hello["resumed"], hello["revision"]) == ("hello", False, shown.last.revision)
        shown.happens("second")
        ((_, kind, found),) = events_of(await anext(events))
        assert kind == "delta"
        assert [(row["job"], row["state"]) for row in found["jobs"]] == [("default/second", "starting")]
        assert {"jobs", "queues", "nodes"} <= set(found["changed"])
        assert "reservations" not in found["changed"]
        assert [entry["kind"] for entry in found["feed"] if entry.get("job") == "default/second"] == [
            "submitted",
            "placed",
        ]
        assert found["revision"] > hello["revision"]

    run(scenario)


def test_a_client_that_reconnects_gets_what_it_missed_and_nothing_twice():
    async def scenario() -> None:
        shown = Shown()
        whole = shown.hub.connect(ALL, None)
        seen = events_of(await anext(whole))
        for number in range(5):
            shown.happens(f"pod-{number}")
            seen += events_of(await anext(whole))
        for place, (last, _, _) in enumerate(seen):
            again = events_of(await anext(shown.hub.connect(ALL, last)))
            assert (again[0][1], again[0][2]["resumed"]) == ("hello", True)
            assert again[1:] == seen[place + 1 :]
            assert again[0][0] == last
        revisions = [data["revision"] for _, kind, data in seen if kind == "delta"]
        assert all(one < two for one, two in pairwise(revisions))

    run(scenario)


@pytest.mark.parametrize(
    "last", ["x", "0-1", "-", "deadbeef-3", "{run}-99", "{run}-x", "{run}--1", "{run}-" + "9" * 40]
)
def test_an_id_that_means_nothing_here_is_a_reset(last):
    async def scenario() -> None:
        shown = Shown()
        shown.happens("second")
        ((_, kind, _),) = events_of(await anext(shown.hub.connect(ALL, last.replace("{run}", shown.hub._run))))
        assert kind == "reset"

    run(scenario)


def test_deltas_that_are_no_longer_kept_are_a_reset(monkeypatch):
    monkeypatch.setattr(stream, "KEPT", 2)

    async def scenario() -> None:
        shown = Shown()
        ((first, _, _),) = events_of(await anext(shown.hub.connect(ALL, None)))
        for number in range(3):
            shown.happens(f"pod-{number}")
        assert events_of(await anext(shown.hub.connect(ALL, first)))[0][1] == "reset"

    run(scenario)


def test_a_client_that_does_not_read_is_dropped_and_no_other_waits(monkeypatch):
    monkeypatch.setattr(stream, "WAITING", 2)

    async def scenario() -> None:
        shown = Shown()
        slow, good = shown.hub.connect(ALL, None), shown.hub.connect(ALL, None)
        sending = asyncio.Event()

        async def stuck() -> None:
            async for _ in slow:
                sending.set()
                await asyncio.Event().wait()  # the socket takes no more

        task = asyncio.create_task(stuck())
        await sending.wait()
        await anext(good)
        for number in range(4):
            shown.happens(f"pod-{number}")
            assert events_of(await anext(good))[0][1] == "delta"
        assert (shown.hub.clients, shown.hub.dropped) == (1, 1)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario)


def test_the_end_of_the_server_is_told_and_too_many_clients_are_turned_away(monkeypatch):
    monkeypatch.setattr(stream, "MAX_CLIENTS", 1)

    async def scenario() -> None:
        shown = Shown()
        events = shown.hub.connect(ALL, None)
        with pytest.raises(RequestRefusedError, match="too many clients"):
            shown.hub.connect(ALL, None)
        await anext(events)
        shown.hub.stop()
        ((_, kind, data),) = events_of(await anext(events))
        assert (kind, data["reason"]) == ("goodbye", "the server ends")
        assert shown.hub.clients == 0

    run(scenario)


def test_what_a_user_may_not_see_is_not_in_a_delta():
    shown = Shown()
    before = shown.last
    shown.sandbox.apply([pod("mine", namespace="a", cpu=1), pod("other", namespace="b", cpu=1)])
    after(shown.sandbox, 9)
    found = visible(delta(before, shown.watch.catch_up()), Viewer("u", frozenset({"a"})), shown.watch.picture)
    assert [row.job for row in found.jobs] == ["a/mine"]
    assert {entry.job for entry in found.feed} == {"a/mine"}


def test_a_hundred_clients_get_every_delta():
    async def scenario() -> None:
        shown = Shown()
        clients = [shown.hub.connect(ALL, None) for _ in range(100)]
        for client in clients:
            await anext(client)
        shown.happens("second")
        texts = {await anext(client) for client in clients}
        assert len(texts) == 1
        assert shown.hub.clients == 100

    run(scenario)


# -- rights that end ---------------------------------------------------------------------------------------------------

MINE = Viewer("user", frozenset({"default"}), nodes=True, queues=True, token="t")


class Rights:
    """What the API server says of a viewer, now."""

    def __init__(self, viewer: Viewer = MINE) -> None:
        self.viewer: Viewer | RequestRefusedError = viewer
        self.asked = 0

    async def __call__(self) -> Viewer:
        self.asked += 1
        if isinstance(self.viewer, RequestRefusedError):
            raise self.viewer
        return self.viewer


@pytest.mark.parametrize(
    "then",
    [
        RequestRefusedError(401, "the API server rejects this token"),
        RequestRefusedError(403, "no"),
        MINE._replace(namespaces=frozenset()),
        MINE._replace(nodes=False),
        MINE._replace(queues=False),
        MINE._replace(name="another"),
    ],
)
def test_a_stream_ends_when_its_rights_end(monkeypatch, then):
    monkeypatch.setattr(stream, "RECHECK", 0.0)

    async def scenario() -> None:
        shown, rights = Shown(), Rights()
        events = shown.hub.connect(MINE, None, rights)
        assert events_of(await anext(events))[0][1] == "hello"
        shown.happens("seen")
        assert "default/seen" in (await anext(events)).decode()
        rights.viewer = then
        shown.happens("secret")
        rest = [text async for text in events]
        assert [kind for text in rest for _, kind, _ in events_of(text)] == ["goodbye"]
        assert "secret" not in b"".join(rest).decode()
        assert shown.hub.clients == 0

    run(scenario)


def test_a_silent_stream_ends_too(monkeypatch):
    """Nothing happens, and no event makes it look at its rights."""
    monkeypatch.setattr(stream, "RECHECK", 0.05)

    async def scenario() -> None:
        shown, rights = Shown(), Rights()
        events = shown.hub.connect(MINE, None, rights)
        await anext(events)
        rights.viewer = RequestRefusedError(401, "ended")
        rest = [text async for text in events]
        assert b"goodbye" in rest[-1]

    run(scenario)


def test_a_stream_shows_what_may_be_seen_besides(monkeypatch):
    monkeypatch.setattr(stream, "RECHECK", 0.0)

    async def scenario() -> None:
        none = MINE._replace(namespaces=frozenset())
        shown, rights = Shown(), Rights(none)
        events = shown.hub.connect(none, None, rights)
        await anext(events)
        shown.happens("hidden")
        assert "default/hidden" not in (await anext(events)).decode()
        rights.viewer = MINE
        shown.happens("between")
        assert "default/between" not in (await anext(events)).decode()  # it was written before
        shown.happens("shown")
        assert "default/shown" in (await anext(events)).decode()

    run(scenario)


def test_a_server_that_cannot_be_asked_ends_no_stream_before_its_time(monkeypatch):
    monkeypatch.setattr(stream, "RECHECK", 0.0)

    async def scenario() -> None:
        shown, rights = Shown(), Rights()
        events = shown.hub.connect(MINE, None, rights)
        await anext(events)
        rights.viewer = RequestRefusedError(503, "the API server cannot review the token")
        shown.happens("later")
        assert "default/later" in (await anext(events)).decode()
        assert rights.asked == 1

    run(scenario)


def test_the_user_with_the_most_clients_loses_one_for_another_user(monkeypatch):
    monkeypatch.setattr(stream, "MAX_CLIENTS", 4)

    async def scenario() -> None:
        hub = Shown().hub
        greedy = [hub.connect(MINE._replace(name="greedy"), None) for _ in range(3)]
        other = hub.connect(MINE, None)
        for events in (*greedy, other):
            await anext(events)
        third = hub.connect(MINE._replace(name="third"), None)
        assert events_of(await anext(third))[0][1] == "hello"
        assert events_of(await anext(greedy[0]))[0][1] == "goodbye"
        with pytest.raises(RequestRefusedError) as refused:
            hub.connect(MINE._replace(name="greedy"), None)
        assert refused.value.status == 503
        assert hub.clients == 4

    run(scenario)
