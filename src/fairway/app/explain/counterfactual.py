"""The smallest changes that would start a job now.

For each kind of change (`changes`, and the end of running pods), the smallest one that works is searched, and no answer
is given that `decide` did not confirm on a copy of the cluster. Changes that were tried without effect are reported as
well, and so is a search that ended at its limit.

Pods of the cluster itself (`kube-system`) run as long as their nodes do: no job is told to wait for their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fairway.api.pods import Pod, PodStatus
from fairway.app.explain.changes import administrator_attempts, owner_attempts, rule_attempts
from fairway.app.explain.look_ahead import Runs
from fairway.app.explain.model import Counterfactual, Effect, SuggestedChange, Trial
from fairway.app.explain.search import Attempt, Attempts, Question, SearchLimit, TrialBudget, smallest_set
from fairway.app.explain.situation import SYSTEM, Situation
from fairway.clock import Micros, to_the_second
from fairway.scheduler.plan import ExplainedPlan
from fairway.sim.live import FOREVER
from fairway.state.reader import key_of

MAX_PODS = 4_000
"""Running pods that are considered, those that end first."""
ROUNDS = 12
"""Pods that are found one by one; if more are needed, a prefix in order of their ends is reported."""
NAMED = 6
MAX_DECISIONS = 300
"""Maximum number of trials."""


def counterfactual(
    situation: Situation, plan: ExplainedPlan, job: str, queue: str, limit: int = MAX_DECISIONS
) -> Counterfactual:
    """For a job that is pending after `plan`. Ends are searched among the pods that run once it is carried out."""
    budget = TrialBudget(limit)
    question = Question(situation, job, queue, budget)
    later = Question(situation.after(plan), job, queue, budget)
    changes: list[SuggestedChange] = []
    tried: list[Trial] = []
    complete = True
    for attempt, asked in _attempts(question, later):
        before = budget.spent
        try:
            found = attempt.search(asked)
        except SearchLimit:
            complete = False
            break
        if found is not None:
            changes.append(found)
        tried.append(Trial(attempt.kind, attempt.text, found is not None, budget.spent - before))
    changes.sort(key=lambda change: (change.effect is not Effect.STARTS, change.size, change.kind, change.text))
    return Counterfactual(tuple(changes), tuple(tried), budget.spent, complete)


def _attempts(question: Question, later: Question) -> Iterator[tuple[Attempt, Question]]:
    """Each attempt, with the question that it is tried on."""
    for attempts in (owner_attempts, administrator_attempts, rule_attempts):
        yield from ((attempt, question) for attempt in attempts(question))
    yield from ((attempt, later) for attempt in _end_attempts(later))


def _end_attempts(question: Question) -> Attempts:
    yield Attempt("ends", "the end of running pods", _ends)


def _ends(question: Question) -> SuggestedChange | None:
    situation = question.situation
    runs = Runs(situation)
    placed = [pod for pod in situation.placed_pods(without=question.job) if pod.metadata.namespace != SYSTEM]
    ends = {key_of(pod): runs.end(pod) for pod in placed}
    ordered = sorted(placed, key=lambda pod: (ends[key_of(pod)], key_of(pod)))

    def works(pods: Sequence[Pod]) -> bool:
        return question.works([*map(_ended, pods), *situation.released(pods)])

    found = smallest_set(ordered[:MAX_PODS], works, ROUNDS)
    if not found:
        return None
    keys = sorted(map(key_of, found))
    last = max(ends[key] for key in keys)
    return question.suggestion("ends", _text(keys, last), len(keys) / len(ordered), tuple(keys))


def _ended(pod: Pod) -> Pod:
    """The pod, succeeded: it counts towards its gang and uses no capacity."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None), status=PodStatus(phase="Succeeded"))


def _text(keys: list[str], last: Micros) -> str:
    fewer = "; fewer may be enough" if len(keys) > ROUNDS else ""
    named = ", ".join(keys[:NAMED]) + (f" and {len(keys) - NAMED} more" if len(keys) > NAMED else "")
    if last >= FOREVER:
        when = "not all have a known end" if len(keys) > 1 else "its end is unknown"
    else:
        when = f"{'all known' if len(keys) > 1 else 'known'} to end by {to_the_second(last)}"
    return f"wait for the end of {named} ({when}{fewer})"
