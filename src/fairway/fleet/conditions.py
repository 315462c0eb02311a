"""The conditions of a placement: OCM's types and reasons, and messages that say what is the case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fairway.api.meta import Condition
from fairway.fleet.decided import DecidedPlacement
from fairway.fleet.explain import Filtered
from fairway.fleet.names import (
    FILTER_CUT,
    FILTER_DELETING,
    FILTER_SETS,
    FILTER_TAINTS,
    MISCONFIGURED,
    OVERDRAWN,
    SATISFIED,
)

Reasons = Callable[[], tuple[Filtered, ...]]
"""Why clusters were not chosen. Asked only by conditions that say so: most placements have what they requested."""

_FILTER_WORDS = {FILTER_TAINTS: "taints"}
"""How a filter is called in a sentence, where its name does not say it."""


def of(outcome: DecidedPlacement, filtered: Reasons) -> tuple[Condition, ...]:
    made = [_satisfied(outcome, filtered), _misconfigured(outcome)]
    if outcome.rules.requires and outcome.ranking is not None:
        made.append(_overdrawn(outcome))
    return tuple(made)


def _misconfigured(outcome: DecidedPlacement) -> Condition:
    problems = outcome.rules.problems
    if problems:
        return Condition(MISCONFIGURED, "True", "Misconfigured", "; ".join(problems))
    return Condition(MISCONFIGURED, "False", "Succeedconfigured", "the configuration is valid")


def _satisfied(outcome: DecidedPlacement, filtered: Reasons) -> Condition:
    namespace, count = outcome.key[0], outcome.rules.placement.spec.number_of_clusters
    if outcome.rules.problems:
        kept = f"misconfigured, the last good decisions stay: {_clusters(len(outcome.chosen))}"
        return _unsatisfied("NotAllDecisionsScheduled", kept)
    if outcome.ranking is None:
        return Condition(SATISFIED, "Unknown", "SchedulingDisabled", "scheduling is disabled by annotation")
    sets = outcome.ranking.pool.sets
    if not sets.bound:
        text = f"no ManagedClusterSetBinding in namespace {namespace} names an existing ManagedClusterSet"
        return _unsatisfied("NoManagedClusterSetBindings", text)
    if not sets.names:
        asked = ", ".join(outcome.rules.placement.spec.cluster_sets)
        return _unsatisfied("NoIntersection", f"none of the cluster sets [{asked}] is bound to namespace {namespace}")
    candidates = int(outcome.ranking.pool.candidates.sum())
    if not candidates:
        return _unsatisfied("AllManagedClusterSetsEmpty", f"no cluster in the sets [{', '.join(sets.names)}]")
    chosen = len(outcome.chosen)
    if count == 0 or (chosen and chosen >= (count or 0)):
        text = f"{_clusters(chosen)} chosen of {candidates}"
        return Condition(SATISFIED, "True", "AllDecisionsScheduled", text)
    if not chosen:
        return _unsatisfied(
            "NoManagedClusterMatched", f"none of {_clusters(candidates)} passed: {_stopped(filtered())}"
        )
    text = f"{chosen} of {count} clusters chosen, {(count or 0) - chosen} unscheduled: {_stopped(filtered())}"
    return _unsatisfied("NotAllDecisionsScheduled", text)


def _overdrawn(outcome: DecidedPlacement) -> Condition:
    if outcome.overdrawn:
        return Condition(OVERDRAWN, "True", "RoomTaken", "; ".join(outcome.overdrawn))
    reserved = (
        f"the capacity is there in {_clusters(len(outcome.chosen))}" if outcome.chosen.size else "nothing is reserved"
    )
    return Condition(OVERDRAWN, "False", "RoomHeld", reserved)


def _unsatisfied(reason: str, message: str) -> Condition:
    return Condition(SATISFIED, "False", reason, message)


def _stopped(filtered: tuple[Filtered, ...]) -> str:
    """How many clusters each filter stopped, with the first reason of each."""
    relevant = [item for item in filtered if item.filter not in (FILTER_SETS, FILTER_DELETING, FILTER_CUT)]
    counts = Counter(item.filter for item in relevant)
    firsts = {item.filter: item for item in reversed(relevant)}
    if not counts:
        return "there are no more clusters in the sets"
    parts = []
    for filter, number in counts.items():
        first = firsts[filter]
        parts.append(f"{number} by {_FILTER_WORDS.get(filter, filter)} ({first.cluster}: {first.reason})")
    return ", ".join(parts)


def _clusters(number: int) -> str:
    return f"{number} cluster" if number == 1 else f"{number} clusters"
