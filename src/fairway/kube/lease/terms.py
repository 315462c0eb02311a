"""Which replica decides: one Lease that one replica holds at a time (spec K12, K13). No socket, no clock of its own.

A replica may write for `renew_deadline` after it *sent* the last renewal that succeeded; the others wait `duration`
after they *saw* the record change. Nothing is seen before it is sent, so the holder stops at least
`duration - renew_deadline` before another one begins, whatever the clocks of the two say: each uses its own, and only
to measure spans. Every write of the record names the version that was read, so of two that try at once one is refused.

    Elector.attempt()    one round: renew, or look and take what is free; returns how long to wait until the next
    Elector.may_write()  asked before every write that leaves
    Elector.release()    at a clean end, after the last write: the next one need not wait
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import msgspec

from fairway.api.meta import ApiStruct, ObjectMeta, is_older
from fairway.clock import Clock, to_datetime
from fairway.errors import InputError
from fairway.kube.http.exchange import MERGE_PATCH, ApiAnswer, ApiRequest, encoded
from fairway.kube.http.paths import LEASES, collection_path, object_path

_TRIES = 3
Seconds = float
Monotonic = Callable[[], Seconds]
"""Seconds from an arbitrary start that never go back."""

Round = Generator[ApiRequest, ApiAnswer, Seconds]
"""Requests of one round; what it returns is how long to wait until the next."""


def boot_clock() -> Seconds:
    """Counts the time that a machine slept, too: while it did, another replica may have taken over."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Spans are in seconds."""

    identity: str
    """Of this process alone: another one, and this one after a restart, must have another."""
    namespace: str = "fairway-system"
    name: str = "fairway"
    duration: int = 15
    renew_deadline: int = 10
    retry: int = 2
    look_again: float = 1.0
    """How often those look that do not hold it. Short, for what is seen late is taken over late."""

    def __post_init__(self) -> None:
        if not self.identity:
            raise InputError("the lease needs an identity")
        if not 0 < self.retry < self.renew_deadline < self.duration:
            found = f"{self.retry} < {self.renew_deadline} < {self.duration}"
            raise InputError(f"lease: expected 0 < retry < renewDeadline < duration, found {found}")


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
    """See the module."""

    def __init__(self, settings: LeaseSettings, monotonic: Monotonic, wall: Clock) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self._wall = wall
        """For the times that people read in the Lease. Nothing depends on it."""
        self._known: LeaseObject | None = None
        self._seen_at = 0.0
        """When the record was first seen as it is known."""
        self._until = float("-inf")
        self._heard_at: Seconds | None = None
        """When the server last answered."""
        self.term = 0
        """How often this replica became the holder. Within one term no other held the lease."""
        self._term_key: tuple[str, int] | None = None
        """The lease and how often it had changed hands: an acquisition of which the answer was lost counts too."""
        self.was_cut_off = False
        """Whether the server was out of reach for so long that another replica may have led meanwhile, and what was
        read may be old though connections look alive. The one who acts on it sets it back.
        """
        key = ("Lease", settings.namespace, settings.name)
        self._path = object_path(LEASES, "leases", key)

    # -- what is asked before every write --------------------------------------------------------------------

    def may_write(self) -> bool:
        return self._monotonic() < self._until

    @property
    def time_left(self) -> Seconds:
        """How long writes may still leave if no renewal succeeds; 0 for a replica that does not lead."""
        return max(0.0, self._until - self._monotonic())

    @property
    def holder(self) -> str:
        """The holder of the lease, as far as was seen."""
        return "" if self._known is None else self._known.spec.holder_identity or ""

    @property
    def is_known(self) -> bool:
        """Whether the record has been seen: a replica that has not is not ready."""
        return self._known is not None

    # -- one round -------------------------------------------------------------------------------------------

    def attempt(self) -> Round:
        held = self._known if self.holder == self.settings.identity and self.may_write() else None
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
        """Writes nothing where the lease is not ours. From its beginning on nothing may be written any more."""
        mine = self._known if self.may_write() and self.holder == self.settings.identity else None
        self._until = float("-inf")
        for _ in range(_TRIES):
            if mine is None or mine.spec.holder_identity != self.settings.identity:
                break
            spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._now(), "acquireTime": None}
            answer = yield self._patch(mine, spec)
            if answer.ok:
                break
            # A renewal whose answer was not waited for may have made another version of it.
            mine = _decoded((yield ApiRequest("GET", self._path)))
        return 0.0

    def _pause(self) -> Seconds:
        """Until the next renewal, or the next look; a record that no replica renews is taken as soon as it may be."""
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
        known = self._known
        if known is not None and is_older(found.metadata.resource_version, known.metadata.resource_version):
            # The server's data were restored from a backup: what was read since then is of another world, and so is
            # what was decided.
            self._term_key = None
            self.was_cut_off = True
        if known is None or found.metadata.resource_version != known.metadata.resource_version:
            self._seen_at = self._monotonic()  # by its version: a wall clock that stands still must not hide a renewal
        self._known = found

    def _write(self, found: LeaseObject) -> Generator[ApiRequest, ApiAnswer, bool]:
        """Take or renew the lease, if it is still the version that was read."""
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
            self.was_cut_off = False  # no other has led since the last renewal
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
