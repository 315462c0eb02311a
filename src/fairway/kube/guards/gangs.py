"""Half-bound gangs: completed, or evicted after a timeout (spec K8).

A plan binds a gang whole, but some of its binds may be refused or stay unanswered, or the process may end between two
of them. The next cycles complete the gang. If they cannot, its bound pods would run alone for ever: after `timeout`
they are evicted and the gang is pending again. All of this is read from the pods, so it holds across a crash; a leader
that finds the timeout expired tries once to complete the gang before it evicts.

A gang that was complete and lost a pod is not half-bound: its pods keep running. How the two are told apart: a bind
that was refused shortly after the others were made, or that is still unanswered, leaves a gang half-bound. After a
crash the pending pods tell: if some of them existed before the others got their nodes, they were left behind; if all
came later, they replace pods that were lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from fairway.api.pods import Pod
from fairway.clock import SECOND, Micros, from_datetime
from fairway.drive import Bind, Change, Cycle, Evict, ObjectStore, Timer, bound_at, pod_key
from fairway.scheduler.plan import Eviction
from fairway.state.cluster import ClusterState, Event
from fairway.state.jobs import WAITING, Job, TaskState

ACTION = "gang"
LOOK_AGAIN: Micros = SECOND
"""Time between two checks of a gang whose binds are still in flight after the timeout."""
FIRST_LOOK: Micros = SECOND // 2
"""Minimum time from becoming the leader to the first check: the first cycle may complete half-bound gangs."""
_BEGUN = ("Running", "Completed")
_ON_A_NODE = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})

CarryOut = Callable[[Sequence[Change]], None]


class GangGuard:
    """A listener of the loop, on its thread. It checks gangs with a refused bind, gangs whose binds are not all seen
    when the timeout expires, and all gangs when this replica becomes the leader.
    """

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        timer: Timer,
        timeout: Micros,
        carry_out: CarryOut,
        timed_out: Callable[[Job, str], None] = lambda job, why: None,
        *,
        catch_up: Callable[[], None] = lambda: None,
        dry_run: bool = False,
    ) -> None:
        """`catch_up` applies what the store has seen, and what was sent, to the state. In a dry run changes count as
        made once they are sent, since they are never seen.
        """
        self._state = state
        self._store = store
        self._timer = timer
        self._timeout = timeout
        self._carry_out = carry_out
        self._timed_out = timed_out
        self._catch_up = catch_up
        self._dry_run = dry_run
        self._watched: dict[str, bool] = {}
        """Jobs that are checked again, by identity, and whether they are certainly half-bound."""
        self._since: dict[str, Micros] = {}
        """When the first refused bind of a job was decided, by the clock of this machine. The server's clock, which
        dates the bindings, may differ.
        """
        self._bound: deque[tuple[Micros, str]] = deque()
        """Bound gangs by key, and when their timeout expires."""
        self._soon: Micros = 0
        """No check before this time."""
        self.leads = False

    def lead(self, leads: bool) -> None:
        begins = leads and not self.leads
        self.leads = leads
        if not leads:
            self._bound.clear()  # the next leader checks all gangs
        if begins:
            self._catch_up()
            self._soon = self._timer.now() + FIRST_LOOK
            for job in self._state.jobs():
                if 0 < job.ready < job.minimum:
                    self._watch(job)

    def applied(self, events: Sequence[Event]) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        """An unanswered bind is never refused: when the timeout expires, it is checked whether all were seen."""
        if not self.leads:
            return
        due = cycle.now + self._timeout
        for key in dict.fromkeys(change.binding.job for change in cycle.changes if isinstance(change, Bind)):
            job = self._state.groups.get(key)
            if job is not None and job.minimum > 1:
                self._bound.append((due, key))
                if len(self._bound) == 1:
                    self._timer.call_at(due, self._check_bound)

    def refused(self, change: Change, why: str) -> None:
        """The pod itself may be gone; its job exists for as long as another pod of it does."""
        job = self._state.groups.get(change.binding.job) if isinstance(change, Bind) else None
        if job is not None and job.minimum > 1 and isinstance(change, Bind):
            times = self._bound_times(job)
            if times and change.at - min(times) < self._timeout:
                self._since.setdefault(job.identity, change.at)
                self._watch(job, is_half=True)

    # -- checks ------------------------------------------------------------------------------------------------

    def _check_bound(self) -> None:
        now = self._timer.now()
        self._catch_up()
        while self._bound and self._bound[0][0] <= now:
            job = self._state.groups.get(self._bound.popleft()[1])
            if job is not None and self._in_flight(job):
                self._watch(job)
        if self._bound:
            self._timer.call_at(self._bound[0][0], self._check_bound)

    def _watch(self, job: Job, *, is_half: bool = False) -> None:
        """Check a gang when its timeout expires; once half-bound, it stays so until it is complete."""
        known, due = self._watched.get(job.identity), self._due(job, is_half=is_half)
        self._watched[job.identity] = is_half or bool(known) or due is not None
        if known is None:
            self._check_at(job.identity, self._timer.now() + self._timeout if due is None else due)

    def _check_at(self, identity: str, when: Micros) -> None:
        self._timer.call_at(max(when, self._soon), lambda: self._check(identity))

    def _check(self, identity: str) -> None:
        self._catch_up()
        is_half, now = self._watched[identity], self._timer.now()
        kind, _, key = identity.partition(" ")
        job = self._state.job_of(kind, key)
        if job is None or not self.leads:
            self._forget(identity)
            return
        due, in_flight = self._due(job, is_half=is_half), self._in_flight(job)
        if due is not None and due <= now and now >= self._soon:
            self._evict(job, in_flight)
            due = None
        if in_flight:  # their outcome is unknown
            due = now + LOOK_AGAIN
        if due is None:
            self._forget(identity)
        else:
            self._check_at(identity, due)

    def _forget(self, identity: str) -> None:
        del self._watched[identity]
        self._since.pop(identity, None)

    def _due(self, job: Job, *, is_half: bool) -> Micros | None:
        """When the timeout of a half-bound gang expires; None if it is not half-bound. Binds that are not seen yet do
        not count; while there are some, the timeout starts again with each that is seen: a slow server is no dead end.
        """
        in_flight = self._in_flight(job)
        times = self._bound_times(job, but=in_flight)
        first = min(times, default=None)
        if first is None or not 0 < job.ready - len(in_flight) < job.minimum or job.phase in _BEGUN:
            return None
        created = [pod.metadata.creation_timestamp for pod in self._pods(job, WAITING)]
        left_behind = any(time is not None and from_datetime(time) <= first for time in created)
        sent = [bind.at for bind in in_flight.values()]
        are_together = bool(sent) and min(sent) - first < self._timeout
        if not is_half and not left_behind and not are_together:
            return None
        return (max([*times, *sent]) if sent else self._since.get(job.identity, first)) + self._timeout

    def _bound_times(self, job: Job, but: Collection[str] = ()) -> list[Micros]:
        """When its pods got their nodes, from their conditions."""
        pods = self._pods(job, _ON_A_NODE, but)
        return [time for pod in pods if (time := bound_at(pod)) is not None]

    def _in_flight(self, job: Job) -> dict[str, Bind]:
        """Binds in flight by pod. Those that wait for drivers are left out: they have a timeout of their own, after
        which they are refused.
        """
        if self._dry_run:
            return {}
        return {
            task.key: change
            for task in job.tasks
            if task.state in _ON_A_NODE
            for change in self._store.sent_to(pod_key(task.key))
            if isinstance(change, Bind) and not change.awaits
        }

    def _evict(self, job: Job, in_flight: Collection[str]) -> None:
        seconds, bound = self._timeout // SECOND, job.ready - len(in_flight)
        why = f"{bound} of {job.minimum} pods of the gang {job.key} could be bound within {seconds} s"
        changes = []
        for pod in self._pods(job, _ON_A_NODE, in_flight):
            if pod.metadata.deletion_timestamp is None:
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                eviction = Eviction(name, pod.spec.node_name, job.key, ACTION, why)
                changes.append(Evict(pod_key(name), pod.metadata.uid, eviction, self._timer.now()))
        self._timed_out(job, why)
        self._store.sent(changes)
        self._carry_out(changes)

    def _pods(self, job: Job, states: frozenset[TaskState], but: Collection[str] = ()) -> Iterator[Pod]:
        for task in job.tasks:
            if task.state in states and task.key not in but:
                found = self._store.get(pod_key(task.key))
                if isinstance(found, Pod):
                    yield found
