"""Faults inside the test's own process: between a scheduler's write queue and its HTTP client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairway.kube.http.exchange import ApiAnswer, ApiRequest, MayLeave
from kube.live import Live

Send = Callable[[ApiRequest], Awaitable[ApiAnswer]]
Fault = Callable[[ApiRequest, Send], Awaitable[ApiAnswer | None]]


class Faults:
    """Between the scheduler and the server. `fault` is asked about each request that writes, and may answer it."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.requests: list[ApiRequest] = []

    def install(self, scheduler: Any) -> None:
        real: Any = scheduler._client.send

        async def send(request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
            self.requests.append(request)
            answer = await self._fault(request, real)
            return await real(request, may_leave) if answer is None else answer

        scheduler._client.send = send

    def count(self, end: str) -> int:
        return sum(request.path.endswith(end) and request.method == "POST" for request in self.requests)


def is_settled(live: Live) -> bool:
    """Nothing is under way, and nothing is assumed that the server has not shown."""
    return not live.scheduler._queue.unended() and not live.on_loop(lambda: list(live.store.in_flight()))
