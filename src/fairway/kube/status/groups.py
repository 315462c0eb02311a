"""The status of a PodGroup, in the shapes that the APIs of PodGroups have (K10).

Volcano: a phase, counts of pods, and the conditions Scheduled and Unschedulable. Scheduled is written when the group is
ready for the first time and never before: when it changes says since when the group waits. Kubernetes' own: one
condition. Groups of scheduler-plugins have a controller of their own that writes their status.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition, ConditionStatus
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND, Micros, to_datetime
from fairway.kube.requests.paths import VOLCANO
from fairway.kube.requests.statuses import KUBE_GROUPS, StatusWrite, kube_group, volcano_group
from fairway.kube.throttle import StatusFacts
from fairway.scheduler.plan import GroupStatus
from fairway.state.jobs import Job, TaskState

PLACED, WAITS = "Scheduled", "Unschedulable"
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


def facts_of_plan(status: GroupStatus, job: Job) -> GroupFacts | None:
    """Of a group that waits, or that this plan places."""
    if status.phase == "Running":
        return _placed(job, status.running, status.succeeded, status.failed)
    if not job.tasks and job.phase in ("Running", "Completed"):
        return None  # its pods are finished and gone: it does not wait again
    phase = "Unknown" if status.running else status.phase
    said = next((one for one in status.conditions if one["type"] == WAITS), None)
    reason, message = ("", "") if said is None else (said["reason"], said["message"])
    return GroupFacts(phase, status.running, status.succeeded, status.failed, False, reason, message)


def facts_of_counts(job: Job) -> GroupFacts | None:
    """Of a group that the last plan had nothing to say of: it runs, or it has run."""
    counts = dict.fromkeys(TaskState, 0)
    for task in job.tasks:
        counts[task.state] += 1
    if not job.tasks or sum(counts[state] for state in _READY) < max(job.minimum, 1):
        return None
    return _placed(job, counts[TaskState.RUNNING], counts[TaskState.SUCCEEDED], counts[TaskState.FAILED])


def _placed(job: Job, running: int, succeeded: int, failed: int) -> GroupFacts:
    done = succeeded >= max(job.minimum, 1) and succeeded + failed == len(job.tasks)
    return GroupFacts("Completed" if done else "Running", running, succeeded, failed, True, "GangReady")


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
