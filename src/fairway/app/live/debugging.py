"""`/debug/state` and `/debug/plan`: the scheduler's state, and what it would decide now.

Both are computed on the loop's thread when they are requested, and cost nothing before. They show names, requests and
placements of all tenants, so they are served to this machine only, like the page of the sandbox: a request must come
from the loopback address, use a loopback host name, and not come from a page of another origin. `kubectl port-forward`
makes such requests, and the cluster's RBAC decides which users may use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairway.api import kinds
from fairway.app.live.shadow import ShadowPolicy
from fairway.app.records import without_free_text, written
from fairway.clock import format_rfc3339
from fairway.drive import Change, Cycle, SchedulerLoop, title
from fairway.errors import InputError
from fairway.kube.writing import LoopThread
from fairway.scheduler.decide import decide_and_explain
from fairway.state.events import Event

ANSWER_TIMEOUT = 30.0
"""Seconds for the loop's thread to answer."""
DEFAULT_LIMIT = 500
"""Objects or changes in one answer if the query has no `limit`."""
MAX_LIMIT = 100_000

Query = Mapping[str, str]


class DebugPages:
    """Serves the debug pages; also a listener of the loop, for the figures of its last cycle."""

    def __init__(self, thread: LoopThread, scheduler: SchedulerLoop, facts: Callable[[], dict[str, Any]]) -> None:
        """`facts` returns further fields of `/debug/state`."""
        self._thread = thread
        self._scheduler = scheduler
        self._facts = facts
        self._last: dict[str, Any] | None = None
        self.shadow: ShadowPolicy | None = None

    # -- the listener ------------------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self._last = {
            "number": cycle.number,
            "now": format_rfc3339(cycle.now),
            "milliseconds": round(cycle.nanoseconds / 1e6, 3),
            "hasReasons": cycle.has_reasons,
            "changes": len(cycle.changes),
        }

    # -- pages, on the event loop's thread -----------------------------------------------------------------------

    async def state(self, query: Query) -> bytes:
        """Counts and changes in flight; with `kind`, the objects of that kind as the scheduler sees them."""
        limit = _limit(query)
        kind = query.get("kind", "")
        if kind:
            if kind not in {each.name for each in kinds.KINDS}:
                raise InputError(f"kind is {kind!r}, expected a supported kind, such as Pod")
            return await self._asked(lambda: self._objects(kind, query.get("namespace", ""), limit))
        return await self._asked(lambda: self._summary(limit))

    async def plan(self, query: Query) -> bytes:
        """The figures of the last cycle, and a plan that is decided now and not carried out."""
        return await self._asked(self._plan)

    async def _asked(self, call: Callable[[], bytes]) -> bytes:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()

        def work() -> None:
            try:
                found = call()
            except Exception as error:  # a page must not end the scheduler
                loop.call_soon_threadsafe(_settle, answer, error)
            else:
                loop.call_soon_threadsafe(_settle, answer, found)

        self._thread.hand_over(work)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            return await answer

    # -- on the loop's thread ------------------------------------------------------------------------------------

    def _summary(self, limit: int) -> bytes:
        store = self._scheduler.store
        under_way = [f"{type(change).__name__} {title(change.key)}" for change in store.in_flight()]
        found = {
            **self._facts(),
            "objects": store.counts(),
            "underWay": under_way[:limit],
            "underWayCount": len(under_way),
            "nominated": [title(key) for key in sorted(store.nominated)[:limit]],
            "lastCycle": self._last,
        }
        return msgspec.json.encode(found)

    def _objects(self, kind: str, namespace: str, limit: int) -> bytes:
        found: list[msgspec.Raw] = []
        for key, thing in self._scheduler.store.of_kind(kind):
            if not namespace or key[1] == namespace:
                found.append(written(without_free_text(thing)))
                if len(found) == limit:
                    break
        return msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": found})

    def _plan(self) -> bytes:
        scheduler = self._scheduler
        scheduler.catch_up()
        plan = decide_and_explain(scheduler.state, scheduler.policy, self._thread.now())
        found: dict[str, Any] = {"lastCycle": self._last, "plan": plan.document()}
        if self.shadow is not None:
            found["shadow"] = self.shadow.last
        return msgspec.json.encode(found)


def _settle(answer: asyncio.Future[bytes], found: bytes | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, bytes):
        answer.set_result(found)
    else:
        answer.set_exception(found)


def _limit(query: Query) -> int:
    text = query.get("limit", str(DEFAULT_LIMIT))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise InputError(f"limit is {text!r}, expected a number from 1 to {MAX_LIMIT}")
    return int(text)


def refusal(peer: str, host: str, origin: str | None) -> str:
    """Why a request may not see these pages; "" if it may."""
    if not _is_loopback(peer):
        return "served on the loopback address only; use kubectl port-forward"
    if not _is_loopback(urlsplit(f"//{host}").hostname or ""):
        return "requested under another host name, expected a loopback address"
    if origin is not None and not _is_loopback(urlsplit(origin).hostname or ""):
        return "requested by a page of another origin"
    return ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        found = ip_address(name.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)
