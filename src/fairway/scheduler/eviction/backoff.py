"""Back-off: a job that was stopped is protected from preempt and reclaim for a while after it starts again.

After its n-th stop that is `minRuntime` * 2^n, at least 60 s * 2^n and at most a day (spec S7.6). The protection
holds for the whole job, its surplus pods too, once for each stop: the time runs from the moment at which the job first
has its minimum again, and pods of it that restart later do not prolong it. So a job does a growing amount of work
between two stops, and a claimant waits a day at most for a victim that it is entitled to.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairway.api.arguments import EvictionArguments
from fairway.clock import SECOND, Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.framework.session import Session
from fairway.state.cluster import ClusterState
from fairway.state.eviction_records import StopRecord
from fairway.state.jobs import Job

LEAST: Micros = 60 * SECOND
LONGEST: Micros = 86_400 * SECOND
_DOUBLINGS = LONGEST.bit_length()
"""More of them change nothing: the longest time is reached."""


def protection(arguments: EvictionArguments, stops: int) -> Micros:
    """For how long a job is protected after it started again."""
    base = max(arguments.min_runtime * SECOND, LEAST)
    return min(LONGEST, base << min(stops, _DOUBLINGS))


class StopProtections:
    """The protections of one action in one cycle, by number of unit in an index that is up to date."""

    def __init__(self, session: Session, arguments: EvictionArguments, index: VictimIndex) -> None:
        self._now = session.now
        self._until: IntColumn = np.zeros(len(index.units), dtype=np.int64)
        records, now = session.state.eviction_records, session.now
        for _, record in records:
            if record.restarted_at is not None and record.restarted_at + LONGEST <= now:
                continue  # most records are old, and looking for their jobs costs more than this
            for job in _jobs(session.state, index, record):
                stops = records.stops(job, now)
                if stops is not None and stops.since is not None:
                    self._until[index.of_job(job)] = stops.since + protection(arguments, stops.stops)

    def take_out(self, eligible: BoolColumn, rechecks: list[Micros]) -> BoolColumn:
        """Take protected units out of those that are eligible; returns those that were. The first moment at which one
        of them is protected no more is added to `rechecks`.
        """
        protected: BoolColumn = eligible & (self._until > self._now)
        if protected.any():
            rechecks.append(self.ends(protected))
            eligible &= ~protected
        return protected

    def ends(self, units: BoolColumn) -> Micros:
        """When the first of these protections ends."""
        return int(self._until[units].min())


def _jobs(state: ClusterState, index: VictimIndex, record: StopRecord) -> Iterable[Job]:
    """The jobs with units that a record may speak for: `EvictionRecords.stops` says whether it does."""
    named, namespace = record.object.spec.job_ref, record.object.metadata.namespace
    job = state.groups.get(f"{namespace}/{named.name}")
    return [job] if job is not None else index.lone_jobs_of(record.uid)
