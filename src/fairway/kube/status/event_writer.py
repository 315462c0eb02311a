"""Events that people read (`kubectl describe`, `kubectl get events`): one per job and change of reason (spec K11).

`EventWriter` listens to the loop and reports its decisions: Scheduled, FailedScheduling, Preempted, Reserved,
GangTimedOut. An event is about the job: its PodGroup, its controller, or the lone pod. A pending PodGroup has the
reason Unschedulable, which Volcano's tools look for, with Fairway's reason in the text. A changed reason that may not
be written yet is written once it has stood (`DeferredWrites`), and repeated ever less often while the job stays
pending. A repeated event with the same text is a series: the existing event is counted up. Events leave last, and are
dropped and counted if too many wait.

**Pods of pending gangs** (`PodEvents`). A job's reason is in an event about its PodGroup or controller, but the first
thing that a user types is `kubectl describe pod`. So each pod of a pending gang gets one event with the reason, once:
shortly after it came, because the first reason of a gang is nearly always that its other pods are missing. At most
`MAX_PER_JOB` pods of a job get one, and all of them together at most `RATE` a second: a gang of thousands must not
crowd out the events of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND, Micros
from fairway.drive import Change, Cycle, ObjectStore
from fairway.kube.http.paths import VOLCANO
from fairway.kube.requests.reservations import GroupVersions
from fairway.kube.requests.statuses import EventMaker, EventNote, EventWrite, Regarding
from fairway.kube.throttle import DeferredWrites, Repeats, StatusFacts, substance
from fairway.scheduler.plan import Binding, Eviction, Pending
from fairway.state.cluster import ClusterState, Deleted
from fairway.state.events import Event as StateEvent
from fairway.state.jobs import WAITING, Job

REPEATS = Repeats(30 * SECOND, 1800 * SECOND)
"""How often the event of a pending job is repeated. 10,000 such jobs then cost six writes a second."""


class EventWriter:
    """The listener. `submit` returns the number of events it accepted; the others are counted in `dropped`."""

    def __init__(
        self,
        state: ClusterState,
        store: ObjectStore,
        groups: GroupVersions,
        maker: EventMaker,
        submit: Callable[[Sequence[EventWrite]], int],
        *,
        lone_pods: bool = True,
    ) -> None:
        """`lone_pods`: whether the binding of a lone pod gets an event."""
        self._state = state
        self._store = store
        self._groups = groups
        self._maker = maker
        self._submit = submit
        self._lone_pods = lone_pods
        self._reasons: DeferredWrites[str, Pending] = DeferredWrites(repeats=REPEATS)
        """By the identity of the job: why it is pending."""
        self._pods = PodEvents(state)
        self._reserved: set[str] = set()
        self.written = 0
        self.dropped = 0

    def applied(self, events: Sequence[StateEvent]) -> None:
        for event in events:
            thing = event.object
            if isinstance(event, Deleted) and isinstance(thing, Pod | PodGroup):
                identity = f"{type(thing).__name__} {thing.metadata.namespace}/{thing.metadata.name}"
                self._reasons.forget(identity)
                self._pods.forget(identity)
            elif isinstance(thing, Pod) and not thing.spec.node_name:
                self._pods.came(thing)

    def decided(self, cycle: Cycle) -> None:
        self._put(self._notes(cycle))

    @property
    def has_news(self) -> bool:
        return self._pods.has_news

    def look_again(self, now: Micros) -> Micros | None:
        """Write what is due; returns when to call again, None if nothing is deferred. A driver calls this between
        cycles.
        """
        self._put([*self._late(now), *self._pod_notes(now)])
        times = (self._reasons.next_due(), self._pods.next_due())
        return min((when for when in times if when is not None), default=None)

    def gang_timed_out(self, job: Job, why: str, now: Micros) -> None:
        """A gang was evicted because not all of it could be bound in time (spec K8)."""
        about = self._about(job)
        if about is not None:
            self._put([EventNote(about, "GangTimedOut", "Preempting", why, now, warning=True)])

    def warn(self, about: Regarding, reason: str, action: str, note: str, now: Micros) -> None:
        """A warning about an object that is not a job."""
        self._put([EventNote(about, reason, action, note, now, warning=True)])

    def _put(self, notes: Iterable[EventNote]) -> None:
        writes = [self._maker.write(note) for note in notes]
        if writes:
            taken = self._submit(writes)
            self.written += taken
            self.dropped += len(writes) - taken

    def refused(self, change: Change, why: str) -> None:
        """The next plan reports the consequences."""

    # -- what is worth an event ----------------------------------------------------------------------------------

    def _notes(self, cycle: Cycle) -> Iterable[EventNote]:
        plan, now = cycle.plan, cycle.now
        if plan.placed:
            yield from self._scheduled(plan.bindings, now)
        yield from self._preempted(plan.evictions, now)
        yield from self._reservations(
            {(entry.job_kind, entry.job) for entry in plan.reservations if not entry.anew}, now
        )
        explained = cycle.explain()
        if explained is not None:
            yield from self._waiting(explained.pending, now)

    def _scheduled(self, bindings: Iterable[Binding], now: Micros) -> Iterable[EventNote]:
        """One for each job, with the node of a lone pod and the number of nodes of a gang."""
        jobs: dict[str, list[Binding]] = {}
        for binding in bindings:
            jobs.setdefault(binding.job, []).append(binding)
        for placed in jobs.values():
            task = self._state.tasks.get(placed[0].pod)
            if task is None:
                continue
            self._reasons.forget(task.job.identity)
            self._pods.forget(task.job.identity)
            if task.job.alone and not self._lone_pods:
                continue
            about = self._about(task.job)
            if about is None:
                continue
            if task.job.alone:
                note = f"Successfully assigned {placed[0].pod} to {placed[0].node}"
            else:
                pods, nodes = len(placed), len({binding.node for binding in placed})
                of_job = f"{_counted(pods, 'pod')} of {task.job.key}"
                note = f"Successfully assigned {of_job} to {_counted(nodes, 'node')}"
            yield EventNote(about, "Scheduled", "Binding", note, now)

    def _preempted(self, evictions: Iterable[Eviction], now: Micros) -> Iterable[EventNote]:
        for eviction in evictions:
            pod = self._pod(eviction.pod)
            if pod is not None:
                note = f"evicted from {eviction.node} by {eviction.action} for {eviction.for_}: {eviction.reason}"
                yield EventNote(_of_pod(pod), "Preempted", "Preempting", note, now, warning=True)

    def _reservations(self, standing: set[tuple[str, str]], now: Micros) -> Iterable[EventNote]:
        found = {f"{kind} {key}" for kind, key in standing}
        for kind, key in sorted(standing):
            identity = f"{kind} {key}"
            job = None if identity in self._reserved else self._state.job_of(kind, key)
            about = None if job is None else self._about(job)
            if about is not None:
                yield EventNote(about, "Reserved", "Reserving", "nodes are reserved for it; see its Reservation", now)
        self._reserved = found

    def _waiting(self, pending: Sequence[Pending], now: Micros) -> Iterable[EventNote]:
        self._pods.reasons = pending
        if deferred := list(self._reasons.waiting()):
            waiting = {f"{entry.job_kind} {entry.job}" for entry in pending}
            for identity in deferred:
                if identity not in waiting:
                    self._reasons.withdraw(identity)
        for entry in pending:
            identity = f"{entry.job_kind} {entry.job}"
            facts = StatusFacts((), substance(f"{entry.reason}: {entry.message}"))
            if self._reasons.offer(identity, facts, entry, now):
                yield from self._waits(entry, now)

    def _late(self, now: Micros) -> Iterable[EventNote]:
        """New reasons that have stood, and repeated ones of jobs that are still pending."""
        for _, entry in self._reasons.due(now):
            yield from self._waits(entry, now)

    def _waits(self, entry: Pending, now: Micros) -> Iterable[EventNote]:
        job = self._state.job_of(entry.job_kind, entry.job)
        about = None if job is None else self._about(job)
        if about is not None:
            reason = "Unschedulable" if about.kind == "PodGroup" else "FailedScheduling"
            yield EventNote(about, reason, "Scheduling", f"{entry.reason}: {entry.message}", now, warning=True)

    def _pod_notes(self, now: Micros) -> Iterable[EventNote]:
        for name, text in self._pods.due(now):
            pod = self._pod(name)
            if pod is not None and not pod.spec.node_name:
                yield EventNote(_of_pod(pod), "FailedScheduling", "Scheduling", text, now, warning=True)

    # -- what it is about ----------------------------------------------------------------------------------------

    def _about(self, job: Job) -> Regarding | None:
        namespace, _, name = job.key.partition("/")
        if job.alone:
            pod = self._pod(job.key)
            return None if pod is None else _of_pod(pod)
        if not job.implicit:
            key = ("PodGroup", namespace, name)
            group = self._store.get(key)
            if not isinstance(group, PodGroup):
                return None
            return Regarding(self._groups.get(key, VOLCANO), "PodGroup", namespace, name, group.metadata.uid)
        return self._controller(job)

    def _controller(self, job: Job) -> Regarding | None:
        """The controller that one of its pods names."""
        pod = self._pod(job.tasks[0].key) if job.tasks else None
        if pod is None:
            return None
        owner = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
        if owner is None or not owner.api_version:
            return _of_pod(pod)
        return Regarding(owner.api_version, owner.kind, pod.metadata.namespace, owner.name, owner.uid)

    def _pod(self, name: str) -> Pod | None:
        namespace, _, pod = name.partition("/")
        found = self._store.get(("Pod", namespace, pod))
        return found if isinstance(found, Pod) else None


def _of_pod(pod: Pod) -> Regarding:
    return Regarding("v1", "Pod", pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# -- pods of pending gangs ---------------------------------------------------------------------------------------------


DELAY: Micros = 2 * SECOND
MAX_PER_JOB = 100
RATE = 20
"""Events per second, once `BURST` are spent."""
BURST = 200
MAX_WAITING = 20_000
"""Maximum number of pods that wait for their event; more get none."""

_COST = SECOND // RATE


class PodEvents:
    """Which pods get an event, and when. It depends only on the times that are passed in."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._came: dict[str, None] = {}
        """New pods, until the next call of `due`."""
        self._due: dict[str, Micros] = {}
        """When pods may get their event, in order of time."""
        self._told: dict[str, set[str]] = {}
        """Pods that have their event, by the identity of their job."""
        self._free_at: Micros | None = None
        """When `BURST` is available in full again."""
        self._by_job: dict[str, Pending] | None = None
        self._reasons: Sequence[Pending] = ()

    @property
    def reasons(self) -> Sequence[Pending]:
        """Why jobs are pending, from the last plan with reasons."""
        return self._reasons

    @reasons.setter
    def reasons(self, reasons: Sequence[Pending]) -> None:
        self._reasons, self._by_job = reasons, None

    @property
    def has_news(self) -> bool:
        return bool(self._came)

    def came(self, pod: Pod) -> None:
        """A pod without a node."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if name in self._due or len(self._due) + len(self._came) >= MAX_WAITING:
            return
        task = self._state.tasks.get(name)
        if task is not None and not task.job.alone and name not in self._told.get(task.job.identity, ()):
            self._came[name] = None

    def forget(self, identity: str) -> None:
        """A job was placed or is gone: if it is pending again, its pods get events again."""
        self._told.pop(identity, None)

    def next_due(self) -> Micros | None:
        first = next(iter(self._due.values()), None)
        if first is None or self._free_at is None:
            return first
        return max(first, self._free_at - (BURST - 1) * _COST)

    def due(self, now: Micros) -> Iterator[tuple[str, str]]:
        """Names of pods that get their event now, and why each is pending."""
        self._due.update(dict.fromkeys(self._came, now + DELAY))
        self._came.clear()
        while (at := self.next_due()) is not None and at <= now:
            name = next(iter(self._due))
            del self._due[name]
            text = self._reason(name)
            if text:
                self._free_at = max(now, self._free_at or now) + _COST
                yield name, text

    def _reason(self, name: str) -> str:
        task = self._state.tasks.get(name)
        if task is None or task.state not in WAITING or task.job.alone:
            return ""
        identity = task.job.identity
        told = self._told.setdefault(identity, set())
        if len(told) >= MAX_PER_JOB:
            return ""
        entry = self._reason_of(identity)
        if entry is None:
            return ""
        told.add(name)
        return f"{entry.reason}: {entry.message}"

    def _reason_of(self, identity: str) -> Pending | None:
        if self._by_job is None:
            self._by_job = {
                f"{entry.job_kind} {entry.job}": entry for entry in self._reasons if entry.job_kind != "Pod"
            }
        return self._by_job.get(identity)
