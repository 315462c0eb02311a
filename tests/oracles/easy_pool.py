"""EASY backfilling on a pool of processors that are all alike, by counts: how the archive's machines are simulated.

The head of the queue has its planned start at the earliest time at which, by the walltimes of what runs, enough
processors are free (the *shadow time*). A job behind it may start now if it ends by then, or if it needs no more than
the processors that the head will leave over. Ends and arrivals of one instant are applied before its one
pass.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from experiments.schedule import Job, Start

from fairway.clock import Micros


def simulate_pool(jobs: Iterable[Job], processors: int) -> list[Start]:
    """Every job's start, in the order of starting; hosts are not told apart."""
    pool = _Pool(processors)
    rest = iter(sorted(jobs, key=lambda job: (job.submit, job.number)))
    coming = next(rest, None)
    while coming is not None or pool.ends:
        now = min(coming.submit if coming else pool.ends[0][0], pool.ends[0][0] if pool.ends else 2**62)
        pool.release(now)
        while coming is not None and coming.submit == now:
            pool.waiting.append(coming)
            coming = next(rest, None)
        pool.schedule(now)
    return pool.starts


class _Pool:
    def __init__(self, processors: int) -> None:
        self.free = processors
        self.ends: list[tuple[Micros, int]] = []
        self.running: dict[int, tuple[Micros, int]] = {}
        """By job: when its walltime is over, and how many processors it has."""
        self.waiting: list[Job] = []
        self.starts: list[Start] = []
        self._planned: dict[int, Micros] = {}

    def release(self, now: Micros) -> None:
        while self.ends and self.ends[0][0] == now:
            self.free += self.running.pop(heapq.heappop(self.ends)[1])[1]

    def schedule(self, now: Micros) -> None:
        while self.waiting and self.waiting[0].hosts <= self.free:
            self._start(self.waiting.pop(0), now)
        if not self.waiting:
            return
        head, behind = self.waiting[0], self.waiting[1:]
        shadow, spare = self._shadow(head)
        self._planned.setdefault(head.number, shadow)
        self.waiting = [head]
        for job in behind:
            in_time = now + job.walltime <= shadow
            if job.hosts <= self.free and (in_time or job.hosts <= spare):
                spare -= 0 if in_time else job.hosts
                self._start(job, now)
            else:
                self.waiting.append(job)

    def _shadow(self, head: Job) -> tuple[Micros, int]:
        """When the head can start, and how many processors it then leaves over."""
        free = self.free
        for until, processors in sorted(self.running.values()):
            free += processors
            if free >= head.hosts:
                at_once = sum(p for u, p in self.running.values() if u <= until)
                return until, self.free + at_once - head.hosts
        raise ValueError(f"job {head.number} asks for {head.hosts} processors, more than there are")

    def _start(self, job: Job, now: Micros) -> None:
        self.free -= job.hosts
        self.running[job.number] = (now + job.walltime, job.hosts)
        heapq.heappush(self.ends, (now + job.run, job.number))
        self.starts.append(Start(job, now, (), self._planned.pop(job.number, None)))
