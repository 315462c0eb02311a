"""Which running pods would have to end to let the job start: those that end first, none of which could be spared.

Pods of the cluster itself (`kube-system`) run as long as their nodes do: no job is told to wait for their end.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fairway.api.pods import Pod, PodStatus
from fairway.app.explain.model import SuggestedChange
from fairway.app.explain.question import Attempt, Attempts, Question
from fairway.app.explain.runs import Runs
from fairway.app.explain.search import smallest_set
from fairway.app.explain.situation import SYSTEM
from fairway.clock import Micros, to_the_second
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
    """Done: it counts towards its gang and takes no room."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None), status=PodStatus(phase="Succeeded"))


def _text(keys: list[str], last: Micros) -> str:
    fewer = "; fewer may do" if len(keys) > ROUNDS else ""
    named = ", ".join(keys[:NAMED]) + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")
    if last >= FOREVER:
        when = "not all have a known end" if len(keys) > 1 else "its end is not known"
    else:
        when = f"{'all known' if len(keys) > 1 else 'known'} to end by {to_the_second(last)}"
    return f"wait for the end of {named} ({when}{fewer})"
