"""When runs end, as far as anybody knows: what the counterfactual sorts by, and what the forecast goes by.

The policy's own rules decide what is known and what is for sure (`scheduler.runtimes`). Beyond them, the
mean of the last runs of the same name is taken where there are any, and what rests on it is marked as an estimate.
"""

from __future__ import annotations

from msgspec.structs import replace

from fairway.api.arguments import BackfillArguments
from fairway.api.pods import Pod
from fairway.app.explain.situation import Situation
from fairway.clock import Micros, from_datetime
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.sim.live import FOREVER
from fairway.state.reader import key_of


class Runs:
    """Run times and ends of the pods of a situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        given = (action.arguments for action in situation.policy.actions)
        own = next((arguments for arguments in given if isinstance(arguments, BackfillArguments)), BackfillArguments())
        self._runtimes = Runtimes(situation.state, own)
        self._past = Runtimes(situation.state, replace(own, estimate="user-history"))

    def known(self, pod: Pod) -> Runtime | None:
        """How long a pod runs, counted from its start; None if nobody knows."""
        state, key = self._situation.state, key_of(pod)
        task = state.tasks.get(key) or state.foreign.get(key)
        return None if task is None else self._runtimes.of(task) or self._past.of(task)

    def span(self, pod: Pod) -> Micros:
        """How long a pod that runs, or will, runs in all; `FOREVER` if nobody knows."""
        runtime = self.known(pod)
        if runtime is None:
            return FOREVER
        if not pod.spec.node_name:
            return runtime.span
        began = self._began(pod)
        return runtime.end(began, self._situation.now) - began

    def end(self, pod: Pod) -> Micros:
        """When a pod that has a place is gone; `FOREVER` if nobody knows."""
        if pod.metadata.deletion_timestamp is not None:
            return max(self._situation.now, from_datetime(pod.metadata.deletion_timestamp))
        span = self.span(pod)
        return FOREVER if span >= FOREVER else self._began(pod) + span

    def _began(self, pod: Pod) -> Micros:
        """When a pod's run began; one that does not say began just now."""
        started = pod.status.start_time
        return self._situation.now if started is None else from_datetime(started)
