"""E1: EASY backfilling. Job by job against a published schedule, and in the mean against a published figure."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tests.oracles.easy_predicted import simulate_predicted

from experiments import engine
from experiments.data import data_file
from experiments.schedule import Job, Start
from fairway.clock import SECOND, Micros
from fairway.sim.metrics.outcomes import MILLION, TAU
from fairway.sim.traces import TraceJob, TraceProblems, open_trace

HOSTS = 32
BATSIM_JOBS = 801
PUBLISHED_MEAN_WAIT = 9.516326
PUBLISHED_MAX_WAIT = 316.742718
KTH_PROCESSORS = 100
KTH_PUBLISHED = 92.58
KTH_PREDICTORS = (65.7, 85.4)
"""The published range of mean bounded slowdown where run times are predicted from the last runs of the same user."""

KTH_FIRST = 1500
"""Jobs on which conservative backfilling is compared start by start: its textbook version is slow."""

TOLERANCE: Micros = 1

Scheduler = Callable[[Iterable[Job], int], list[Start]]


@dataclass(frozen=True, slots=True)
class BatsimResult:
    """How closely the published schedule was matched."""

    jobs: int
    same_start: int
    same_hosts: int
    mean_wait: float
    max_wait: float
    first_difference: str


@dataclass(frozen=True, slots=True)
class KthResult:
    jobs: int
    slowdown: float
    heads: int
    """Jobs with a planned start."""
    missed: int
    """Those of them that started later than first planned."""


def off(slowdown: float) -> float:
    """Difference from the published figure, in percent."""
    return 100 * (slowdown / KTH_PUBLISHED - 1)


def batsim(schedule: Scheduler) -> BatsimResult:
    """801 jobs on 32 hosts against the schedule that Batsim's EASY made of them."""
    return compare(batsim_starts(schedule), published())


def batsim_starts(schedule: Scheduler) -> list[Start]:
    jobs = _jobs(open_trace(data_file("batsim-medium-late", "medium_late.json"), "batsim", _strict()))
    return schedule(jobs, HOSTS)


def kth_conservative(schedule: Scheduler) -> BatsimResult:
    """The first jobs of KTH by the engine, against a textbook schedule of them."""
    trace = open_trace(data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz"), "swf", TraceProblems("KTH"))
    jobs = _jobs(islice(trace, KTH_FIRST))
    origin = jobs[0].submit
    textbook: dict[int, tuple[Micros, tuple[int, ...]]] = {}
    textbook |= {start.job.number: (start.at - origin, (0,)) for start in schedule(jobs, KTH_PROCESSORS)}
    return compare(engine.kth_run(KTH_PROCESSORS, engine.CONSERVATIVE, KTH_FIRST).starts, textbook)


def published() -> dict[int, tuple[Micros, tuple[int, ...]]]:
    """By job: start and hosts."""
    with data_file("batsim-medium-late", "easy", "out_jobs.csv").open() as file:
        return {
            int(row["job_id"]): (round(float(row["starting_time"]) * SECOND), _hosts(row["allocated_resources"]))
            for row in csv.DictReader(file)
        }


def compare(starts: Sequence[Start], published: dict[int, tuple[Micros, tuple[int, ...]]]) -> BatsimResult:
    same_start = same_hosts = 0
    first = ""
    for start in starts:
        at, hosts = published[start.job.number]
        same_start += abs(start.at - at) <= TOLERANCE
        same_hosts += start.hosts == hosts
        if not first and (abs(start.at - at) > TOLERANCE or start.hosts != hosts):
            first = f"job {start.job.number}: {start.at} on {start.hosts}, published {at} on {hosts}"
    waits = [(start.at - start.job.submit) / SECOND for start in starts]
    return BatsimResult(len(starts), same_start, same_hosts, sum(waits) / len(waits), max(waits), first)


def kth(schedule: Scheduler) -> KthResult:
    """The KTH SP2 log with its users' estimates."""
    jobs = _jobs(open_trace(data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz"), "swf", TraceProblems("KTH")))
    return kth_result(schedule(jobs, KTH_PROCESSORS))


def kth_predicted(*, shortest: bool) -> KthResult:
    """The log with run times predicted from the last two runs of the same user, by the rules written out."""
    trace = list(open_trace(data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz"), "swf", TraceProblems("KTH")))
    jobs = _jobs(trace)
    users = {job.number: line.namespace for job, line in zip(jobs, trace, strict=True)}
    return kth_result(simulate_predicted(jobs, KTH_PROCESSORS, users, shortest=shortest))


def kth_result(starts: Sequence[Start]) -> KthResult:
    slowdowns = [_slowdown(start) for start in starts]
    promised = [start for start in starts if start.planned is not None]
    return KthResult(
        jobs=len(starts),
        slowdown=sum(slowdowns) / len(slowdowns) / MILLION,
        heads=len(promised),
        missed=sum(start.at > start.planned for start in promised if start.planned is not None),
    )


def _slowdown(start: Start) -> int:
    wait, run = start.at - start.job.submit, start.job.run
    return max(MILLION, (wait + run) * MILLION // max(run, TAU))


def _jobs(trace: Iterable[TraceJob]) -> list[Job]:
    """A job without an estimate is assumed to state its true run time."""
    return [
        Job(int(job.name.removeprefix("job-")), job.submit, job.tasks, job.limit or job.run, job.duration)
        for job in trace
    ]


def _hosts(text: str) -> tuple[int, ...]:
    """`1-3 7` is hosts 1, 2, 3 and 7."""
    found: list[int] = []
    for part in text.split():
        low, _, high = part.partition("-")
        found.extend(range(int(low), int(high or low) + 1))
    return tuple(found)


def _strict() -> TraceProblems:
    return TraceProblems("batsim", strict=True)
