"""How long a run will take, and after how long it is over for sure.

For sure: `activeDeadlineSeconds`, which the kubelet enforces, and `fairway.dev/expected-runtime` (of the pod, or of
its group) where the policy says `overrun: evict` and the pod may be evicted. Not for sure: an expected run time with
`overrun: allow`, and an estimate from the history of that namespace and job name.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from fairway.api.arguments import BackfillArguments
from fairway.clock import Micros
from fairway.scheduler.victims.units import is_system
from fairway.state.annotations import EXPECTED_RUNTIME, is_never_evicted, parse_runtime
from fairway.state.cluster import ClusterState
from fairway.state.tasks import Task

FOREIGN = ""
"""The queue of pods of other schedulers, which belong to none."""


@lru_cache(maxsize=64)
def _exactly(factor: float) -> Fraction:
    """The number as it is written, not as a float is kept."""
    return Fraction(str(factor))


class Runtime(NamedTuple):
    """`span` is what to reckon with; after `sure` it is over whatever happens, None if nobody sees to that."""

    span: Micros
    sure: Micros | None
    estimated: bool = False

    @property
    def certain(self) -> bool:
        return self.sure == self.span

    def end(self, began: Micros, now: Micros) -> Micros:
        """When a run that began then will be over; never before now.

        One that has outlived its time is over at any moment if its end is sure. Otherwise it is given twice its time,
        and twice that, each time it outlives it.
        """
        span = self.span
        while began + span <= now and not self.certain:
            span *= 2
            if self.sure is not None and span >= self.sure:
                span = self.sure
                break
        return max(began + span, now)


class Runtimes:
    """Run times as one policy sees them."""

    def __init__(self, state: ClusterState, arguments: BackfillArguments) -> None:
        self._state = state
        self._estimates = arguments.estimate == "user-history"
        self._factor = _exactly(arguments.safety_factor)
        self.evicts = arguments.mode != "besteffort" and arguments.overrun == "evict"
        """Whether runs that outlive their expected time have to go."""
        self._spans: dict[str, Micros | None] = {}
        self._spared = {FOREIGN, *(queue.name for queue in state.queues if queue.never_evict)}
        """Queues whose pods are never evicted, or not by us."""

    def of(self, task: Task) -> Runtime | None:
        """None if nothing is known."""
        expected, deadline = self.expected(task), task.traits.deadline
        if deadline is not None and (expected is None or deadline <= expected):
            return Runtime(deadline, sure=deadline)
        if expected is not None:
            return Runtime(expected, sure=expected if self.evicts and self.may_evict(task) else deadline)
        return self._estimate(task)

    def of_all(self, tasks: Sequence[Task]) -> Runtime | None:
        """Of several tasks: as long as the longest, as sure as the least sure; None if one is unknown."""
        if all(task.traits is tasks[0].traits for task in tasks[1:]):
            tasks = tasks[:1]  # one job and the same traits: the same run time
        known = [runtime for task in tasks if (runtime := self.of(task)) is not None]
        if not known or len(known) < len(tasks):
            return None
        sure = [runtime.sure for runtime in known if runtime.sure is not None]
        return Runtime(
            max(runtime.span for runtime in known),
            max(sure) if len(sure) == len(known) else None,
            any(runtime.estimated for runtime in known),
        )

    def expected(self, task: Task) -> Micros | None:
        """What the pod, or its group, says."""
        if task.traits.runtime is not None or not task.job.annotations:
            return task.traits.runtime
        text = task.job.annotations.get(EXPECTED_RUNTIME)
        if text is None:
            return None
        if text not in self._spans:
            self._spans[text] = parse_runtime(text)
        return self._spans[text]

    def may_evict(self, task: Task) -> bool:
        """Whether nobody has marked the pod as one that is never evicted."""
        job = task.job
        if not task.traits.preemptable or job.queue in self._spared or is_system(task):
            return False
        return not is_never_evicted(job.annotations)

    def _estimate(self, task: Task) -> Runtime | None:
        if not self._estimates:
            return None
        median = self._state.history.median(task.job.namespace, task.job.key.split("/", 1)[1])
        return None if median is None else Runtime(max(1, int(median * self._factor)), sure=None, estimated=True)
