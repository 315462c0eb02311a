"""Which jobs have waited for how long, kept so that a cycle need not look at all of them.

Jobs are split at a *cutoff*: jobs that wait since before it are `old`, the others stand in a heap by the moment their
wait began. As time goes on the cutoff moves forward and the top of the heap turns old.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from fairway.clock import Micros
from fairway.state.jobs import Job

_LONG_AGO: Micros = -(1 << 62)


class Ages:
    """Waiting jobs by the moment their wait began."""

    def __init__(self) -> None:
        self.old: dict[Job, None] = {}
        self._since: dict[Job, Micros] = {}
        self._heap: list[tuple[Micros, str, bool, int, Job]] = []
        """By the moment, then by name and kind; of two entries of one name and kind at most one is of a job that is
        still there, and the number of the entry keeps them apart.
        """
        self._entries = 0
        self._cutoff = _LONG_AGO

    def add(self, job: Job, since: Micros) -> None:
        self._since[job] = since
        if since < self._cutoff:
            self.old[job] = None
        else:
            heappush(self._heap, self._entry(job, since))

    def discard(self, job: Job) -> None:
        self._since.pop(job, None)
        self.old.pop(job, None)

    def advance(self, cutoff: Micros) -> None:
        """Jobs that wait since before the cutoff become old."""
        if cutoff < self._cutoff:
            self._rebuild()
        self._cutoff = cutoff
        self._prune()
        while self._heap and self._heap[0][0] < cutoff:
            self.old[heappop(self._heap)[4]] = None
            self._prune()

    def next(self) -> Micros | None:
        """When the longest wait of jobs that are not old began."""
        self._prune()
        return self._heap[0][0] if self._heap else None

    def _prune(self) -> None:
        """Entries of jobs that no longer wait, or wait again, are left in the heap until they come up."""
        while self._heap and self._since.get(self._heap[0][4]) != self._heap[0][0]:
            heappop(self._heap)

    def _rebuild(self) -> None:
        self.old.clear()
        self._heap = [self._entry(job, since) for job, since in self._since.items()]
        heapify(self._heap)

    def _entry(self, job: Job, since: Micros) -> tuple[Micros, str, bool, int, Job]:
        self._entries += 1
        return since, job.key, job.alone, self._entries, job
