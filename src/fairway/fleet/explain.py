"""Why each cluster was chosen or not, in words, and the conditions of the placement: OCM's types and reasons, with
messages that state the facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from fairway.api.fleet import ClusterDecision, ClusterSelector
from fairway.api.meta import Condition
from fairway.clock import format_rfc3339
from fairway.fleet import slices, spread, taints
from fairway.fleet.decided import DecidedPlacement, View
from fairway.fleet.facts import ClusterFacts
from fairway.fleet.names import (
    FILTER_AVAILABLE,
    FILTER_CUT,
    FILTER_DELETING,
    FILTER_PREDICATE,
    FILTER_REQUIREMENTS,
    FILTER_SETS,
    FILTER_SPREAD,
    FILTER_TAINTS,
    MIN_GAIN,
    MISCONFIGURED,
    OVERDRAWN,
    PREFER_NO_SELECT,
    SATISFIED,
)
from fairway.fleet.pool import ClusterPool
from fairway.fleet.ranking import Ranking
from fairway.fleet.scores import preference, ranked
from fairway.fleet.sets import unmet


@dataclass(frozen=True, slots=True)
class Decision:
    """A chosen cluster. `score` is None if it was kept and never scored."""

    cluster: str
    score: int | None
    scores: Mapping[str, int]
    reason: str
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class Filtered:
    """A cluster that was not chosen: the filter, the reason, and its points if it was scored."""

    cluster: str
    filter: str
    reason: str
    score: int | None = None
    scores: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """A cluster that joined or left the decision, the recorded reason, and its points if it has any."""

    cluster: str
    joined: bool
    reason: str
    score: int | None = None


def decisions(outcome: DecidedPlacement, named: Mapping[str, ClusterDecision]) -> tuple[Decision, ...]:
    """In rank order; `named` are its `cluster_decisions`."""
    scores = outcome.scores(outcome.chosen)
    return tuple(
        Decision(one.cluster_name, one.score, given, one.reason, one.replicas)
        for one, given in zip(named.values(), scores, strict=True)
    )


def cluster_decisions(outcome: DecidedPlacement) -> dict[str, ClusterDecision]:
    """By name, in rank order, as the objects of a decision have them."""
    ranking, names = outcome.ranking, outcome.clusters
    assert ranking is not None
    totals = ranking.totals[ranking.at(outcome.chosen)].tolist()
    replicas = outcome.replicas or [None] * len(totals)
    reasons = _reasons(outcome, ranking)
    made = map(ClusterDecision, names, reasons, totals, replicas)
    return dict(zip(names, made, strict=True))


def _reasons(outcome: DecidedPlacement, ranking: Ranking) -> list[str]:
    """Rank and points by prioritizer. One template for all clusters, and one more for those with a penalty."""
    columns = outcome.score_columns(outcome.chosen)
    penalties = columns.pop(PREFER_NO_SELECT, None)
    said = [p.name if weight == 1 else f"{weight} x {p.name}" for p, weight in outcome.rules.weights]
    terms = [name.replace("%", "%%") + " %d" for name in said]
    head = f"rank %d of {ranking.pool.index.size}"
    text = f"{head}: {', '.join(terms)}" if terms else head
    rows = list(zip(range(1, outcome.chosen.size + 1), *columns.values(), strict=True))
    if penalties is None:
        return [text % row for row in rows]
    worse = f"{head}: {', '.join([*terms, PREFER_NO_SELECT + ' %d'])}"
    both = zip(rows, penalties, strict=True)
    return [worse % (*row, penalty) if penalty else text % row for row, penalty in both]


def kept(outcome: DecidedPlacement) -> tuple[Decision, ...]:
    """Decisions that were kept without ranking, as recorded, most points first."""
    recorded = {item.cluster_name: item for decision in outcome.recorded for item in decision.status.decisions}
    found = [Decision(n, item.score, {}, item.reason, item.replicas) for n, item in recorded.items()]
    return tuple(sorted(found, key=lambda d: (-(d.score or 0), d.cluster)))


def filtered(outcome: DecidedPlacement) -> tuple[Filtered, ...]:
    """Clusters below the cut in rank order, then all others in order of name."""
    ranking, view = outcome.ranking, outcome.view
    if ranking is None:
        return ()
    passed = frozenset(ranking.pool.index.tolist())
    left = np.array(sorted(passed - outcome.chosen_set), np.int64)
    below = ranked(ranking.at(left), ranking.totals, ranking.pool.ranks(view.rank), view.rank.size)
    below = ranking.pool.index[below]
    scores = outcome.scores(below)
    over = _passed_over(outcome, ranking)
    made = [
        _below(outcome, ranking, slot, given, slot in over) for slot, given in zip(below.tolist(), scores, strict=True)
    ]
    rest = [slot for slot in view.exists.nonzero()[0].tolist() if slot not in passed]
    for slot in sorted(rest, key=lambda slot: view.names[slot]):
        filter, reason = _stopped(outcome, ranking, slot)
        made.append(Filtered(view.names[slot], filter, reason))
    return tuple(made)


def _below(outcome: DecidedPlacement, ranking: Ranking, slot: int, scores: dict[str, int], over: bool) -> Filtered:
    score = ranking.points(slot)
    name = outcome.view.names[slot]
    if over:
        return Filtered(name, FILTER_SPREAD, _spread_reason(outcome, slot), score, scores)
    return Filtered(name, FILTER_CUT, _cut_reason(outcome, ranking, slot), score, scores)


def _passed_over(outcome: DecidedPlacement, ranking: Ranking) -> frozenset[int]:
    """Clusters that a spread constraint, and not the number of clusters, excluded."""
    count, index = outcome.rules.placement.spec.number_of_clusters, ranking.pool.index
    if not outcome.rules.constraints or count == 0:
        return frozenset()
    if count is None or outcome.chosen.size < count:
        return frozenset(index.tolist()) - outcome.chosen_set
    own, rank = ranking.pool.positions_of(outcome.before), outcome.view.rank
    keys = preference(ranking.totals, ranking.pool.ranks(rank), rank.size, own, ranking.gain)
    last = keys[np.isin(index, outcome.chosen)].max()
    return frozenset(index[keys < last].tolist()) - outcome.chosen_set


def _spread_reason(outcome: DecidedPlacement, slot: int) -> str:
    facts = outcome.view.facts[slot]
    assert facts is not None
    for constraint in outcome.rules.constraints:
        place = spread.topology(constraint, facts)
        kind = constraint.topology_key_type.lower() or "label"
        if place is None:
            return f"it has no {kind} {constraint.topology_key} to spread over"
        taken = [outcome.view.facts[other] for other in outcome.chosen.tolist()]
        there = sum(1 for f in taken if f is not None and spread.topology(constraint, f) == place)
        if there:
            where = f"{kind} {constraint.topology_key}={place}"
            return f"{there} with {where} chosen, maxSkew is {constraint.max_skew}"
    return "others keep the spread constraints better"


def _cut_reason(outcome: DecidedPlacement, ranking: Ranking, slot: int) -> str:
    count, score = outcome.rules.placement.spec.number_of_clusters, ranking.points(slot)
    if not outcome.chosen.size:
        return f"numberOfClusters is {count}"
    last = int(outcome.chosen[-1])
    lowest, name = ranking.points(last), outcome.view.names[last]
    if score < lowest or (score == lowest and outcome.view.rank[slot] > outcome.view.rank[last]):
        tie = ", later by name" if score == lowest else ""
        return f"{score} points, the last of {count} chosen ({name}) has {lowest}{tie}"
    if ranking.cooldown_until is not None:
        until = format_rfc3339(ranking.cooldown_until)
        return f"{score} points, {name} has {lowest} but stays until {until} (cooldown)"
    if outcome.rules.min_gain:
        return f"{score} points, {name} has {lowest} but gives way only to {ranking.gain} more ({MIN_GAIN})"
    return f"{score} points, {name} has as many and is chosen already"


def _stopped(outcome: DecidedPlacement, ranking: Ranking, slot: int) -> tuple[str, str]:
    """The first filter that excluded a cluster, in the order of the pipeline."""
    facts, pool = outcome.view.facts[slot], ranking.pool
    assert facts is not None
    if facts.deleting:
        return FILTER_DELETING, "the cluster is being deleted"
    if not pool.candidates[slot]:
        return FILTER_SETS, _set_reason(outcome)
    if not pool.matched[slot]:
        return FILTER_PREDICATE, _predicate_reason(outcome, facts, slot)
    chosen = slot in outcome.before_set
    tolerations = outcome.rules.placement.spec.tolerations
    standing = taints.standing(facts.taints, tolerations, chosen, outcome.now)
    if standing.blocked:
        return FILTER_TAINTS, standing.blocked
    if not outcome.view.available[slot] and not chosen:
        return FILTER_AVAILABLE, "the cluster is not available, so it is not newly chosen"
    assert ranking.capacity is not None
    return FILTER_REQUIREMENTS, ranking.capacity.missing(slot)


def _set_reason(outcome: DecidedPlacement) -> str:
    namespace = outcome.key[0]
    sets = _pool(outcome).sets
    if not sets.bound:
        return f"no ManagedClusterSet is bound to namespace {namespace}"
    if not sets.names:
        return f"none of the requested cluster sets is bound to namespace {namespace}"
    return f"in none of the cluster sets [{', '.join(sets.names)}]"


def _pool(outcome: DecidedPlacement) -> ClusterPool:
    assert outcome.ranking is not None
    return outcome.ranking.pool


def _predicate_reason(outcome: DecidedPlacement, facts: ClusterFacts, slot: int) -> str:
    predicates = outcome.rules.placement.spec.predicates
    reasons = [selector_unmet(p.required_cluster_selector, facts, outcome.view, slot) for p in predicates]
    return "; ".join(dict.fromkeys(reasons))


def selector_unmet(selector: ClusterSelector, facts: ClusterFacts, view: View, slot: int) -> str:
    """Why a cluster does not match; "" if it does."""
    labels = selector.label_selector
    return (
        unmet("label", labels.match_labels, labels.match_expressions, facts.labels)
        or unmet("claim", {}, selector.claim_selector.match_expressions, facts.claims)
        or next(_expressions_unmet(selector, facts, view, slot), "")
    )


def _expressions_unmet(selector: ClusterSelector, facts: ClusterFacts, view: View, slot: int) -> Iterator[str]:
    """They were evaluated for the decision; if clusters have changed since, they are evaluated again on the old
    ones.
    """
    for expression in selector.cel_selector.cel_expressions:
        reason = view.answers(expression, slot)
        if reason is None:
            from fairway.fleet import cel

            reason = cel.unmet(expression, cel.document(view.clusters[facts.name], view.scores))
        if reason:
            yield reason


def moves(outcome: DecidedPlacement, named: Mapping[str, ClusterDecision]) -> tuple[Move, ...]:
    """Which clusters joined, which left, and why. Only clusters that moved are described."""
    ranking, view = outcome.ranking, outcome.view
    assert ranking is not None
    left = outcome.before_set - outcome.chosen_set
    passed = frozenset(ranking.pool.index.tolist()) if left else frozenset()
    over = _passed_over(outcome, ranking) if left else frozenset()
    made = []
    for slot in sorted(outcome.before_set ^ outcome.chosen_set, key=lambda slot: view.names[slot]):
        name = view.names[slot]
        if slot in outcome.chosen_set:
            made.append(Move(name, True, named[name].reason, named[name].score))
        elif not view.exists[slot]:
            made.append(Move(name, False, "the cluster is gone"))
        elif slot in passed:
            below = _below(outcome, ranking, slot, {}, slot in over)
            made.append(Move(name, False, f"{below.filter}: {below.reason}", below.score))
        else:
            filter, reason = _stopped(outcome, ranking, slot)
            made.append(Move(name, False, f"{filter}: {reason}"))
    return tuple(made)


def groups(outcome: DecidedPlacement) -> tuple[slices.ClusterGroup, ...]:
    """The decision groups of the chosen clusters."""
    strategy = outcome.rules.placement.spec.decision_strategy.group_strategy
    named = []
    for group in strategy.decision_groups:
        matching = set()
        for slot in outcome.chosen.tolist():
            facts = outcome.view.facts[slot]
            assert facts is not None
            if not selector_unmet(group.group_cluster_selector, facts, outcome.view, slot):
                matching.add(facts.name)
        named.append((group.group_name, frozenset(matching)))
    size = slices.group_size(strategy.clusters_per_decision_group, len(outcome.clusters))
    return slices.divide(outcome.clusters, named, size)


def warnings(outcome: DecidedPlacement) -> tuple[str, ...]:
    """Remarks about a valid placement: missing scores, replicas without capacity."""
    made = list(outcome.rules.warnings)
    if outcome.rules.disabled:
        made.append("scheduling is disabled by annotation, the decisions are kept")
    if outcome.ranking is not None:
        pool = outcome.ranking.pool
        passed = sorted(outcome.view.names[slot] for slot in pool.index.tolist())
        for part in outcome.ranking.parts:
            if part.column.addon is not None:
                problems = part.column.addon.problems
                made += [f"{part.name} {problems[name]} for {name}" for name in passed if name in problems]
    if outcome.replicas_left:
        made.append(f"{outcome.replicas_left} of {outcome.rules.placement.spec.replicas} replicas do not fit")
    return tuple(made)


Reasons = Callable[[], tuple[Filtered, ...]]
"""Why clusters were not chosen. Computed only for conditions that need it: most placements have what they requested."""

_FILTER_WORDS = {FILTER_TAINTS: "taints"}
"""The name of a filter in a sentence, where it differs."""


def conditions_of(outcome: DecidedPlacement, filtered: Reasons) -> tuple[Condition, ...]:
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
            "NoManagedClusterMatched", f"none of {_clusters(candidates)} passed: {_stopped_by_filters(filtered())}"
        )
    text = (
        f"{chosen} of {count} clusters chosen, {(count or 0) - chosen} unscheduled: {_stopped_by_filters(filtered())}"
    )
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


def _stopped_by_filters(filtered: tuple[Filtered, ...]) -> str:
    """How many clusters each filter excluded, with the first reason of each."""
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
