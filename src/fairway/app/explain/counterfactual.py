"""The smallest change that would start a job now.

Each kind of change is searched for its smallest that works, and no answer is given that `decide` did not confirm on a
copy of the cluster. What was tried and did not help is said too; so is a search that ended at its limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.app.explain import ends, own, rules, shares
from fairway.app.explain.model import Counterfactual, Effect, SuggestedChange, Trial
from fairway.app.explain.question import Attempt, Question
from fairway.app.explain.search import Asker, SearchLimit
from fairway.app.explain.situation import Situation
from fairway.scheduler.plan import ExplainedPlan

MOST_DECISIONS = 300
"""How often `decide` is asked at most."""


def counterfactual(
    situation: Situation, plan: ExplainedPlan, job: str, queue: str, limit: int = MOST_DECISIONS
) -> Counterfactual:
    """For a job that waits after `plan`. Which ends would help is asked about pods that run once it is carried out."""
    asker = Asker(limit)
    question = Question(situation, job, queue, asker)
    later = Question(situation.after(plan), job, queue, asker)
    changes: list[SuggestedChange] = []
    tried: list[Trial] = []
    complete = True
    for attempt, asks in _attempts(question, later):
        before = asker.asked
        try:
            found = attempt.search(asks)
        except SearchLimit:
            complete = False
            break
        if found is not None:
            changes.append(found)
        tried.append(Trial(attempt.kind, attempt.text, found is not None, asker.asked - before))
    changes.sort(key=lambda change: (change.effect is not Effect.STARTS, change.size, change.kind, change.text))
    return Counterfactual(tuple(changes), tuple(tried), asker.asked, complete)


def _attempts(question: Question, later: Question) -> Iterator[tuple[Attempt, Question]]:
    """Each attempt with the question that it puts."""
    for part in (own, shares, rules):
        yield from ((attempt, question) for attempt in part.attempts(question))
    yield from ((attempt, later) for attempt in ends.attempts(later))
