"""A deciding thread that stands still is noticed: a warning with its stack and its object, a metric, and /healthz."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from fairway.api.fleet import Placement
from fairway.api.meta import ObjectMeta
from fairway.app.live.observing import ProgramMetrics
from fairway.app.live.watchdog import PAUSED, StallWatchdog, object_in
from fairway.app.logs import RunLog
from fairway.kube.writing.loop_thread import LoopThread
from fairway.state.jobs import Job

TIMEOUT = 300


class Watched:
    """A loop's thread whose clock is set by hand."""

    def __init__(self, timeout: float = 30, unhealthy_after: float = 300) -> None:
        self.clock = 1000.0
        self.thread = LoopThread(clock=lambda: int(self.clock * 1_000_000), monotonic=lambda: self.clock)
        self.lines: list[dict[str, Any]] = []
        self.metrics = ProgramMetrics()
        log = RunLog("json", write=lambda line: self.lines.append(msgspec.json.decode(line)))
        self.dog = StallWatchdog(self.thread, log, self.metrics, timeout, unhealthy_after, monotonic=lambda: self.clock)
        self._runs = threading.Thread(target=self.thread.run, daemon=True)
        self._runs.start()

    def look(self, later: float = 0) -> list[str]:
        """The messages that a look after so many seconds adds."""
        self.clock += later
        before = len(self.lines)
        self.dog.look()
        return [line["message"] for line in self.lines[before:]]

    def metric(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)

    def settle(self) -> None:
        done = threading.Event()
        self.thread.hand_over(done.set)
        assert done.wait(TIMEOUT)
        while self.thread.stall() is not None:
            threading.Event().wait(0.001)

    def end(self) -> None:
        self.thread.stop()
        self._runs.join(TIMEOUT)


def stuck(watched: Watched, call: Callable[[threading.Event], None]) -> threading.Event:
    """The thread makes a call that ends when the event is set."""
    inside, leave = threading.Event(), threading.Event()

    def outer() -> None:
        inside.set()
        call(leave)

    watched.thread.hand_over(outer)
    assert inside.wait(TIMEOUT)
    return leave


def decide_for(job: Job, leave: threading.Event) -> None:
    leave.wait(TIMEOUT)


def test_a_stuck_cycle_is_reported_with_its_stack_and_its_job() -> None:
    watched = Watched()
    leave = stuck(watched, lambda leave: decide_for(Job("team/slow", "team", "q"), leave))
    assert watched.look() == []
    assert watched.look(29) == []
    assert watched.metric("fairway_stalled_seconds") == 0
    assert watched.look(1) == ["scheduling is stalled"]
    line = watched.lines[-1]
    assert line["level"] == "warning"
    assert line["object"] == "job team/slow"
    assert "in decide_for" in line["stack"]
    assert line["stalled_for"] == "30s"
    assert watched.metric("fairway_stalled_seconds") == 30
    assert watched.metric("fairway_stalls_total") == 1
    assert watched.look(29) == [], "again when the stall has doubled, not at each look"
    assert watched.look(1) == ["scheduling is stalled"]
    leave.set()
    watched.settle()
    assert watched.look() == ["scheduling has resumed"]
    assert watched.metric("fairway_stalled_seconds") == 0
    assert watched.metric("fairway_stalls_total") == 1
    watched.end()


def test_health_fails_after_the_second_limit_and_recovers() -> None:
    watched = Watched()
    leave = stuck(watched, lambda leave: decide_for(Job("a/b", "a", "q"), leave))
    watched.clock += 299
    assert watched.dog.unhealthy() == ""
    watched.clock += 1
    assert watched.dog.unhealthy() == "scheduling has been stalled for 300 s"
    leave.set()
    watched.settle()
    assert watched.dog.unhealthy() == ""
    watched.end()


def test_a_thread_with_nothing_to_do_is_not_stalled() -> None:
    watched = Watched()
    watched.settle()
    assert watched.look(86400) == []
    assert watched.dog.unhealthy() == ""
    watched.end()


def test_a_pause_for_unanswered_writes_is_a_stall_too() -> None:
    watched = Watched()
    watched.settle()
    may, ran = threading.Event(), threading.Event()
    watched.thread.may_decide = may.is_set

    def plan() -> None:
        watched.thread.call_at(watched.thread.now(), ran.set)

    watched.thread.hand_over(plan)
    while watched.thread.stall() is None or watched.thread.stall().is_busy:
        threading.Event().wait(0.001)
    assert watched.look(31) == ["scheduling is stalled"]
    assert watched.lines[-1]["doing"] == PAUSED
    may.set()
    watched.thread.hand_over(lambda: None)
    assert ran.wait(TIMEOUT)
    watched.settle()
    assert watched.look() == ["scheduling has resumed"]
    watched.end()


def test_limits_of_zero_switch_it_off() -> None:
    watched = Watched(timeout=0, unhealthy_after=0)
    leave = stuck(watched, lambda leave: decide_for(Job("a/b", "a", "q"), leave))
    assert watched.look(86400) == []
    assert watched.dog.unhealthy() == ""
    leave.set()
    watched.end()


def test_the_object_is_the_innermost_one_that_belongs_to_a_user() -> None:
    import sys

    def inner(placement: Placement) -> str:
        return object_in(sys._getframe())

    def outer(job: Job) -> str:
        return inner(Placement(metadata=ObjectMeta(name="p", namespace="team")))

    assert outer(Job("a/b", "a", "q")) == "Placement team/p"

    def middle(placement: Placement) -> str:
        return object_in(sys._getframe())

    def around(job: Job) -> str:
        return middle(Placement(metadata=ObjectMeta(name="cluster-wide")))

    assert around(Job("a/b", "a", "q")) == "job a/b"
