"""Jobs with an earlier deadline go first; enqueue admits a job whose deadline has passed."""

from __future__ import annotations

from fairway.api.arguments import SlaArguments
from fairway.api.settings import Arguments
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.framework.hooks import KeyText, OrderedBy, OrdersJobs, TellsJobKeys, TellsOrder
from fairway.scheduler.framework.job_run import JobRun
from fairway.state.annotations import parse_runtime
from fairway.state.jobs import LAST, Job
from fairway.state.waiting import sla_wait


class Sla(OrdersJobs, TellsJobKeys, TellsOrder):
    """Jobs whose deadline, creation plus `sla-waiting-time`, is earlier go first; those without one come last."""

    name = "sla"
    Arguments = SlaArguments

    def __init__(self, arguments: SlaArguments) -> None:
        self._arguments = arguments

    def ordered_by(self) -> tuple[OrderedBy, ...]:
        """A job that says so overtakes those that came before it."""
        return (OrderedBy.PRIORITY,)

    def job_key(self, job: JobRun) -> Micros:
        return deadline(job.job, self._arguments)

    def job_key_texts(self, job: JobRun) -> list[KeyText]:
        at = self.job_key(job)
        return [KeyText("deadline", at, "none" if at >= LAST else format_rfc3339(at // SECOND * SECOND))]


def deadline(job: Job, arguments: SlaArguments) -> Micros:
    """When a job has waited long enough; `LAST` if never."""
    wait = waiting_limit(job, arguments)
    return LAST if wait is None or job.created is None else job.created + wait


def waiting_limit(job: Job, arguments: Arguments) -> Micros | None:
    """How long a job may wait: as it says itself, else as the policy says."""
    wait = sla_wait(job)
    if wait is None and isinstance(arguments, SlaArguments) and arguments.waiting_time is not None:
        wait = parse_runtime(arguments.waiting_time)
    return wait
