"""When the pieces of a watch are passed on: at once after a rest, together while there are many."""

from __future__ import annotations

import pytest

from fairway.kube.http.wire import BUSY, BUSY_GATHER, FULL, GATHER, StreamedBody


class Handle:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """What a body uses of an event loop."""

    def __init__(self) -> None:
        self.now = 100.0
        self.planned: list[tuple[float, Handle]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay, call) -> Handle:
        self.planned.append((delay, Handle()))
        self.call = call
        return self.planned[-1][1]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds


class Line:
    def __init__(self) -> None:
        self.reads = True

    def pause(self) -> None:
        self.reads = False

    def resume(self) -> None:
        self.reads = True


def started(first: int) -> tuple[Clock, Line, StreamedBody]:
    """A body of which a first piece of so many bytes was passed on, after a rest."""
    clock, line = Clock(), Line()
    body = StreamedBody(clock, line, lambda: None)  # type: ignore[arg-type]
    clock.pass_time(1)
    body.feed(b"x" * first)
    assert not clock.planned
    body._unread = 0  # it was taken
    return clock, line, body


@pytest.mark.parametrize(("first", "wait"), [(1, GATHER), (BUSY, GATHER), (BUSY + 1, BUSY_GATHER)])
def test_after_much_the_next_piece_waits_for_longer(first: int, wait: float) -> None:
    clock, line, body = started(first)
    clock.pass_time(0.001)
    body.feed(b"y")
    assert clock.planned[0][0] == pytest.approx(wait - 0.001)
    assert not line.reads
    clock.call()
    assert line.reads


def test_after_a_rest_nothing_waits() -> None:
    clock, line, body = started(BUSY + 1)
    clock.pass_time(BUSY_GATHER)
    body.feed(b"y")
    assert not clock.planned
    assert line.reads


def test_a_great_deal_does_not_wait() -> None:
    clock, line, body = started(BUSY + 1)
    body.feed(b"y" * FULL)
    assert not clock.planned
    assert line.reads


def test_pieces_that_come_one_by_one_are_soon_passed_on_again() -> None:
    clock, _, body = started(BUSY + 1)
    body.feed(b"y")
    clock.pass_time(BUSY_GATHER)
    clock.call()
    clock.pass_time(GATHER)
    body._unread = 0
    body.feed(b"z")
    assert len(clock.planned) == 1
