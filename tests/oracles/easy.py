"""EASY backfilling by its rules, slow and obvious: the oracle that the engine's easy mode is held against.

Jobs wait in the order of (submission, number). At every instant at which something ends or arrives, first all
ends and arrivals are applied, then one pass is made. For each waiting job in order: the earliest time at
which enough hosts are free for its whole walltime, given what runs (until its walltime ends) and the head's
reservation, taking the lowest-numbered hosts. It starts if that is now. Only the first job that cannot start
gets a reservation, on those hosts from that time, and it is made anew in each pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.schedule import Job, Start

from fairway.clock import Micros


@dataclass(frozen=True, slots=True)
class Reservation:
    start: Micros
    end: Micros
    hosts: frozenset[int]


def simulate(jobs: Iterable[Job], hosts: int) -> list[Start]:
    """Every job's start, in the order of starting."""
    machine = _Machine(hosts)
    arrivals = sorted(jobs, key=lambda job: (job.submit, job.number))
    arrived = 0
    while arrived < len(arrivals) or machine.ends:
        now = min(
            arrivals[arrived].submit if arrived < len(arrivals) else machine.ends[0][0],
            machine.ends[0][0] if machine.ends else arrivals[-1].submit,
        )
        machine.release(now)
        while arrived < len(arrivals) and arrivals[arrived].submit == now:
            machine.waiting.append(arrivals[arrived])
            arrived += 1
        machine.schedule(now)
    return machine.starts


class _Machine:
    def __init__(self, hosts: int) -> None:
        self.busy_until: list[Micros] = [-1] * hosts
        """By host: when the walltime of its job is over; -1 where it is free."""
        self.ends: list[tuple[Micros, int, tuple[int, ...]]] = []
        self.waiting: list[Job] = []
        self.starts: list[Start] = []
        self._planned: dict[int, Micros] = {}

    def release(self, now: Micros) -> None:
        while self.ends and self.ends[0][0] == now:
            for host in heapq.heappop(self.ends)[2]:
                self.busy_until[host] = -1

    def schedule(self, now: Micros) -> None:
        reservation: Reservation | None = None
        still_waiting: list[Job] = []
        for job in self.waiting:
            at, chosen = self._earliest(job, now, reservation)
            if at == now:
                self._start(job, now, chosen)
                continue
            still_waiting.append(job)
            if reservation is None:
                assert at is not None
                reservation = Reservation(at, at + job.walltime, frozenset(chosen))
                self._planned.setdefault(job.number, at)
        self.waiting = still_waiting

    def _earliest(
        self, job: Job, now: Micros, reservation: Reservation | None
    ) -> tuple[Micros | None, tuple[int, ...]]:
        """The head is asked for any time; those behind it only for now, and not without enough free hosts."""
        if reservation is not None and self.busy_until.count(-1) < job.hosts:
            return None, ()
        times = [now] if reservation else [now, *sorted({until for until in self.busy_until if until > now})]
        for at in times:
            end = at + job.walltime
            free = [host for host in range(len(self.busy_until)) if self._is_free(host, at, end, reservation)]
            if len(free) >= job.hosts:
                return at, tuple(free[: job.hosts])
        return None, ()

    def _is_free(self, host: int, start: Micros, end: Micros, reservation: Reservation | None) -> bool:
        if self.busy_until[host] > start:
            return False
        return (
            reservation is None or host not in reservation.hosts or end <= reservation.start or start >= reservation.end
        )

    def _start(self, job: Job, now: Micros, chosen: Sequence[int]) -> None:
        for host in chosen:
            self.busy_until[host] = now + job.walltime
        heapq.heappush(self.ends, (now + job.run, job.number, tuple(chosen)))
        self.starts.append(Start(job, now, tuple(chosen), self._planned.pop(job.number, None)))
