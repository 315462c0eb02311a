"""In which order jobs are tried when planning: the policy's, the shortest first behind the head, and exceptions."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from fairway.clock import Micros
from fairway.scheduler.backfill.run_ends import FOREVER
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Keys, Order
from fairway.state.jobs import JobOrder


class _Jobs(Protocol):
    def __bool__(self) -> bool: ...
    def top(self) -> JobRun: ...
    def replace_top(self, *jobs: JobRun) -> None: ...
    def jobs(self) -> list[JobRun]: ...
    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None: ...


class ShortestFirst:
    """Jobs by estimated run time; those of unknown length last; ties by the tie rule."""

    def __init__(self, runtimes: Runtimes, jobs: list[JobRun]) -> None:
        self._runtimes = runtimes
        self._heap = [self._entry(job) for job in jobs]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def top(self) -> JobRun:
        return self._heap[0][-1]

    def replace_top(self, *jobs: JobRun) -> None:
        heappop(self._heap)
        for job in jobs:
            heappush(self._heap, self._entry(job))

    def jobs(self) -> list[JobRun]:
        return [job for *_, job in self._heap]

    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None:
        self._heap = [entry for entry in self._heap if not is_hopeless(entry[-1])]
        heapify(self._heap)

    def _entry(self, job: JobRun) -> tuple[Micros, JobOrder, str, JobRun]:
        runtime = self._runtimes.of_all(job.waiting)
        return FOREVER if runtime is None else runtime.span, job.job.order, job.job.identity, job


class LineUp:
    """The jobs of one pass. `first` goes before all others; a job that was evicted for overrunning comes after the one
    that it was evicted for."""

    def __init__(
        self, keys: Keys, runtimes: Runtimes, jobs: list[JobRun], first: JobRun | None, *, shortest: bool
    ) -> None:
        self._keys = keys
        self._runtimes = runtimes
        self._shortest = shortest
        self._first = first if first in jobs else None
        there = {(job.job.kind, job.key) for job in jobs}
        self._after: dict[tuple[str, str], list[JobRun]] = {}
        free = []
        for job in jobs:
            before = None if job.job.overrun is None else job.job.overrun.after
            if job is not self._first and before is not None and before in there:
                self._after.setdefault(before, []).append(job)
            elif job is not self._first:
                free.append(job)
        self._jobs: _Jobs = Order(keys, free)
        self._keep_every_job()

    def __bool__(self) -> bool:
        return self._first is not None or bool(self._jobs)

    def top(self) -> JobRun:
        return self._jobs.top() if self._first is None else self._first

    def replace_top(self, *jobs: JobRun) -> None:
        """The turn of the last `top` is over; these (itself, or none) stand in the queue now."""
        over = self._remove_top(*jobs)
        self._add(self._after.pop((over.job.kind, over.key), []))
        self._keep_every_job()

    def put_off_top(self) -> list[JobRun]:
        """The last `top` has its turn in a later pass: it, and those that come after it, too."""
        later = [self._remove_top()]
        for job in later:
            later += self._after.pop((job.job.kind, job.key), [])
        self._keep_every_job()
        return later

    def _remove_top(self, *jobs: JobRun) -> JobRun:
        over = self.top()
        if self._first is None:
            self._jobs.replace_top(*jobs)
        else:
            self._first = None
            self._add(list(jobs))
        return over

    def head_is_found(self) -> None:
        """Those behind the head may be tried in another order."""
        if self._shortest and not isinstance(self._jobs, ShortestFirst):
            self._jobs = ShortestFirst(self._runtimes, self._jobs.jobs())

    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None:
        """Jobs that cannot start whatever becomes of the others are not tried, where that changes no order."""
        if self._first is None and not self._after:
            self._jobs.leave_out(is_hopeless)

    def _keep_every_job(self) -> None:
        """Jobs that are said to come after each other, which only objects from elsewhere can say, are tried too."""
        if self._after and self._first is None and not self._jobs:
            left = [job for jobs in self._after.values() for job in jobs]
            self._after = {}
            self._add(left)

    def _add(self, jobs: list[JobRun]) -> None:
        if not jobs:
            return
        together = [*self._jobs.jobs(), *jobs]
        if isinstance(self._jobs, ShortestFirst):
            self._jobs = ShortestFirst(self._runtimes, together)
        else:
            self._jobs = Order(self._keys, together)
