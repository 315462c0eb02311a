"""A list is told as a whole, for the difference counts; what comes after it as it comes (spec K1)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from fairway.api import kinds
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.reading import reflector as reflector_module
from fairway.kube.reading.decoding import Sharing
from fairway.kube.reading.reflector import Delivery, Gone, Reflector

NODES = next(kind for kind in kinds.KINDS if kind.name == "Node")


def line(type_: str, name: str = "", version: int = 1, **meta: Any) -> bytes:
    body = {"kind": "Node", "metadata": {"name": name, "resourceVersion": str(version), **meta}}
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


END = line("BOOKMARK", version=9, annotations={"k8s.io/initial-events-end": "true"})


class Body:
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
            await asyncio.sleep(0)


class Server:
    """Answers each watch with the next of its bodies, or with an error, and then no more."""

    def __init__(self, *bodies: list[bytes] | ApiError | Body) -> None:
        self._bodies = list(bodies)
        self.done = asyncio.Event()

    async def read(self, path: str, form: Any, query: Any = None) -> Any:
        found = [{"name": "nodes", "kind": "Node", "verbs": ["list", "watch"]}]
        return msgspec.convert({"kind": "APIResourceList", "resources": found}, form)

    @asynccontextmanager
    async def stream(self, path: str, query: Any, *, silence: float) -> AsyncIterator[Body]:
        if not self._bodies:
            self.done.set()
            await asyncio.sleep(3600)
        body = self._bodies.pop(0)
        if isinstance(body, ApiError):
            raise body
        yield body if isinstance(body, Body) else Body(body)

    async def request(self, method: str, path: str, *, query: Any = None) -> bytes:
        """A list by pages, which has the node `paged`."""
        one = {"metadata": {"name": "paged", "resourceVersion": "3"}}
        return json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": [one]}).encode()


class Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def deliveries(*bodies: list[bytes] | ApiError) -> list[tuple[bool, list[str]]]:
    """Whether each is a list, and the names in it; of what is gone with a minus. Parts of lists are left out."""
    return [(one.is_list, [_name(item) for item in one.items]) for one in delivered(*bodies) if not one.is_part]


def delivered(*bodies: list[bytes] | ApiError) -> list[Delivery]:
    found: list[Delivery] = []

    async def story() -> None:
        server: Any = Server(*bodies)
        reflector = Reflector(
            server, NODES, found.append, Silent(), scheduler_names=(), sharing=Sharing(), random=Random(0)
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(server.done.wait(), 20)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ApiError):
            await task

    asyncio.run(story())
    return found


def _name(item: Any) -> str:
    return f"-{item.last.metadata.name}" if isinstance(item, Gone) else item.metadata.name


def test_a_list_is_told_as_a_whole_and_then_each_change() -> None:
    first = [line("ADDED", "a"), line("ADDED", "b"), END, line("ADDED", "c", 10)]
    assert deliveries(first) == [(True, ["a", "b"]), (False, ["c"])]


def test_what_has_come_of_a_list_is_told_before_it_ends() -> None:
    bodies = [line("ADDED", "a"), line("ADDED", "b")], [line("ADDED", "b", 2), END, line("ADDED", "c", 10)]
    parts = [[_name(item) for item in one.items] for one in delivered(*bodies) if one.is_part]
    assert parts == [["a"], ["b"], ["b"]]


def test_a_list_that_breaks_off_is_made_again_and_what_went_meanwhile_is_not_in_it() -> None:
    broken = [line("ADDED", "a"), line("ADDED", "b")]
    assert deliveries(broken, [line("ADDED", "b", 2), END]) == [(True, ["b"])]


def test_a_list_that_is_made_again_is_told_as_a_whole_too() -> None:
    gone = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}\n'
    again = [line("ADDED", "b", 2), line("ADDED", "d", 3), END]
    assert deliveries([line("ADDED", "a"), END, gone], again) == [(True, ["a"]), (True, ["b", "d"])]


def test_a_server_that_still_fills_its_cache_is_listed_by_pages_at_once() -> None:
    """It asks for a second before it is watched; a program that starts need not wait for that."""
    filling = ApiError(429, "TooManyRequests", "storage is (re)initializing", retry_after=0.01)
    assert deliveries(filling, [line("ADDED", "c", 10)]) == [(True, ["paged"]), (False, ["c"])]
    busy = ApiError(429, "TooManyRequests", "too many requests, please try again later", retry_after=0.01)
    assert deliveries(busy, [line("ADDED", "a"), END]) == [(True, ["a"])]


class FallsSilent(Body):
    """After its chunks nothing comes any more."""

    async def iter_any(self) -> AsyncIterator[bytes]:
        async for chunk in super().iter_any():
            yield chunk
        raise NoAnswerError("no answer within the time limit")


@pytest.mark.parametrize(("silence", "failures"), [(0.0, 0), (60.0, 1)])
def test_a_watch_that_falls_silent_goes_on_and_only_a_sudden_end_is_a_failure(
    silence: float, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers before 1.36 send no bookmark of a kind that never changed."""
    monkeypatch.setattr(reflector_module, "SILENCE", silence)
    found: list[Delivery] = []
    failed: list[Any] = []

    class Noting(Silent):
        def failed(self, *about: Any) -> None:
            failed.append(about)

    async def story() -> None:
        server: Any = Server(FallsSilent([line("ADDED", "a"), END]), [line("ADDED", "b", 10)])
        reflector = Reflector(
            server, NODES, found.append, Noting(), scheduler_names=(), sharing=Sharing(), random=Random(0)
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(server.done.wait(), 20)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    told = [(one.is_list, [_name(item) for item in one.items]) for one in found if not one.is_part]
    assert told == [(True, ["a"]), (False, ["b"])]
    assert len(failed) == failures


class NothingThere:
    """A gateway without a server behind it: 404 to everything, or, with `apis`, to all but the list of APIs."""

    def __init__(self, apis: list[str] | None) -> None:
        self._apis = apis
        self.asked = 0

    async def read(self, path: str, form: Any, query: Any = None) -> Any:
        self.asked += 1
        if path != "/apis" or self._apis is None:
            raise ApiError(404, "NotFound", "404 page not found")
        versions = [{"groupVersion": name} for name in self._apis]
        return msgspec.convert({"kind": "APIGroupList", "groups": [{"versions": versions}]}, form)


@pytest.mark.parametrize(
    ("kind", "apis", "is_absent"),
    [
        ("Node", None, False),
        ("Node", [], False),
        ("Queue", None, False),
        ("Queue", [], True),
        ("Queue", ["scheduling.volcano.sh/v1alpha1"], True),
        ("Queue", ["scheduling.volcano.sh/v1beta1"], False),
    ],
)
def test_an_api_is_absent_only_where_the_server_says_so(kind: str, apis: list[str] | None, is_absent: bool) -> None:
    """What is absent has no objects any more. And nothing is asked in a hurry, whatever is answered."""
    found: list[Delivery] = []
    server: Any = NothingThere(apis)
    wanted = next(one for one in kinds.KINDS if one.name == kind)

    async def story() -> None:
        reflector = Reflector(
            server, wanted, found.append, Silent(), scheduler_names=(), sharing=Sharing(), random=Random(0)
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(0.7)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert [(one.is_list, list(one.items)) for one in found] == ([(True, [])] if is_absent else [])
    assert server.asked <= 8
