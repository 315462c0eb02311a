"""The loop: time order, then rank, then the order of planning; arrivals one ahead."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from fairway.sim.loop import EventLoop, Rank


def test_releases_and_arrivals_come_before_the_pass_of_their_instant() -> None:
    loop, seen = EventLoop(0), list[str]()
    loop.plan(5, Rank.PASS, seen.append, "pass")
    loop.plan(5, Rank.CHANGE, seen.append, "change")
    loop.feed([(5, "first"), (5, "second")], lambda job: job[0], lambda job: seen.append(job[1]))
    loop.plan(5, Rank.RELEASE, seen.append, "end")
    loop.run()
    assert seen == ["end", "first", "second", "change", "pass"]


def test_arrivals_are_read_one_ahead() -> None:
    read = []

    def source() -> Iterator[int]:
        for when in range(100):
            read.append(when)
            yield when

    loop = EventLoop(0)
    loop.feed(source(), lambda when: when, lambda _: None)
    loop.run(until=9)
    assert (len(read), loop.now) == (11, 9)


def test_a_cancelled_event_does_not_happen() -> None:
    loop, seen = EventLoop(0), list[str]()
    number = loop.plan(1, Rank.RELEASE, seen.append, "no")
    loop.plan(2, Rank.RELEASE, seen.append, "yes")
    loop.cancel(number)
    assert loop.next_time == 2
    loop.run()
    assert (seen, loop.now) == (["yes"], 2)


def test_what_is_planned_for_the_past_happens_now() -> None:
    loop, seen = EventLoop(10), list[int]()
    loop.plan(3, Rank.CHANGE, lambda _: seen.append(loop.now), None)
    loop.run(until=20)
    assert (seen, loop.now) == ([10], 20)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(Rank))))
def test_events_happen_in_the_stable_order_of_time_and_rank(planned: list[tuple[int, Rank]]) -> None:
    loop, seen = EventLoop(0), list[tuple[int, Rank, int]]()
    events = [(when, rank, index) for index, (when, rank) in enumerate(planned)]
    for when, rank, index in events:
        loop.plan(when, rank, seen.append, (when, rank, index))
    loop.run()
    assert seen == sorted(events)
