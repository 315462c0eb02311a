"""`StatusWriter`: what is written so that people and machines see how things stand (K9, K10).

It listens to the loop. After a cycle that worked out reasons it says of pods why they wait, of PodGroups how far they
are, of queues and classes what is in use; each only where it differs from what the object says, and not more often than
`throttle` allows. What it wants written goes to `submit`, at most one write per object and cycle; a newer one replaces
one that has not left yet. Everything here runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fairway.api import kinds
from fairway.api.classes import ResourceClass
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup, Queue
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.drive.change import Change
from fairway.drive.loop import Cycle
from fairway.drive.objects import SCHEDULED
from fairway.drive.store import ObjectStore
from fairway.kube.requests.reservations import GroupVersions
from fairway.kube.requests.statuses import GATED, UNSCHEDULABLE, StatusWrite, class_status, pod_waits, queue_status
from fairway.kube.status.groups import GroupFacts, facts_of_counts, facts_of_plan, group_write, shown_facts
from fairway.kube.status.queue_counts import QueueCounts, count_jobs
from fairway.kube.throttle import INTERVAL, StatusFacts, StatusThrottle
from fairway.scheduler.plan import Pending, Plan
from fairway.scheduler.verdict import Reason
from fairway.state.annotations import is_held
from fairway.state.cluster import ClusterState, Deleted, Event
from fairway.state.jobs import WAITING, Job, TaskState
from fairway.state.reader import group_of

Submit = Callable[[Sequence[StatusWrite]], None]

_UNPLACED = WAITING | {TaskState.GATED}
_FEW = 1000
"""Jobs that wait no more and are remembered still."""

LONGEST_WAIT: Micros = 600 * SECOND
"""Until a status that is refused again and again is tried once more."""

JobIdentity = str
"""`Job.identity`: kind and key."""


class StatusWriter:
    """See the module. `groups` says which PodGroups are not Volcano's."""

    def __init__(self, state: ClusterState, store: ObjectStore, groups: GroupVersions, submit: Submit) -> None:
        self._state = state
        self._store = store
        self._groups = groups
        self._submit = submit
        self._jobs: StatusThrottle[JobIdentity] = StatusThrottle()
        self._objects: StatusThrottle[ObjectKey] = StatusThrottle()
        self._unexplained: dict[JobIdentity, list[str]] = {}
        """Pods that came and do not say yet why they wait."""
        self._stirred: dict[str, None] = {}
        """Groups whose pods changed since the last look."""
        self._counted: tuple[Micros, QueueCounts] | None = None
        self._plan: Plan | None = None
        """The last one with reasons, as long as something in it waits until it may be written."""
        self._next: Micros | None = None
        self._refused: dict[ObjectKey, tuple[int, Micros]] = {}
        """How often in a row the statuses of objects were refused, and when last."""

    # -- the listener ------------------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            thing = event.object
            if isinstance(event, Deleted):
                self._gone(thing)
            elif isinstance(thing, Pod):
                self._pod_came(thing)

    def decided(self, cycle: Cycle) -> None:
        if cycle.has_reasons:
            self._plan = cycle.plan
            self._write(cycle.plan, cycle.now)

    def refused(self, change: Change, why: str) -> None:
        """What became of a change shows in the next plan."""

    # -- what else a driver calls ------------------------------------------------------------------------------

    def look_again(self, now: Micros) -> Micros | None:
        """Write what has waited long enough; returns when to call again, None if nothing waits. A driver calls this
        when no cycle comes: a message that has stood must be written although nothing happens any more.
        """
        if self._plan is not None and self._next is not None and now >= self._next:
            self._write(self._plan, now)
        return self._next

    def failed(self, key: ObjectKey, now: Micros) -> Micros | None:
        """A write was refused: the next look compares with what the object says. Returns when reasons should be worked
        out for it though nothing happens any more; None if it may be dropped. One that is refused again and again is
        tried less and less often.
        """
        self._objects.forget(key)
        if key[0] == "Pod":
            return None  # it has gone, or was bound
        if key[0] == "PodGroup":
            self._stirred[f"{key[1]}/{key[2]}"] = None  # plans do not speak of groups that run
        times, last = self._refused.get(key, (0, now))
        times = 1 if now - last > 2 * LONGEST_WAIT else times + 1
        self._refused[key] = times, now
        return now + min(LONGEST_WAIT, SECOND << min(times - 1, 20))

    # -- inside ------------------------------------------------------------------------------------------------

    def _gone(self, thing: ApiObject) -> None:
        self._objects.forget(kinds.key(thing))
        self._refused.pop(kinds.key(thing), None)
        if isinstance(thing, Pod):
            self._stir(thing)
            self._jobs.forget(f"Pod {thing.metadata.namespace}/{thing.metadata.name}")
        elif isinstance(thing, PodGroup):
            key = f"{thing.metadata.namespace}/{thing.metadata.name}"
            self._jobs.forget(f"PodGroup {key}")
            self._stirred.pop(key, None)

    def _pod_came(self, pod: Pod) -> None:
        self._stir(pod)
        if pod.spec.node_name:
            return
        known = _waits_because(pod)
        if known is not None and known[0] == UNSCHEDULABLE:
            return
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        task = self._state.tasks.get(key)
        if task is not None:
            self._unexplained.setdefault(task.job.identity, []).append(key)

    def _stir(self, pod: Pod) -> None:
        group = group_of(pod)
        if group:
            self._stirred[group] = None

    def _write(self, plan: Plan, now: Micros) -> None:
        self._next = None
        writes = [
            *self._waiting_pods(plan.pending, now),
            *self._pod_groups(plan, now),
            *self._queues(plan, now),
            *self._classes(plan, now),
        ]
        if self._next is None:
            self._plan = None
        if writes:
            self._submit(writes)

    def _due(self, key: ObjectKey, facts: StatusFacts, now: Micros, shown: StatusFacts) -> bool:
        if self._objects.is_due(key, facts, now, shown):
            self._objects.wrote(key, facts, now)
            return True
        self._look_at(self._objects.next_look(key))
        return False

    def _look_at(self, when: Micros | None) -> None:
        if when is not None:
            self._next = when if self._next is None else min(self._next, when)

    # -- pods --------------------------------------------------------------------------------------------------

    def _waiting_pods(self, pending: Iterable[Pending], now: Micros) -> Iterable[StatusWrite]:
        """All of a job when its reason changes; else only those that came since."""
        unexplained, self._unexplained = self._unexplained, {}
        pending = list(pending)
        if len(self._jobs) > 2 * len(pending) + _FEW:
            self._jobs.keep({f"{entry.job_kind} {entry.job}" for entry in pending})
        for entry in pending:
            gated = entry.reason == Reason.SCHEDULING_GATED
            identity = f"{entry.job_kind} {entry.job}"
            facts = StatusFacts((), f"{entry.reason}: {entry.message}")
            if self._jobs.is_due(identity, facts, now):
                self._jobs.wrote(identity, facts, now)
                job = self._state.job_of(entry.job_kind, entry.job)
                names = [] if job is None else [task.key for task in job.tasks if task.state in _UNPLACED]
            else:
                names = unexplained.get(identity, [])
                self._look_at(self._jobs.next_look(identity))
            for name in names:
                yield from self._pod(name, gated, entry.message, now)

    def _pod(self, name: str, gated: bool, message: str, now: Micros) -> Iterable[StatusWrite]:
        """Of pods with scheduling gates the API server says so itself."""
        namespace, _, pod_name = name.partition("/")
        key = ("Pod", namespace, pod_name)
        pod = self._store.get(key)
        if not isinstance(pod, Pod) or pod.spec.node_name or pod.spec.scheduling_gates:
            return
        reason = GATED if gated or is_held(pod.metadata) else UNSCHEDULABLE
        if _waits_because(pod) != (reason, message):
            yield pod_waits(key, pod.metadata.uid, message, _since(pod, now), reason)

    # -- groups ------------------------------------------------------------------------------------------------

    def _pod_groups(self, plan: Plan, now: Micros) -> Iterable[StatusWrite]:
        stirred, self._stirred = self._stirred, {}
        for status in plan.status.pod_groups:
            stirred.pop(status.name, None)
            job = self._state.job_of("PodGroup", status.name)
            if job is not None:
                yield from self._group(job, facts_of_plan(status, job), now)
        for name in stirred:
            job = self._state.job_of("PodGroup", name)
            if job is not None:
                yield from self._group(job, facts_of_counts(job), now)

    def _group(self, job: Job, facts: GroupFacts | None, now: Micros) -> Iterable[StatusWrite]:
        namespace, _, name = job.key.partition("/")
        key = ("PodGroup", namespace, name)
        group = self._store.get(key)
        if facts is None or not isinstance(group, PodGroup):
            return
        if self._due(key, facts.compared, now, shown_facts(group)):
            write = group_write(key, group, facts, self._groups.get(key), now)
            if write is not None:
                yield write

    # -- queues and classes ------------------------------------------------------------------------------------

    def _queues(self, plan: Plan, now: Micros) -> Iterable[StatusWrite]:
        if self._counted is None or now >= self._counted[0] + INTERVAL:
            self._counted = (now, count_jobs(self._state, plan))
        else:
            self._look_at(self._counted[0] + INTERVAL)  # jobs that came since are not counted yet
        counts = self._counted[1]
        for standing in plan.queues:
            key = ("Queue", "", standing.name)
            queue = self._store.get(key)
            if not isinstance(queue, Queue):
                continue
            state = queue.spec.state or queue.status.state or standing.state
            of_queue = counts.get(standing.name)
            numbers = (*sorted(standing.allocated.items()), *of_queue)
            facts = StatusFacts((state,), "", numbers)
            if self._due(key, facts, now, StatusFacts((queue.status.state,))):
                status = {"state": state, "allocated": standing.allocated, **of_queue._asdict()}
                yield queue_status(key, queue.metadata.uid, status)

    def _classes(self, plan: Plan, now: Micros) -> Iterable[StatusWrite]:
        for standing in plan.resource_classes:
            key = ("ResourceClass", "", standing.name)
            thing = self._store.get(key)
            if not isinstance(thing, ResourceClass):
                continue
            known, selector = thing.status, thing.spec.summary()
            shown = StatusFacts()
            if known is not None:
                shown = StatusFacts((known.selector,), "", (known.allocatable, known.requested))
            if self._due(key, StatusFacts((selector,), "", (standing.allocatable, standing.requested)), now, shown):
                yield class_status(key, thing.metadata.uid, standing.allocatable, standing.requested, selector)


def _waits_because(pod: Pod) -> tuple[str, str] | None:
    """What the pod's condition says; None if it says nothing of why it waits."""
    found = (one for one in pod.status.conditions if one.type == SCHEDULED and one.status == "False")
    return next(((one.reason, one.message) for one in found), None)


def _since(pod: Pod, now: Micros) -> str:
    """Since when it is known to wait: from the first time that this was written."""
    times = [
        one.last_transition_time for one in pod.status.conditions if one.type == SCHEDULED and one.status == "False"
    ]
    if times and times[0] is not None:
        return times[0].strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_rfc3339(now // SECOND * SECOND)
