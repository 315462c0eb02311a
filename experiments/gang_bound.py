"""What small jobs wait if a gang takes half of the cluster at a given time and a scheduler knows all run times.

The cluster is one pool of equal slots, which fragmentation cannot harm. A small job starts as soon as a slot is free
for its whole run; from the gang's start to its end only `left` slots are there. Jobs are tried in the order of
submission, or the shortest first; one that has to wait for the gang is passed. Nothing here is the engine's.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path

from fairway.clock import SECOND, Micros
from fairway.sim.scenario import parse_scenario
from fairway.sim.traces import TraceProblems
from fairway.sim.workload import arrivals

NEVER: Micros = 1 << 62
SmallJob = tuple[Micros, Micros]
"""Submission and run time."""


def small_jobs(path: Path, name: str, seed: int, capacity: dict[str, int]) -> list[SmallJob]:
    """The jobs of a scenario whose names begin so, from its start on."""
    scenario = parse_scenario(path.read_text(), path)
    streams = arrivals(scenario, seed, capacity, TraceProblems("scenario"))
    made = [(arrival.at, arrival.make()) for stream in streams for arrival in stream]
    return [(at - scenario.start, job.pods[0].run) for at, job in made if job.key.partition("/")[2].startswith(name)]


def mean_wait(
    jobs: Sequence[SmallJob],
    slots: int,
    left: int = 0,
    gang: tuple[Micros, Micros] = (NEVER, NEVER),
    *,
    shortest: bool = False,
) -> float:
    """Seconds that the jobs wait in the mean, if the gang runs from one time to another."""
    begin, end = gang
    arriving = sorted(jobs, reverse=True)
    waiting: list[SmallJob] = []
    running: list[Micros] = []
    """When runs end."""
    wait, now = 0, -1
    while arriving or waiting:
        ends = [*running[:1], *([end] if now < end < NEVER else [])]
        now = min([*(job[0] for job in arriving[-1:]), *ends])
        while running and running[0] <= now:
            heapq.heappop(running)
        while arriving and arriving[-1][0] <= now:
            waiting.append(arriving.pop())
        capacity = left if begin <= now < end else slots
        over = sum(stop > begin for stop in running) if now < begin else 0
        passed: list[SmallJob] = []
        for job in sorted(waiting, key=lambda job: (job[1], job[0])) if shortest else waiting:
            meets_gang = now < begin < now + job[1]
            if len(running) >= capacity or (meets_gang and over >= left):
                passed.append(job)
                continue
            over += meets_gang
            heapq.heappush(running, now + job[1])
            wait += now - job[0]
        waiting = sorted(passed) if shortest else passed
    return wait / len(jobs) / SECOND
