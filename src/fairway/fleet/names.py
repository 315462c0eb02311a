"""The names that are part of our contract: labels, annotations, filters, reasons and condition types."""

from __future__ import annotations

from typing import Final

GROUP: Final = "cluster.open-cluster-management.io"
SET_LABEL: Final = f"{GROUP}/clusterset"
PLACEMENT_LABEL: Final = f"{GROUP}/placement"
GROUP_NAME_LABEL: Final = f"{GROUP}/decision-group-name"
GROUP_INDEX_LABEL: Final = f"{GROUP}/decision-group-index"
DISABLED: Final = f"{GROUP}/experimental-scheduling-disable"
"""Placement annotation of OCM: `"true"` leaves the decisions as they are."""

FREE: Final = "fairway.dev/free"
"""ManagedCluster annotation: what is free there now, JSON quantities by resource name."""
USAGE: Final = "fairway.dev/placement-usage"
"""ManagedCluster annotation: what admitted workloads use, JSON quantities by placement (`namespace/name`)."""
MIN_GAIN: Final = "fairway.dev/min-gain"
"""Placement annotation: points by which a cluster must beat a chosen one to take its place."""
COOLDOWN: Final = "fairway.dev/cooldown"
"""Placement annotation: seconds after a move in which no cluster is exchanged for a better one."""
MISSING_RESOURCE: Final = "fairway.dev/missing-resource"
"""Placement annotation: `zero` scores a cluster that does not report a resource 0, as OCM does, not -100."""
LEDGER: Final = "fairway.dev/ledger"
"""PlacementDecision annotation: the capacity reserved in each cluster of the slice, JSON quantities by cluster."""
MOVED_AT: Final = "fairway.dev/moved-at"
"""PlacementDecision annotation: when the chosen clusters last changed; the cooldown counts from it."""

REQUIREMENTS: Final = "fairway.dev/requirements"
"""Placement annotation: `spec.requirements` as JSON, for hubs whose Placements have no such field."""
REPLICAS: Final = "fairway.dev/replicas"
"""Placement annotation: `spec.replicas`, likewise. On a PlacementDecision: replicas by cluster, as JSON."""
REPLICA_STRATEGY: Final = "fairway.dev/replica-strategy"
"""Placement annotation: `spec.replicaStrategy` as JSON, likewise."""
REPORTED_UNTIL: Final = "fairway.dev/report-until"
"""ManagedCluster annotation: until when the report of what is free there counts, RFC 3339; absent: always."""

AVAILABLE_CONDITION: Final = "ManagedClusterConditionAvailable"
REPORT_CONDITION: Final = "FairwayReportAccepted"
"""Of a ManagedCluster: whether all that it reports can be used."""
SATISFIED: Final = "PlacementSatisfied"
MISCONFIGURED: Final = "PlacementMisconfigured"
OVERDRAWN: Final = "PlacementOverdrawn"

FILTER_DELETING: Final = "Deleting"
FILTER_SETS: Final = "ClusterSet"
FILTER_PREDICATE: Final = "Predicate"
FILTER_TAINTS: Final = "TaintToleration"
FILTER_AVAILABLE: Final = "Available"
FILTER_REQUIREMENTS: Final = "Requirements"
FILTER_SPREAD: Final = "Spread"
FILTER_CUT: Final = "Cut"

FREE_UNKNOWN: Final = "FreeUnknown"
INSUFFICIENT_FREE: Final = "InsufficientFree"

BALANCE: Final = "Balance"
STEADY: Final = "Steady"
PREFER_NO_SELECT: Final = "PreferNoSelect"

SLICE: Final = 100
"""Most clusters in one PlacementDecision."""
