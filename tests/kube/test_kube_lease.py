"""The lease: at most one replica may write at any time, whatever the network does, and one soon does when it is well.

The server here is a model of one object with versions; time is virtual, and each replica's clock has an offset of its
own. Requests and answers take any time, or are lost; a request that was given up may still arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Generator
from itertools import count, pairwise
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import InputError
from fairway.kube.http.exchange import NO_ANSWER, ApiAnswer, ApiRequest
from fairway.kube.lease import Elector, LeaseKeeper, LeaseSettings
from support.effort import examples
from support.objects import BEGIN

LIMIT = 5.0
LOST = None
Fate = tuple[float | None, float | None]
"""How long a request and its answer take; None: lost."""


class LeaseServer:
    """One Lease, as an API server keeps it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def do(self, request: ApiRequest) -> ApiAnswer:
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "GET":
            return self._shown() if self.lease else ApiAnswer(404)
        if request.method == "POST":
            if self.lease:
                return ApiAnswer(409)
            self.lease = {"metadata": {"uid": "l1"}, "spec": body["spec"]}
        elif self.lease is None:
            return ApiAnswer(404)
        elif body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return ApiAnswer(409)
        else:
            self.lease["spec"] = {**self.lease["spec"], **body["spec"]}
        self.version += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self._shown()

    def _shown(self) -> ApiAnswer:
        return ApiAnswer(200, msgspec.json.encode(self.lease))


class Span(NamedTuple):
    who: int
    begin: float
    end: float


class LeaseStory:
    """Virtual time, the server, and replicas that run rounds over a network with these fates."""

    def __init__(self, replicas: int, fates: list[Fate]) -> None:
        self.now = 0.0
        self.server = LeaseServer()
        self.electors = [
            Elector(LeaseSettings(f"r{who}"), self._clock(1000.0 * who), lambda: BEGIN) for who in range(replicas)
        ]
        self.spans: list[Span] = []
        self.dead: set[int] = set()
        self.cut: set[int] = set()
        """Replicas whose network is down."""
        self.slow: dict[int, Fate] = {}
        """What all requests of a replica take."""
        self._fates = list(fates)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        for who in range(replicas):
            self.at(0.1 * who, lambda who=who: self._round(who))  # type: ignore[misc]

    def _clock(self, offset: float) -> Callable[[], float]:
        return lambda: self.now + offset

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), call))

    def play(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, call = heapq.heappop(self._events)
            call()
            self._note()
        self.now = until

    def leaders(self) -> list[int]:
        return [who for who, elector in enumerate(self.electors) if elector.may_write()]

    def _note(self) -> None:
        """May-write is a span of time: it lasts until the deadline unless something moves that."""
        leaders = self.leaders()
        assert len(leaders) <= 1, f"{leaders} at {self.now}"
        for who in leaders:
            end = self.now + self.electors[who].time_left
            last = self.spans[-1] if self.spans else None
            if last is not None and last.who == who and self.now <= last.end:
                self.spans[-1] = Span(who, last.begin, end)
            else:
                self.spans.append(Span(who, self.now, end))

    def _round(self, who: int) -> None:
        if who not in self.dead:
            self._go_on(who, self.electors[who].attempt(), None)

    def _go_on(self, who: int, rounds: Generator[ApiRequest, ApiAnswer, float], answer: ApiAnswer | None) -> None:
        if who in self.dead:
            return
        try:
            request = next(rounds) if answer is None else rounds.send(answer)
        except StopIteration as end:
            self.at(self.now + end.value, lambda: self._round(who))
            return
        self._send(who, request, lambda answer: self._go_on(who, rounds, answer))

    def _send(self, who: int, request: ApiRequest, then: Callable[[ApiAnswer], None]) -> None:
        there, back = self._fates.pop(0) if self._fates else (0.01, 0.01)
        there, back = self.slow.get(who, (there, back))
        if who in self.cut:
            there = LOST
        waiting = [True]

        def answered(answer: ApiAnswer) -> None:
            if waiting:
                waiting.clear()
                then(answer)

        def arrive() -> None:
            answer = self.server.do(request)
            if back is not LOST:
                self.at(self.now + back, lambda: answered(answer))

        if there is not LOST:
            self.at(self.now + there, arrive)
        self.at(self.now + LIMIT, lambda: answered(NO_ANSWER))


def check_apart(spans: list[Span], gap: float) -> None:
    """Between the last moment of one leader and the first of the next lies the gap."""
    for one, other in pairwise(spans):
        assert one.who == other.who or one.end + gap <= other.begin + 1e-6, (one, other)


DELAYS = st.sampled_from([0.01, 0.01, 0.5, 2.0, 4.0, 7.0, 12.0, 30.0, LOST])


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(DELAYS, DELAYS), max_size=60), st.integers(2, 3))
def test_one_replica_at_most_may_write(fates: list[Fate], replicas: int) -> None:
    story = LeaseStory(replicas, fates)
    story.play(200)
    check_apart(story.spans, 5.0)
    assert len(story.leaders()) == 1, "the network is well, and no replica leads"


@settings(max_examples=examples(30))
@given(st.floats(0, 40), st.floats(0, 60), st.lists(st.tuples(DELAYS, DELAYS), max_size=20))
def test_a_leader_without_network_stops_before_another_starts(cut: float, long: float, fates: list[Fate]) -> None:
    story = LeaseStory(2, fates)
    story.at(cut, lambda: story.cut.update(story.leaders()))
    story.at(cut + long, story.cut.clear)
    story.play(300)
    check_apart(story.spans, 5.0)
    assert len(story.leaders()) == 1


@settings(max_examples=examples(30))
@given(st.floats(0, 6), st.sampled_from([0.01, 1.0, 4.9]), st.sampled_from([0.01, 1.0, 4.9]))
def test_the_deadline_counts_from_the_sending_of_a_renewal(long: float, there: float, back: float) -> None:
    story = LeaseStory(2, [])
    story.play(20)
    (leader,) = story.leaders()
    story.slow[leader] = (there, back)
    story.at(20 + long, lambda: story.cut.add(leader))
    story.play(60)
    check_apart(story.spans, 5.0)
    assert story.leaders() == [1 - leader]


@settings(max_examples=examples(30))
@given(st.floats(5, 60))
def test_a_leader_that_is_killed_is_replaced_within_the_duration_and_a_look(when: float) -> None:
    story = LeaseStory(2, [])
    story.play(when)
    (leader,) = story.leaders()
    story.dead.add(leader)
    story.play(when + 10.1)
    assert story.leaders() == []  # the dead one's time is up
    story.play(when + 15 + 1.2)
    assert story.leaders() == [1 - leader]


def test_a_released_lease_is_taken_at_once() -> None:
    story = LeaseStory(2, [])
    story.play(20)
    (leader,) = story.leaders()
    story.dead.add(leader)
    rounds = story.electors[leader].release()
    request = next(rounds)
    assert not story.electors[leader].may_write()
    with pytest.raises(StopIteration):
        rounds.send(story.server.do(request))
    story.play(21.1)
    assert story.leaders() == [1 - leader]


def finish(rounds: Generator[ApiRequest, ApiAnswer, float], request: ApiRequest, server: LeaseServer) -> None:
    with contextlib.suppress(StopIteration):
        while True:
            request = rounds.send(server.do(request))


def test_a_lease_that_a_forgotten_renewal_has_changed_is_released_all_the_same() -> None:
    story = LeaseStory(1, [])
    story.play(20)
    elector = story.electors[0]
    forgotten = next(elector.attempt())  # the keeper is cancelled before the answer comes
    story.server.do(forgotten)
    rounds = elector.release()
    request = next(rounds)
    finish(rounds, request, story.server)
    assert story.server.lease is not None
    assert story.server.lease["spec"]["holderIdentity"] is None


def test_a_lease_that_another_has_taken_is_not_released() -> None:
    story = LeaseStory(1, [])
    story.play(20)
    rounds = story.electors[0].release()
    request = next(rounds)
    assert story.server.lease is not None
    story.server.lease["spec"]["holderIdentity"] = "another"
    story.server.lease["metadata"]["resourceVersion"] = "99"
    finish(rounds, request, story.server)
    assert story.server.lease["spec"]["holderIdentity"] == "another"


def test_who_does_not_hold_the_lease_releases_nothing() -> None:
    story = LeaseStory(2, [])
    story.play(20)
    (leader,) = story.leaders()
    assert list(story.electors[1 - leader].release()) == []


def test_a_holder_with_a_longer_duration_is_waited_for() -> None:
    story = LeaseStory(1, [])
    spec = {"holderIdentity": "elsewhere", "leaseDurationSeconds": 60}
    story.server.lease = {"metadata": {"uid": "l1", "resourceVersion": "1"}, "spec": spec}
    story.play(59)
    assert story.leaders() == []
    story.play(62)
    assert story.leaders() == [0]


@pytest.mark.parametrize("broken", [{"retry": 10}, {"renew_deadline": 15}, {"identity": ""}, {"retry": 0}])
def test_spans_that_make_no_sense_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LeaseSettings(**{"identity": "a", **broken})


# -- on an event loop --------------------------------------------------------------------------------------------


def test_the_keeper_says_when_it_leads_and_when_it_does_not_any_more() -> None:
    """The server falls silent: the alarm rings at the deadline although the keeper still waits for an answer."""
    server = LeaseServer()
    said: list[bool] = []

    async def story() -> None:
        silent = asyncio.Event()
        clock = asyncio.get_running_loop().time

        async def send(request: ApiRequest) -> ApiAnswer:
            if silent.is_set():
                await asyncio.sleep(60)
            return server.do(request)

        elector = Elector(LeaseSettings("a"), lambda: clock() * 200, lambda: BEGIN)
        keeper = LeaseKeeper(elector, send, said.append, lambda seconds: asyncio.sleep(seconds / 200))
        task = asyncio.create_task(keeper.keep())
        while not said:
            await asyncio.sleep(0.001)
        silent.set()
        while len(said) < 2:
            await asyncio.sleep(0.001)
            keeper._look()  # the alarm is set in seconds of the event loop, which are slower here
        task.cancel()
        assert not elector.may_write()

    asyncio.run(asyncio.wait_for(story(), 20))
    assert said == [True, False]


def test_the_keeper_releases_at_a_clean_end() -> None:
    server = LeaseServer()
    said: list[bool] = []

    async def story() -> None:
        async def send(request: ApiRequest) -> ApiAnswer:
            return server.do(request)

        keeper = LeaseKeeper(
            Elector(LeaseSettings("a"), asyncio.get_running_loop().time, lambda: BEGIN), send, said.append
        )
        task = asyncio.create_task(keeper.keep())
        while not said:
            await asyncio.sleep(0)
        task.cancel()
        await keeper.release()

    asyncio.run(asyncio.wait_for(story(), 20))
    assert said == [True, False]
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] is None


# -- terms -------------------------------------------------------------------------------------------------------


def test_a_term_ends_when_another_has_led_and_not_by_a_gap_alone() -> None:
    story = LeaseStory(2, [])
    story.play(5.0)
    first, other = story.electors
    assert (first.term, other.term) == (1, 0)
    story.cut.add(0)
    story.cut.add(1)
    story.play(40.0)
    assert not first.may_write()
    story.cut.discard(0)
    story.play(60.0)
    assert first.may_write()
    assert (first.term, first.was_cut_off) == (1, False)  # no other could have led
    story.cut.add(0)
    story.cut.discard(1)
    story.play(100.0)
    assert other.may_write()
    story.cut.discard(0)
    story.play(110.0)
    assert first.was_cut_off
    story.dead.add(1)
    story.play(150.0)
    assert first.may_write()
    assert first.term == 2


def test_a_lease_that_was_taken_without_knowing_is_a_new_term() -> None:
    """The answer to the request that takes it is lost: the next look finds it held by this replica."""
    story = LeaseStory(2, [])
    story.play(5.0)
    story.dead.add(0)
    taker = story.electors[1]
    story.play(19.0)
    story.slow[1] = (0.01, LOST)
    story.play(30.0)
    assert not taker.may_write()
    del story.slow[1]
    story.play(60.0)
    assert taker.may_write()
    assert taker.term == 1


def test_a_standby_that_always_reaches_the_server_was_never_cut_off() -> None:
    story = LeaseStory(2, [])
    story.play(60.0)
    story.dead.add(0)
    story.play(100.0)
    assert story.electors[1].may_write()
    assert not story.electors[1].was_cut_off


def test_why_the_lease_cannot_be_had_is_said_once_for_a_reason_that_stays() -> None:
    refusal = ApiAnswer(403, b'{"message": "leases is forbidden"}')
    given = [ApiAnswer(404), refusal, ApiAnswer(404), refusal, NO_ANSWER, NO_ANSWER, ApiAnswer(404), ApiAnswer(409)]
    said: list[str] = []

    async def send(request: ApiRequest) -> ApiAnswer:
        return given.pop(0)

    async def rest(seconds: float) -> None:
        if not given:
            raise asyncio.CancelledError

    keeper = LeaseKeeper(
        Elector(LeaseSettings("me"), lambda: 0.0, lambda: BEGIN), send, lambda leads: None, rest, trouble=said.append
    )
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(keeper.keep())
    path = "/apis/coordination.k8s.io/v1/namespaces/fairway-system/leases"
    assert said == [
        f"POST {path}: 403: leases is forbidden",
        f"GET {path}/fairway: no answer from the API server",
    ]


def test_a_lease_that_went_back_in_time_begins_a_new_term_and_all_is_read_again() -> None:
    """The server's data were restored from a backup: other pods wait than this replica has seen."""
    server = LeaseServer()
    elector = Elector(LeaseSettings("me"), lambda: 0.0, lambda: BEGIN)
    cut_off: list[bool] = []
    rounds = [0]

    async def send(request: ApiRequest) -> ApiAnswer:
        return server.do(request)

    async def rest(seconds: float) -> None:
        rounds[0] += 1
        if rounds[0] == 3:
            server.version = 0
            assert server.lease is not None
            server.lease["metadata"]["resourceVersion"] = "0"
        if rounds[0] == 6:
            raise asyncio.CancelledError

    keeper = LeaseKeeper(elector, send, lambda leads: None, rest, cut_off=lambda: cut_off.append(True))
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(keeper.keep())
    assert (elector.term, cut_off) == (2, [True])
    assert elector.may_write()
