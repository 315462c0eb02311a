"""`PodWatch`: when each pod was bound, seen from outside by a watch of its own: the same measure for every program."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

import msgspec

from fairway.errors import ApiError
from fairway.kube.http.client import ApiClient


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""  # noqa: N815 - as the server writes it


class _Seen(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()


class _Line(msgspec.Struct):
    type: str
    object: _Seen


class PodWatch:
    """Started before a program is, and stopped after it."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._decoder = msgspec.json.Decoder(_Line)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.bound: dict[str, float] = {}
        """By the name of the pod, on the monotonic clock."""

    async def start(self) -> None:
        listed = json.loads(await self._client.request("GET", "/api/v1/pods", query={"limit": "1"}))
        self._task = asyncio.create_task(self._follow(listed["metadata"]["resourceVersion"]))

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def wait_for(self, number: int, seconds: float = 3600) -> None:
        """Wait until this many pods are bound."""
        async with asyncio.timeout(seconds):
            while len(self.bound) < number:
                await self._more()

    async def wait_for_pod(self, name: str, seconds: float = 60) -> float:
        """When the pod was bound."""
        async with asyncio.timeout(seconds):
            while name not in self.bound:
                await self._more()
        return self.bound[name]

    async def _more(self) -> None:
        """Wait for the next event; an error if the watch has ended."""
        self._news.clear()
        assert self._task is not None
        if self._task.done():
            self._task.result()
        await self._news.wait()

    def rate(self) -> float:
        """Pods per second, from the first binding to the last."""
        times = sorted(self.bound.values())
        return (len(times) - 1) / max(0.001, times[-1] - times[0])

    async def _follow(self, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version}
        async with self._client.stream("/api/v1/pods", query, silence=3600) as body:
            rest = b""
            async for chunk in body.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                now = time.monotonic()
                for line in lines:
                    self._take(line, now)
        self._news.set()
        raise ApiError(200, "Ended", "the server ended the watch of the benchmark: this machine is too busy")

    def _take(self, line: bytes, now: float) -> None:
        read = self._decoder.decode(line)
        if read.type == "MODIFIED" and read.object.spec.nodeName:
            self.bound.setdefault(read.object.metadata.name, now)
            self._news.set()
