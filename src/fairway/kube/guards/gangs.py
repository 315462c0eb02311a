"""Gangs of which only some pods were bound: completed, or evicted after a time (spec K8).

A plan binds a gang whole, but some of its binds may be refused or find no end, or the process may end between two of
them. The next cycles complete the gang. Where they cannot, its bound pods would run alone for ever: after `timeout`
they are evicted and the gang waits again. Nothing of this is remembered anywhere but in the pods, so it holds across a
crash; a leader that finds the time over tries once to complete the gang before it evicts.

A gang that was complete once and lost a pod is another thing: its pods go on. How the two are told apart: a bind that
was refused shortly after the others were made, or that still has no answer, leaves a gang half-bound. After a crash it
is the pods that wait: if some of them were there before the others got their nodes, they were left behind; if all came
later, they replace pods that were lost.
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
"""Between two looks at a gang whose binds are under way though its time is over."""
FIRST_LOOK: Micros = SECOND // 2
"""After this replica began to lead, at the earliest: its first cycle may complete what is half-bound."""
_BEGUN = ("Running", "Completed")
_ON_A_NODE = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})

CarryOut = Callable[[Sequence[Change]], None]


class GangGuard:
    """A listener of the loop, on its thread. It looks at the gangs of which a bind was refused, at those whose binds
    are not all seen when their time is over, and at all gangs when this replica begins to lead.
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
        """`catch_up` tells the state what the store has seen and what was sent. In a dry run what was sent counts as
        made: it is never seen.
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
        """Jobs that are looked at again, by their identity, and whether it is known that they are half-bound."""
        self._since: dict[str, Micros] = {}
        """For those of which a bind was refused: when that was decided, by the clock of this machine. That of the
        server, by which pods got their nodes, may be another.
        """
        self._bound: deque[tuple[Micros, str]] = deque()
        """Gangs that were bound, by key, and when their time is over."""
        self._soon: Micros = 0
        """No look before this time."""
        self.leads = False

    def lead(self, leads: bool) -> None:
        begins = leads and not self.leads
        self.leads = leads
        if not leads:
            self._bound.clear()  # the next leader looks at all gangs
        if begins:
            self._catch_up()
            self._soon = self._timer.now() + FIRST_LOOK
            for job in self._state.jobs():
                if 0 < job.ready < job.minimum:
                    self._watch(job)

    def applied(self, events: Sequence[Event]) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        """A bind that finds no end is not refused either: when the time is over it is looked whether all are seen."""
        if not self.leads:
            return
        due = cycle.now + self._timeout
        for key in dict.fromkeys(change.binding.job for change in cycle.changes if isinstance(change, Bind)):
            job = self._state.groups.get(key)
            if job is not None and job.minimum > 1:
                self._bound.append((due, key))
                if len(self._bound) == 1:
                    self._timer.call_at(due, self._look_at_bound)

    def refused(self, change: Change, why: str) -> None:
        """The pod itself may be gone by now; its job is not, as long as another pod of it is there."""
        job = self._state.groups.get(change.binding.job) if isinstance(change, Bind) else None
        if job is not None and job.minimum > 1 and isinstance(change, Bind):
            times = self._bound_times(job)
            if times and change.at - min(times) < self._timeout:
                self._since.setdefault(job.identity, change.at)
                self._watch(job, is_half=True)

    # -- looks -------------------------------------------------------------------------------------------------

    def _look_at_bound(self) -> None:
        now = self._timer.now()
        self._catch_up()
        while self._bound and self._bound[0][0] <= now:
            job = self._state.groups.get(self._bound.popleft()[1])
            if job is not None and self._under_way(job):
                self._watch(job)
        if self._bound:
            self._timer.call_at(self._bound[0][0], self._look_at_bound)

    def _watch(self, job: Job, *, is_half: bool = False) -> None:
        """Look at it when its time is over; a gang that is half-bound now is so until it is complete."""
        known, due = self._watched.get(job.identity), self._due(job, is_half=is_half)
        self._watched[job.identity] = is_half or bool(known) or due is not None
        if known is None:
            self._look_at(job.identity, self._timer.now() + self._timeout if due is None else due)

    def _look_at(self, identity: str, when: Micros) -> None:
        self._timer.call_at(max(when, self._soon), lambda: self._look(identity))

    def _look(self, identity: str) -> None:
        self._catch_up()
        is_half, now = self._watched[identity], self._timer.now()
        kind, _, key = identity.partition(" ")
        job = self._state.job_of(kind, key)
        if job is None or not self.leads:
            self._forget(identity)
            return
        due, under_way = self._due(job, is_half=is_half), self._under_way(job)
        if due is not None and due <= now and now >= self._soon:
            self._evict(job, under_way)
            due = None
        if under_way:  # what becomes of them is not known yet
            due = now + LOOK_AGAIN
        if due is None:
            self._forget(identity)
        else:
            self._look_at(identity, due)

    def _forget(self, identity: str) -> None:
        del self._watched[identity]
        self._since.pop(identity, None)

    def _due(self, job: Job, *, is_half: bool) -> Micros | None:
        """When the time of a half-bound gang is over; None if it is not one. Binds that are not seen yet do not count
        as made; while there are some, the time begins again with each that is seen: a slow server is not a dead end.
        """
        under_way = self._under_way(job)
        times = self._bound_times(job, but=under_way)
        first = min(times, default=None)
        if first is None or not 0 < job.ready - len(under_way) < job.minimum or job.phase in _BEGUN:
            return None
        created = [pod.metadata.creation_timestamp for pod in self._pods(job, WAITING)]
        left_behind = any(time is not None and from_datetime(time) <= first for time in created)
        sent = [bind.at for bind in under_way.values()]
        are_together = bool(sent) and min(sent) - first < self._timeout
        if not is_half and not left_behind and not are_together:
            return None
        return (max([*times, *sent]) if sent else self._since.get(job.identity, first)) + self._timeout

    def _bound_times(self, job: Job, but: Collection[str] = ()) -> list[Micros]:
        """When its pods got their nodes, as far as they say so."""
        pods = self._pods(job, _ON_A_NODE, but)
        return [time for pod in pods if (time := bound_at(pod)) is not None]

    def _under_way(self, job: Job) -> dict[str, Bind]:
        """Binds of its pods that were sent and are not seen yet, by the names of the pods. Those that wait for drivers
        have a time of their own, at whose end they are refused.
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

    def _evict(self, job: Job, under_way: Collection[str]) -> None:
        seconds, bound = self._timeout // SECOND, job.ready - len(under_way)
        why = f"{bound} of {job.minimum} pods of the gang {job.key} could be bound within {seconds} s"
        changes = []
        for pod in self._pods(job, _ON_A_NODE, under_way):
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
