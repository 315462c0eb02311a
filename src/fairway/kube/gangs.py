"""Gangs of which only some pods were bound: completed, or evicted after a time (K8).

A plan binds a gang whole, but some of its binds may be refused, or the process may end between two of them. The next
cycles complete the gang. Where they cannot, its bound pods would run alone for ever: after `timeout` they are evicted
and the gang waits again. Nothing of this is remembered anywhere but in the pods, so it holds across a crash.

A gang that was complete once and lost a pod is another thing: its pods go on. How the two are told apart: a bind that
was refused shortly after the others were made leaves a gang half-bound. After a crash it is the pods that wait: if some
of them were there before the others got their nodes, they were left behind; if all came later, they replace pods that
were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fairway.api.pods import Pod
from fairway.clock import Micros, from_datetime
from fairway.drive import objects
from fairway.drive.change import Bind, Change, Evict
from fairway.drive.changes import pod_key
from fairway.drive.loop import Cycle
from fairway.drive.store import ObjectStore
from fairway.drive.world import Timer
from fairway.scheduler.plan import Eviction
from fairway.state.cluster import ClusterState, Event
from fairway.state.jobs import WAITING, Job, TaskState

ACTION = "gang"
_BEGUN = ("Running", "Completed")
_ON_A_NODE = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})

CarryOut = Callable[[Sequence[Change]], None]


class GangGuard:
    """A listener of the loop, on its thread. It looks at the gangs of which a bind was refused, and at all gangs when
    this replica begins to lead.
    """

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        timer: Timer,
        timeout: Micros,
        carry_out: CarryOut,
        timed_out: Callable[[Job, str], None] = lambda job, why: None,
    ) -> None:
        self._state = state
        self._store = store
        self._timer = timer
        self._timeout = timeout
        self._carry_out = carry_out
        self._timed_out = timed_out
        self._watched: dict[str, bool] = {}
        """Jobs that are looked at again, by their identity, and whether a bind of theirs was refused."""
        self.leads = False

    def lead(self, leads: bool) -> None:
        self.leads = leads
        if leads:
            for job in self._state.jobs():
                if 0 < job.ready < job.minimum:
                    self._watch(job, refused=False)

    def applied(self, events: Sequence[Event]) -> None: ...

    def decided(self, cycle: Cycle) -> None: ...

    def refused(self, change: Change, why: str) -> None:
        """The pod itself may be gone by now; its job is not, as long as another pod of it is there."""
        job = self._state.groups.get(change.binding.job) if isinstance(change, Bind) else None
        if job is not None and job.minimum > 1 and isinstance(change, Bind):
            first = self._first_bound(job)
            if first is not None and change.at - first < self._timeout:
                self._watch(job, refused=True)

    def _watch(self, job: Job, *, refused: bool) -> None:
        known = job.identity in self._watched
        self._watched[job.identity] = refused or self._watched.get(job.identity, False)
        if not known:
            due = self._due(job, refused=refused)
            when = self._timer.now() + self._timeout if due is None else due
            self._timer.call_at(when, lambda: self._look(job.identity))

    def _look(self, identity: str) -> None:
        refused = self._watched.pop(identity)
        kind, _, key = identity.partition(" ")
        job = self._state.job_of(kind, key)
        if job is None or not self.leads:
            return
        due = self._due(job, refused=refused)
        if due is None:
            return
        if due > self._timer.now():
            self._watch(job, refused=refused)
        else:
            self._evict(job)

    def _due(self, job: Job, *, refused: bool) -> Micros | None:
        """When the time of a half-bound gang is over; None if it is not one."""
        first = self._first_bound(job)
        if first is None or not 0 < job.ready < job.minimum or job.phase in _BEGUN:
            return None
        created = [pod.metadata.creation_timestamp for pod in self._pods(job, WAITING)]
        left_behind = any(time is not None and from_datetime(time) <= first for time in created)
        return first + self._timeout if refused or left_behind else None

    def _first_bound(self, job: Job) -> Micros | None:
        times = [time for pod in self._pods(job, _ON_A_NODE) if (time := objects.bound_at(pod)) is not None]
        return min(times, default=None)

    def _evict(self, job: Job) -> None:
        seconds = self._timeout // 1_000_000
        why = f"{job.ready} of {job.minimum} pods of the gang {job.key} could be bound within {seconds} s"
        changes = []
        for task in job.tasks:
            pod = self._pod(task.key)
            if task.state in _ON_A_NODE and pod is not None and pod.metadata.deletion_timestamp is None:
                eviction = Eviction(task.key, pod.spec.node_name, job.key, ACTION, why)
                changes.append(Evict(pod_key(task.key), pod.metadata.uid, eviction, self._timer.now()))
        self._timed_out(job, why)
        self._store.sent(changes)
        self._carry_out(changes)

    def _pods(self, job: Job, states: frozenset[TaskState]) -> Iterable[Pod]:
        for task in job.tasks:
            pod = self._pod(task.key) if task.state in states else None
            if pod is not None:
                yield pod

    def _pod(self, key: str) -> Pod | None:
        found = self._store.get(pod_key(key))
        return found if isinstance(found, Pod) else None
