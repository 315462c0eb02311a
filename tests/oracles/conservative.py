"""Conservative backfilling by its rules, slow and obvious: the oracle that the engine's mode is held against.

Every waiting job has a planned start on concrete hosts: the earliest time at which enough hosts are free for
its whole walltime, given what runs (until its walltime ends) and every other planned start; the
lowest-numbered hosts. It is found once, when the job arrives. When runs have ended, planned starts are *compressed*:
each job in the order of (submission, number) gives its planned start up and finds one again, which is never later, for
the old one is still free. A job whose planned start is now starts.

At one instant ends and arrivals are applied before the one pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from experiments.schedule import Job, Start

from fairway.clock import Micros


@dataclass
class _Slot:
    """A job on its hosts from a start to the end of its walltime: running, or planned."""

    job: Job
    start: Micros
    hosts: frozenset[int]

    @property
    def end(self) -> Micros:
        return self.start + self.job.walltime


@dataclass
class _Machine:
    hosts: int
    running: dict[int, _Slot] = field(default_factory=dict)
    planned: dict[int, _Slot] = field(default_factory=dict)
    """By number, in the order of arrival."""
    ends: list[tuple[Micros, int]] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    first: dict[int, Micros] = field(default_factory=dict)

    def release(self, now: Micros) -> bool:
        """Whether anything ended."""
        ended = False
        while self.ends and self.ends[0][0] == now:
            del self.running[heapq.heappop(self.ends)[1]]
            ended = True
        return ended

    def insert(self, job: Job, now: Micros) -> None:
        self.planned[job.number] = self._earliest(job, now)
        if self.planned[job.number].start > now:
            self.first[job.number] = self.planned[job.number].start

    def compress(self, now: Micros) -> None:
        for number in list(self.planned):
            old = self.planned.pop(number)
            new = self._earliest(old.job, now)
            assert new.start <= old.start
            if new.start == now:
                self._start(new)
            else:
                self.planned[number] = new

    def start_due(self, now: Micros) -> None:
        for number in [number for number, slot in self.planned.items() if slot.start == now]:
            self._start(self.planned.pop(number))

    def _start(self, slot: _Slot) -> None:
        job = slot.job
        self.running[job.number] = slot
        heapq.heappush(self.ends, (slot.start + job.run, job.number))
        self.starts.append(Start(job, slot.start, tuple(sorted(slot.hosts)), self.first.pop(job.number, None)))

    def _earliest(self, job: Job, now: Micros) -> _Slot:
        taken = [*self.running.values(), *self.planned.values()]
        for at in sorted({now, *(slot.end for slot in taken if slot.end > now)}):
            busy = {host for slot in taken if slot.start < at + job.walltime and at < slot.end for host in slot.hosts}
            free = [host for host in range(self.hosts) if host not in busy]
            if len(free) >= job.hosts:
                return _Slot(job, at, frozenset(free[: job.hosts]))
        raise ValueError(f"job {job.number} asks for {job.hosts} hosts, more than there are")


class _Pool(_Machine):
    """Processors that are not told apart: only how many are free counts."""

    def _earliest(self, job: Job, now: Micros) -> _Slot:
        taken = [*self.running.values(), *self.planned.values()]
        for at in sorted({now, *(slot.end for slot in taken if slot.end > now)}):
            moments = [at, *(slot.start for slot in taken if at < slot.start < at + job.walltime)]
            used = (sum(slot.job.hosts for slot in taken if slot.start <= t < slot.end) for t in moments)
            if max(used) + job.hosts <= self.hosts:
                return _Slot(job, at, frozenset())
        raise ValueError(f"job {job.number} asks for {job.hosts} processors, more than there are")


def simulate_conservative(jobs: Iterable[Job], hosts: int) -> list[Start]:
    """Every job's start, in the order of starting."""
    return _simulate(jobs, _Machine(hosts))


def simulate_conservative_pool(jobs: Iterable[Job], processors: int) -> list[Start]:
    """The same on a pool of processors; hosts are not told."""
    return _simulate(jobs, _Pool(processors))


def _simulate(jobs: Iterable[Job], machine: _Machine) -> list[Start]:
    arrivals = sorted(jobs, key=lambda job: (job.submit, job.number))
    for now, arrived in _instants(arrivals, machine.ends):
        if machine.release(now):
            machine.compress(now)
        for job in arrived:
            machine.insert(job, now)
        machine.start_due(now)
    return machine.starts


def _instants(arrivals: list[Job], ends: list[tuple[Micros, int]]) -> Iterator[tuple[Micros, list[Job]]]:
    """Every time at which a job arrives or ends, and who arrives."""
    arrivals = list(reversed(arrivals))
    while arrivals or ends:
        now = min([*(job.submit for job in arrivals[-1:]), *(end for end, _ in ends[:1])])
        arrived = []
        while arrivals and arrivals[-1].submit == now:
            arrived.append(arrivals.pop())
        yield now, arrived
