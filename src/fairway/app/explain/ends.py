"""Which running pods would have to end to let the job start: those that end first, none of which could be spared.

Pods of the cluster itself (`kube-system`) run as long as their nodes do: no job is told to wait for their end.

`Runs` says when runs end, as far as is known: what the counterfactual sorts by, and what the forecast goes by. The
policy's own rules decide what is known and what is sure (`scheduler.backfill.runtimes`). Beyond them, the mean of the
last runs of the same name is taken where there are any, and what rests on it is marked as an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fairway.api.arguments import BackfillArguments
from fairway.api.pods import Pod, PodStatus
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.question import Attempt, Attempts, Question
from fairway.app.explain.search import smallest_set
from fairway.app.explain.situation import SYSTEM, Situation
from fairway.clock import Micros, from_datetime, to_the_second
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.sim.live import FOREVER
from fairway.state.reader import key_of

MOST_PODS = 4_000
"""Of more pods than these, only the ones that end first are looked at."""
ROUNDS = 12
"""Runs that are found one by one; where it takes more, those that end first are named together."""
NAMED = 6


def attempts(question: Question) -> Attempts:
    yield Attempt("ends", "the end of running pods", _ends)


def _ends(question: Question) -> SuggestedChange | None:
    situation = question.situation
    runs = Runs(situation)
    placed = [pod for pod in situation.placed_pods(without=question.job) if pod.metadata.namespace != SYSTEM]
    ends = {key_of(pod): runs.end(pod) for pod in placed}
    ordered = sorted(placed, key=lambda pod: (ends[key_of(pod)], key_of(pod)))

    def works(pods: Sequence[Pod]) -> bool:
        return question.works([*map(_ended, pods), *situation.released(pods)])

    found = smallest_set(ordered[:MOST_PODS], works, ROUNDS)
    if not found:
        return None
    keys = sorted(map(key_of, found))
    last = max(ends[key] for key in keys)
    return question.found("ends", _text(keys, last), len(keys) / len(ordered), tuple(keys))


def _ended(pod: Pod) -> Pod:
    """Done: it counts towards its gang and takes no capacity."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None), status=PodStatus(phase="Succeeded"))


def _text(keys: list[str], last: Micros) -> str:
    fewer = "; fewer may do" if len(keys) > ROUNDS else ""
    named = ", ".join(keys[:NAMED]) + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")
    if last >= FOREVER:
        when = "not all have a known end" if len(keys) > 1 else "its end is not known"
    else:
        when = f"{'all known' if len(keys) > 1 else 'known'} to end by {to_the_second(last)}"
    return f"wait for the end of {named} ({when}{fewer})"


class Runs:
    """Run times and ends of the pods of a situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        given = (action.arguments for action in situation.policy.actions)
        own = next((arguments for arguments in given if isinstance(arguments, BackfillArguments)), BackfillArguments())
        self._runtimes = Runtimes(situation.state, own)
        self._past = Runtimes(situation.state, replace(own, estimate="user-history"))

    def known(self, pod: Pod) -> Runtime | None:
        """How long a pod runs, counted from its start; None if that is not known."""
        state, key = self._situation.state, key_of(pod)
        task = state.tasks.get(key) or state.foreign.get(key)
        return None if task is None else self._runtimes.of(task) or self._past.of(task)

    def span(self, pod: Pod) -> Micros:
        """How long a pod that runs, or will, runs in all; `FOREVER` if that is not known."""
        runtime = self.known(pod)
        if runtime is None:
            return FOREVER
        if not pod.spec.node_name:
            return runtime.span
        began = self._began(pod)
        return runtime.end(began, self._situation.now) - began

    def end(self, pod: Pod) -> Micros:
        """When a pod that has a place is gone; `FOREVER` if that is not known."""
        if pod.metadata.deletion_timestamp is not None:
            return max(self._situation.now, from_datetime(pod.metadata.deletion_timestamp))
        span = self.span(pod)
        return FOREVER if span >= FOREVER else self._began(pod) + span

    def elapsed(self, pod: Pod) -> Micros:
        """For how long a pod has run."""
        return max(0, self._situation.now - self._began(pod))

    def _began(self, pod: Pod) -> Micros:
        """When a pod's run began; one that does not say began just now."""
        started = pod.status.start_time
        return self._situation.now if started is None else from_datetime(started)
