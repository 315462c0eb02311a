"""When a job starts, if nothing else arrives: `decide` rolled forward on a virtual copy of the cluster.

Runs end when they are known or estimated to. A run of which nobody knows goes on for ever, and the forecast says how
many there are. The look ahead is bounded in virtual time and in the number of decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from msgspec.structs import replace

from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.explaining.model import Forecast, UnknownEnd
from fairway.app.explaining.runs import Runs
from fairway.app.explaining.situation import Situation, effect_on
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.sim.assertions import Evidence
from fairway.sim.live import FOREVER, LiveCluster
from fairway.sim.loop import EventLoop
from fairway.sim.metrics import JobFacts
from fairway.sim.nodes import NodePool
from fairway.sim.population import populate, settle
from fairway.sim.scenario.model import TimingPart
from fairway.sim.scheduling import rhythm_of, schedule
from fairway.sim.spans import format_span
from fairway.sim.story import Story
from fairway.state.cluster import ClusterState
from fairway.state.reader import job_of

HORIZON: Micros = 90 * 86_400 * SECOND
MOST_DECISIONS = 1_000
NAMED = 10
"""Runs of unknown end that are listed; the rest are counted."""


def forecast(situation: Situation, job: str) -> Forecast:
    """The first time at which a pod of the job gets a place; a gang gets all that it needs at once."""
    return _Roll(situation, job).run()


class _Watch:
    """Hears of one job's first placing; the rest passes by."""

    def __init__(self, job: str) -> None:
        self.started: Micros | None = None
        self.ended: set[str] = set()
        self._job = job

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        if key == self._job and self.started is None:
            self.started = at

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


class _Roll:
    def __init__(self, situation: Situation, job: str) -> None:
        self._situation = situation
        self._job = job
        self._runs = Runs(situation)
        self._uncertain: set[str] = set()
        """Jobs of which a run time is not for sure."""
        self._watch = _Watch(job)
        self._loop = EventLoop(situation.now)
        self._cluster = LiveCluster(
            self._loop, NodePool(), self._watch, Story(), Evidence(situation.now), TimingPart(), Random(0)
        )
        settle(populate(situation.objects.values(), self._run_time), self._cluster)
        self._scheduler = schedule(
            self._cluster,
            situation.policy,
            rhythm_of("events", SECOND, reasons=False),
            state=ClusterState(situation.scheduler_names),
        )

    def run(self) -> Forecast:
        horizon = self._situation.now + HORIZON
        while self._watch.started is None and self._scheduler.cycles < MOST_DECISIONS:
            when = self._loop.next_time
            if when is None or when > horizon:
                break
            self._loop.step()
        return self._say()

    def _run_time(self, pod: Pod, group: PodGroup | None) -> Micros:
        runtime = self._runs.known(pod)
        if runtime is not None and not runtime.certain:
            self._uncertain.add(job_of(pod))
        return self._runs.span(pod)

    def _say(self) -> Forecast:
        unknown = self._unknown()
        count = len(unknown)
        found = self._started(count) if self._watch.started is not None else self._not_started(count)
        return replace(
            found, unknown_ends=tuple(unknown[:NAMED]), unknown_count=count, decisions=self._scheduler.cycles
        )

    def _started(self, unknown: int) -> Forecast:
        start = self._watch.started or 0
        estimate = bool(self._watch.ended & self._uncertain)
        sure = " (an estimate: it rests on run times that nobody enforces)" if estimate else ""
        taken = f"; {_runs(unknown)} no known end, taken to go on" if unknown else ""
        text = f"starts {self._when(start, 'at ')}{sure} if nothing else arrives{taken}"
        return Forecast(text, start=format_rfc3339(start), estimate=estimate)

    def _not_started(self, unknown: int) -> Forecast:
        seen, later = self._loop.now, self._loop.next_time
        if later is not None and later < FOREVER:
            text = f"not before {self._when(seen)}, which is as far as was looked"
        elif unknown and self._would_wait_alone():
            text = "not at all as things are: it would wait even if nothing else were here"
        elif unknown:
            text = f"not before one of the runs ends of which no end is known ({_runs(unknown)} none)"
            text += (
                f"; all else that is known has happened {self._when(seen, 'by ')}" if seen > self._situation.now else ""
            )
        else:
            text = "not at all as things are: when everything that is known has happened, it still waits"
        return Forecast(text, not_before=format_rfc3339(seen), estimate=bool(self._uncertain))

    def _would_wait_alone(self) -> bool:
        """Whether no end of another run helps. Who wants to be near other pods may only start because of them."""
        pods = self._situation.waiting_pods(self._job)
        if any(pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None for pod in pods):
            return False
        alone = self._situation.alone(self._job)
        return effect_on(alone.decide(), self._job) is None

    def _when(self, moment: Micros, word: str = "") -> str:
        now = self._situation.now
        return "now" if moment <= now else f"{word}{format_rfc3339(moment)} (in {format_span(moment - now)})"

    def _unknown(self) -> list[UnknownEnd]:
        """Runs that go on for ever, at the end of the look ahead."""
        endless = [pod for pod in self._cluster.pods.values() if pod.node and pod.run >= FOREVER and not pod.leaving]
        others = [pod for pod in endless if pod.job.key != self._job]
        return [UnknownEnd(pod.key, pod.node) for pod in sorted(others, key=lambda pod: pod.key)]


def _runs(count: int) -> str:
    return "1 run has" if count == 1 else f"{count} runs have"
