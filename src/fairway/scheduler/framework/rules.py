"""What the policy allows: the verdicts of its plugins, each combined over all of them as the table of hooks says."""

from __future__ import annotations

from collections.abc import Callable

from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.plugin_set import PluginSet
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.shapes import Shape


class PolicyRules:
    """See the module. `lending` says whether idle capacity is being lent: then deserved shares do not limit."""

    def __init__(self, plugins: PluginSet) -> None:
        combined = plugins.combined
        self.lending = False
        self._plugins = plugins
        self._external_overused = plugins.external("overused")
        self._allocatable = combined("allocatable")
        self._not_allowed = combined("not_allowed")
        self.overused: Callable[[QueueAccount], bool] = combined("overused")
        self.enqueueable: Callable[[JobRun], Verdict] = combined("enqueueable")
        self.job_valid: Callable[[JobRun], Verdict] = combined("job_valid")
        self.job_ready: Callable[[JobRun], bool] = combined("job_ready")
        self.job_pipelined: Callable[[JobRun], bool] = combined("job_pipelined")
        self.lends: Callable[[], bool] = combined("lends")
        """Whether idle capacity goes to other queues than those that deserve it."""
        self.on_allocate: Callable[[JobRun, Shape, int], None] = combined("on_allocate")

    def allocatable(self, queue: QueueAccount, shape: Shape, count: int) -> int:
        """How many of `count` like tasks the queue may take."""
        if not self.lending and self._external_overused and any(o(queue) for o in self._external_overused):
            return 0
        return int(self._allocatable(queue, shape, count))

    def not_allowed(self, job: JobRun) -> Verdict:
        """Why the queue may not take the job's next step, as things stand; `YES` if by now it may."""
        verdict: Verdict = self._not_allowed(job)
        if not verdict.ok:
            return verdict
        failures = self._plugins.failures
        if failures.texts:
            return Verdict(False, Reason.PLUGIN_FAILED, detail="; ".join(failures.texts.values()))
        names = " or ".join(self._plugins.external_names("overused", "allocatable"))
        if not names:
            return YES
        detail = f"plugin {names} does not let queue {job.queue.name} take more"
        return Verdict(False, Reason.QUEUE_OVERUSED, names, detail)
