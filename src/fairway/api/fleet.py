"""Fleets of clusters: which clusters there are, how they are grouped, and where placements put work.

Numbers and names in a Placement are read as they stand: what is wrong with a policy is a condition on the
placement, which keeps its last good decisions, so the fleet package judges them and not the decoder.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import (
    Amounts,
    ApiStruct,
    Condition,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    Time,
)


class ClusterTaint(ApiStruct, frozen=True):
    key: str
    effect: Literal["NoSelect", "PreferNoSelect", "NoSelectIfNew"]
    value: str = ""
    time_added: Time | None = None


class ManagedClusterSpec(ApiStruct, frozen=True):
    hub_accepts_client: bool = False
    taints: tuple[ClusterTaint, ...] = ()


class ClusterClaim(ApiStruct, frozen=True):
    name: str
    value: str


class ClusterVersion(ApiStruct, frozen=True):
    kubernetes: str = ""


class ManagedClusterStatus(ApiStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    capacity: Amounts = msgspec.field(default_factory=dict)
    allocatable: Amounts = msgspec.field(default_factory=dict)
    version: ClusterVersion = msgspec.field(default_factory=ClusterVersion)
    cluster_claims: tuple[ClusterClaim, ...] = ()


class ManagedCluster(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ManagedClusterSpec = msgspec.field(default_factory=ManagedClusterSpec)
    status: ManagedClusterStatus = msgspec.field(default_factory=ManagedClusterStatus)


class ManagedClusterSelector(ApiStruct, frozen=True):
    """By the exclusive set label on the cluster (under its older name too), or by any labels."""

    selector_type: Literal["", "ExclusiveClusterSetLabel", "LegacyClusterSetLabel", "LabelSelector"] = ""
    label_selector: LabelSelector | None = None


class ManagedClusterSetSpec(ApiStruct, frozen=True):
    cluster_selector: ManagedClusterSelector = msgspec.field(default_factory=ManagedClusterSelector)


class ManagedClusterSet(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ManagedClusterSetSpec = msgspec.field(default_factory=ManagedClusterSetSpec)


class ManagedClusterSetBindingSpec(ApiStruct, frozen=True):
    cluster_set: str


class ManagedClusterSetBinding(ApiStruct, frozen=True):
    spec: ManagedClusterSetBindingSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ClaimSelector(ApiStruct, frozen=True):
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class ClusterCelSelector(ApiStruct, frozen=True):
    cel_expressions: tuple[str, ...] = ()


class ClusterSelector(ApiStruct, frozen=True):
    """Labels, claims and expressions must all match; empty ones match."""

    label_selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    claim_selector: ClaimSelector = msgspec.field(default_factory=ClaimSelector)
    cel_selector: ClusterCelSelector = msgspec.field(default_factory=ClusterCelSelector)


class ClusterPredicate(ApiStruct, frozen=True):
    required_cluster_selector: ClusterSelector = msgspec.field(default_factory=ClusterSelector)


class AddOnScoreReference(ApiStruct, frozen=True):
    resource_name: str = ""
    score_name: str = ""


class ScoreCoordinate(ApiStruct, frozen=True):
    type: str = "BuiltIn"
    built_in: str = ""
    add_on: AddOnScoreReference | None = None


class PrioritizerConfig(ApiStruct, frozen=True):
    """Either form: `name` (v1alpha1) or `score_coordinate` (v1beta1). No weight means 1."""

    name: str = ""
    score_coordinate: ScoreCoordinate | None = None
    weight: Int32 | None = None


class PrioritizerPolicy(ApiStruct, frozen=True):
    mode: str = ""
    configurations: tuple[PrioritizerConfig, ...] = ()


class SpreadConstraint(ApiStruct, frozen=True):
    topology_key: str = ""
    topology_key_type: str = ""
    max_skew: Int32 = 1
    when_unsatisfiable: str = "ScheduleAnyway"


class SpreadPolicy(ApiStruct, frozen=True):
    spread_constraints: tuple[SpreadConstraint, ...] = ()


class PlacementToleration(ApiStruct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class DecisionGroup(ApiStruct, frozen=True):
    group_name: str = ""
    group_cluster_selector: ClusterSelector = msgspec.field(default_factory=ClusterSelector)


class GroupStrategy(ApiStruct, frozen=True):
    """`clusters_per_decision_group` is a number or a percentage such as `25%`."""

    decision_groups: tuple[DecisionGroup, ...] = ()
    clusters_per_decision_group: int | str | None = None


class DecisionStrategy(ApiStruct, frozen=True):
    group_strategy: GroupStrategy = msgspec.field(default_factory=GroupStrategy)


class ReplicaStrategy(ApiStruct, frozen=True):
    """How `replicas` are divided: Duplicated, Weighted, Aggregated or Free; weights by cluster name. `per_replica` is
    what one replica requests, for the strategies that divide by capacity.
    """

    type: str = ""
    min_per_cluster: Int32 = 0
    weights: dict[str, Int32] = msgspec.field(default_factory=dict)
    per_replica: Amounts = msgspec.field(default_factory=dict)


class PlacementSpec(ApiStruct, frozen=True):
    cluster_sets: tuple[str, ...] = ()
    number_of_clusters: Int32 | None = None
    predicates: tuple[ClusterPredicate, ...] = ()
    prioritizer_policy: PrioritizerPolicy = msgspec.field(default_factory=PrioritizerPolicy)
    spread_policy: SpreadPolicy = msgspec.field(default_factory=SpreadPolicy)
    tolerations: tuple[PlacementToleration, ...] = ()
    decision_strategy: DecisionStrategy = msgspec.field(default_factory=DecisionStrategy)
    requirements: Amounts = msgspec.field(default_factory=dict)
    replicas: Int32 | None = None
    replica_strategy: ReplicaStrategy = msgspec.field(default_factory=ReplicaStrategy)


class DecisionGroupStatus(ApiStruct, frozen=True):
    decision_group_index: Int32 = 0
    decision_group_name: str = ""
    decisions: tuple[str, ...] = ()
    cluster_count: Int32 = 0


class PlacementCondition(Condition, frozen=True):
    """Has every field that a condition of another program may have, because it is written back with the status."""

    observed_generation: int | None = None


class PlacementStatus(ApiStruct, frozen=True):
    number_of_selected_clusters: Int32 = 0
    decision_groups: tuple[DecisionGroupStatus, ...] = ()
    conditions: tuple[PlacementCondition, ...] = ()


class Placement(ApiStruct, frozen=True):
    """`api_version` is kept because the range of weights depends on it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PlacementSpec = msgspec.field(default_factory=PlacementSpec)
    status: PlacementStatus = msgspec.field(default_factory=PlacementStatus)
    api_version: str = ""


class ClusterDecision(ApiStruct, frozen=True):
    cluster_name: str
    reason: str = ""
    score: Int32 | None = None
    replicas: Int32 | None = None


class PlacementDecisionStatus(ApiStruct, frozen=True):
    decisions: tuple[ClusterDecision, ...] = ()


class PlacementDecision(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: PlacementDecisionStatus = msgspec.field(default_factory=PlacementDecisionStatus)


class AddOnScore(ApiStruct, frozen=True):
    name: str
    value: Int32


class AddOnPlacementScoreStatus(ApiStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    scores: tuple[AddOnScore, ...] = ()
    valid_until: Time | None = None


class AddOnPlacementScore(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: AddOnPlacementScoreStatus = msgspec.field(default_factory=AddOnPlacementScoreStatus)
