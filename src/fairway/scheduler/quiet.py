"""Whether a cycle can do anything at all, told from the state before a session is opened.

Most cycles of a busy cluster find jobs that wait and free capacity for none of them. Where that can be seen at a glance
the plan is empty, and none of what a session needs is built. It is never seen where it is not so: where it is not sure
it says no, and the cycle takes its ordinary course. Such a plan does not say which jobs wait and why.
"""

from __future__ import annotations

from fairway.api.arguments import BackfillArguments, ReserveArguments
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.framework.candidates import may_fit
from fairway.scheduler.plan import Plan, Sources
from fairway.scheduler.reservations.starving import next_starvation, overdue
from fairway.state.cluster import ClusterState
from fairway.state.snapshot import snapshot_of

MANY = 64
"""Of so many templates of jobs that wait each is looked at."""

_UNDERSTOOD = frozenset({"enqueue", "reserve", "allocate", "reclaim", "backfill"})
"""Actions of which is known when they have nothing to do."""


def quiet_plan(state: ClusterState, policy: Policy, now: Micros) -> Plan | None:
    """The plan of a cycle that can do nothing; None if it may do something."""
    reserve = None
    for action in policy.actions:
        if action.name not in _UNDERSTOOD:
            return None
        if isinstance(action.arguments, BackfillArguments) and action.arguments.mode != "besteffort":
            return None
        if isinstance(action.arguments, ReserveArguments):
            reserve = action.arguments
    device_ledger(state)
    snapshot = snapshot_of(state)
    waiting = state.waiting
    if waiting.started or not _all_too_large(state, snapshot.max_idle()):
        return None
    if policy.action("reclaim") is not None and not _one_queue(state):
        return None
    if reserve is None:
        return _nothing(None)
    return None if overdue(state, reserve, now) else _nothing(next_starvation(waiting, reserve, now))


def _all_too_large(state: ClusterState, max_idle: list[int]) -> bool:
    """Whether all that waits asks for more than any node has free. Of many templates the cycle itself knows it sooner,
    for it does not look at those again that it has found to fit nowhere.
    """
    if state.waiting.template_count > MANY:
        return False
    return not any(may_fit(run.shape, max_idle) for template in state.waiting.templates() for run in template.runs)


def _one_queue(state: ClusterState) -> bool:
    """Whether all that waits and all that is allocated is of one queue: then there is nothing to reclaim."""
    queues = {key.queue for template in state.waiting.templates() for key in template.classes}
    queues.update(queue.name for queue in state.queues if any(queue.allocated))
    return len(queues) <= 1


def _nothing(recheck_at: Micros | None) -> Plan:
    return Plan(Sources(bindings=list), placed=0, recheck_at=recheck_at)
