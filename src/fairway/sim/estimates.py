"""What a policy that plans by run times has to know of a simulated job, and whether the workload says it."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import BackfillArguments, ScaledEstimate
from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros
from fairway.scheduler.backfill.run_ends import NO_RUN_TIMES
from fairway.sim.jobs import SimJob
from fairway.state.annotations import EXPECTED_RUNTIME, TRUE_RUNTIME, USER, parse_runtime


class Estimates:
    """Tells the scheduler the user of a job and, if the policy is clairvoyant, how long it will run."""

    def __init__(self, policy: Policy) -> None:
        action = policy.action("backfill")
        given = None if action is None else action.arguments
        arguments = given if isinstance(given, BackfillArguments) else BackfillArguments()
        self.from_history = arguments.estimate == "user-history"
        self._needed = arguments.needs_run_times
        self._mode = arguments.mode
        self._clairvoyant = arguments.estimate == "clairvoyant" or isinstance(arguments.estimate, ScaledEstimate)
        self._jobs = 0
        self._known = self.from_history or self._clairvoyant

    def tell(self, job: SimJob) -> None:
        """A job comes."""
        self._jobs += 1
        notes: dict[str, str] = {}
        if self.from_history and job.tenant != job.namespace:
            notes[USER] = job.tenant
        if self._clairvoyant:
            notes[TRUE_RUNTIME] = _text(max(pod.run for pod in job.pods))
        if notes:
            job.annotate(notes)
        if self._needed and not self._known:
            self._known = _states_run_time(job)

    def warnings(self) -> Iterator[str]:
        if self._needed and self._jobs and not self._known:
            yield NO_RUN_TIMES.format(mode=self._mode, what="no job of the workload")


def _states_run_time(job: SimJob) -> bool:
    if job.group is not None and parse_runtime(job.group.metadata.annotations.get(EXPECTED_RUNTIME, "")):
        return True
    return any(
        pod.pod.spec.active_deadline_seconds or parse_runtime(pod.pod.metadata.annotations.get(EXPECTED_RUNTIME, ""))
        for pod in job.pods
    )


def _text(span: Micros) -> str:
    return f"{span // SECOND}.{span % SECOND:06d}"
