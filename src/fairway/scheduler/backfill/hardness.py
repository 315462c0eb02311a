"""Whether a planned start can be hard: no job can take its place, and no rule but free capacity can turn it down.

Sure ends are the timeline's matter. This is about order: a planned start is soft where another job may overtake, where
another action may take the capacity, where a queue's limits may refuse the job when its time has come, and where the
job's node must satisfy rules about other pods or devices that nothing keeps free for it.
"""

from __future__ import annotations

from fairway.api.arguments import BackfillArguments, DrfArguments
from fairway.scheduler.backfill.timeline import Places
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.tasks import Task

_HARMLESS_ACTIONS = frozenset({"enqueue", "allocate", "backfill"})
_ORDER_HOOKS = ("queue_key", "namespace_key", "job_key")
_FIRST_COME = frozenset({"gang"})
"""Plugins whose order keeps jobs that wait to start in the order of their creation."""


class Hardness:
    """Answers for one cycle."""

    def __init__(self, session: Session, arguments: BackfillArguments) -> None:
        self._session = session
        ordering = {name for hook in _ORDER_HOOKS for name in session.plugins.names_with(hook)} - _FIRST_COME
        self.first_come_first_served = not ordering
        """Whether jobs that wait stand in the order of their creation."""
        self.keeps_head = self.first_come_first_served or arguments.keep_head
        """Whether the head of the queue stays the head, whatever shares do."""
        self.by_priority = "priority" in ordering or _compares_priority_first(session)
        self._every = arguments.mode == "conservative"
        self._alone = all(action.name in _HARMLESS_ACTIONS for action in session.policy.actions)
        self._limits = session.plugins.names_with("allocatable") or session.plugins.names_with("overused")
        self._external = session.plugins.external_names("allocatable", "overused")
        self._lends = session.lends()
        self._guarantees = any(any(queue.guarantee) for queue in session.queues.values())

    def possible(self, job: JobRun, places: Places) -> bool:
        if not self._alone or not (self._every or self.keeps_head):
            return False
        return self._is_allowed_for_sure(job) and not any(self._has_other_rules(task) for task, _ in places)

    def _is_allowed_for_sure(self, job: JobRun) -> bool:
        """Whether no limit of its queue can refuse the job later."""
        if not self._limits:
            return True
        if self._external or not self._lends or self._guarantees:
            return False
        return not any(queue.info.capability for queue in job.queue.line)

    def _has_other_rules(self, task: Task) -> bool:
        shape = task.shape
        return bool(shape.ports or shape.has_pod_rules or self._session.devices.uses_devices(shape))


def _compares_priority_first(session: Session) -> bool:
    return any(
        isinstance(plugin.arguments, DrfArguments) and plugin.arguments.priority_first
        for plugin in session.policy.plugins()
    )
