"""When a job starts, if nothing else arrives: `decide` rolled forward on a virtual copy of the cluster.

Runs end when they are known or estimated to. A run of unknown end goes on for ever, and the forecast says how
many there are. The look ahead is bounded in virtual time and in the number of decisions.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from fairway.app.explain.look_ahead import LookAhead
from fairway.app.explain.model import Forecast, UnknownEnd
from fairway.app.explain.situation import SYSTEM, Situation, effect_on
from fairway.clock import Micros, format_rfc3339, to_the_second
from fairway.sim.spans import rounded_span

NAMED = 10
"""Runs of unknown end that are listed; the rest are counted."""


def forecast(situation: Situation, job: str, stop: Callable[[], bool] = lambda: False) -> Forecast:
    """The first time at which a pod of the job gets a node; a gang gets all that it needs at once. The look ahead ends
    where `stop` says so.
    """
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
        return replace(found, unknown_ends=tuple(unknown[:NAMED]), unknown_count=count, decisions=self._ahead.decisions)

    def _started(self, unknown: int) -> Forecast:
        start = self._start or 0
        estimate = self._ahead.rests_on_estimates
        sure = " (an estimate: it rests on run times that are not enforced)" if estimate else ""
        taken = f"; {_runs(unknown)} no known end, assumed to keep running" if unknown else ""
        text = f"starts {self._when(start, 'at ')}{sure} if nothing else arrives{taken}"
        return Forecast(text, start=format_rfc3339(start), estimate=estimate)

    def _not_started(self, unknown: int) -> Forecast:
        seen = self._ahead.now
        if self._ahead.goes_on:
            text = f"not before {self._when(seen)}, where the forecast ends"
        elif unknown and self._would_wait_alone():
            text = "not at all as things are: it would wait even if nothing else were here"
        elif unknown:
            text = f"not before one of the runs ends of which no end is known ({_runs(unknown)} none)"
            text += (
                f"; all else that is known has happened {self._when(seen, 'by ')}" if seen > self._situation.now else ""
            )
        else:
            text = "not at all as things are: when everything that is known has happened, it still waits"
        return Forecast(text, not_before=format_rfc3339(seen), estimate=self._ahead.has_estimates)

    def _would_wait_alone(self) -> bool:
        """Whether no end of another run helps. A pod with affinity to others may only start because of them."""
        pods = self._situation.waiting_pods(self._job)
        if any(pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None for pod in pods):
            return False
        alone = self._situation.alone(self._job)
        return effect_on(alone.decide(), self._job) is None

    def _when(self, moment: Micros, word: str = "") -> str:
        now = self._situation.now
        return "now" if moment <= now else f"{word}{to_the_second(moment)} (in {rounded_span(moment - now)})"

    def _unknown(self) -> list[UnknownEnd]:
        """Runs that go on for ever, at the end of the look ahead; those of the cluster itself are left out."""
        others = [pod for pod in self._ahead.endless() if pod.job.key != self._job and pod.job.namespace != SYSTEM]
        return [UnknownEnd(pod.key, pod.node) for pod in others]


def _runs(count: int) -> str:
    return "1 run has" if count == 1 else f"{count} runs have"
