"""The deciding thread (spec K5): handed-over events come before due calls; nothing is decided while writes pile up."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fairway.clock import SECOND
from fairway.kube.writing.loop_thread import LoopThread, SteadyClock


def ending(thread: LoopThread, done: list[str], name: str) -> Callable[[], None]:
    """A call that ends the thread."""

    def call() -> None:
        done.append(name)
        thread.stop()

    return call


def test_what_was_handed_over_comes_before_what_is_due() -> None:
    thread, done = LoopThread(), list[str]()
    thread.call_at(0, lambda: done.append("cycle"))
    for name in ("one", "two"):
        thread.hand_over(lambda name=name: done.append(name))  # type: ignore[misc]

    def end() -> None:
        done.append("last")
        thread.call_at(0, thread.stop)

    thread.hand_over(end)
    thread.run()
    assert done == ["one", "two", "last", "cycle"]


def test_calls_are_made_in_order_of_their_times_and_not_after_they_were_cancelled() -> None:
    now, done = [0], list[str]()
    thread = LoopThread(clock=lambda: now[0])
    thread.call_at(20_000, ending(thread, done, "late"))
    thread.call_at(10_000, lambda: done.append("never")).cancel()
    thread.call_at(-5, lambda: done.append("past"))
    thread.run()
    assert done == ["past", "late"]


def test_setting_the_clock_moves_no_call() -> None:
    now, done = [10**15], list[str]()
    thread = LoopThread(clock=lambda: now[0])
    thread.call_at(10**15 + 10_000, ending(thread, done, "call"))
    now[0] = 0
    thread.run()
    assert done == ["call"]


def test_nothing_is_decided_while_the_world_has_no_capacity() -> None:
    thread, done, capacity = LoopThread(), list[str](), [False]
    thread.may_decide = lambda: capacity[0]
    thread.call_at(0, ending(thread, done, "cycle"))
    thread.hand_over(lambda: done.append("answer"))

    def free() -> None:
        done.append("free")
        capacity[0] = True

    timer = threading.Timer(0.05, thread.hand_over, [free])
    timer.start()
    thread.run()
    timer.join()
    assert done == ["answer", "free", "cycle"]


def test_what_was_handed_over_before_the_end_is_still_done_and_nothing_is_decided_after_it() -> None:
    thread, done = LoopThread(), list[str]()
    thread.call_at(0, lambda: done.append("cycle"))
    thread.hand_over(lambda: done.append("before"))
    thread.stop()
    thread.run()
    assert done == ["before"]


def test_an_error_ends_the_thread() -> None:
    thread = LoopThread()
    thread.hand_over(lambda: 1 // 0)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        thread.run()


def test_a_clock_that_is_set_back_is_caught_up_at_half_speed_and_never_goes_back() -> None:
    wall, monotonic = [1_000 * SECOND], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: monotonic[0])

    def after(seconds: float, wall_seconds: float) -> float:
        monotonic[0] += seconds
        wall[0] += int(wall_seconds * SECOND)
        return clock() / SECOND

    assert after(0, 0) == 1_000
    assert after(10, 10) == 1_010
    assert after(2, -58) == 1_011, "a minute was taken back: half speed"
    assert after(100, 100) == 1_061
    assert after(18, 18) == 1_070, "caught up"
    assert after(1, 1) == 1_071
    assert after(1, 3_600) == 4_671, "forward at once"


def test_it_rests_only_where_nothing_is_to_be_done_for_a_while() -> None:
    thread, rests = LoopThread(), list[str]()
    thread.on_idle = lambda: rests.append("rest")
    soon = thread.now() + 5_000
    thread.call_at(soon, lambda: rests.append("soon"))
    thread.call_at(soon + 100_000, lambda: rests.append("later"))
    thread.call_at(soon + 100_001, thread.stop)
    thread.run()
    assert rests == ["soon", "rest", "later"]
