"""Gangs of which only some pods were bound: completed, or evicted after a time (K8).

A plan binds a gang whole, but some of its binds may be refused, or the process may end between two of them. The next
cycles complete the gang. Where they cannot, its bound pods would run alone for ever: after `timeout` they are evicted
and the gang waits again. Nothing of this is remembered anywhere but in the pods, so it holds across a crash.

A gang that was complete once and lost a pod is another thing: its pods go on. It is told by the pods that wait: those
that were created after the others got their nodes replace pods that were there.
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
from fairway.state.cluster import ClusterState
from fairway.state.events import Event
from fairway.state.jobs import Job
from fairway.state.tasks import WAITING, TaskState

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
        self._watched: set[str] = set()
        """Jobs that are looked at again, by their identity."""
        self.leads = False

    def lead(self, leads: bool) -> None:
        self.leads = leads
        if leads:
            for job in self._state.jobs():
                if 0 < job.ready < job.minimum:
                    self._watch(job)

    def applied(self, events: Sequence[Event]) -> None: ...

    def decided(self, cycle: Cycle) -> None: ...

    def refused(self, change: Change, why: str) -> None:
        if isinstance(change, Bind):
            task = self._state.tasks.get(f"{change.key[1]}/{change.key[2]}")
            if task is not None and task.job.minimum > 1:
                self._watch(task.job)

    def _watch(self, job: Job) -> None:
        if job.identity not in self._watched:
            self._watched.add(job.identity)
            self._timer.call_at(self._due(job) or self._timer.now() + self._timeout, lambda: self._look(job.identity))

    def _look(self, identity: str) -> None:
        self._watched.discard(identity)
        kind, _, key = identity.partition(" ")
        job = self._state.job_of(kind, key)
        if job is None or not self.leads:
            return
        due = self._due(job)
        if due is None:
            return
        if due > self._timer.now():
            self._watch(job)
            return
        self._evict(job)

    def _due(self, job: Job) -> Micros | None:
        """When the time of a half-bound gang is over; None if it is not one."""
        if not 0 < job.ready < job.minimum or job.phase in _BEGUN:
            return None
        times = [time for pod in self._pods(job, _ON_A_NODE) if (time := objects.bound_at(pod)) is not None]
        if not times:
            return None
        first = min(times)
        waiting = [pod.metadata.creation_timestamp for pod in self._pods(job, WAITING)]
        replaced = sum(created is not None and from_datetime(created) > first for created in waiting)
        return first + self._timeout if job.ready + replaced < job.minimum else None

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
