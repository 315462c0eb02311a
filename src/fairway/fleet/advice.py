"""What would bring a cluster into a decision: the smallest steps that pass each filter in turn, tried on a copy.

Every answer is confirmed: the steps are made to a copy of the fleet, the placement is decided there, and the cluster is
among the chosen ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api.fleet import (
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    Placement,
    PlacementToleration,
)
from fairway.api.meta import Condition, ObjectMeta
from fairway.clock import Micros
from fairway.fleet.explain import Filtered
from fairway.fleet.facts import read
from fairway.fleet.names import (
    AVAILABLE_CONDITION,
    FILTER_AVAILABLE,
    FILTER_CUT,
    FILTER_PREDICATE,
    FILTER_REQUIREMENTS,
    FILTER_SETS,
    FILTER_TAINTS,
    FREE,
    SET_LABEL,
)
from fairway.fleet.place import place
from fairway.fleet.plan import Outcome
from fairway.fleet.rules import Key
from fairway.fleet.state import FleetState
from fairway.fleet.taints import standing
from fairway.resources import format_amount

MAX_STEPS = 6


class Advice(NamedTuple):
    """`steps` in the order in which filters exclude the cluster; empty if it is chosen, or if no step is known."""

    cluster: str
    is_chosen: bool
    steps: tuple[str, ...]
    obstacle: str = ""
    """What still excludes it after the steps."""


def outcome_of(objects: Iterable[object], key: Key, now: Micros) -> Outcome | None:
    """The placement as it is decided with these objects."""
    return next((one for one in place(FleetState(objects), now).outcomes if one.key == key), None)


def advise(objects: Sequence[object], key: Key, cluster: str, now: Micros) -> Advice:
    trial: list[object] = list(objects)
    steps: list[str] = []
    for _ in range(MAX_STEPS):
        outcome = outcome_of(trial, key, now)
        if outcome is None or outcome.ranking is None:
            return Advice(
                cluster, False, tuple(steps), "the placement keeps its decisions: it is misconfigured or disabled"
            )
        if cluster in outcome.clusters:
            return Advice(cluster, not steps, tuple(steps))
        item = next((one for one in outcome.filtered if one.cluster == cluster), None)
        if item is None:
            return Advice(cluster, False, tuple(steps), "there is no such cluster")
        made = _STEPS.get(item.filter, _no_step)(trial, outcome, item, now)
        if made is None:
            return Advice(cluster, False, tuple(steps), f"{item.filter}: {item.reason}")
        steps.append(made)
    return Advice(cluster, False, (), "a few steps are not enough")


# -- one filter after the other ----------------------------------------------------------------------------------


def _bind(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    """Adds the cluster to a set that the placement chooses from; otherwise binds a set that the cluster is in."""
    assert outcome.ranking is not None
    sets = outcome.ranking.pool.sets.names
    exclusive = {one.metadata.name for one in trial if isinstance(one, ManagedClusterSet) and _is_exclusive(one)}
    for name in sets:
        if name in exclusive:
            _label_cluster(trial, item.cluster, {SET_LABEL: name})
            return f"put the cluster into the set {name} (label {SET_LABEL})"
    found = next((one for one in trial if isinstance(one, ManagedCluster) and one.metadata.name == item.cluster), None)
    own = "" if found is None else found.metadata.labels.get(SET_LABEL, "")
    wanted = outcome.rules.placement.spec.cluster_sets
    if own not in exclusive or (wanted and own not in wanted):
        return None
    namespace = outcome.key[0]
    trial.append(ManagedClusterSetBinding(ManagedClusterSetBindingSpec(own), ObjectMeta(own, namespace)))
    return f"bind the set {own} to namespace {namespace} (ManagedClusterSetBinding)"


def _is_exclusive(one: ManagedClusterSet) -> bool:
    return one.spec.cluster_selector.selector_type in ("", "ExclusiveClusterSetLabel")


def _label(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    """The labels of the first term that requires only labels."""
    for predicate in outcome.rules.placement.spec.predicates:
        selector = predicate.required_cluster_selector
        if selector.claim_selector.match_expressions or selector.cel_selector.cel_expressions:
            continue
        labels = dict(selector.label_selector.match_labels)
        for one in selector.label_selector.match_expressions:
            if one.operator == "In":
                labels.setdefault(one.key, one.values[0])
            elif one.operator == "Exists":
                labels.setdefault(one.key, "")
            else:
                break
        else:
            _label_cluster(trial, item.cluster, labels)
            return "label the cluster " + ", ".join(f"{name}={text}" for name, text in sorted(labels.items()))
    return None


def _tolerate(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    cluster = _cluster(trial, item.cluster)
    spec = outcome.rules.placement.spec
    blocking = [one for one in cluster.spec.taints if standing((one,), spec.tolerations, False, now).blocked]
    if not blocking:
        return None
    more = tuple(PlacementToleration(one.key, "Exists", "", one.effect) for one in blocking)
    _change_placement(trial, outcome, tolerations=(*spec.tolerations, *more))
    return "tolerate " + ", ".join(f"{one.key}:{one.effect}" for one in blocking) + ", or remove the taint"


def _available(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    def up(one: ManagedCluster) -> ManagedCluster:
        others = tuple(c for c in one.status.conditions if c.type != AVAILABLE_CONDITION)
        status = replace(one.status, conditions=(*others, Condition(AVAILABLE_CONDITION, "True")))
        return replace(one, status=status)

    _change(trial, item.cluster, up)
    return f"make the cluster available (condition {AVAILABLE_CONDITION})"


def _free(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    """The additional free capacity that is missing besides what others have reserved."""
    assert outcome.ranking is not None
    found, slot = outcome.ranking.capacity, outcome.view.names.index(item.cluster)
    assert found is not None
    free = dict(read(_cluster(trial, item.cluster)).free or {})
    missing = {}
    for name, needed in found.needed.items():
        short = int(needed[slot]) - int(found.available[name][slot])
        if short > 0:
            missing[name] = short
            free[name] = free.get(name, 0) + short
    notes = {FREE: json.dumps({name: format_amount(name, amount) for name, amount in free.items()})}
    _change(trial, item.cluster, lambda one: _noted(one, notes))
    texts = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in missing.items())
    return f"free {texts} more in it" if texts else "make the cluster report its free capacity"


def _count(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    """The number of clusters that would include it."""
    assert outcome.ranking is not None
    below = [one.cluster for one in outcome.filtered if one.score is not None]
    number = len(outcome.clusters) + below.index(item.cluster) + 1
    _change_placement(trial, outcome, number_of_clusters=number)
    text = f"choose {number} clusters (numberOfClusters)"
    last = outcome.ranking.points(int(outcome.chosen[-1])) if outcome.chosen.size else None
    if last is None or item.score is None:
        return text
    points = max(last - item.score, 0) + max(outcome.ranking.gain, 1)
    return f"{text}, or give it {points} more {'point' if points == 1 else 'points'}"


def _no_step(trial: list[object], outcome: Outcome, item: Filtered, now: Micros) -> str | None:
    return None


_STEPS: dict[str, Callable[[list[object], Outcome, Filtered, Micros], str | None]] = {
    FILTER_SETS: _bind,
    FILTER_PREDICATE: _label,
    FILTER_TAINTS: _tolerate,
    FILTER_AVAILABLE: _available,
    FILTER_REQUIREMENTS: _free,
    FILTER_CUT: _count,
}


# -- copies ------------------------------------------------------------------------------------------------------


def _change(trial: list[object], name: str, change: Callable[[ManagedCluster], ManagedCluster]) -> None:
    for number, one in enumerate(trial):
        if isinstance(one, ManagedCluster) and one.metadata.name == name:
            trial[number] = change(one)


def _change_placement(trial: list[object], outcome: Outcome, **fields: object) -> None:
    for number, one in enumerate(trial):
        if isinstance(one, Placement) and (one.metadata.namespace, one.metadata.name) == outcome.key:
            trial[number] = replace(one, spec=replace(one.spec, **fields))


def _cluster(trial: Iterable[object], name: str) -> ManagedCluster:
    return next(one for one in trial if isinstance(one, ManagedCluster) and one.metadata.name == name)


def _label_cluster(trial: list[object], name: str, labels: dict[str, str]) -> None:
    def labelled(one: ManagedCluster) -> ManagedCluster:
        return replace(one, metadata=replace(one.metadata, labels={**one.metadata.labels, **labels}))

    _change(trial, name, labelled)


def _noted(one: ManagedCluster, notes: dict[str, str]) -> ManagedCluster:
    return replace(one, metadata=replace(one.metadata, annotations={**one.metadata.annotations, **notes}))
