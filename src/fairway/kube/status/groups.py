"""The status of PodGroups, in the forms of their APIs (spec K10), and how many jobs of a queue are in which phase.

Volcano: a phase, counts of pods, and the conditions Scheduled and Unschedulable. Scheduled is first written when the
group is ready for the first time: its transition time tells since when the group is pending. Kubernetes' own API: one
condition. Groups of scheduler-plugins have a controller of their own that writes their status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.api.kinds import ObjectKey
from fairway.api.meta import Condition, ConditionStatus
from fairway.api.scheduling import PodGroup, PodGroupStatus
from fairway.clock import SECOND, Micros, to_datetime
from fairway.kube.http.paths import VOLCANO
from fairway.kube.requests.statuses import KUBE_GROUPS, StatusWrite, kube_group, volcano_group
from fairway.kube.throttle import StatusFacts
from fairway.scheduler.plan import GroupStatus
from fairway.state.cluster import ClusterState
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


def group_facts(job: Job, planned: GroupStatus | None, shown: PodGroupStatus) -> GroupFacts | None:
    """The state of a group: from its pods as they are now, and while it is pending from its entry in the last plan.

    As in Volcano, Running means that the minimum has nodes: Volcano's controllers wait for that, not for containers.
    None where the next plan has to decide.
    """
    counts = dict.fromkeys(TaskState, 0)
    for task in job.tasks:
        counts[task.state] += 1
    running, succeeded, failed = counts[TaskState.RUNNING], counts[TaskState.SUCCEEDED], counts[TaskState.FAILED]
    ready, ended = sum(counts[state] for state in _READY), succeeded + failed
    minimum = max(job.minimum, 1)
    if not job.tasks and shown.phase in _BEGUN:
        # Its pods are finished and deleted: it is not pending again. Their outcome was written already.
        return GroupFacts(shown.phase, 0, shown.succeeded, shown.failed, True, "GangReady")
    if planned is not None and planned.phase == "Running":  # placed by this plan: its pods are not bound yet
        ready = max(ready, planned.scheduled)
    if ready >= minimum or (ended and ended == len(job.tasks) >= minimum):
        phase = "Completed" if ended == len(job.tasks) else "Running"
        return GroupFacts(phase, running, succeeded, failed, True, "GangReady")
    words = None if planned is None else next((one for one in planned.conditions if one["type"] == WAITS), None)
    if words is None:
        has = ready + counts[TaskState.PENDING]
        reason, message = "GangTooFewPods", f"has {has} of its minimum of {minimum} pods"
    else:
        reason, message = words["reason"], words["message"]
    if running:
        phase = "Unknown"
    elif planned is not None and planned.phase != "Running":
        phase = planned.phase
    elif shown.phase == "Running" and job.tasks:
        phase = "Unknown"  # it failed, or lost pods that are not recreated yet
    elif not shown.phase and words is None:
        phase = "Pending"
    else:
        return None
    return GroupFacts(phase, running, succeeded, failed, False, reason, message)


def shown_facts(group: PodGroup) -> StatusFacts:
    """The object's own status, for comparison."""
    status = group.status
    known = {one.type: one for one in status.conditions if one.status == "True"}
    placed, waits = known.get(PLACED), known.get(WAITS)
    text = f"{waits.reason}: {waits.message}" if waits is not None and placed is None else ""
    state = (status.phase, str(placed is not None))
    return StatusFacts(state, text, (status.running, status.succeeded, status.failed))


def group_write(
    key: ObjectKey, group: PodGroup, facts: GroupFacts, version: str | None, now: Micros
) -> StatusWrite | None:
    """None where nothing is to be written: the API has another writer, or its condition is final."""
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
    """The group's conditions with ours updated; those of other writers stay."""
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
    """With the time of the last change of its status."""
    same = known is not None and known.status == status
    since = known.last_transition_time if known is not None and same else None
    return Condition(type_, status, reason, message, since or to_datetime(now // SECOND * SECOND))


# -- jobs by queue and phase -------------------------------------------------------------------------------------------


class PhaseCounts(NamedTuple):
    """Jobs by phase, under the field names of a Queue's status."""

    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0


NO_JOBS = PhaseCounts()
_FIELDS = {name.capitalize(): place for place, name in enumerate(PhaseCounts._fields)}


class QueueCounts:
    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, queue: str, phase: str) -> None:
        self._counts.setdefault(queue, [0] * len(_FIELDS))[_FIELDS[phase]] += 1

    def get(self, queue: str) -> PhaseCounts:
        found = self._counts.get(queue)
        return NO_JOBS if found is None else PhaseCounts(*found)


def count_jobs(state: ClusterState, groups: Mapping[str, GroupStatus]) -> QueueCounts:
    """Counts all jobs, PodGroups or not; `groups` are the entries of the last plan. It walks all jobs, so a driver
    calls it from time to time, not in every cycle.
    """
    said = {f"PodGroup {name}": status.phase for name, status in groups.items()}
    counts = QueueCounts()
    for job in state.jobs():
        if job.is_made:
            counts.add(job.queue, said.get(job.identity) or _phase(job))
    return counts


def _phase(job: Job) -> str:
    if job.ready >= max(job.minimum, 1):
        return "Running"
    if not job.tasks:
        return job.phase or "Pending"
    return "Unknown" if job.ready else "Inqueue"
