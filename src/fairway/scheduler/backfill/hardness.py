"""Whether a planned start can be hard: no job can take its place, and no rule but free capacity can turn it down.

Sure ends are the timeline's matter. This is about order: a planned start is soft where another job may overtake, where
another action may take the capacity, where a queue's limits may refuse the job when its time has come, and where the
job's node must satisfy rules about other pods or devices that nothing keeps free for it.
"""

from __future__ import annotations

from fairway.api.arguments import BackfillArguments
from fairway.scheduler.framework.decisions import Places
from fairway.scheduler.framework.hooks import OrderedBy
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Task

_HARMLESS_ACTIONS = frozenset({"enqueue", "allocate", "backfill"})
_ORDER_HOOKS = ("queue_key", "namespace_key", "job_key")


class Hardness:
    """Answers for one cycle."""

    def __init__(self, session: Session, arguments: BackfillArguments) -> None:
        self._session = session
        told = session.plugins.by_plugin("ordered_by")
        ordering = {name for hook in _ORDER_HOOKS for name in session.plugins.by_plugin(hook)}
        compared = {what for name in ordering if name in told for what in told[name]()}
        self.first_come_first_served = not compared and ordering <= told.keys()
        """Whether jobs that wait stand in the order of their creation."""
        self.keeps_head = self.first_come_first_served or arguments.keep_head
        """Whether the head of the queue stays the head, whatever shares do."""
        self.by_priority = OrderedBy.PRIORITY in compared
        self._every = arguments.mode == "conservative"
        self._alone = all(action.name in _HARMLESS_ACTIONS for action in session.policy.actions)
        self._limits = bool(session.plugins.hooks("allocatable") or session.plugins.hooks("overused"))
        self._external = session.plugins.external_names("allocatable", "overused")
        self._lends = session.rules.lends()
        self._guarantees = any(any(queue.guarantee) for queue in session.accounts.queues.values())

    def possible(self, job: JobRun, places: Places) -> bool:
        if not self._alone or not (self._every or self.keeps_head):
            return False
        if any(self._has_other_rules(task) for task, _ in places) or self._waits_for_itself(job, places):
            return False
        return self._is_allowed_for_sure(job)

    def _waits_for_itself(self, job: JobRun, places: Places) -> bool:
        """Whether a pod of the job runs on one of the nodes: it is not evicted for its own job."""
        return not {task.node for task in job.job.tasks}.isdisjoint(row for _, row in places)

    def _is_allowed_for_sure(self, job: JobRun) -> bool:
        """Whether no limit of its queue can refuse the job later."""
        if not self._limits:
            return True
        if self._external or not self._lends or self._guarantees:
            return False
        return not any(queue.info.capability for queue in job.queue.ancestry)

    def _has_other_rules(self, task: Task) -> bool:
        shape = task.shape
        return bool(shape.ports or shape.has_pod_rules or self._session.nodes.devices.uses_devices(shape))
