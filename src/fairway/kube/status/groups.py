"""The status of a PodGroup, in the shapes that the APIs of PodGroups have (spec K10).

Volcano: a phase, counts of pods, and the conditions Scheduled and Unschedulable. Scheduled is written when the group is
ready for the first time and never before: when it changes says since when the group waits. Kubernetes' own: one
condition. Groups of scheduler-plugins have a controller of their own that writes their status.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition, ConditionStatus
from fairway.api.scheduling import PodGroup, PodGroupStatus
from fairway.clock import SECOND, Micros, to_datetime
from fairway.kube.http.paths import VOLCANO
from fairway.kube.requests.statuses import KUBE_GROUPS, StatusWrite, kube_group, volcano_group
from fairway.kube.throttle import StatusFacts
from fairway.scheduler.plan import GroupStatus
from fairway.state.jobs import Job, TaskState

PLACED, WAITS = "Scheduled", "Unschedulable"
_BEGUN = ("Running", "Completed")
_READY = (TaskState.BOUND, TaskState.RUNNING, TaskState.SUCCEEDED)


class GroupFacts(NamedTuple):
    phase: str
    running: int
    succeeded: int
    failed: int
    placed: bool
    reason: str = ""
    message: str = ""

    @property
    def compared(self) -> StatusFacts:
        text = "" if self.placed else f"{self.reason}: {self.message}"
        return StatusFacts((self.phase, str(self.placed)), text, (self.running, self.succeeded, self.failed))


def group_facts(job: Job, said: GroupStatus | None, shown: PodGroupStatus) -> GroupFacts | None:
    """How a group stands: by its pods as they are now, and, while it waits, by what the last plan `said` of it.

    As in Volcano, Running means that the minimum has nodes: its controllers wait for that, not for containers. None
    where nothing is to be said: the next plan has the answer.
    """
    counts = dict.fromkeys(TaskState, 0)
    for task in job.tasks:
        counts[task.state] += 1
    running, succeeded, failed = counts[TaskState.RUNNING], counts[TaskState.SUCCEEDED], counts[TaskState.FAILED]
    ready, ended = sum(counts[state] for state in _READY), succeeded + failed
    minimum = max(job.minimum, 1)
    if not job.tasks and shown.phase in _BEGUN:
        # Its pods are finished and gone: it does not wait again. What they came to is written already.
        return GroupFacts(shown.phase, 0, shown.succeeded, shown.failed, True, "GangReady")
    if said is not None and said.phase == "Running":  # this plan places it: its pods are not there yet
        ready = max(ready, said.scheduled)
    if ready >= minimum or (ended and ended == len(job.tasks) >= minimum):
        phase = "Completed" if ended == len(job.tasks) else "Running"
        return GroupFacts(phase, running, succeeded, failed, True, "GangReady")
    words = None if said is None else next((one for one in said.conditions if one["type"] == WAITS), None)
    if words is None:
        has = ready + counts[TaskState.PENDING]
        reason, message = "GangTooFewPods", f"has {has} of the {minimum} pods it needs at least"
    else:
        reason, message = words["reason"], words["message"]
    if running:
        phase = "Unknown"
    elif said is not None and said.phase != "Running":
        phase = said.phase
    elif shown.phase == "Running" and job.tasks:
        phase = "Unknown"  # it failed, or lost pods that nobody has made again yet
    elif not shown.phase and words is None:
        phase = "Pending"
    else:
        return None
    return GroupFacts(phase, running, succeeded, failed, False, reason, message)


def shown_facts(group: PodGroup) -> StatusFacts:
    """What the object says of itself, to be compared."""
    status = group.status
    known = {one.type: one for one in status.conditions if one.status == "True"}
    placed, waits = known.get(PLACED), known.get(WAITS)
    text = f"{waits.reason}: {waits.message}" if waits is not None and placed is None else ""
    state = (status.phase, str(placed is not None))
    return StatusFacts(state, text, (status.running, status.succeeded, status.failed))


def group_write(
    key: ObjectKey, group: PodGroup, facts: GroupFacts, version: str | None, now: Micros
) -> StatusWrite | None:
    """None where nothing is to be written: the API has another writer, or says once for all that it was placed."""
    uid = group.metadata.uid
    if version is None or version == VOLCANO:
        counts = {"running": facts.running, "succeeded": facts.succeeded, "failed": facts.failed}
        return volcano_group(key, uid, facts.phase, counts, _conditions(group, facts, now))
    if not version.startswith(KUBE_GROUPS):
        return None
    was_placed = any(one.type == PLACED and one.status == "True" for one in group.status.conditions)
    if was_placed and (facts.placed or not version.endswith("/v1alpha2")):
        return None
    return kube_group(key, uid, version, _own_condition(facts, now))


def _conditions(group: PodGroup, facts: GroupFacts, now: Micros) -> list[Condition]:
    """The group's conditions with ours brought up to date; those of other writers stay."""
    known = {one.type: one for one in group.status.conditions}
    if facts.placed:
        known[PLACED] = _condition(known.get(PLACED), PLACED, "True", facts.reason, facts.message, now)
        if WAITS in known:
            known[WAITS] = _condition(known[WAITS], WAITS, "False", facts.reason, "", now)
    else:
        reason = facts.reason or "NotReady"
        known[WAITS] = _condition(known.get(WAITS), WAITS, "True", reason, facts.message, now)
        if PLACED in known:
            known[PLACED] = _condition(known[PLACED], PLACED, "False", reason, facts.message, now)
    return list(known.values())


def _own_condition(facts: GroupFacts, now: Micros) -> Condition:
    if facts.placed:
        return _condition(None, PLACED, "True", "Scheduled", "all pods of the minimum have a node", now)
    return _condition(None, PLACED, "False", "Unschedulable", f"{facts.reason}: {facts.message}", now)


def _condition(
    known: Condition | None, type_: str, status: ConditionStatus, reason: str, message: str, now: Micros
) -> Condition:
    """Its time is when its status last changed."""
    same = known is not None and known.status == status
    since = known.last_transition_time if known is not None and same else None
    return Condition(type_, status, reason, message, since or to_datetime(now // SECOND * SECOND))
