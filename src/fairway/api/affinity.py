"""Where a pod may or would rather go: node selectors, pod affinity, taints and tolerations, spreading. `satisfies` says
whether labels satisfy a selector: the one answer for pods, namespaces and clusters alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from fairway.api.meta import ApiStruct, Int64, LabelSelector, LabelSelectorRequirement, Positive, Time

NodeSelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
TolerationOperator = Literal["", "Equal", "Exists"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
PreferenceWeight = Annotated[int, msgspec.Meta(ge=1, le=100)]
NodeInclusionPolicy = Literal["Honor", "Ignore"]


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """Over a node's labels or, among `match_fields`, its name. Gt and Lt compare one integer."""

    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """All requirements must hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    weight: PreferenceWeight
    preference: NodeSelectorTerm


class NodeAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True):
    """Pods that match, in the domains that nodes form by their value of `topology_key`."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    weight: PreferenceWeight
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct, frozen=True):
    """An empty key with Exists tolerates every taint, an empty effect every effect; no operator is Equal."""

    key: str = ""
    operator: TolerationOperator = ""
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: Int64 | None = None


class Taint(ApiStruct, frozen=True):
    key: str
    effect: TaintEffect
    value: str = ""
    time_added: Time | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    max_skew: Positive
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Positive | None = None
    node_affinity_policy: NodeInclusionPolicy = "Honor"
    node_taints_policy: NodeInclusionPolicy = "Ignore"
    match_label_keys: tuple[str, ...] = ()


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything; no selector matches nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and satisfies(
        selector.match_expressions, labels
    )


def satisfies(requirements: Iterable[LabelSelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds. NotIn and DoesNotExist hold where the key is absent."""
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def _holds(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
