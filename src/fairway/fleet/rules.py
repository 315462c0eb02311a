"""What a Placement requests, checked and made ready to be applied.

A placement that requests something impossible is misconfigured: `problems` says what is wrong, each with its place, and
the placement keeps the decisions it has.

On a hub the API server removes fields that OCM's definition of a Placement does not have. So what Fairway adds to a
Placement may also stand in annotations, which take the place of the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fairway.api.fleet import ClusterSelector, Placement, PlacementSpec, SpreadConstraint
from fairway.api.meta import LabelSelectorRequirement
from fairway.api.shape import fit, path_text
from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.fleet import taints
from fairway.fleet.ledger import MAX_RESERVED
from fairway.fleet.names import COOLDOWN, DISABLED, MIN_GAIN, MISSING_RESOURCE, REPLICA_STRATEGY, REPLICAS, REQUIREMENTS
from fairway.fleet.replicas import MAX_REPLICAS
from fairway.fleet.scores import WORST, By, Weights, weights_of
from fairway.resources import Resource

_NAMES = frozenset({REQUIREMENTS, REPLICAS, REPLICA_STRATEGY})
_FIELDS = {REQUIREMENTS: "requirements", REPLICAS: "replicas", REPLICA_STRATEGY: "replicaStrategy"}


def with_annotations(placement: Placement) -> Placement:
    """The placement with the settings of its annotations; unreadable annotations are ignored."""
    if _NAMES.isdisjoint(placement.metadata.annotations):
        return placement
    found, _ = _read_annotations(placement)
    changes: dict[str, Any] = {}
    if "requirements" in found:
        changes["requirements"] = found["requirements"].requirements
    if "replicas" in found:
        changes["replicas"] = found["replicas"].replicas
    if "replicaStrategy" in found:
        changes["replica_strategy"] = found["replicaStrategy"].replica_strategy
    return msgspec.structs.replace(placement, spec=msgspec.structs.replace(placement.spec, **changes))


def annotation_problems(placement: Placement) -> list[str]:
    """What is wrong with the annotations."""
    return [] if _NAMES.isdisjoint(placement.metadata.annotations) else _read_annotations(placement)[1]


def _read_annotations(placement: Placement) -> tuple[dict[str, PlacementSpec], list[str]]:
    """Each annotation as a spec with only that field."""
    found: dict[str, PlacementSpec] = {}
    wrong: list[str] = []
    for name, field in _FIELDS.items():
        text = placement.metadata.annotations.get(name)
        if text is None:
            continue
        try:
            spec, findings = fit({field: msgspec.json.decode(text)}, PlacementSpec)
        except (msgspec.DecodeError, RecursionError) as error:
            wrong.append(f"annotation {name}: not JSON: {error}")
            continue
        if findings:
            path, message = findings[0]
            wrong.append(f"annotation {name}: {path_text(path)}: {message}")
        else:
            found[field] = spec
    return found, wrong


Key = tuple[str, str]
"""A placement: (namespace, name), which is also the order in which placements are decided."""

SCORES = ("scores", "")
"""Watched by placements whose expressions may read any score."""

_STRATEGIES = ("Duplicated", "Weighted", "Aggregated", "Free")
_GROUP_SIZE = re.compile(r"(100|[1-9][0-9]?)%|[1-9][0-9]{0,8}")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
MAX_ENTRIES = 256
"""For each list in one placement."""
MAX_EXPRESSIONS = 32
"""CEL expressions of one placement, including those of its decision groups."""
MAX_NAME = 63
"""Characters of a label value."""
_MAX_SECONDS = 100 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Rules:
    """`selection_key` is equal for placements that choose among the same clusters by the same rules: `sets_key` where
    the sets are the same, `predicates_key` and `tolerations_key` where these are. Bytes know their hash.

    `watched` is what can alter the outcome: ("label", key), ("claim", name), ("resource", name), ("addon",
    name), ("usage", ""), ("cel", "").
    """

    key: Key
    placement: Placement
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    disabled: bool
    weights: Weights
    balance: int
    steady: int
    static: Weights
    """The weights of prioritizers that read only clusters; `static_key` is equal where they are."""
    static_key: str
    column_keys: tuple[str, ...]
    """Equal where the scores of one prioritizer are."""
    timeless: bool
    """Whether none of them expires, as the scores of add-ons do."""
    missing: int
    requirements: Resource
    requires: bool
    per_replica: Resource
    min_gain: int
    gain: int
    """The advantage that a new cluster needs over one that is already chosen."""
    cooldown: Micros
    selection_key: bytes
    sets_key: bytes
    predicates_key: bytes
    tolerations_key: bytes
    watched: frozenset[tuple[str, str]]
    expressions: tuple[str, ...]
    selectors: tuple[ClusterSelector, ...]
    """Of predicates and of decision groups."""

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def kept(self) -> bool:
        """Whether the decisions stay unchanged, whatever happens."""
        return bool(self.problems) or self.disabled

    @property
    def plain(self) -> bool:
        """Whether clusters are chosen by points alone, which change only with amounts, counts and filters."""
        return (
            self.timeless
            and not (self.requires or self.expressions or self.cooldown or self.constraints)
            and self.placement.spec.replicas is None
        )

    @property
    def groups_by_expression(self) -> bool:
        """Whether expressions decide the decision group of a cluster."""
        groups = self.placement.spec.decision_strategy.group_strategy.decision_groups
        return any(group.group_cluster_selector.cel_selector.cel_expressions for group in groups)

    @property
    def constraints(self) -> tuple[SpreadConstraint, ...]:
        return self.placement.spec.spread_policy.spread_constraints


def read(placement: Placement) -> Rules:
    spec, annotations = placement.spec, placement.metadata.annotations
    problems: list[str] = []
    warnings: list[str] = []
    weights = weights_of(placement, problems, warnings)
    static = tuple(item for item in weights if item[0].by not in (By.BALANCE, By.STEADY))
    missing = _missing(annotations, problems)
    if spec.number_of_clusters is not None and spec.number_of_clusters < 0:
        problems.append(f"numberOfClusters is {spec.number_of_clusters}, expected 0 or more")
    problems += _name_problems(placement)
    problems += _count_problems(placement)
    problems += annotation_problems(placement)
    problems += taints.problems_of(spec.tolerations)
    watched: set[tuple[str, str]] = set()
    expressions: list[str] = []
    selectors = _selectors(placement)
    for _, selector in selectors:
        watched |= _selector_keys(selector)
        expressions += selector.cel_selector.cel_expressions
    problems += _selectors_problems(selectors, len(expressions))
    problems += _spread_problems(spec.spread_policy.spread_constraints)
    watched |= {(_source(c), c.topology_key) for c in spec.spread_policy.spread_constraints}
    size = spec.decision_strategy.group_strategy.clusters_per_decision_group
    if size is not None and not _GROUP_SIZE.fullmatch(str(size)):
        problems.append(f"clustersPerDecisionGroup is {size!r:.40}, expected 1 to 999999999 or a percentage to 100%")
    requirements = _amounts("requirements", spec.requirements, problems)
    problems += _replica_problems(placement)
    per_replica = _amounts("replicaStrategy.perReplica", spec.replica_strategy.per_replica, problems)
    watched |= {("addon" if p.by is By.ADDON else "resource", p.resource) for p, _ in static}
    watched |= {("resource", name) for name in (*requirements.names(), *per_replica.names())}
    if spec.replica_strategy.type == "Free" and not per_replica.names():
        watched.add(("resource", "cpu"))
    if requirements.names() or spec.replica_strategy.type in ("Free", "Aggregated"):
        watched.add(("usage", ""))
    if expressions:
        watched.add(("cel", ""))
    if any("scores" in expression for expression in expressions):
        watched.add(SCORES)
    balance = sum(weight for prioritizer, weight in weights if prioritizer.by is By.BALANCE)
    min_gain = _whole(MIN_GAIN, annotations, 1_000_000, problems)
    return Rules(
        key=(placement.metadata.namespace, placement.metadata.name),
        placement=placement,
        weights=weights,
        balance=balance,
        steady=sum(weight for prioritizer, weight in weights if prioritizer.by is By.STEADY),
        static=static,
        static_key=" ".join(f"{weight}*{prioritizer.name}" for prioritizer, weight in static) + str(missing),
        column_keys=tuple(f"{prioritizer.name} {missing}" for prioritizer, _ in static),
        timeless=all(prioritizer.by is not By.ADDON for prioritizer, _ in static),
        missing=missing,
        requirements=requirements,
        requires=bool(requirements.names()),
        per_replica=per_replica,
        min_gain=min_gain,
        gain=max(min_gain, 1 if balance else 0),
        cooldown=_whole(COOLDOWN, annotations, _MAX_SECONDS, problems) * SECOND,
        disabled=annotations.get(DISABLED) == "true",
        selection_key=msgspec.msgpack.encode(
            (placement.metadata.namespace, spec.cluster_sets, spec.predicates, spec.tolerations)
        ),
        sets_key=msgspec.msgpack.encode((placement.metadata.namespace, spec.cluster_sets)),
        predicates_key=msgspec.msgpack.encode(spec.predicates),
        tolerations_key=msgspec.msgpack.encode(spec.tolerations),
        watched=frozenset(watched),
        expressions=tuple(expressions),
        selectors=tuple(selector for _, selector in selectors),
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _count_problems(placement: Placement) -> Iterable[str]:
    """A server accepts tens of thousands, and each is evaluated for each of a thousand clusters."""
    spec = placement.spec
    for what, there in (
        ("predicates", spec.predicates),
        ("tolerations", spec.tolerations),
        ("prioritizers", spec.prioritizer_policy.configurations),
        ("decision groups", spec.decision_strategy.group_strategy.decision_groups),
        ("spread constraints", spec.spread_policy.spread_constraints),
    ):
        if len(there) > MAX_ENTRIES:
            yield f"there are {len(there)} {what}, expected at most {MAX_ENTRIES}"


def _name_problems(placement: Placement) -> Iterable[str]:
    """PlacementDecisions have these names as labels, and a server accepts no others."""
    length = len(placement.metadata.name)
    if length > MAX_NAME:
        yield f"the name has {length} characters, expected at most {MAX_NAME}: decisions have it as a label"
    for index, group in enumerate(placement.spec.decision_strategy.group_strategy.decision_groups):
        if not _LABEL_VALUE.fullmatch(group.group_name):
            yield f"decisionGroups[{index}].groupName {group.group_name!r} is not a label value"


def _selectors(placement: Placement) -> list[tuple[str, ClusterSelector]]:
    predicates, groups = placement.spec.predicates, placement.spec.decision_strategy.group_strategy.decision_groups
    return [
        *(
            (f"predicates[{i}].requiredClusterSelector", one.required_cluster_selector)
            for i, one in enumerate(predicates)
        ),
        *((f"decisionGroups[{i}].groupClusterSelector", one.group_cluster_selector) for i, one in enumerate(groups)),
    ]


def _selectors_problems(selectors: Iterable[tuple[str, ClusterSelector]], expressions: int) -> Iterable[str]:
    """Compiling thousands of expressions is expensive, too."""
    if expressions > MAX_EXPRESSIONS:
        yield f"there are {expressions} CEL expressions, expected at most {MAX_EXPRESSIONS}"
        return
    for where, selector in selectors:
        yield from _selector_problems(where, selector)


def _selector_keys(selector: ClusterSelector) -> set[tuple[str, str]]:
    labels = [*selector.label_selector.match_labels]
    labels += [requirement.key for requirement in selector.label_selector.match_expressions]
    claims = [requirement.key for requirement in selector.claim_selector.match_expressions]
    return {("label", key) for key in labels} | {("claim", name) for name in claims}


def _selector_problems(where: str, selector: ClusterSelector) -> list[str]:
    problems = []
    for key, value in selector.label_selector.match_labels.items():
        problems += _label_problems(f"{where}.labelSelector.matchLabels", key, (value,))
    for index, requirement in enumerate(selector.label_selector.match_expressions):
        place = f"{where}.labelSelector.matchExpressions[{index}]"
        problems += _label_problems(place, requirement.key, requirement.values)
        problems += _values_problems(place, requirement)
    for index, requirement in enumerate(selector.claim_selector.match_expressions):
        place = f"{where}.claimSelector.matchExpressions[{index}]"
        if not requirement.key:
            problems.append(f"{place}.key is empty, expected the name of a claim")
        problems += _values_problems(place, requirement)
    return problems + _expression_problems(where, selector.cel_selector.cel_expressions)


def _expression_problems(where: str, expressions: Iterable[str]) -> list[str]:
    problems = []
    for expression in expressions:
        from fairway.fleet import cel

        try:
            cel.compiled(expression)
        except InputError as error:
            problems.append(f"{where}.celSelector: {error}")
    return problems


def _label_problems(place: str, key: str, values: Iterable[str]) -> list[str]:
    problems = [] if _LABEL_KEY.fullmatch(key) else [f"{place}: {key!r} is not a label key"]
    bad = [value for value in values if not _LABEL_VALUE.fullmatch(value)]
    return problems + [f"{place}: {value!r} is not a label value" for value in bad]


def _values_problems(place: str, requirement: LabelSelectorRequirement) -> list[str]:
    takes = requirement.operator in ("In", "NotIn")
    if takes == bool(requirement.values):
        return []
    return [f"{place}: operator {requirement.operator} takes {'at least one value' if takes else 'no values'}"]


def _source(constraint: SpreadConstraint) -> str:
    return "claim" if constraint.topology_key_type == "Claim" else "label"


def _spread_problems(constraints: Iterable[SpreadConstraint]) -> list[str]:
    problems = []
    for index, constraint in enumerate(constraints):
        place = f"spreadPolicy.spreadConstraints[{index}]"
        if not constraint.topology_key:
            problems.append(f"{place}.topologyKey is empty, expected the name of a label or claim")
        if constraint.topology_key_type not in ("", "Label", "Claim"):
            problems.append(f"{place}.topologyKeyType {constraint.topology_key_type!r}: expected Label or Claim")
        if constraint.max_skew < 1:
            problems.append(f"{place}.maxSkew is {constraint.max_skew}, expected 1 or more")
        if constraint.when_unsatisfiable not in ("", "DoNotSchedule", "ScheduleAnyway"):
            problems.append(
                f"{place}.whenUnsatisfiable {constraint.when_unsatisfiable!r} is unknown,"
                " expected DoNotSchedule or ScheduleAnyway"
            )
    return problems


def _replica_problems(placement: Placement) -> list[str]:
    count, strategy = placement.spec.replicas, placement.spec.replica_strategy
    problems = []
    if count is not None and not 0 <= count <= MAX_REPLICAS:
        problems.append(f"replicas is {count}, expected 0 to {MAX_REPLICAS}")
    if strategy.type not in ("", *_STRATEGIES):
        problems.append(f"replicaStrategy.type {strategy.type!r} is unknown, expected {', '.join(_STRATEGIES)}")
    if strategy.min_per_cluster < 0:
        problems.append(f"replicaStrategy.minPerCluster is {strategy.min_per_cluster}, expected 0 or more")
    bad = [f"{name} {weight}" for name, weight in strategy.weights.items() if weight < 0]
    return problems + [f"replicaStrategy.weights: {text} is negative, expected 0 or more" for text in bad]


def _amounts(place: str, quantities: Mapping[str, str], problems: list[str]) -> Resource:
    try:
        amounts = Resource.parse(quantities)
    except InputError as error:
        problems.append(f"{place}: {error}")
        return Resource.EMPTY
    large = [name for name, amount in amounts.amounts.items() if amount > MAX_RESERVED]
    problems += [f"{place}.{name} is more than any cluster has" for name in large]
    return Resource.EMPTY if large else amounts


def _whole(name: str, annotations: Mapping[str, str], most: int, problems: list[str]) -> int:
    text = annotations.get(name, "0")
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
        return int(text)
    problems.append(f"annotation {name} is {text!r}, expected a whole number from 0 to {most}")
    return 0


def _missing(annotations: Mapping[str, str], problems: list[str]) -> int:
    text = annotations.get(MISSING_RESOURCE)
    if text not in (None, "zero"):
        problems.append(f"annotation {MISSING_RESOURCE} is {text!r}, expected zero")
    return WORST if text is None else 0
