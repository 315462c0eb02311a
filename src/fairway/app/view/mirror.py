"""`Mirror`: a copy of a scheduler's state that can be read while the scheduler continues.

It is fed with the events of the scheduler's state and with a report of each cycle, so it costs the scheduler
only to hand them over. What waits, and why, it finds out itself: `decide` gives the same answer for the same state.
It is not safe for threads; `watch.ClusterWatch` keeps it on one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairway.api import kinds
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.policy import Policy
from fairway.api.scheduling import PriorityClass
from fairway.app.explain.situation import PastRun, Situation
from fairway.app.view.job_journal import JobJournal
from fairway.app.view.models.jobs import JobSummary
from fairway.clock import Micros
from fairway.drive import Cycle
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import Eviction, ExplainedPlan, Released, Reservation
from fairway.state.cluster import ClusterState, Event, Upserted

MAX_CYCLES = 2_000
"""Maximum number of cycles whose times are kept."""
MAX_PAST = 1_000
"""Maximum number of ended jobs whose run times serve for estimates."""


class CycleReport(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The result of a cycle, as far as events do not carry it."""

    number: int
    now: Micros
    nanoseconds: int = 0
    placed: int = 0
    evictions: tuple[Eviction, ...] = ()
    reserved: dict[str, int] = {}
    """Jobs with a reservation or a planned start, with the number of nodes."""
    released: tuple[Released, ...] = ()


def report_of(cycle: Cycle) -> CycleReport:
    plan = cycle.plan
    return CycleReport(
        cycle.number,
        cycle.now,
        cycle.nanoseconds,
        plan.placed,
        plan.evictions,
        reserved_jobs(plan.reservations),
        plan.released,
    )


def reserved_jobs(reservations: Iterable[Reservation]) -> dict[str, int]:
    found: dict[str, set[str]] = {}
    for entry in reservations:
        found.setdefault(entry.job, set()).add(entry.node)
    return {job: len(nodes) for job, nodes in found.items()}


class Mirror:
    """A copy of a scheduler's state. Not thread-safe."""

    def __init__(self, policy: Policy, now: Micros, scheduler_names: Iterable[str] | None = None) -> None:
        self.policy = policy
        self.now = now
        self.scheduler_names = None if scheduler_names is None else tuple(scheduler_names)
        self.state = ClusterState(self.scheduler_names)
        self.objects: dict[ObjectKey, ApiObject] = {}
        self.journal = JobJournal(self.state)
        self.cycles: deque[CycleReport] = deque(maxlen=MAX_CYCLES)
        self.cycle_count = 0
        self.revision = 0
        self.namespaces: set[str] = set()
        """All namespaces that ever had an object: texts may name their objects long after."""
        self.rows: dict[str, tuple[JobSummary, Mapping[str, str]]] = {}
        """Rows and labels of running jobs in the last picture: most are unchanged in the next."""
        self._reserved: set[str] = set()

    def apply(self, events: Sequence[Event], at: Micros) -> None:
        """Applies the events of the scheduler's state."""
        self.now = max(self.now, at)
        for event in events:
            thing = event.object
            key = kinds.key(thing)
            self.namespaces.add(key[1])
            before = self.objects.get(key)
            after = thing if isinstance(event, Upserted) else None
            if after is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = after
            if isinstance(thing, PriorityClass):
                self.rows.clear()
            self.state.apply(event)
            self.journal.changed(before if after is not None or before is None else thing, after, at)
        self.journal.settle(at)
        self.revision += 1

    def take(self, report: CycleReport) -> None:
        """Records a finished cycle, whose evictions have not arrived as events yet."""
        self.now = max(self.now, report.now)
        self.cycles.append(report)
        self.cycle_count += 1
        self.journal.evict(report.evictions, report.now, report.number)
        for released in report.released:
            text = f"{released.node} no longer reserved for {released.pod}: {released.reason}"
            self.journal.note(report.now, "released", text)
        for job in sorted(report.reserved.keys() - self._reserved):
            nodes = report.reserved[job]
            self.journal.say(job, report.now, "reserved", f"{'1 node' if nodes == 1 else f'{nodes} nodes'} reserved")
        self._reserved = set(report.reserved)
        self.revision += 1

    def use(self, policy: Policy) -> None:
        self.policy = policy
        self.revision += 1

    def decide(self) -> ExplainedPlan:
        """The plan of the next cycle, with reasons."""
        return decide_and_explain(self.state, self.policy, self.now)

    def past(self) -> list[PastRun]:
        records = [record for _, record in list(self.journal.ended.values())[-MAX_PAST:]]
        return [
            PastRun(record.key.partition("/")[0], record.key.partition("/")[2], record.first_started, record.ended)
            for record in records
            if record.first_started is not None and record.ended is not None
        ]

    def situation(self) -> Situation:
        """A copy for questions. Objects are immutable and shared."""
        return Situation(list(self.objects.values()), self.policy, self.now, self.scheduler_names, self.past())
