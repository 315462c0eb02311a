"""`decide` rolled forward on a virtual copy of a cluster: what happens if nothing else arrives.

Runs end when they are known or estimated to; a run of which nothing is known goes on for ever. The look ahead is
bounded in virtual time and in the number of decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from random import Random

from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.explain.ends import Runs
from fairway.app.explain.situation import SYSTEM, Situation
from fairway.clock import SECOND, Micros
from fairway.sim.assertions import Evidence
from fairway.sim.live import FOREVER, LiveCluster, populate, settle
from fairway.sim.loop import EventLoop
from fairway.sim.metrics import JobFacts
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.scenario.model import TimingPart
from fairway.sim.scheduling import rhythm_of, schedule
from fairway.sim.virtual_cluster import NodePool
from fairway.sim.virtual_jobs import SimPod
from fairway.state.cluster import ClusterState
from fairway.state.reader import job_of

HORIZON: Micros = 90 * 86_400 * SECOND
MOST_DECISIONS = 1_000


class RunBound(Enum):
    """How long runs take that are not sure to end when they are expected to."""

    EXPECTED = "expected"
    SHORTEST = "shortest"
    """What runs now ends now."""
    LONGEST = "longest"
    """As long as they may; a run that nothing ends goes on for ever."""


class _Watch:
    """Hears of the first placing of every job, and of the end of runs; the rest passes by."""

    def __init__(self) -> None:
        self.started: dict[str, Micros] = {}
        self.fresh: set[str] = set()
        """Those of the last step."""
        self.ended: set[str] = set()

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        if key not in self.started:
            self.started[key] = at
            self.fresh.add(key)

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None:
        self.ended.add(key)

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        self.ended.add(key)

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None: ...

    def submitted(self, at: Micros, facts: JobFacts) -> None: ...

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None: ...

    def reservations(self, at: Micros, starving: int, reserved: int) -> None: ...


class LookAhead:
    """See the module."""

    def __init__(self, situation: Situation, bound: RunBound = RunBound.EXPECTED) -> None:
        self._bound = bound
        self._runs = Runs(situation)
        self._watch = _Watch()
        self._uncertain: set[str] = set()
        """Jobs of which a run time is not for sure."""
        self._horizon = situation.now + HORIZON
        self._loop = EventLoop(situation.now)
        self._cluster = LiveCluster(
            self._loop, NodePool(), self._watch, NodeTimeline(), Evidence(situation.now), TimingPart(), Random(0)
        )
        settle(populate(situation.objects.values(), self._run_time), self._cluster)
        self._scheduler = schedule(
            self._cluster,
            situation.policy,
            rhythm_of("events", SECOND, reasons=False),
            state=ClusterState(situation.scheduler_names),
        )

    def run(self, jobs: Collection[str], until: Micros | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        """Until all these jobs have started, or as far as is looked; not after a time, nor once `stop` says so."""
        waiting = set(jobs) - self._watch.started.keys()
        horizon = self._horizon if until is None else min(until, self._horizon)
        while waiting and self._scheduler.cycles < MOST_DECISIONS and not stop():
            when = self._loop.next_time
            if when is None or when > horizon:
                break
            self._loop.step()
            waiting -= self._watch.fresh
            self._watch.fresh.clear()

    @property
    def started(self) -> Mapping[str, Micros]:
        """When each job got its first nodes."""
        return self._watch.started

    @property
    def state(self) -> ClusterState:
        """What the scheduler counts with, as far as was looked."""
        self._scheduler.catch_up()
        return self._scheduler.state

    @property
    def rests_on_estimates(self) -> bool:
        """Whether a run has ended whose end was not for sure."""
        return bool(self._watch.ended & self._uncertain)

    @property
    def has_estimates(self) -> bool:
        return bool(self._uncertain)

    @property
    def now(self) -> Micros:
        """How far was looked."""
        return self._loop.now

    @property
    def goes_on(self) -> bool:
        """Whether more is known to happen than was looked at."""
        later = self._loop.next_time
        return later is not None and later < FOREVER

    @property
    def decisions(self) -> int:
        return self._scheduler.cycles

    def endless(self) -> list[SimPod]:
        """Pods that run and have no known end, by name."""
        pods = self._cluster.pods.values()
        found = [pod for pod in pods if pod.node and pod.run >= FOREVER and not pod.terminating]
        return sorted(found, key=lambda pod: pod.key)

    def _run_time(self, pod: Pod, group: PodGroup | None) -> Micros:
        runtime = self._runs.known(pod)
        if runtime is not None and not runtime.certain:
            self._uncertain.add(job_of(pod))
        if self._bound is RunBound.SHORTEST and pod.spec.node_name and pod.metadata.namespace != SYSTEM:
            return self._runs.elapsed(pod)
        if self._bound is RunBound.LONGEST:
            return FOREVER if runtime is None or runtime.sure is None else runtime.sure
        return self._runs.span(pod)


def estimated_starts(situation: Situation, jobs: Collection[str]) -> dict[str, Micros]:
    """When each of these jobs starts if nothing else arrives; those that do not within the look ahead are left out."""
    ahead = LookAhead(situation)
    ahead.run(jobs)
    return {job: ahead.started[job] for job in jobs if job in ahead.started}
