"""What happens if no other jobs arrive: `decide` rolled forward on a virtual copy of the cluster.

Runs end when they are known or estimated to. A run of which nothing is known never ends, and a forecast says how many
of those there are. The look ahead is bounded in virtual time and in the number of decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from random import Random

from msgspec.structs import replace

from fairway.api.arguments import BackfillArguments
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.explain.model import Forecast, UnknownEnd
from fairway.app.explain.situation import SYSTEM, Situation, effect_on
from fairway.clock import SECOND, Micros, format_rfc3339, from_datetime, to_the_second
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.sim.assertions import Evidence
from fairway.sim.live import FOREVER, LiveCluster, populate, settle
from fairway.sim.loop import EventLoop
from fairway.sim.metrics import JobFacts
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.scenario.model import TimingPart
from fairway.sim.scheduling import rhythm_of, schedule
from fairway.sim.spans import rounded_span
from fairway.sim.virtual_cluster import NodePool
from fairway.sim.virtual_jobs import SimPod
from fairway.state.cluster import ClusterState
from fairway.state.reader import job_of, key_of

HORIZON: Micros = 90 * 86_400 * SECOND
MAX_DECISIONS = 1_000
MAX_NAMED = 10
"""Pods without a known end that are listed; the rest are counted."""


class Runs:
    """Run times and ends of the pods of a situation, as far as they are known.

    The policy's own rules decide which run times are known, and which are certain (`scheduler.backfill.runtimes`).
    Beyond them, the mean of the last runs of the same name is used if there are any, and counts as an estimate.
    """

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        actions = (action.arguments for action in situation.policy.actions)
        own = next(
            (arguments for arguments in actions if isinstance(arguments, BackfillArguments)), BackfillArguments()
        )
        self._runtimes = Runtimes(situation.state, own)
        self._past = Runtimes(situation.state, replace(own, estimate="user-history"))

    def known(self, pod: Pod) -> Runtime | None:
        """How long a pod runs, counted from its start; None if unknown."""
        state, key = self._situation.state, key_of(pod)
        task = state.tasks.get(key) or state.foreign.get(key)
        return None if task is None else self._runtimes.of(task) or self._past.of(task)

    def span(self, pod: Pod) -> Micros:
        """The total run time of a running or pending pod; `FOREVER` if unknown."""
        runtime = self.known(pod)
        if runtime is None:
            return FOREVER
        if not pod.spec.node_name:
            return runtime.span
        began = self._began(pod)
        return runtime.end(began, self._situation.now) - began

    def end(self, pod: Pod) -> Micros:
        """When a pod that has a node is gone; `FOREVER` if unknown."""
        if pod.metadata.deletion_timestamp is not None:
            return max(self._situation.now, from_datetime(pod.metadata.deletion_timestamp))
        span = self.span(pod)
        return FOREVER if span >= FOREVER else self._began(pod) + span

    def elapsed(self, pod: Pod) -> Micros:
        """How long a pod has run so far."""
        return max(0, self._situation.now - self._began(pod))

    def _began(self, pod: Pod) -> Micros:
        """When a pod started; now, if it does not say."""
        started = pod.status.start_time
        return self._situation.now if started is None else from_datetime(started)


class RunBound(Enum):
    """How long to assume uncertain runs take."""

    EXPECTED = "expected"
    SHORTEST = "shortest"
    """Running pods end now."""
    LONGEST = "longest"
    """As long as allowed; a run without a limit never ends."""


class _Watch:
    """Notes the first placement of every job and the end of runs; ignores all else."""

    def __init__(self) -> None:
        self.started: dict[str, Micros] = {}
        self.fresh: set[str] = set()
        """Jobs that started in the last step."""
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
    """A virtual copy of the cluster that is rolled forward in time."""

    def __init__(self, situation: Situation, bound: RunBound = RunBound.EXPECTED) -> None:
        self._bound = bound
        self._runs = Runs(situation)
        self._watch = _Watch()
        self._uncertain: set[str] = set()
        """Jobs with an uncertain run time."""
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
        """Roll forward until all these jobs have started, a bound or `until` is reached, or `stop` returns True."""
        waiting = set(jobs) - self._watch.started.keys()
        horizon = self._horizon if until is None else min(until, self._horizon)
        while waiting and self._scheduler.cycles < MAX_DECISIONS and not stop():
            when = self._loop.next_time
            if when is None or when > horizon:
                break
            self._loop.step()
            waiting -= self._watch.fresh
            self._watch.fresh.clear()

    @property
    def started(self) -> Mapping[str, Micros]:
        """When each job was first placed."""
        return self._watch.started

    @property
    def state(self) -> ClusterState:
        """The scheduler's state at the end of the look ahead."""
        self._scheduler.catch_up()
        return self._scheduler.state

    @property
    def rests_on_estimates(self) -> bool:
        """Whether a run with an uncertain end has ended."""
        return bool(self._watch.ended & self._uncertain)

    @property
    def has_estimates(self) -> bool:
        return bool(self._uncertain)

    @property
    def now(self) -> Micros:
        """The virtual time reached."""
        return self._loop.now

    @property
    def goes_on(self) -> bool:
        """Whether events remain that the look ahead did not reach."""
        later = self._loop.next_time
        return later is not None and later < FOREVER

    @property
    def decisions(self) -> int:
        return self._scheduler.cycles

    def endless(self) -> list[SimPod]:
        """Running pods without a known end, by name."""
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
    """When each job starts if no other jobs arrive; jobs that do not start within the look ahead are left out."""
    ahead = LookAhead(situation)
    ahead.run(jobs)
    return {job: ahead.started[job] for job in jobs if job in ahead.started}


def forecast(situation: Situation, job: str, stop: Callable[[], bool] = lambda: False) -> Forecast:
    """When the first pod of the job gets a node; a gang gets its minimum at once. `stop` ends the look ahead early."""
    return _Teller(situation, job, stop).forecast()


class _Teller:
    def __init__(self, situation: Situation, job: str, stop: Callable[[], bool]) -> None:
        self._situation = situation
        self._job = job
        self._ahead = LookAhead(situation)
        self._ahead.run([job], stop=stop)
        self._start = self._ahead.started.get(job)

    def forecast(self) -> Forecast:
        unknown = self._unknown()
        count = len(unknown)
        found = self._started(count) if self._start is not None else self._not_started(count)
        return replace(
            found, unknown_ends=tuple(unknown[:MAX_NAMED]), unknown_count=count, decisions=self._ahead.decisions
        )

    def _started(self, unknown: int) -> Forecast:
        start = self._start or 0
        estimate = self._ahead.rests_on_estimates
        basis = " (an estimate, based on run times that are not enforced)" if estimate else ""
        assumed = (
            f"; {_pods(unknown)} no known end and {'is' if unknown == 1 else 'are'} assumed to keep running"
            if unknown
            else ""
        )
        text = f"starts {self._when(start, 'at ')}{basis} if nothing else arrives{assumed}"
        return Forecast(text, start=format_rfc3339(start), estimate=estimate)

    def _not_started(self, unknown: int) -> Forecast:
        seen = self._ahead.now
        if self._ahead.goes_on:
            text = f"not before {self._when(seen)}, where the forecast ends"
        elif unknown and self._would_wait_alone():
            text = "not at all as things are: it would be pending even in an empty cluster"
        elif unknown:
            text = f"not before a pod without a known end finishes ({_pods(unknown)} none)"
            text += f"; all known ends are over {self._when(seen, 'by ')}" if seen > self._situation.now else ""
        else:
            text = "not at all as things are: it is still pending after all known ends"
        return Forecast(text, not_before=format_rfc3339(seen), estimate=self._ahead.has_estimates)

    def _would_wait_alone(self) -> bool:
        """Whether the job would be pending even in an empty cluster, so that no end of another run helps.

        A pod with affinity to other pods may start only because of them: for it the question is not asked.
        """
        pods = self._situation.waiting_pods(self._job)
        if any(pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None for pod in pods):
            return False
        alone = self._situation.alone(self._job)
        return effect_on(alone.decide(), self._job) is None

    def _when(self, moment: Micros, word: str = "") -> str:
        now = self._situation.now
        return "now" if moment <= now else f"{word}{to_the_second(moment)} (in {rounded_span(moment - now)})"

    def _unknown(self) -> list[UnknownEnd]:
        """Pods that never end, as of the end of the look ahead, without those of the cluster itself."""
        others = [pod for pod in self._ahead.endless() if pod.job.key != self._job and pod.job.namespace != SYSTEM]
        return [UnknownEnd(pod.key, pod.node) for pod in others]


def _pods(count: int) -> str:
    return "1 pod has" if count == 1 else f"{count} pods have"
