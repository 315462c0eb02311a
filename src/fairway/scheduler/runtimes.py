"""How long a run will take, and how sure that is.

For sure: `activeDeadlineSeconds`, which the kubelet enforces, and `fairway.dev/expected-runtime` (of the pod, or of
its group) where the policy says `overrun: evict`. Not for sure: an expected run time with `overrun: allow`, and an
estimate from the history of that namespace and job name.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fairway.api.arguments import BackfillArguments
from fairway.clock import Micros
from fairway.state.annotations import EXPECTED_RUNTIME, parse_span
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job
from fairway.state.tasks import Task


class Runtime(NamedTuple):
    span: Micros
    certain: bool
    estimated: bool = False


class Runtimes:
    """Run times as one policy sees them."""

    def __init__(self, state: ClusterState, arguments: BackfillArguments) -> None:
        self._state = state
        self._arguments = arguments
        self._factor = Fraction(str(arguments.safety_factor))

    def of(self, task: Task) -> Runtime | None:
        """None if nothing is known."""
        expected = self.expected(task)
        deadline = task.traits.deadline
        if deadline is not None and (expected is None or deadline <= expected):
            return Runtime(deadline, certain=True)
        if expected is not None:
            return Runtime(expected, certain=self._arguments.overrun == "evict")
        return self._estimate(task)

    def of_job(self, tasks: list[Task]) -> Runtime | None:
        """Of several tasks: as long as the longest, as sure as the least sure; None if one is unknown."""
        known = [self.of(task) for task in tasks]
        if not known or any(runtime is None for runtime in known):
            return None
        runtimes = [runtime for runtime in known if runtime is not None]
        return Runtime(
            max(runtime.span for runtime in runtimes),
            all(runtime.certain for runtime in runtimes),
            any(runtime.estimated for runtime in runtimes),
        )

    def expected(self, task: Task) -> Micros | None:
        """What the pod, or its group, says."""
        return task.traits.runtime if task.traits.runtime is not None else _of_group(task.job)

    def _estimate(self, task: Task) -> Runtime | None:
        if self._arguments.estimate == "none":
            return None
        median = self._state.history.median(task.job.namespace, task.job.key.split("/", 1)[1])
        return None if median is None else Runtime(int(median * self._factor), certain=False, estimated=True)


def _of_group(job: Job) -> Micros | None:
    text = (job.annotations or {}).get(EXPECTED_RUNTIME)
    return None if text is None else parse_span(text)
