"""Clocks and pairs: what all benchmarks of the engine share.

Time is this process's own CPU time. `decide` and the baseline kernel run on one core and wait for nothing, so on a
quiet machine it equals wall-clock time; on a busy one it is the cost of the work, without that of other processes.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.scheduler.decide import OpenCycle
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState

clock = time.process_time


Stopwatch = Callable[[], float]
"""Runs something and returns the seconds of its measured part."""


def seconds(action: Callable[[], object]) -> float:
    """Duration of one run; its result is dropped outside the measured time."""
    began = clock()
    result = action()
    took = clock() - began
    del result
    return took


class Paired(NamedTuple):
    """Medians. `ratio` is the median of the ratios of neighbours, not the ratio of the other two."""

    ratio: float
    ours: float
    theirs: float


def paired(ours: Stopwatch, theirs: Stopwatch, repeat: int) -> Paired:
    """Take turns: the reference before and after each measured run."""
    ratios, our_times, their_times = [], [], [theirs()]
    for _ in range(repeat):
        our_times.append(ours())
        their_times.append(theirs())
        ratios.append(2 * our_times[-1] / (their_times[-2] + their_times[-1]))
    return Paired(statistics.median(ratios), statistics.median(our_times), statistics.median(their_times))


def medians(actions: Sequence[Stopwatch], repeat: int) -> list[float]:
    """Durations of several functions, which take turns, so that disturbances hit all of them."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repeat):
        for action, found in zip(actions, times, strict=True):
            found.append(action())
    return [statistics.median(found) for found in times]


def full_cycle(state: ClusterState, policy: Policy, now: Micros) -> Plan:
    """A cycle that takes no shortcut and could be explained; reasons are not worked out."""
    with OpenCycle(state, policy, now) as cycle:
        return cycle.plan


@contextmanager
def quiet() -> Iterator[None]:
    """The garbage collector as the live scheduler has it: what is loaded is out of its sight, and it does not run by
    itself but between cycles. What such a collection takes is a phase of its own.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class Phases:
    """A `Meter`: seconds by phase of a cycle, in the order in which they end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = clock()

    def mark(self, phase: str) -> None:
        now = clock()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
