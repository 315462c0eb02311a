"""When runs end, as far as anybody knows: what the counterfactual sorts by, and what the forecast goes by.

The policy's own rules decide what is known and for sure (`scheduler.runtimes`). Beyond them, the median of past runs
of the same name is taken where there is one, and what rests on it is marked as an estimate.
"""

from __future__ import annotations

from msgspec.structs import replace

from fairway.api.arguments import BackfillArguments
from fairway.api.pods import Pod
from fairway.app.explaining.situation import Situation
from fairway.app.living import FOREVER
from fairway.clock import Micros, from_datetime
from fairway.scheduler.runtimes import Runtime, Runtimes
from fairway.state.reader import key_of
from fairway.state.tasks import Task


class Runs:
    """Run times and ends of the pods of a situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        given = (action.arguments for action in situation.policy.actions)
        own = next((arguments for arguments in given if isinstance(arguments, BackfillArguments)), BackfillArguments())
        self._enforced = own.mode != "besteffort" and own.overrun == "evict"
        self._runtimes = Runtimes(situation.state, replace(own, estimate="user-history"))

    def known(self, pod: Pod) -> Runtime | None:
        """How long a pod runs, counted from its start; None if nobody knows.

        Certain is what somebody enforces: a deadline, or an expected run time where the policy evicts who outlives it.
        """
        task = self._task(pod)
        runtime = None if task is None else self._runtimes.of(task)
        if task is None or runtime is None:
            return None
        deadline = task.traits.deadline is not None and runtime.span == task.traits.deadline
        return runtime._replace(certain=deadline or (runtime.certain and self._enforced))

    def end(self, pod: Pod) -> Micros:
        """When a pod that has a place is gone; `FOREVER` if nobody knows, or if it has outlived all that was said."""
        now = self._situation.now
        if pod.metadata.deletion_timestamp is not None:
            return max(now, from_datetime(pod.metadata.deletion_timestamp))
        runtime = self.known(pod)
        if runtime is None:
            return FOREVER
        end = self.began(pod) + runtime.span
        return end if end > now else now if runtime.certain else FOREVER

    def began(self, pod: Pod) -> Micros:
        """When a pod's run began; one that does not say began just now."""
        started = pod.status.start_time
        return self._situation.now if started is None else from_datetime(started)

    def _task(self, pod: Pod) -> Task | None:
        state = self._situation.state
        return state.tasks.get(key_of(pod)) or state.foreign.get(key_of(pod))
