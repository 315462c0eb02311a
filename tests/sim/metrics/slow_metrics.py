"""The metrics by their definitions: from a whole list of jobs, instant by instant, with exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

CAPACITY = (8000, 4000)
RESOURCES = ("cpu", "nvidia.com/gpu")


@dataclass(frozen=True)
class Job:
    """Waits from submit to start, holds its amounts from start to end; all at once."""

    key: str
    queue: str
    namespace: str
    amounts: tuple[int, int]
    submit: int
    start: int
    end: int

    def state(self, at: int) -> str:
        """In the instant that begins at `at`."""
        if at < self.submit or at >= self.end:
            return "gone"
        return "held" if at >= self.start else "waits"


Vector = Sequence[Fraction | int]


def share(amounts: Vector) -> Fraction:
    return max(Fraction(amount) / total for amount, total in zip(amounts, CAPACITY, strict=True))


def slow_fill(room: Vector, claims: Sequence[tuple[int, Vector]]) -> list[Fraction]:
    """Raise the level of all, in exact fractions, until none can rise."""
    level = Fraction(0)
    granted = [Fraction(1)] * len(claims)
    rising = {i for i, (_, demand) in enumerate(claims) if share(demand) > 0}
    full = {i: share(claims[i][1]) / claims[i][0] for i in rising}
    left = [Fraction(amount) for amount in room]
    while rising:
        rates = [sum((claims[i][1][r] / full[i] for i in rising), Fraction(0)) for r in range(len(left))]
        lasts = [left[r] / rates[r] for r in range(len(left)) if rates[r]]
        step = min([min(full[i] for i in rising) - level, *lasts])
        level += step
        left = [have - rate * step for have, rate in zip(left, rates, strict=True)]
        for i in sorted(rising):
            demand = claims[i][1]
            if full[i] == level or any(demand[r] and not left[r] for r in range(len(left))):
                granted[i] = level / full[i]
                rising.discard(i)
    return granted


def slow_entitlements(jobs: Sequence[Job], at: int) -> dict[tuple[str, str], Fraction]:
    """The dominant share that each (queue, namespace) with demand is entitled to."""
    demand: dict[tuple[str, str], list[int]] = {}
    for job in jobs:
        if job.state(at) != "gone" and any(job.amounts):
            have = demand.setdefault((job.queue, job.namespace), [0, 0])
            demand[job.queue, job.namespace] = [h + a for h, a in zip(have, job.amounts, strict=True)]
    queues = sorted({queue for queue, _ in demand})
    totals = [[sum(d[r] for (q, _), d in demand.items() if q == queue) for r in (0, 1)] for queue in queues]
    parts = slow_fill(CAPACITY, [(1, total) for total in totals])
    found = {}
    for queue, total, part in zip(queues, totals, parts, strict=True):
        room = CAPACITY if len(queues) == 1 else [part * amount for amount in total]
        names = sorted(name for q, name in demand if q == queue)
        granted = slow_fill(room, [(1, demand[queue, name]) for name in names])
        for name, given in zip(names, granted, strict=True):
            found[queue, name] = given * share(demand[queue, name])
    return found


def held_share(jobs: Sequence[Job], at: int, tenant: tuple[str, str]) -> Fraction:
    mine = [job.amounts for job in jobs if (job.queue, job.namespace) == tenant and job.state(at) == "held"]
    return share([sum(amounts[r] for amounts in mine) for r in (0, 1)])


def worst_deviation(jobs: Sequence[Job], at: int) -> Fraction:
    backlogged = {(job.queue, job.namespace) for job in jobs if job.state(at) == "waits"}
    entitled = slow_entitlements(jobs, at)
    return max(
        (abs(held_share(jobs, at, tenant) - entitled.get(tenant, 0)) for tenant in backlogged),
        default=Fraction(0),
    )


def nearest_rank(values: Sequence[int], percent: int) -> int:
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def processors(job: Job) -> Fraction:
    """CPUs; of a job that asks for none, GPUs; else one for its only task."""
    return Fraction(job.amounts[0] or job.amounts[1] or 1000, 1000)


def bounded_slowdown(job: Job) -> Fraction:
    wait, run = job.start - job.submit, job.end - job.start
    return max(Fraction(1), Fraction(wait + run, max(run, 10)))


def weighted_slowdown(jobs: Sequence[Job]) -> Fraction:
    areas = [processors(job) * (job.end - job.start) for job in jobs]
    return sum(area * bounded_slowdown(job) for area, job in zip(areas, jobs, strict=True)) / sum(areas)  # type: ignore[return-value]


def by_user(jobs: Sequence[Job]) -> list[list[Job]]:
    return [[job for job in jobs if job.namespace == name] for name in sorted({job.namespace for job in jobs})]


def user_waits(jobs: Sequence[Job]) -> list[Fraction]:
    return [Fraction(sum(job.start - job.submit for job in mine), len(mine)) for mine in by_user(jobs)]


def normalised_user_waits(jobs: Sequence[Job]) -> list[Fraction]:
    """For each user: seconds waited over processor-seconds used."""
    return [
        sum(job.start - job.submit for job in mine) / sum(processors(job) * (job.end - job.start) for job in mine)  # type: ignore[misc]
        for mine in by_user(jobs)
    ]


def deviation(values: Sequence[Fraction]) -> float:
    mean = sum(values) / Fraction(len(values))
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def utilisation(jobs: Sequence[Job], resource: int, until: int) -> float:
    used = sum(job.amounts[resource] for at in range(until) for job in jobs if job.state(at) == "held")
    return used / (CAPACITY[resource] * until) if until else 0.0


def idle_while_waiting(jobs: Sequence[Job], at: int) -> Fraction | None:
    """The idle part of the most used resource; None where no job waits for anything."""
    if not any(job.state(at) == "waits" for job in jobs):
        return None
    held = [job.amounts for job in jobs if job.state(at) == "held"]
    return max(Fraction(0), 1 - share([sum(amounts[r] for amounts in held) for r in (0, 1)]))


Verdict = tuple[str, str]
"""hard or soft; kept or missed."""


def planned_verdict(given: Sequence[tuple[int, bool]], start: int) -> Verdict | None:
    """Planned starts that a job was given, in order, against when it started."""
    hard = [at for at, is_hard in given if is_hard]
    if not given:
        return None
    at = min(hard) if hard else given[0][0]
    return "hard" if hard else "soft", "kept" if start <= at else "missed"


def slow_jain(jobs: Sequence[Job], until: int) -> float | None:
    """None unless several namespaces wait when the run is cut."""
    waiting = {job.namespace for job in jobs if job.submit <= until and job.start > until}
    if len(waiting) < 2:
        return None
    tenants = {(job.queue, job.namespace) for job in jobs if job.submit <= until}
    services = [sum(held_share(jobs, at, tenant) for at in range(until)) for tenant in tenants]
    squares = sum(service * service for service in services)
    return float(sum(services) ** 2 / (len(services) * squares)) if squares else 1.0
