"""How long a run will take, and after how long it is over for sure.

Requested: `activeDeadlineSeconds`, which the kubelet enforces, and `fairway.dev/expected-runtime` of the pod or its
group. A deadline is sure; an expected run time is where the policy says `overrun: evict` and the pod may be evicted.
The policy's `estimate` says what to plan with instead: the requested time itself, past runs of the same user and job
name, or (in simulations) the true run time. An estimate is never above what was requested, and never sure.

A job that was evicted for outliving its expected run time states none from then on (spec S8.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from fairway.api.arguments import BackfillArguments, ScaledEstimate
from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.unevictable import is_system
from fairway.state.annotations import EXPECTED_RUNTIME, TRUE_RUNTIME, USER, is_never_evicted, parse_runtime
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Task

FOREIGN = ""
"""The queue of pods of other schedulers, which belong to none."""

_MINUTE = 60 * SECOND
_HOUR = 60 * _MINUTE
RAISES: tuple[Micros, ...] = (
    *(minutes * _MINUTE for minutes in (1, 5, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 5, 10, 20, 50, 100)),
)
"""What an estimate is raised by each time that a run outlives it; the last one again and again."""


_parsed = lru_cache(maxsize=1 << 16)(parse_runtime)


@lru_cache(maxsize=64)
def _exactly(factor: float) -> Fraction:
    """The number as it is written, not as a float is kept."""
    return Fraction(str(factor))


class Runtime(NamedTuple):
    """`span` is what to plan with; after `sure` the run is over whatever happens, None if nothing sees to that."""

    span: Micros
    sure: Micros | None
    estimated: bool = False
    requested: Micros | None = None
    """What an estimate is never raised above."""

    @property
    def certain(self) -> bool:
        return self.sure == self.span

    def end(self, began: Micros, now: Micros) -> Micros:
        """When a run that began then will be over; never before now.

        One that has outlived its time is over at any moment if its end is sure. An estimate that was outlived is raised
        step by step up to the requested time. Any other run is given twice its time, and twice that.
        """
        span = self._raised(now - began) if self.estimated else self.span
        while began + span <= now and span != self.sure:
            span *= 2
            if self.sure is not None and span >= self.sure:
                span = self.sure
        return max(began + span, now)

    def _raised(self, elapsed: Micros) -> Micros:
        span, place = self.span, 0
        while span <= elapsed:
            span += RAISES[min(place, len(RAISES) - 1)]
            place += 1
            if self.requested is not None and span >= self.requested:
                return self.requested
        return span

    def is_sure_at(self, began: Micros, end: Micros) -> bool:
        """Whether a run that began then is over for sure by this time."""
        return self.sure is not None and began + self.sure <= end


class Runtimes:
    """Run times as one policy sees them."""

    def __init__(self, state: ClusterState, arguments: BackfillArguments) -> None:
        self._state = state
        self._estimate = arguments.estimate
        scale = self._estimate.scale if isinstance(self._estimate, ScaledEstimate) else 1.0
        self._factor = _exactly(scale)
        self._asks_history = self._estimate == "user-history"
        self._knows_truth = self._estimate == "clairvoyant" or isinstance(self._estimate, ScaledEstimate)
        self.evicts = arguments.mode != "besteffort" and arguments.overrun == "evict"
        """Whether runs that outlive their expected time are evicted."""
        self._spared = {FOREIGN, *state.queues.never_evicted}
        """Queues whose pods are never evicted, or not by us."""

    def basis(self) -> tuple[object, ...]:
        """What answers rest on besides a task and its job: as long as it is the same, so are they."""
        past = self._state.history.generation if self._asks_history else 0
        return self._estimate, self.evicts, self._spared, self._state.priorities.generation, past

    def of(self, task: Task) -> Runtime | None:
        """None if nothing is known."""
        requested = self._requested(task)
        if not self._asks_history and not self._knows_truth:
            return requested
        estimate = self._true(task) if self._knows_truth else self._mean(task)
        if estimate is None or (requested is not None and requested.span <= estimate):
            return requested
        if requested is None:
            return Runtime(estimate, sure=None, estimated=True)
        return Runtime(estimate, requested.sure, estimated=True, requested=requested.span)

    def of_all(self, tasks: Sequence[Task]) -> Runtime | None:
        """Of several tasks: as long as the longest, as sure as the least sure; None if one is unknown."""
        if all(task.traits is tasks[0].traits for task in tasks[1:]):
            tasks = tasks[:1]  # one job and the same traits: the same run time
        known = [runtime for task in tasks if (runtime := self.of(task)) is not None]
        if not known or len(known) < len(tasks):
            return None
        if len(known) == 1:
            return known[0]
        sure = [runtime.sure for runtime in known if runtime.sure is not None]
        return Runtime(
            max(runtime.span for runtime in known),
            max(sure) if len(sure) == len(known) else None,
            any(runtime.estimated for runtime in known),
        )

    def expected(self, task: Task) -> Micros | None:
        """What the pod, or its group, says; nothing if it has been evicted for running longer than that."""
        job = task.job
        if job.overrun is not None:
            return None
        if task.traits.runtime is not None or not job.annotations:
            return task.traits.runtime
        return _span(job.annotations.get(EXPECTED_RUNTIME))

    def may_evict(self, task: Task) -> bool:
        """Whether nothing marks the pod as one that is never evicted."""
        job = task.job
        if not task.traits.preemptable or job.queue in self._spared or is_system(task):
            return False
        return not is_never_evicted(job.annotations)

    def _requested(self, task: Task) -> Runtime | None:
        expected, deadline = self.expected(task), task.traits.deadline
        if deadline is not None and (expected is None or deadline <= expected):
            return Runtime(deadline, sure=deadline)
        if expected is None:
            return None
        return Runtime(expected, sure=expected if self.evicts and self.may_evict(task) else deadline)

    def _mean(self, task: Task) -> Micros | None:
        if task.job.overrun is not None:
            return None
        user = (task.job.annotations or {}).get(USER, "")
        return self._state.history.mean(task.job.namespace, task.job.key.split("/", 1)[1], user)

    def _true(self, task: Task) -> Micros | None:
        """The true run time, which only a simulator knows, times the policy's scale."""
        span = _span((task.job.annotations or {}).get(TRUE_RUNTIME))
        return None if span is None else max(1, int(span * self._factor))


def _span(text: str | None) -> Micros | None:
    return None if text is None else _parsed(text)
