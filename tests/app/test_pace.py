"""Scaled real time: how far a sandbox goes, by a clock that the test holds."""

import re
import time
from fractions import Fraction

from fairway.app.sandbox.pace import Pace, Runner
from fairway.clock import SECOND, Micros
from support.objects import NOW, node, pod
from support.sandboxes import made, phases, running_for

MILLI = 1_000_000


class Hand:
    """A clock of nanoseconds that is moved by hand."""

    def __init__(self) -> None:
        self.now = 123

    def __call__(self) -> int:
        return self.now


def test_time_passes_at_a_multiple_of_ours() -> None:
    hand = Hand()
    pace = Pace(Fraction(60), NOW, hand)
    assert pace.due() == NOW
    hand.now += 100 * MILLI
    assert pace.due() == NOW + 6 * SECOND
    pace.reached(NOW + 6 * SECOND)
    hand.now += 50 * MILLI
    assert pace.due() == NOW + 9 * SECOND


def test_a_machine_that_slept_does_not_rush() -> None:
    hand = Hand()
    pace = Pace(Fraction(60), NOW, hand)
    hand.now += 3_600_000 * MILLI
    assert pace.due() == NOW + 60 * SECOND


def test_the_time_that_a_step_takes_counts() -> None:
    hand = Hand()
    pace = Pace(Fraction(60), NOW, hand)
    for step in range(1, 11):
        hand.now += 100 * MILLI
        due = pace.due()
        hand.now += 50 * MILLI  # deciding takes half as long as waiting
        pace.reached(due)
        assert due == NOW + step * 9 * SECOND - 3 * SECOND


def test_what_could_not_be_reached_is_not_owed() -> None:
    hand = Hand()
    pace = Pace(Fraction(1, 2), NOW, hand)
    hand.now += 200 * MILLI
    assert pace.due() == NOW + SECOND // 10
    pace.reached(NOW + 7)
    assert pace.due() == NOW + 7


def test_a_runner_drives_until_it_is_stopped_and_tells_of_its_failure() -> None:
    sandbox = made(node("n", cpu=1), pod("a", cpu=1, annotations=running_for("1m")))
    runner = Runner(sandbox, Fraction(100_000))
    runner.start()
    while phases(sandbox) != {"a": "finished"}:
        assert runner.failure is None
    runner.stop()
    reached = sandbox.now
    assert sandbox.now == reached
    sandbox.discard()
    broken = Runner(sandbox, Fraction(1))
    broken.start()
    broken._thread.join()
    assert broken.failure is not None


def test_a_runner_that_is_paused_stands_still_and_owes_nothing() -> None:
    sandbox = made(node("n", cpu=1))
    runner = Runner(sandbox, Fraction(1000))
    runner.paused = True
    waits = iter([False] * 3 + [True])
    runner._stopped.wait = lambda _: next(waits)  # type: ignore[method-assign,assignment,misc]
    runner._run()
    assert sandbox.now == NOW
    assert runner.failure is None


def test_a_runner_that_cannot_keep_up_says_so() -> None:
    sandbox = made(node("n", cpu=1))
    runner = Runner(sandbox, Fraction(1000))
    advance = sandbox.advance

    def slow(until: Micros) -> bool:
        time.sleep(1.6)
        return advance(until)

    sandbox.advance = slow  # type: ignore[method-assign]
    runner.start()
    begin = time.monotonic()
    while (said := runner.behind()) is None:
        assert time.monotonic() < begin + 30
        time.sleep(0.05)
    runner.stop()
    assert re.fullmatch(r"x\d+ of x1000", said)
    runner.paused = True
    waits = iter([False, True])
    runner._stopped.wait = lambda _: next(waits)  # type: ignore[method-assign,assignment,misc]
    runner._run()
    assert runner.behind() is None


def test_a_runner_takes_a_new_speed_at_its_next_step() -> None:
    sandbox = made(node("n", cpu=1))
    runner = Runner(sandbox, Fraction(0))
    waits = iter([False, False, True])

    def wait(_: float) -> bool:
        runner.speed = Fraction(10**12)
        return next(waits)

    runner._stopped.wait = wait  # type: ignore[method-assign,assignment]
    runner._run()
    assert sandbox.now > NOW
