"""`StatusWriter`: keeps the statuses of pods, PodGroups, queues and classes up to date (spec K9, K10).

It listens to the loop. After a cycle with reasons it writes why pods are pending, the phase of PodGroups, and what
queues and classes have allocated; each only where it differs from the object, and not more often than `throttle`
allows. What may not be written yet is written by `look_again` when it is due, with or without another cycle; so is the
status of a group whose pods only started or ended, which no cycle follows. Writes go to `submit`, at most one per
object and call; a newer one replaces one that has not left yet. Everything here runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fairway.api import kinds
from fairway.api.devices import ResourceClass
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup, Queue
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.drive import SCHEDULED, Change, Cycle, ObjectStore
from fairway.kube.requests.reservations import GroupVersions
from fairway.kube.requests.statuses import GATED, UNSCHEDULABLE, StatusWrite, class_status, pod_waits, queue_status
from fairway.kube.status.groups import GroupFacts, QueueCounts, count_jobs, group_facts, group_write, shown_facts
from fairway.kube.throttle import INTERVAL, DeferredWrites, StatusFacts
from fairway.scheduler.plan import ClassStanding, GroupStatus, Pending, QueueStanding
from fairway.scheduler.verdict import Reason
from fairway.state.annotations import is_held
from fairway.state.cluster import ClusterState, Deleted, Event
from fairway.state.jobs import WAITING, TaskState
from fairway.state.reader import group_of

Submit = Callable[[Sequence[StatusWrite]], None]

_UNPLACED = WAITING | {TaskState.GATED}
_MAX_STALE = 1000
"""Number of jobs that are no longer pending and still remembered."""

MAX_RETRY_WAIT: Micros = 600 * SECOND
"""Until a status that is refused repeatedly is tried again."""

JobIdentity = str
"""`Job.identity`: kind and key."""

_Wanted = GroupFacts | ClassStanding | dict[str, Any]
"""The wanted status of an object; a dict is that of a queue."""


class StatusWriter:
    """The listener. `groups` has the PodGroups that are not Volcano's."""

    def __init__(self, state: ClusterState, store: ObjectStore, groups: GroupVersions, submit: Submit) -> None:
        self._state = state
        self._store = store
        self._groups = groups
        self._submit = submit
        self._jobs: DeferredWrites[JobIdentity, Pending] = DeferredWrites()
        """By job: why its pods are pending."""
        self._objects: DeferredWrites[ObjectKey, _Wanted] = DeferredWrites()
        self._unexplained: dict[JobIdentity, list[str]] = {}
        """New pods whose condition does not give a reason yet."""
        self._stirred: dict[str, None] = {}
        """Groups that are new, or whose pods changed, since the last look."""
        self._undecided: dict[str, None] = {}
        """New groups that wait for the next plan: it may admit them at once."""
        self._planned: dict[str, GroupStatus] = {}
        """Groups in the last plan with reasons: those that are pending, and those that it places."""
        self._standings: Sequence[QueueStanding] = ()
        self._counts = QueueCounts()
        self._counted: Micros | None = None
        self._recount_at: Micros | None = None
        """When jobs are counted again, if some came or went since."""
        self._refused: dict[ObjectKey, tuple[int, Micros]] = {}
        """How often in a row the status of an object was refused, and when last."""

    # -- the listener ------------------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            thing = event.object
            if isinstance(event, Deleted):
                self._gone(thing)
            elif isinstance(thing, Pod):
                self._pod_came(thing)
            elif isinstance(thing, PodGroup):
                self._stirred[f"{thing.metadata.namespace}/{thing.metadata.name}"] = None

    def decided(self, cycle: Cycle) -> None:
        plan, now = cycle.explain(), cycle.now
        if plan is not None:
            self._planned = {status.name: status for status in plan.status.pod_groups}
            self._stirred.update(dict.fromkeys(self._planned))
            self._stirred.update(self._undecided)
            self._undecided.clear()
            self._standings = plan.queues
            writes = [
                *self._waiting_pods(plan.pending, now),
                *self._stirred_groups(now, after_plan=True),
                *self._queues(now),
                *self._classes(plan.resource_classes, now),
            ]
            self._send(writes, now)

    def refused(self, change: Change, why: str) -> None:
        """The consequences show in the next plan."""

    # -- what else a driver calls ------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether something happened since the last look that may need a write."""
        return bool(self._stirred)

    def look_again(self, now: Micros) -> Micros | None:
        """Write what is due, and the groups whose pods changed; returns when to call again, None if nothing is
        deferred. A driver calls this between cycles.
        """
        writes = [*self._stirred_groups(now)]
        if self._recount_at is not None and now >= self._recount_at:
            writes += self._queues(now)
        self._send(writes, now)
        times = (self._objects.next_due(), self._jobs.next_due(), self._recount_at)
        return min((when for when in times if when is not None), default=None)

    def failed(self, key: ObjectKey, now: Micros) -> Micros | None:
        """A write was refused: the next look compares with the object. Returns when reasons should be computed for it
        though nothing happens; None if it may be dropped. One that is refused repeatedly is tried less and less often.
        """
        self._objects.forget(key)
        if key[0] == "Pod":
            return None  # it is gone, or was bound
        if key[0] == "PodGroup":
            self._stirred[f"{key[1]}/{key[2]}"] = None  # plans have no entry for groups that run
        times, last = self._refused.get(key, (0, now))
        times = 1 if now - last > 2 * MAX_RETRY_WAIT else times + 1
        self._refused[key] = times, now
        return now + min(MAX_RETRY_WAIT, SECOND << min(times - 1, 20))

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
            self._undecided.pop(key, None)
            self._planned.pop(key, None)  # a group created under its name is another one

    def _pod_came(self, pod: Pod) -> None:
        self._stir(pod)
        if pod.spec.node_name:
            return
        known = _pending_reason(pod)
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

    def _send(self, writes: list[StatusWrite], now: Micros) -> None:
        """Submit these writes and the deferred ones that are due."""
        for _, entry in self._jobs.due(now):
            writes += self._pods_of(entry, now)
        for key, wanted in self._objects.due(now):
            writes += self._object(key, wanted, now)
        if writes:
            self._submit(writes)

    def _offer(
        self, key: ObjectKey, facts: StatusFacts, wanted: _Wanted, now: Micros, shown: StatusFacts
    ) -> Iterable[StatusWrite]:
        if self._objects.offer(key, facts, wanted, now, shown):
            yield from self._object(key, wanted, now)

    def _object(self, key: ObjectKey, wanted: _Wanted, now: Micros) -> Iterable[StatusWrite]:
        """Built from the current object: others may have written conditions meanwhile."""
        found = self._store.get(key)
        if isinstance(wanted, GroupFacts) and isinstance(found, PodGroup):
            write = group_write(key, found, wanted, self._groups.get(key), now)
            if write is not None:
                yield write
        elif isinstance(wanted, ClassStanding) and isinstance(found, ResourceClass):
            selector = found.spec.summary()
            yield class_status(key, found.metadata.uid, wanted.allocatable, wanted.requested, selector)
        elif isinstance(wanted, dict) and isinstance(found, Queue):
            yield queue_status(key, found.metadata.uid, wanted)

    # -- pods --------------------------------------------------------------------------------------------------

    def _waiting_pods(self, pending: Iterable[Pending], now: Micros) -> Iterable[StatusWrite]:
        """All pods of a job when its reason changes; otherwise only those that came since."""
        unexplained, self._unexplained = self._unexplained, {}
        pending = list(pending)
        if len(self._jobs) > 2 * len(pending) + _MAX_STALE:
            self._jobs.keep({f"{entry.job_kind} {entry.job}" for entry in pending})
        elif deferred := list(self._jobs.waiting()):
            waiting = {f"{entry.job_kind} {entry.job}" for entry in pending}
            for identity in deferred:
                if identity not in waiting:
                    self._jobs.withdraw(identity)
        for entry in pending:
            identity = f"{entry.job_kind} {entry.job}"
            facts = StatusFacts((), f"{entry.reason}: {entry.message}")
            if self._jobs.offer(identity, facts, entry, now):
                yield from self._pods_of(entry, now)
            else:
                for name in unexplained.get(identity, ()):
                    yield from self._pod(name, entry, now)

    def _pods_of(self, entry: Pending, now: Micros) -> Iterable[StatusWrite]:
        job = self._state.job_of(entry.job_kind, entry.job)
        if job is None and entry.job_kind == "PodGroup":
            job = self._state.groups.get(entry.job)  # pods name the group, but it does not exist
        for task in () if job is None else list(job.tasks):
            if task.state in _UNPLACED:
                yield from self._pod(task.key, entry, now)

    def _pod(self, name: str, entry: Pending, now: Micros) -> Iterable[StatusWrite]:
        """Nothing for pods with scheduling gates: the API server sets their condition."""
        gated, message = entry.reason == Reason.SCHEDULING_GATED, entry.message
        namespace, _, pod_name = name.partition("/")
        key = ("Pod", namespace, pod_name)
        pod = self._store.get(key)
        if not isinstance(pod, Pod) or pod.spec.node_name or pod.spec.scheduling_gates:
            return
        reason = GATED if gated or is_held(pod.metadata) else UNSCHEDULABLE
        if _pending_reason(pod) != (reason, message):
            yield pod_waits(key, pod.metadata.uid, message, _since(pod, now), reason)

    # -- groups ------------------------------------------------------------------------------------------------

    def _stirred_groups(self, now: Micros, *, after_plan: bool = False) -> Iterable[StatusWrite]:
        stirred, self._stirred = self._stirred, {}
        for name in stirred:
            job = self._state.job_of("PodGroup", name)
            namespace, _, group_name = name.partition("/")
            key = ("PodGroup", namespace, group_name)
            group = self._store.get(key)
            if job is None or not isinstance(group, PodGroup):
                continue
            facts = group_facts(job, self._planned.get(name), group.status)
            if facts is None:
                continue
            if not after_plan and facts.phase == "Pending" and name not in self._planned:
                self._undecided[name] = None
                continue
            yield from self._offer(key, facts.compared, facts, now, shown_facts(group))

    # -- queues and classes ------------------------------------------------------------------------------------

    def _queues(self, now: Micros) -> Iterable[StatusWrite]:
        if self._counted is None or now >= self._counted + INTERVAL:
            self._counted, self._recount_at = now, None
            self._counts = count_jobs(self._state, self._planned)
        else:
            self._recount_at = self._counted + INTERVAL  # jobs that came since are not counted yet
        for standing in self._standings:
            key = ("Queue", "", standing.name)
            queue = self._store.get(key)
            if not isinstance(queue, Queue):
                continue
            state = queue.spec.state or queue.status.state or standing.state
            counts = self._counts.get(standing.name)
            facts = StatusFacts((state,), "", (*sorted(standing.allocated.items()), *counts))
            status = {"state": state, "allocated": standing.allocated, **counts._asdict()}
            yield from self._offer(key, facts, status, now, StatusFacts((queue.status.state,)))

    def _classes(self, standings: Iterable[ClassStanding], now: Micros) -> Iterable[StatusWrite]:
        for standing in standings:
            key = ("ResourceClass", "", standing.name)
            thing = self._store.get(key)
            if not isinstance(thing, ResourceClass):
                continue
            known, selector = thing.status, thing.spec.summary()
            shown = StatusFacts()
            if known is not None:
                shown = StatusFacts((known.selector,), "", (known.allocatable, known.requested))
            facts = StatusFacts((selector,), "", (standing.allocatable, standing.requested))
            yield from self._offer(key, facts, standing, now, shown)


def _pending_reason(pod: Pod) -> tuple[str, str] | None:
    """Reason and message of the pod's condition; None if it has none."""
    found = (one for one in pod.status.conditions if one.type == SCHEDULED and one.status == "False")
    return next(((one.reason, one.message) for one in found), None)


def _since(pod: Pod, now: Micros) -> str:
    """Since when it is pending: the time of the first such condition."""
    times = [
        one.last_transition_time for one in pod.status.conditions if one.type == SCHEDULED and one.status == "False"
    ]
    if times and times[0] is not None:
        return times[0].strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_rfc3339(now // SECOND * SECOND)
