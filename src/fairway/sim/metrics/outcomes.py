"""How the jobs fared: waits and slowdowns, overall and by queue, namespace and size; lost work; planned starts; and how
evenly waits fall on users.

A job is compared with the earliest hard planned start that it was given, or with the first soft one where it was given
no hard one, when it starts. A job that is stopped and waits again is planned again, and judged again.

A user is a namespace: the trace's own where a scenario puts all jobs into one. The normalised wait of a user is the sum
of the waits of its jobs over the sum of their areas (processors times run time): how long it waited for each
processor-second that it got. A user of large and long jobs may wait longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt

import msgspec
from msgspec.structs import replace

from fairway.clock import SECOND, Micros
from fairway.sim.metrics.distribution import Distribution


class PlannedStartResult(msgspec.Struct, frozen=True, rename="camel"):
    """A planned start of a job that has started."""

    at: Micros
    hard: bool
    kept: bool


class PlannedStarts:
    """The planned starts of a run."""

    def __init__(self) -> None:
        self.kept = 0
        self.missed = 0
        self.soft_kept = 0
        self.soft_missed = 0
        self.worst: tuple[Micros, str] = (0, "")
        """The largest miss of a hard planned start, and its job."""
        self._open: dict[str, tuple[Micros, bool]] = {}

    def given(self, key: str, at: Micros, *, hard: bool) -> None:
        """A plan states when a pending job starts."""
        known = self._open.get(key)
        if known is None or (hard and (not known[1] or at < known[0])):
            self._open[key] = at, hard

    def started(self, key: str, at: Micros) -> PlannedStartResult | None:
        """The job starts: the result of its planned start, if it had one."""
        known = self._open.pop(key, None)
        if known is None:
            return None
        planned, hard = known
        self._count(key, at, planned, hard)
        return PlannedStartResult(planned, hard, at <= planned)

    def forget(self, key: str) -> None:
        """The job was withdrawn."""
        self._open.pop(key, None)

    def close(self, at: Micros, waiting: Iterable[str]) -> None:
        """The run is over: a planned start in the past of a pending job is missed."""
        for key in waiting:
            planned, hard = self._open.get(key, (at, False))
            if planned < at:
                self._count(key, at, planned, hard)

    def _count(self, key: str, at: Micros, planned: Micros, hard: bool) -> None:
        late = at - planned
        if hard:
            self.kept += late <= 0
            self.missed += late > 0
            if late > self.worst[0]:
                self.worst = late, key
        else:
            self.soft_kept += late <= 0
            self.soft_missed += late > 0


TAU: Micros = 10 * SECOND
"""Minimum run time in the bounded slowdown."""

MILLION = 1_000_000
SIZE_CLASSES = (
    (0.001, "up to 0.1 %"),
    (0.01, "up to 1 %"),
    (0.1, "up to 10 %"),
    (float("inf"), "above 10 %"),
)
"""Jobs by the dominant share of the cluster that they request."""


WaitSoFar = tuple[str, str, Micros]
"""Queue, namespace, and how long a job has waited, or waited until it started."""


class JobOutcome(msgspec.Struct, frozen=True):
    """A finished job."""

    key: str
    queue: str
    namespace: str
    tasks: int
    size: str
    """Its size class."""
    submit: Micros
    start: Micros
    end: Micros
    run: Micros
    evictions: int = 0
    """How often it was stopped."""
    processors: int = 0
    """What all its tasks request of the processor that it runs on, in thousandths."""
    limit: Micros | None = None
    """The run time that its user requested."""
    hosts: tuple[str, ...] = ()
    planned: PlannedStartResult | None = None

    @property
    def wait(self) -> Micros:
        return self.start - self.submit

    @property
    def slowdown(self) -> int:
        """Bounded slowdown in millionths: max(1, (wait + run) / max(run, 10 s))."""
        return max(MILLION, (self.wait + self.run) * MILLION // max(self.run, TAU))

    @property
    def area(self) -> int:
        """Processors (in thousandths) times run time."""
        return self.processors * self.run


def size_class(share: float) -> str:
    return next(name for limit, name in SIZE_CLASSES if share <= limit)


class JobGroup:
    """The finished jobs of one kind."""

    def __init__(self) -> None:
        self.wait = Distribution()
        self.slowdown = Distribution()
        self.longest: JobOutcome | None = None
        self.area = 0
        self.slowed_area = 0
        """Areas multiplied by slowdowns."""

    def add(self, outcome: JobOutcome, wait: Micros, slowdown: int, area: int) -> None:
        """The last three follow from the outcome, and are computed once for all groups."""
        if self.longest is None or wait > self.longest.wait:
            self.longest = replace(outcome, hosts=())
        self.wait.add(wait)
        self.slowdown.add(slowdown)
        self.area += area
        self.slowed_area += area * slowdown


class JobOutcomes:
    """All groups, and the cost of evictions."""

    def __init__(self, resources: Sequence[str]) -> None:
        self.all = JobGroup()
        self.by_queue: dict[str, JobGroup] = {}
        self.by_namespace: dict[str, JobGroup] = {}
        self.by_size: dict[str, JobGroup] = {}
        self.submitted = 0
        self.withdrawn = 0
        self.running = 0
        self.waiting = 0
        self.longest_waiting: tuple[Micros, str] = (0, "")
        self.evictions = 0
        self.evictions_by_queue: dict[str, int] = {}
        self.lost_work = dict.fromkeys(resources, 0)
        """Amounts multiplied by the microseconds for which evicted pods had them."""
        self.lost_dominant = 0
        """The same as the dominant share of each pod, in microseconds of the whole cluster and units of ONE."""
        self.failures = 0
        self.failed_work = dict.fromkeys(resources, 0)
        """The same for pods that were lost with their node."""
        self.repeat_victims = 0
        """Jobs that were stopped more than once."""
        self.most_stops: tuple[int, str] = (0, "")
        self.waits: dict[str, Distribution] = {}
        """When all is over: the waits of finished jobs and, as far as they got, of those that are not done. Of all
        (""), and by `queue/NAME` and `namespace/NAME`.
        """

    def finish(self, outcome: JobOutcome) -> None:
        wait, slowdown, area = outcome.wait, outcome.slowdown, outcome.area
        for groups, name in (
            (self.by_queue, outcome.queue),
            (self.by_namespace, outcome.namespace),
            (self.by_size, outcome.size),
        ):
            group = groups.get(name)
            if group is None:
                group = groups[name] = JobGroup()
            group.add(outcome, wait, slowdown, area)
        self.all.add(outcome, wait, slowdown, area)

    def lost(self, key: str, queue: str, tasks: int, work: Sequence[int], share: int, stops: int = 0) -> None:
        """`tasks` of a job were evicted; `work` and its dominant `share` by time are lost. If that stopped the job, it
        was for the `stops`-th time.
        """
        self.evictions += tasks
        self.evictions_by_queue[queue] = self.evictions_by_queue.get(queue, 0) + tasks
        self.lost_dominant += share
        self.repeat_victims += stops == 2
        if stops > self.most_stops[0]:
            self.most_stops = (stops, key)
        for name, amount in zip(self.lost_work, work, strict=True):
            self.lost_work[name] += amount

    def failed(self, tasks: int, work: Sequence[int]) -> None:
        """`tasks` were lost with their node."""
        self.failures += tasks
        for name, amount in zip(self.failed_work, work, strict=True):
            self.failed_work[name] += amount

    def close(self, running: int, waiting: Sequence[tuple[Micros, str]], so_far: Sequence[WaitSoFar]) -> None:
        """`so_far` has all unfinished jobs, running or pending."""
        self.running = running
        self.waiting = len(waiting)
        self.longest_waiting = max(waiting, key=lambda entry: entry[0], default=(0, ""))
        self.waits = {"": self.all.wait.copy()}
        self.waits |= {f"queue/{name}": group.wait.copy() for name, group in self.by_queue.items()}
        self.waits |= {f"namespace/{name}": group.wait.copy() for name, group in self.by_namespace.items()}
        for queue, namespace, wait in so_far:
            for key in ("", f"queue/{queue}", f"namespace/{namespace}"):
                self.waits.setdefault(key, Distribution()).add(wait)

    @property
    def finished(self) -> int:
        return self.all.wait.count


class SpreadMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """The distribution of one figure over users."""

    mean: float
    deviation: float
    """The standard deviation over the users."""
    largest: float
    user: str
    """The user with the largest."""


class UserMetrics(msgspec.Struct, frozen=True, rename="camel"):
    users: int
    wait: SpreadMetrics
    """Mean waits, in seconds."""
    normalised_wait: SpreadMetrics
    """Seconds waited for each processor-second; users whose jobs had no run time are left out."""


def user_metrics(groups: Mapping[str, JobGroup]) -> UserMetrics:
    waits = [(group.wait.mean() / SECOND, name) for name, group in sorted(groups.items())]
    normalised = [(group.wait.total * 1000 / group.area, name) for name, group in sorted(groups.items()) if group.area]
    return UserMetrics(len(waits), _spread(waits), _spread(normalised))


def _spread(values: Sequence[tuple[float, str]]) -> SpreadMetrics:
    if not values:
        return SpreadMetrics(0.0, 0.0, 0.0, "")
    mean = sum(value for value, _ in values) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value, _ in values) / len(values))
    largest, user = max(values, key=lambda entry: (entry[0], entry[1]))
    return SpreadMetrics(round(mean, 6), round(deviation, 6), round(largest, 6), user)
