"""System pods: nothing evicts them, and they may borrow though what they borrow cannot be taken back."""

from __future__ import annotations

from fairway.state.jobs import Task
from fairway.state.reader import SYSTEM_CLASSES

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = min(SYSTEM_CLASSES.values())


def is_system(task: Task) -> bool:
    """Whether a pod is in kube-system, or has a system-critical priority or priority class."""
    return (
        task.job.namespace == SYSTEM_NAMESPACE
        or task.priority >= SYSTEM_PRIORITY
        or task.traits.priority_class in SYSTEM_CLASSES
    )
