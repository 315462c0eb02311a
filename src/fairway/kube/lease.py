"""Which replica decides: a Lease that one replica holds at a time (spec K12, K13).

A replica may write for `renew_deadline` after it *sent* the last renewal that succeeded; the others wait `duration`
after they *saw* the record change. Nothing is seen before it is sent, so the holder stops at least `duration -
renew_deadline` before another replica starts, whatever the clocks of the two show: each uses its own, and only to
measure durations. Every write of the record names the version that was read, so of two simultaneous attempts one is
refused.

    Elector.attempt()    one round: renew, or read and acquire a free lease; returns how long to wait until the next
    Elector.may_write()  checked before every write that leaves
    Elector.release()    at a clean shutdown, after the last write: the next holder need not wait
    LeaseKeeper          runs rounds on an event loop, and reports when the lease is acquired and lost

The elector has no socket and no clock of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

import msgspec

from fairway.api.meta import ApiStruct, ObjectMeta, is_older
from fairway.clock import Clock, to_datetime
from fairway.errors import InputError
from fairway.kube.http.exchange import MERGE_PATCH, NO_ANSWER, ApiAnswer, ApiRequest, Sender, encoded, explained
from fairway.kube.http.paths import LEASES, collection_path, object_path

_TRIES = 3
Seconds = float
Monotonic = Callable[[], Seconds]
"""Seconds from an arbitrary start that never go back."""

Round = Generator[ApiRequest, ApiAnswer, Seconds]
"""Requests of one round. It returns how long to wait until the next."""


def boot_clock() -> Seconds:
    """A monotonic clock that includes suspended time: meanwhile another replica may have taken over."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Durations are in seconds."""

    identity: str
    """Unique to this process: another one, and this one after a restart, must have another."""
    namespace: str = "fairway-system"
    name: str = "fairway"
    duration: int = 15
    renew_deadline: int = 10
    retry: int = 2
    look_again: float = 1.0
    """Time between two reads by replicas that do not hold the lease. Short: what is seen late is taken over late."""

    def __post_init__(self) -> None:
        if not self.identity:
            raise InputError("the lease needs an identity")
        if not 0 < self.retry < self.renew_deadline < self.duration:
            given = f"{self.retry} < {self.renew_deadline} < {self.duration}"
            raise InputError(f"lease: expected 0 < retry < renewDeadline < duration, found {given}")


class LeaseRecord(ApiStruct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: LeaseRecord = msgspec.field(default_factory=LeaseRecord)


class Elector:
    """One replica's view of the lease."""

    def __init__(self, settings: LeaseSettings, monotonic: Monotonic, wall: Clock) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self._wall = wall
        """For the times in the Lease, which only people read."""
        self._record: LeaseObject | None = None
        self._seen_at = 0.0
        """When this version of the record was first seen."""
        self._until = float("-inf")
        self._heard_at: Seconds | None = None
        """When the server last answered."""
        self.term = 0
        """How often this replica became the holder. Within one term no other replica held the lease."""
        self._term_key: tuple[str, int] | None = None
        """The lease and its number of transitions: an acquisition whose answer was lost counts, too."""
        self.was_cut_off = False
        """Whether the server was unreachable for so long that another replica may have led meanwhile, and watches may
        be stale though their connections look alive. Reset by the one that acts on it.
        """
        key = ("Lease", settings.namespace, settings.name)
        self._path = object_path(LEASES, "leases", key)

    # -- checked before every write -------------------------------------------------------------------------

    def may_write(self) -> bool:
        return self._monotonic() < self._until

    @property
    def time_left(self) -> Seconds:
        """How long writes may still leave without another renewal; 0 for a replica that does not lead."""
        return max(0.0, self._until - self._monotonic())

    @property
    def holder(self) -> str:
        """The holder in the last record that was seen."""
        return "" if self._record is None else self._record.spec.holder_identity or ""

    @property
    def is_known(self) -> bool:
        """Whether the record was seen: until then a replica is not ready."""
        return self._record is not None

    # -- one round -------------------------------------------------------------------------------------------

    def attempt(self) -> Round:
        held = self._record if self.holder == self.settings.identity and self.may_write() else None
        if held is not None and (yield from self._write(held)):
            return self.settings.retry
        look = yield ApiRequest("GET", self._path)
        self._hear(look)
        if look.status == 404:
            yield from self._create()
            return self._pause()
        found = _decoded(look)
        if found is None:
            return self._pause()
        self._see(found)
        if self._is_free(found):
            yield from self._write(found)
        return self._pause()

    def release(self) -> Round:
        """Writes nothing if the lease is not ours. Once it starts, `may_write` is False."""
        mine = self._record if self.may_write() and self.holder == self.settings.identity else None
        self._until = float("-inf")
        for _ in range(_TRIES):
            if mine is None or mine.spec.holder_identity != self.settings.identity:
                break
            spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._now(), "acquireTime": None}
            answer = yield self._patch(mine, spec)
            if answer.ok:
                break
            # A renewal whose answer was not awaited may have changed its version.
            mine = _decoded((yield ApiRequest("GET", self._path)))
        return 0.0

    def _pause(self) -> Seconds:
        """Until the next renewal or read. A record that no replica renews is taken as soon as it expires."""
        if self.may_write():
            return self.settings.retry
        left = self._seen_at + self.settings.duration - self._monotonic()
        return min(self.settings.look_again, left) if left > 0 else self.settings.look_again

    def _is_free(self, found: LeaseObject) -> bool:
        holder = found.spec.holder_identity or ""
        if holder in ("", self.settings.identity):
            return True
        return self._monotonic() >= self._seen_at + max(self.settings.duration, found.spec.lease_duration_seconds or 0)

    def _hear(self, answer: ApiAnswer) -> None:
        if not answer.ok:
            return
        now, last = self._monotonic(), self._heard_at
        self._heard_at = now
        if last is not None and now - last > self.settings.duration - self.settings.renew_deadline:
            self.was_cut_off = True

    def _see(self, found: LeaseObject) -> None:
        known = self._record
        if known is not None and is_older(found.metadata.resource_version, known.metadata.resource_version):
            # The server was restored from a backup: everything that was read and decided since then is void.
            self._term_key = None
            self.was_cut_off = True
        if known is None or found.metadata.resource_version != known.metadata.resource_version:
            self._seen_at = self._monotonic()  # by version: a stopped wall clock must not hide a renewal
        self._record = found

    def _write(self, found: LeaseObject) -> Generator[ApiRequest, ApiAnswer, bool]:
        """Acquire or renew the lease, if it is still the version that was read."""
        spec: dict[str, Any] = {
            "holderIdentity": self.settings.identity,
            "leaseDurationSeconds": self.settings.duration,
            "renewTime": self._now(),
        }
        if found.spec.holder_identity != self.settings.identity:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = (found.spec.lease_transitions or 0) + 1
        sent = self._monotonic()
        answer = yield self._patch(found, spec)
        return self._written(answer, sent)

    def _create(self) -> Generator[ApiRequest, ApiAnswer, bool]:
        now = self._now()
        body = {
            "apiVersion": LEASES,
            "kind": "Lease",
            "metadata": {"name": self.settings.name, "namespace": self.settings.namespace},
            "spec": {
                "holderIdentity": self.settings.identity,
                "leaseDurationSeconds": self.settings.duration,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
        sent = self._monotonic()
        answer = yield ApiRequest("POST", collection_path(LEASES, "leases", self.settings.namespace), encoded(body))
        return self._written(answer, sent)

    def _written(self, answer: ApiAnswer, sent: Seconds) -> bool:
        found = _decoded(answer)
        if found is None or found.spec.holder_identity != self.settings.identity:
            return False
        self._see(found)
        self._hear(answer)
        key = found.metadata.uid, found.spec.lease_transitions or 0
        if key == self._term_key:
            self.was_cut_off = False  # no other replica has led since the last renewal
        else:
            self.term += 1
            self._term_key = key
        self._until = max(self._until, sent + self.settings.renew_deadline)
        return True

    def _patch(self, found: LeaseObject, spec: dict[str, Any]) -> ApiRequest:
        meta = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        return ApiRequest("PATCH", self._path, encoded({"metadata": meta, "spec": spec}), MERGE_PATCH)

    def _now(self) -> str:
        return to_datetime(self._wall()).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _decoded(answer: ApiAnswer) -> LeaseObject | None:
    if not answer.ok:
        return None
    try:
        return msgspec.json.decode(answer.body, type=LeaseObject)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# -- on an event loop --------------------------------------------------------------------------------------------------


Sleep = Callable[[Seconds], Awaitable[None]]


class LeaseKeeper:
    """Runs rounds until it is cancelled. `led` is called on the event loop's thread with True when this replica may
    decide, and with False once it may not: at the renewal deadline at the latest, even if an answer is still due.
    `cut_off` is called before that, if another replica may have led while the server was unreachable. `trouble` is
    called with the reason why the lease cannot be acquired, once per reason: without it a replica that lacks access
    would wait in silence.
    """

    def __init__(
        self,
        elector: Elector,
        send: Sender,
        led: Callable[[bool], None],
        sleep: Sleep = asyncio.sleep,
        *,
        cut_off: Callable[[], None] = lambda: None,
        trouble: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.elector = elector
        self._send = send
        self._led = led
        self._cut_off = cut_off
        self._trouble = trouble
        self._last_trouble: dict[str, str] = {}
        """By method."""
        self._sleep = sleep
        self._leads = False
        self._alarm: asyncio.TimerHandle | None = None

    async def keep(self) -> None:
        """Never returns. A late answer counts as none: the next round asks again."""
        limit = self.elector.settings.renew_deadline / 2
        while True:
            wait = await self._run(self.elector.attempt(), limit)
            self._look()
            await self._sleep(wait)

    async def release(self) -> None:
        """At a clean shutdown, after `keep` was cancelled and the last write was answered."""
        await self._run(self.elector.release(), self.elector.settings.retry)
        self._look()

    async def _run(self, rounds: Round, limit: Seconds) -> Seconds:
        answer: ApiAnswer | None = None
        while True:
            try:
                request = next(rounds) if answer is None else rounds.send(answer)
            except StopIteration as end:
                wait: Seconds = end.value
                return wait
            try:
                async with asyncio.timeout(limit):
                    answer = await self._send(request)
            except TimeoutError:
                answer = NO_ANSWER
            self._note(request, answer)

    def _note(self, request: ApiRequest, answer: ApiAnswer) -> None:
        """A lease that does not exist yet, and one that another replica wrote first, are no trouble."""
        if answer.ok:
            self._last_trouble.pop(request.method, None)
            return
        is_usual = answer.status == 409 or (answer.status == 404 and request.method == "GET")
        why = f"{request.method} {request.path}: {explained(answer)}"
        if not is_usual and why != self._last_trouble.get(request.method):
            self._last_trouble[request.method] = why
            self._trouble(why)

    def _look(self) -> None:
        """Report a change, and check again when the time to write runs out."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self.elector.was_cut_off:
            self.elector.was_cut_off = False
            self._cut_off()
        leads = self.elector.may_write()
        if leads != self._leads:
            self._leads = leads
            self._led(leads)
        if leads:
            self._alarm = asyncio.get_running_loop().call_later(self.elector.time_left, self._look)
