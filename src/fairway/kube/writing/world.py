"""`KubeWorld`: carries out the changes of plans on an API server, and reports the outcome of each (spec K16).

`carry_out` is called on the loop's thread and returns at once; requests are made on the asyncio thread, and outcomes
are handed back to the loop's thread. The order between objects is kept here:

* A claim is allocated before its pod is bound. A pod whose claim was refused is not bound, nor is one whose devices
  another claim had first: the API server does not check that, so it is checked once everything that was written before
  the allocation was seen.
* A pod with unbound volume claims is bound after these are, and the pods of a gang after those of all of them are
  (spec K23).
* The pods of a job are evicted after its EvictionRecord counts that. A scheduler that ends in between has counted too
  much for as long as they run, and never too little.
* A claimant is nominated after the pods on its node were evicted: read back without that, its nomination would wait for
  capacity that nobody frees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from fairway.api.kinds import ObjectKey
from fairway.drive import (
    AllocateClaim,
    Bind,
    Change,
    Evict,
    MakeClassClaim,
    Nominate,
    PreBindVolume,
    SelectNode,
    WriteStops,
    pod_key,
)
from fairway.kube.http.exchange import LONG_PAUSE, Ending, Script, WriteResult
from fairway.kube.requests.changes import script_of
from fairway.kube.requests.claims import devices_ready
from fairway.kube.requests.reservations import GroupVersions
from fairway.kube.writing.loop_thread import HandOver
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank

BINDING_TIMEOUT = 600.0
"""Seconds that drivers have to prepare devices, as in kube-scheduler."""
SHOWN_TIMEOUT = 30.0
"""Seconds within which a watch must show an allocation; otherwise the pod is not bound."""

Versions = Mapping[ObjectKey, str]
"""The resource versions of claims after their allocation."""


class ChangeReports(Protocol):
    """Receives the outcome of changes, on the loop's thread."""

    def ended(self, change: Change, ending: Ending) -> None:
        """The server made a change, or refused it."""

    def check_devices(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """The claims of a pod are allocated: `answer` is called with "" once it is certain that the pod may be bound,
        or with the reason why not. It may be called from any thread; only the first answer counts.
        """

    def await_volumes(self, bind: Bind, versions: Versions, answer: Callable[[str], None]) -> None:
        """The binding of a pod's volumes has been requested: `answer` is called as above when they are bound."""

    def volumes_refused(self, bind: Bind, why: str) -> None:
        """A pod that was to be bound with its volumes is not, for a reason other than its volumes."""


class KubeWorld:
    """The world of an API server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        queue: WriteQueue,
        hand_over: HandOver,
        *,
        groups: GroupVersions,
        max_unanswered: int,
        bind_volumes_timeout: float = BINDING_TIMEOUT,
        term: Callable[[], int] = lambda: 0,
    ) -> None:
        """`term` is called on the loop's thread: the leader's current term."""
        self._loop = loop
        self._queue = queue
        self._hand_over = hand_over
        self._groups = groups
        self._max_unanswered = max_unanswered
        self._term = term
        self._bind_volumes_timeout = bind_volumes_timeout
        self.reports: ChangeReports
        """Set before anything is carried out."""
        self.unanswered = 0
        """Changes that are neither settled nor refused, without binds that wait for drivers. Counted on the loop's
        thread.
        """
        self._waiting: dict[ObjectKey, _AwaitedClaims] = {}
        """Pods whose claims are being allocated, on the asyncio thread."""
        self._ended: list[tuple[Change, Ending]] = []

    @property
    def has_capacity(self) -> bool:
        """Whether another plan may be carried out: a slow server slows the cycles, and no backlog grows."""
        return self.unanswered < self._max_unanswered

    def carry_out(self, changes: Sequence[Change]) -> None:
        self.unanswered += len(changes)
        self._loop.call_soon_threadsafe(self._take, tuple(changes), self._term())

    # -- on the asyncio thread -------------------------------------------------------------------------------

    def _take(self, changes: Sequence[Change], term: int) -> None:
        """A claim that several pods of a plan use is allocated once: the last change has all of them."""
        shared: dict[ObjectKey, list[tuple[AllocateClaim | MakeClassClaim, _AwaitedClaims]]] = {}
        counted: dict[ObjectKey, list[Evict]] = {}
        evicted: dict[str, _AwaitedEvictions] = {}
        for change in changes:
            if isinstance(change, AllocateClaim | MakeClassClaim):
                awaited = self._waiting.setdefault(pod_key(change.pod), _AwaitedClaims(term))
                awaited.open += 1
                users = shared.setdefault(change.key, [])
                users.append((change, awaited))
                if len(users) == 1:
                    self._add_claim(users, term)
            elif isinstance(change, PreBindVolume | SelectNode):
                awaited = self._waiting.setdefault(pod_key(change.pod), _AwaitedClaims(term))
                awaited.open += 1
                self._add_volume(change, awaited, term)
            elif isinstance(change, Bind) and (change.key in self._waiting or change.awaits or change.awaits_volumes):
                awaited = self._waiting.pop(change.key, _AwaitedClaims(term))
                awaited.bind = change
                self._bind_if_ready(awaited)
            elif isinstance(change, WriteStops):
                self._add_stops(change, counted.setdefault(change.key, []), evicted, term)
            elif isinstance(change, Evict):
                evicted.setdefault(change.eviction.node, _AwaitedEvictions()).open += 1
                if change.record in counted:
                    counted[change.record].append(change)
                else:
                    self._add_eviction(change, evicted[change.eviction.node], term)
            elif isinstance(change, Nominate) and change.node in evicted:
                evicted[change.node].nominations.append(change)
            else:
                self._add(change, _rank(change), term)
        self._waiting.clear()  # a plan has a pod's claims and its binding, or neither

    def _add(self, change: Change, rank: WriteRank, term: int) -> None:
        ended = partial(self._report, change)
        self._queue.add(QueuedWrite(change.key, rank, lambda: script_of(change, self._groups), ended, term))

    def _add_eviction(self, change: Evict, awaited: _AwaitedEvictions, term: int) -> None:
        def ended(ending: Ending) -> None:
            self._report(change, ending)
            awaited.open -= 1
            if ending.result is WriteResult.REFUSED:
                awaited.refusal = ending.why
            if awaited.open:
                return
            for nomination in awaited.nominations:
                if awaited.refusal is None:
                    self._add(nomination, WriteRank.RESERVATION, term)
                else:
                    why = f"a pod on its node was not evicted: {awaited.refusal}"
                    self._report(nomination, Ending(WriteResult.REFUSED, why))

        lane = change.key
        self._queue.add(QueuedWrite(lane, WriteRank.EVICTION, lambda: script_of(change, self._groups), ended, term))

    def _add_stops(
        self, change: WriteStops, evictions: list[Evict], evicted: Mapping[str, _AwaitedEvictions], term: int
    ) -> None:
        """`evictions` is complete when the write leaves. If the server refuses the record (its definition is missing,
        or the right to write it) the pods are evicted all the same: the claimant is entitled to that.
        """

        def ended(ending: Ending) -> None:
            self._report(change, ending)
            for eviction in evictions:
                self._add_eviction(eviction, evicted[eviction.eviction.node], term)

        lane = change.key
        self._queue.add(QueuedWrite(lane, WriteRank.EVICTION, lambda: script_of(change, self._groups), ended, term))

    def _add_claim(self, users: Sequence[tuple[AllocateClaim | MakeClassClaim, _AwaitedClaims]], term: int) -> None:
        """`users` is complete when the write leaves: a plan is taken in at once."""

        def ended(ending: Ending) -> None:
            for change, awaited in users:
                self._report(change, ending)
                self._claim_ended(awaited, change.key, ending)

        key = users[0][0].key
        self._queue.add(QueuedWrite(key, WriteRank.BIND, lambda: script_of(users[-1][0], self._groups), ended, term))

    def _add_volume(self, change: PreBindVolume | SelectNode, awaited: _AwaitedClaims, term: int) -> None:
        def ended(ending: Ending) -> None:
            self._report(change, ending)
            awaited.open -= 1
            awaited.volumes[change.key] = ending.version
            if ending.result is WriteResult.REFUSED:
                awaited.refusal = ending.why
            self._bind_if_ready(awaited)

        lane = change.key
        self._queue.add(QueuedWrite(lane, WriteRank.BIND, lambda: script_of(change, self._groups), ended, term))

    def _claim_ended(self, awaited: _AwaitedClaims, key: ObjectKey, ending: Ending) -> None:
        awaited.open -= 1
        awaited.versions[key] = ending.version
        if ending.result is WriteResult.REFUSED:
            awaited.refusal = ending.why
        self._bind_if_ready(awaited)

    def _bind_if_ready(self, awaited: _AwaitedClaims) -> None:
        if awaited.bind is None or awaited.open:
            return
        if awaited.refusal is not None:
            what = "bound" if awaited.volumes else "allocated"
            why = f"a claim of the pod was not {what}: {awaited.refusal}"
            self._refuse(awaited.bind, why)
        elif awaited.bind.awaits:
            self._check(awaited.bind, awaited, partial(self._await_devices, awaited.bind, awaited))
        elif awaited.versions:
            self._check(awaited.bind, awaited, partial(self._bind, awaited.bind, awaited))
        else:
            self._bind(awaited.bind, awaited)

    def _bind(self, bind: Bind, awaited: _AwaitedClaims) -> None:
        """Its devices are its alone, and ready: it is bound once its volumes are, too."""
        if bind.awaits_volumes:
            self._await_volumes(bind, awaited)
        else:
            self._add(bind, WriteRank.BIND, awaited.term)

    def _await_volumes(self, bind: Bind, awaited: _AwaitedClaims) -> None:
        """Until the volumes are bound the bind does not count as unanswered: provisioners that take minutes must not
        pause the decisions about all other pods. A refusal is held back for a while, so that a provisioner that always
        fails is not asked again at once.
        """
        self._hand_over(partial(self._count, -1))

        def answered(why: str) -> None:
            if limit.cancelled():
                return  # answered already, or too late
            limit.cancel()
            self._hand_over(partial(self._count, 1))
            if why:
                self._loop.call_later(LONG_PAUSE, self._report, bind, Ending(WriteResult.REFUSED, why))
            else:
                self._add(bind, WriteRank.BIND, awaited.term)

        def too_late() -> None:
            why = f"binding volumes: timed out after {self._bind_volumes_timeout:.0f} s"
            self._hand_over(partial(self.reports.volumes_refused, bind, why))
            answered(why)

        limit = self._loop.call_later(self._bind_volumes_timeout, too_late)

        def answer(why: str) -> None:
            self._loop.call_soon_threadsafe(answered, why)

        self._hand_over(partial(self.reports.await_volumes, bind, awaited.volumes, answer))

    def _check(self, bind: Bind, awaited: _AwaitedClaims, then: Callable[[], None]) -> None:
        """Continue if no other claim had the devices first. If one had, or if that cannot be known, refuse the bind."""

        def answered(why: str) -> None:
            if limit.cancelled():
                return  # answered already, or too late
            limit.cancel()
            if why:
                self._refuse(bind, why)
            else:
                then()

        late = f"the API server did not show the allocation within {SHOWN_TIMEOUT:.0f} s"
        limit = self._loop.call_later(SHOWN_TIMEOUT, answered, late)

        def answer(why: str) -> None:
            self._loop.call_soon_threadsafe(answered, why)

        self._hand_over(partial(self.reports.check_devices, bind, awaited.versions, answer))

    def _await_devices(self, bind: Bind, awaited: _AwaitedClaims) -> None:
        """Polls the claims, and binds when the drivers have prepared the devices. Until then the bind does not count as
        unanswered: drivers that take minutes must not pause the decisions about all other pods.
        """
        until = self._loop.time() + BINDING_TIMEOUT
        self._hand_over(partial(self._count, -1))

        def ended(ending: Ending) -> None:
            self._hand_over(partial(self._count, 1))
            if ending.result is WriteResult.DONE:
                self._check(bind, awaited, partial(self._bind, bind, awaited))
            else:
                self._refuse(bind, ending.why)

        def script() -> Script:
            return devices_ready(bind, lambda: self._loop.time() >= until)

        self._queue.add(QueuedWrite(("devices", bind.key), WriteRank.STATUS, script, ended))

    def _refuse(self, bind: Bind, why: str) -> None:
        """A pod is refused before its volumes were awaited: pods of its gang need not wait for theirs either."""
        if bind.awaits_volumes:
            self._hand_over(partial(self.reports.volumes_refused, bind, why))
        self._report(bind, Ending(WriteResult.REFUSED, why))

    def _report(self, change: Change, ending: Ending) -> None:
        """Gathered with others that end at the same time: waking a thread costs more than the report."""
        self._ended.append((change, ending))
        if len(self._ended) == 1:
            self._loop.call_soon(self._hand_over_ended)

    def _hand_over_ended(self) -> None:
        ended, self._ended = self._ended, []
        self._hand_over(partial(self._pass_on, ended))

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def _count(self, more: int) -> None:
        self.unanswered += more

    def _pass_on(self, ended: Sequence[tuple[Change, Ending]]) -> None:
        self.unanswered -= len(ended)
        for change, ending in ended:
            self.reports.ended(change, ending)


class _AwaitedClaims:
    """The claims of one pod that are in flight, and the bind that waits for them."""

    def __init__(self, term: int) -> None:
        self.term = term
        self.open = 0
        self.bind: Bind | None = None
        self.refusal: str | None = None
        self.versions: dict[ObjectKey, str] = {}
        self.volumes: dict[ObjectKey, str] = {}
        """The versions that volumes and their claims got."""


class _AwaitedEvictions:
    """The evictions of one plan on one node that are in flight, and the nominations that wait for them."""

    def __init__(self) -> None:
        self.open = 0
        self.refusal: str | None = None
        self.nominations: list[Nominate] = []


def _rank(change: Change) -> WriteRank:
    return WriteRank.BIND if isinstance(change, Bind) else WriteRank.RESERVATION
