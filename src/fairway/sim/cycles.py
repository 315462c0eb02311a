"""When the scheduler decides, and how its plan is handed to the cluster.

A pass follows the changes of its instant (`events`), or comes at fixed times (`interval`), or both, and again when
the plan itself says that its answer may change (`recheckAt`). While nothing waits there is nothing to decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from fairway.api.policy import Policy
from fairway.api.reservations import Reservation
from fairway.clock import Micros, parse_rfc3339
from fairway.scheduler.carried import reservation_objects
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Binding, Plan
from fairway.scheduler.plan import Reservation as PlannedPlace
from fairway.sim import objects
from fairway.sim.cluster import VirtualCluster
from fairway.sim.jobs import SimPod
from fairway.sim.loop import Rank
from fairway.sim.metrics.spread import Spread
from fairway.sim.story import Story
from fairway.sim.witness import Witness
from fairway.state.events import Deleted, Upserted

Stopwatch = Callable[[], int]
"""Nanoseconds from somewhere: what the cost of deciding is measured with."""

IDLE_PASSES = 3
"""When nothing else will ever happen, so many passes without an effect end the run."""


class Cycles:
    """The scheduler's side of a run."""

    def __init__(
        self,
        cluster: VirtualCluster,
        policy: Policy,
        mode: Literal["events", "interval", "both"],
        interval: Micros,
        recorder: Witness,
        story: Story,
        *,
        stopwatch: Stopwatch = time.perf_counter_ns,
        on_cycle: Callable[[int, Micros, Plan], None] | None = None,
    ) -> None:
        self.count = 0
        self.decisions = 0
        self.spent = Spread()
        """Nanoseconds of each pass, to the microsecond."""
        self._cluster = cluster
        self._loop = cluster.loop
        self._policy = policy
        self._mode = mode
        self._interval = interval
        self._recorder = recorder
        self._story = story
        self._stopwatch = stopwatch
        self.on_cycle = on_cycle
        """Told of each plan before it is carried out."""
        self.on_planned: Callable[[str, Micros, bool], None] | None = None
        """Told of each planned start: the job, when, and whether it is hard."""
        self._starts: dict[str, tuple[str, bool]] = {}
        """The planned starts of the last plan."""
        self._reasons = on_cycle is not None
        self._planned: dict[Micros, int] = {}
        self._reservations: tuple[PlannedPlace, ...] = ()
        """Those of the last plan."""
        self._nominated: dict[str, str] = {}
        self._idle = 0
        self._start = self._loop.now
        cluster.changed = self.wake

    @property
    def passes(self) -> list[Micros]:
        """When the scheduler decides next, as far as is planned."""
        return sorted(self._planned)

    def take_over(self, nominated: dict[str, str], passes: list[Micros] | None = None) -> None:
        """What a cluster that is taken up in mid-life already carries: nodes by nominated pod. `passes` are those that
        were planned; without them there is one now."""
        self._nominated = nominated
        if passes is not None:
            self._cancel_passes()
            for at in passes:
                self._plan_pass(at)

    def wake(self) -> None:
        """Something changed: have a pass, now or at the next fixed time, if there is anything to decide."""
        if self._cluster.waiting:
            self._plan_pass(self._loop.now if self._mode != "interval" else self._next_fixed(self._loop.now))
        elif self._planned:
            self._cancel_passes()

    def _cancel_passes(self) -> None:
        for number in self._planned.values():
            self._loop.cancel(number)
        self._planned.clear()

    def _plan_pass(self, at: Micros) -> None:
        if at not in self._planned:
            self._planned[at] = self._loop.plan(at, Rank.PASS, self._pass, at)

    def _next_fixed(self, after: Micros) -> Micros:
        return self._start + -(-(after - self._start) // self._interval) * self._interval

    def _pass(self, at: Micros) -> None:
        del self._planned[at]
        begin = self._stopwatch()
        plan = decide(self._cluster.state, self._policy, at, reasons=self._reasons)
        self.spent.add((self._stopwatch() - begin) // 1000 * 1000)
        if self.on_cycle is not None:
            self.on_cycle(self.count, at, plan)
        self.count += 1
        if self.on_planned is not None:
            self._tell_planned(plan, self.on_planned)
        effect = self._carry_out(plan)
        self._idle = 0 if effect or self._loop.next_time is not None else self._idle + 1
        if self._idle < IDLE_PASSES:
            self._plan_again(at, plan)

    def _tell_planned(self, plan: Plan, told: Callable[[str, Micros, bool], None]) -> None:
        """Of planned starts that the last plan did not have."""
        starts = {entry.job: (entry.promised_start, not entry.soft) for entry in plan.reservations}
        found = {job: (start, hard) for job, (start, hard) in starts.items() if start is not None}
        for job, (start, hard) in found.items():
            if self._starts.get(job) != (start, hard):
                told(job, parse_rfc3339(start), hard)
        self._starts = found

    def _plan_again(self, at: Micros, plan: Plan) -> None:
        if plan.recheck_at is not None and plan.recheck_at > at and self._cluster.waiting:
            soonest = plan.recheck_at if self._mode != "interval" else self._next_fixed(plan.recheck_at)
            self._plan_pass(soonest)
        if self._mode != "events" and self._cluster.waiting and self._loop.next_time is not None:
            self._plan_pass(self._next_fixed(at + 1))

    def _carry_out(self, plan: Plan) -> bool:
        """What the plan says, in the order: release and reserve, evict, nominate, bind. True if it had an effect."""
        effect = self._write_reservations(tuple(held for held in plan.reservations if not held.anew))
        for eviction in plan.evictions:
            if eviction.pod in self._cluster.pods:
                self._cluster.evict(self._cluster.pods[eviction.pod])
                effect = True
        effect |= self._write_nominations({entry.pod: entry.node for entry in plan.nominations})
        return self._bind(plan) or effect

    def _bind(self, plan: Plan) -> bool:
        if not plan.placed:
            return False
        places: list[tuple[SimPod, Binding]] = []
        for binding in plan.bindings:
            pod = self._cluster.pods[binding.pod]
            if places and places[0][0].job is not pod.job:
                self._cluster.bind(places)
                places = []
            places.append((pod, binding))
        self._cluster.bind(places)
        self.decisions += plan.placed
        return True

    def _write_reservations(self, reservations: tuple[PlannedPlace, ...]) -> bool:
        """Make the Reservation objects those of the plan; others, whoever wrote them, go. True if a place changed."""
        known = self._cluster.state.reservations.objects()
        if not reservations and not self._reservations and not known:
            return False
        wanted = reservation_objects(reservations)
        changed = False
        for key, thing in [*known.items()]:
            if key not in wanted:
                self._cluster.state.apply(Deleted(thing))
                changed = True
        for key, thing in wanted.items():
            changed |= self._write_reservation(known.get(key), thing)
        if reservations != self._reservations:
            self._reservations = reservations
            self._record(reservations)
        return changed

    def _write_reservation(self, known: Reservation | None, thing: Reservation) -> bool:
        if known == thing:
            return False
        self._cluster.state.apply(Upserted(thing))
        return known is None or known.spec.places != thing.spec.places

    def _record(self, reservations: tuple[PlannedPlace, ...]) -> None:
        nodes: dict[str, set[str]] = {}
        for entry in reservations:
            nodes.setdefault(entry.job, set()).add(entry.node)
        self._recorder.reservations(self._loop.now, len(nodes), len({entry.node for entry in reservations}))
        self._story.reserved(self._loop.now, {job: len(names) for job, names in nodes.items()})

    def _write_nominations(self, nominations: dict[str, str]) -> bool:
        changed = [
            key
            for key in {**self._nominated, **nominations}
            if self._nominated.get(key) != nominations.get(key) and key in self._cluster.pods
        ]
        for key in changed:
            pod = self._cluster.pods[key]
            if not pod.node:
                self._cluster.replace(pod, objects.nominated(pod.pod, nominations.get(key, ""), self._loop.now))
        self._nominated = nominations
        return bool(changed)
