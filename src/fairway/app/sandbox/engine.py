"""A sandbox: a virtual cluster, the scheduler's cycles on it, and the file in which both are saved.

Nothing here reads a clock or has a thread: the driver (`pace`) says up to which virtual time to advance. Every method
that changes something saves it before it returns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import RLock

import msgspec
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.devices import ResourceClass, ResourceClassStatus
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import Reservation
from fairway.app.explain import Explanation, Situation, explain
from fairway.app.explain.situation import PastRun
from fairway.app.records import FinishedJob, Instant, LaterJob, SandboxEvent, read
from fairway.app.sandbox.commands import Applied, Commands
from fairway.app.sandbox.journal import Journal
from fairway.app.sandbox.store import Store
from fairway.app.sandbox.world import InitialWorld, demo_round, round_begin, run_time
from fairway.app.view.frame import ClusterView, Frame, NodeUse, WaitingJob, waiting_jobs
from fairway.app.view.job_order import JobOrder, job_order
from fairway.app.view.watch import ClusterWatch
from fairway.clock import SECOND, Micros
from fairway.devices.track.ledger import DeviceLedger, device_ledger
from fairway.drive import Change, EventSink, SchedulerLoop, Stopwatch
from fairway.errors import InputError, StoreError
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.report.plan_maker import units
from fairway.sim.assertions import Evidence
from fairway.sim.live import LiveCluster, populate, settle
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.policies import policy_text
from fairway.sim.scenario.model import Span, TimingPart
from fairway.sim.scheduling import rhythm_of, schedule
from fairway.sim.spans import Drawn
from fairway.sim.virtual_cluster import NodePool
from fairway.sim.virtual_jobs import SimJob
from fairway.state.cluster import ClusterState

TIMING = TimingPart(
    start_delay=Drawn("fixed", 2 * SECOND, 2 * SECOND),
    grace=Span(10 * SECOND),
    provisioning=Drawn("fixed", 3 * SECOND, 3 * SECOND),
)
"""Pods start two seconds after they are bound, and have ten seconds to terminate. Provisioning takes three."""
PAST = 1_000
"""Finished jobs whose run times are remembered."""
RECENT = 200
"""Events in a frame."""
MAX_STEPS = 5_000
"""Events of one `advance`; after them, other callers get the lock."""


def create(store: Store, world: InitialWorld, policy: Policy) -> None:
    """Start a sandbox in a new file."""
    with store.transaction():
        store.set("policy", policy_text(policy))
        store.set("rounds", "1" if world.demo else "0")
        store.add_arrivals(world.arrivals)
        store.write_objects({kinds.key(thing): thing for thing in world.objects})
        store.set("now", str(world.start))


class Sandbox:
    """A sandbox that resumes from its file. Methods may be called from any thread."""

    def __init__(
        self,
        store: Store,
        policy: Policy | None = None,
        timing: TimingPart = TIMING,
        stopwatch: Stopwatch = time.perf_counter_ns,
    ) -> None:
        now = store.now
        if now is None:
            raise InputError(f"{store.path}: contains no sandbox yet")
        store.check()
        self._store = store
        self._failed: StoreError | None = None
        self._lock = RLock()
        self._loop = EventLoop(now)
        self.policy = policy or _kept_policy(store)
        self._journal = Journal()
        self._arrived: list[int] = []
        self._announced: list[LaterJob] = []
        self._coming = 0
        self._rounds = store.decoded_setting("rounds", int) or 0
        """Rounds of the demo that have started; 0 if this is not the demo."""
        self._cluster = LiveCluster(
            self._loop, NodePool(), self._journal, NodeTimeline(), Evidence(now), timing, Random(0)
        )
        self._cluster.ended = self._ended
        settle(populate(store.objects(), run_time), self._cluster)
        self._changed = ChangedObjects()
        self._stopwatch = stopwatch
        self._scheduler = self._schedule()
        planned = store.decoded_setting("cycles", list[Instant]) if policy is None else None
        if planned is not None:
            self._scheduler.resume(min(planned, default=None))
        self._commands = Commands(self._cluster, self._journal)
        self._shown: tuple[int, ExplainedPlan] | None = None
        """The last plan made for display, with the generation of its state."""
        self._take_up_arrivals(store.arrivals())
        if self._rounds:
            self._plan_round()
        if policy is not None:
            with store.transaction():
                store.set("policy", policy_text(policy))
        self._save()

    def be_paranoid(self, paranoid: bool) -> None:
        """Whether to verify, after each cycle, everything that is cached between cycles."""
        self._scheduler.paranoid = paranoid

    def _schedule(self) -> SchedulerLoop:
        rhythm = rhythm_of("events", SECOND, reasons=True)
        scheduler = schedule(
            self._cluster,
            self.policy,
            rhythm,
            [self._journal],
            through=self._changed.passed_to,
            stopwatch=self._stopwatch,
        )
        for run in map(_past_run, self._store.outcomes(PAST)):
            scheduler.state.history.add(*run)
        self._journal.reserved_jobs = {
            f"{thing.metadata.namespace}/{thing.spec.job_ref.name}"
            for thing in self._cluster.objects.values()
            if isinstance(thing, Reservation)
        }
        return scheduler

    @property
    def now(self) -> Micros:
        return self._loop.now

    @property
    def state(self) -> ClusterState:
        """The scheduler's state, up to date."""
        with self._lock:
            self._scheduler.catch_up()
            return self._scheduler.state

    def listen(self, watch: ClusterWatch) -> None:
        """Send a watch all objects now, and from now on all events and cycles of the scheduler."""
        with self._lock:
            self._scheduler.catch_up()
            watch.begin(self._scheduler.store.told())
            self._scheduler.listeners.append(watch)

    @property
    def last_cycle(self) -> int:
        """Real duration of the last cycle, in nanoseconds. Never waits for the lock."""
        return self._journal.last_cycle

    @property
    def coming(self) -> int:
        """Number of jobs that will be submitted later."""
        return self._coming

    @property
    def path(self) -> str:
        return self._store.path

    def advance(self, until: Micros) -> bool:
        """Advance up to and including a time; False if that takes more than `MAX_STEPS` events."""
        with self._lock:
            self._check_store()
            loop, steps = self._loop, 0
            while (when := loop.next_time) is not None and when <= until:
                if steps >= MAX_STEPS and when > loop.now:
                    break
                loop.step()
                steps += 1
            else:
                loop.now = max(loop.now, until)
            self._save()
            return loop.now >= until

    def next_time(self) -> Micros | None:
        """The time of the next event, if nothing is changed."""
        with self._lock:
            return self._loop.next_time

    def apply(self, objects: Sequence[ApiObject]) -> list[Applied]:
        """Create or change objects, all of them or none; InputError says why none."""
        with self._lock:
            self._check_store()
            applied = self._commands.apply(objects)
            self._save()
            return applied

    def delete(self, keys: Sequence[ObjectKey]) -> list[str]:
        """Delete objects, all of them or none. The kind `Job` means a group with its pods, or a lone pod."""
        with self._lock:
            self._check_store()
            deleted = self._commands.delete(keys)
            self._save()
            return deleted

    def objects(self) -> list[ApiObject]:
        """All objects as of now, and classes with their status. The objects are immutable."""
        with self._lock:
            things = list(self._cluster.objects.values())
            if any(isinstance(thing, ResourceClass) for thing in things):
                ledger = device_ledger(self.state)
                things = [
                    _with_status(thing, ledger) if isinstance(thing, ResourceClass) else thing for thing in things
                ]
            return things

    def explain(self, job: str) -> Explanation:
        """Computed on a copy, while the sandbox continues."""
        return explain(self.situation(), job)

    def order(self, job: str) -> JobOrder:
        """A job's queue position, key by key; computed on a copy."""
        return job_order(self.situation(), job)

    def waiting(self) -> list[WaitingJob]:
        """Pending jobs, with estimated starts; computed on a copy."""
        return waiting_jobs(self.situation())

    def situation(self) -> Situation:
        """A copy of the cluster."""
        with self._lock:
            objects, now = list(self._cluster.objects.values()), self._loop.now
            past = [_past_run(outcome) for outcome in self._store.outcomes(PAST)]
        return Situation(objects, self.policy, now, past=past)

    def frame(self) -> Frame:
        """The current frame."""
        with self._lock:
            recent, finished = self._store.happenings(RECENT), self._store.count_outcomes()
            frame = self._view().frame(finished=finished, coming=self._coming, happenings=recent)
            return msgspec.structs.replace(frame, warnings=(*self._store.set_aside, *frame.warnings))

    def nodes(self) -> list[NodeUse]:
        """The resources in use on each node."""
        with self._lock:
            return self._view().nodes()

    def _view(self) -> ClusterView:
        """Pending jobs and reasons are those of a plan decided now. It is decided again only if the cluster has changed
        or the plan has expired.
        """
        state, now = self.state, self._loop.now
        plan = None if self._shown is None or self._shown[0] != state.generation else self._shown[1]
        if plan is None or (plan.recheck_at is not None and plan.recheck_at <= now):
            plan = decide_and_explain(state, self.policy, now)
            self._shown = state.generation, plan
        return ClusterView(self._scheduler.store, state, plan, now)

    def happenings(self, last: int) -> list[SandboxEvent]:
        with self._lock:
            return self._store.happenings(last)

    def happenings_after(self, number: int, most: int = 1_000) -> list[tuple[int, SandboxEvent]]:
        """Events after the one with this number, with their numbers; 0 is before the first."""
        with self._lock:
            return self._store.happenings_after(number, most)

    def last_event(self) -> int:
        with self._lock:
            return self._store.last_event()

    def outcomes(self, last: int) -> list[FinishedJob]:
        with self._lock:
            return self._store.outcomes(last)

    def close(self) -> None:
        with self._lock:
            if self._failed is None:
                self._save()
            self._store.close()

    def discard(self) -> None:
        """Close the file without saving, as if the process had been killed."""
        self._store.close()

    # -- arrivals, ends and saving ------------------------------------------------------------------------------

    def _expect(self, arrivals: list[LaterJob]) -> None:
        for arrival in arrivals:
            self._loop.plan(arrival.at, Rank.ARRIVAL, self._arrive, arrival)
        self._coming += len(arrivals)

    def _take_up_arrivals(self, arrivals: list[LaterJob]) -> None:
        """Plan the arrivals of a file, and drop those before its last instant: earlier versions kept such arrivals by
        mistake, and they would happen twice.
        """
        now = self._loop.now
        self._arrived += [arrival.number for arrival in arrivals if arrival.at < now]
        self._expect([arrival for arrival in arrivals if arrival.at >= now])

    def _arrive(self, arrival: LaterJob) -> None:
        self._arrived.append(arrival.number)
        self._coming -= 1
        try:
            self._commands.apply([read(raw) for raw in arrival.objects])
        except InputError as error:
            self._journal.note(self._loop.now, "refused", str(error))

    def _plan_round(self) -> None:
        self._loop.plan(round_begin(self._rounds), Rank.ARRIVAL, self._begin_round, self._rounds)

    def _begin_round(self, number: int) -> None:
        """Submit the jobs of the demo again, under other names."""
        now = self._loop.now
        begun = [arrival._replace(at=max(arrival.at, now)) for arrival in demo_round(number)]
        self._rounds = number + 1
        self._announced += begun
        self._expect(begun)
        self._plan_round()

    def _ended(self, job: SimJob) -> None:
        self._journal.ended(self._loop.now, job)
        self._scheduler.state.history.add(*_past_run(self._journal.outcomes[-1]))

    def _check_store(self) -> None:
        """After an instant that could not be saved, nothing more happens: the file ends with the last complete one."""
        if self._failed is not None:
            raise self._failed

    def _save(self) -> None:
        try:
            self._write()
        except StoreError as error:
            self._failed = error
            raise

    def _write(self) -> None:
        """Save everything that has changed since the last save, in one transaction."""
        store, journal = self._store, self._journal
        with store.transaction():
            store.write_objects(self._changed.taken())
            store.add_arrivals(self._announced)
            store.remove_arrivals(self._arrived)  # after adding: a job may be announced and arrive in one step
            store.add_happenings(journal.happenings)
            store.add_outcomes(journal.outcomes)
            store.set("rounds", str(self._rounds))
            planned = self._scheduler.next_cycle
            store.set("cycles", msgspec.json.encode([] if planned is None else [planned]).decode())
            store.set("now", str(self._loop.now))
        self._arrived.clear()
        self._announced.clear()
        journal.happenings.clear()
        journal.outcomes.clear()


def _with_status(known: ResourceClass, ledger: DeviceLedger) -> ResourceClass:
    standing = ledger.standing(known.metadata.name)
    status = ResourceClassStatus(units(standing.allocatable), units(standing.requested), known.spec.summary())
    return replace(known, status=status)


class ChangedObjects:
    """A sink that forwards everything, and collects the objects that changed since the last save."""

    _sink: EventSink

    def __init__(self) -> None:
        self._changed: dict[ObjectKey, ApiObject | None] = {}

    def passed_to(self, sink: EventSink) -> ChangedObjects:
        self._sink = sink
        return self

    def taken(self) -> dict[ObjectKey, ApiObject | None]:
        """Objects changed since the last call; None for deleted ones."""
        changed, self._changed = self._changed, {}
        return changed

    def seen(self, thing: ApiObject) -> None:
        self._changed[kinds.key(thing)] = thing
        self._sink.seen(thing)

    def gone(self, thing: ApiObject) -> None:
        self._changed[kinds.key(thing)] = None
        self._sink.gone(thing)

    def settled(self, change: Change, version: str = "") -> None:
        self._sink.settled(change, version)

    def refused(self, change: Change, why: str) -> None:
        self._sink.refused(change, why)


def _past_run(outcome: FinishedJob) -> PastRun:
    return PastRun(outcome.namespace, outcome.job.split("/", 1)[1], outcome.started, outcome.ended)


def _kept_policy(store: Store) -> Policy:
    text = store.setting("policy")
    if text is None:
        raise InputError(f"{store.path}: contains no policy")
    return parse_policy(text, str(Path(store.path)), default_registry().catalog)
