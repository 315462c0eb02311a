"""EASY backfilling on a pool where run times are predicted: the mean of the last two runs of the same user.

A prediction is at most the walltime, and a run that outlives it has it raised step by step. The head's planned start is
found by predictions, so it may move; jobs behind it pass if they are predicted to end in time. With `shortest` they are
tried by predicted run time. Everything else is as in `easy_pool`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from experiments.schedule import Job, Start

from fairway.clock import SECOND, Micros

RAISES = [step * SECOND for step in (60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)]


def simulate_predicted(
    jobs: Iterable[Job], processors: int, users: Mapping[int, str], *, shortest: bool
) -> list[Start]:
    """Every job's start, in the order of starting; `users` tells whose each job is, by number."""
    machine = _Machine(processors, users, shortest)
    arrivals = sorted(jobs, key=lambda job: (job.submit, job.number), reverse=True)
    while arrivals or machine.ends:
        now = min([*(job.submit for job in arrivals[-1:]), *(end for end, _ in machine.ends[:1])])
        machine.release(now)
        while arrivals and arrivals[-1].submit == now:
            machine.waiting.append(arrivals.pop())
        machine.schedule(now)
    return machine.starts


class _Machine:
    def __init__(self, processors: int, users: Mapping[int, str], shortest: bool) -> None:
        self.free = processors
        self.users = users
        self.shortest = shortest
        self.past: dict[str, list[Micros]] = {}
        self.running: dict[int, tuple[Micros, Job]] = {}
        self.ends: list[tuple[Micros, int]] = []
        self.waiting: list[Job] = []
        self.starts: list[Start] = []

    def release(self, now: Micros) -> None:
        while self.ends and self.ends[0][0] == now:
            _, job = self.running.pop(heapq.heappop(self.ends)[1])
            self.free += job.hosts
            if job.run:
                past = self.past.setdefault(self.users[job.number], [])
                past[:] = [*past, job.run][-2:]

    def predicted(self, job: Job) -> Micros:
        past = self.past.get(self.users[job.number])
        return min(job.walltime, sum(past) // len(past)) if past else job.walltime

    def schedule(self, now: Micros) -> None:
        while self.waiting and self.waiting[0].hosts <= self.free:
            self._start(self.waiting.pop(0), now)
        if not self.waiting:
            return
        shadow, spare = self._shadow(self.waiting[0], now)
        behind = self.waiting[1:]
        if self.shortest:
            behind.sort(key=lambda job: (self.predicted(job), job.submit, job.number))
        for job in behind:
            in_time = now + self.predicted(job) <= shadow
            if job.hosts <= self.free and (in_time or job.hosts <= spare):
                spare -= 0 if in_time else job.hosts
                self.waiting.remove(job)
                self._start(job, now)

    def _shadow(self, head: Job, now: Micros) -> tuple[Micros, int]:
        """When the head is predicted to start, and how many processors it then leaves over."""
        ends = sorted((self._end(began, job, now), job.hosts) for began, job in self.running.values())
        free = self.free
        for end, hosts in ends:
            free += hosts
            if free >= head.hosts:
                return end, self.free + sum(h for e, h in ends if e <= end) - head.hosts
        raise ValueError(f"job {head.number} asks for {head.hosts} processors, more than there are")

    def _end(self, began: Micros, job: Job, now: Micros) -> Micros:
        span = self.predicted(job)
        for step in [*RAISES, *RAISES[-1:] * 100]:
            if began + span > now or span >= job.walltime:
                break
            span = min(job.walltime, span + step)
        return max(now, began + span)

    def _start(self, job: Job, now: Micros) -> None:
        self.free -= job.hosts
        self.running[job.number] = (now, job)
        heapq.heappush(self.ends, (now + job.run, job.number))
        self.starts.append(Start(job, now, (), None))
