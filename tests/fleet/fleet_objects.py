"""Short ways to write the objects of a fleet, and to place over them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fairway.api import fleet as api
from fairway.api.meta import Condition, ObjectMeta
from fairway.fleet import FleetPlan, FleetState, place
from fairway.fleet.names import FREE, PLACEMENT_LABEL, USAGE
from fairway.fleet.plan import Outcome

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def everywhere(namespace: str = "ns") -> list[object]:
    """A set with all clusters, bound to the namespace."""
    selector = {"selectorType": "LabelSelector", "labelSelector": {}}
    whole = {"metadata": {"name": "global"}, "spec": {"clusterSelector": selector}}
    binding = {"metadata": {"name": "global", "namespace": namespace}, "spec": {"clusterSet": "global"}}
    return [
        msgspec.convert(whole, api.ManagedClusterSet),
        msgspec.convert(binding, api.ManagedClusterSetBinding),
    ]


def cluster(
    name: str,
    allocatable: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, Any]] = (),
    free: Mapping[str, str] | None = None,
    usage: Mapping[str, Mapping[str, str]] | None = None,
    available: str | None = None,
    deleting: bool = False,
) -> api.ManagedCluster:
    annotations = {}
    if free is not None:
        annotations[FREE] = json.dumps(free)
    if usage is not None:
        annotations[USAGE] = json.dumps(usage)
    conditions = () if available is None else (Condition("ManagedClusterConditionAvailable", available),)  # type: ignore[arg-type]
    metadata = ObjectMeta(
        name=name,
        labels=dict(labels or {}),
        annotations=annotations,
        deletion_timestamp=EPOCH if deleting else None,
    )
    spec = msgspec.convert({"taints": [dict(taint) for taint in taints]}, api.ManagedClusterSpec)
    status = api.ManagedClusterStatus(
        conditions=conditions,
        capacity=dict(capacity if capacity is not None else allocatable or {}),
        allocatable=dict(allocatable or {}),
        cluster_claims=tuple(api.ClusterClaim(key, value) for key, value in (claims or {}).items()),
    )
    return api.ManagedCluster(metadata, spec, status)


def placement(
    name: str = "p",
    namespace: str = "ns",
    *,
    annotations: Mapping[str, str] | None = None,
    version: str = "cluster.open-cluster-management.io/v1beta1",
    **spec: Any,
) -> api.Placement:
    """`spec` as YAML would have it: numberOfClusters=2, tolerations=[{...}]."""
    return api.Placement(
        ObjectMeta(name=name, namespace=namespace, annotations=dict(annotations or {})),
        msgspec.convert(spec, api.PlacementSpec),
        api_version=version,
    )


def exact(*names: str, **weighted: int) -> dict[str, Any]:
    """A prioritizerPolicy of just these."""
    configurations: list[dict[str, Any]] = [{"name": name} for name in names]
    configurations += [{"name": name, "weight": weight} for name, weight in weighted.items()]
    return {"mode": "Exact", "configurations": configurations}


def decision(
    placement: str, clusters: Sequence[str], namespace: str = "ns", number: int = 1, **annotations: str
) -> api.PlacementDecision:
    metadata = ObjectMeta(
        name=f"{placement}-decision-{number}",
        namespace=namespace,
        labels={PLACEMENT_LABEL: placement},
        annotations=annotations,
    )
    chosen = tuple(api.ClusterDecision(name) for name in clusters)
    return api.PlacementDecision(metadata, api.PlacementDecisionStatus(chosen))


def at(seconds: float) -> str:
    """An RFC 3339 text, in seconds since the epoch that tests count from."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def fleet(*objects: object) -> FleetState:
    """With one set of all clusters bound to `ns`."""
    return FleetState([*everywhere(), *objects])


def decide(*objects: object, now: int = 0) -> Outcome:
    """The outcome of the one placement among the objects."""
    outcomes = place(fleet(*objects), now).outcomes
    assert len(outcomes) == 1
    return outcomes[0]


def chosen(plan: FleetPlan) -> dict[str, list[str]]:
    """Who is chosen in rank order, by placement."""
    return {outcome.name: list(outcome.clusters) for outcome in plan.outcomes}


def scores(outcome: Outcome) -> dict[str, int | None]:
    """The points of every cluster that was scored."""
    scored = {item.cluster: item.score for item in outcome.decisions}
    return scored | {item.cluster: item.score for item in outcome.filtered if item.score is not None}


def reasons(outcome: Outcome) -> dict[str, tuple[str, str]]:
    """Filter and reason of every cluster that was not chosen."""
    return {item.cluster: (item.filter, item.reason) for item in outcome.filtered}


def condition(outcome: Outcome, type: str = "PlacementSatisfied") -> tuple[str, str, str]:
    found = next(item for item in outcome.conditions if item.type == type)
    return found.status, found.reason, found.message


def run(state: FleetState, now: int = 0) -> FleetPlan:
    """Place and apply, and check the books."""
    plan = place(state, now)
    state.apply(plan)
    state.check()
    return plan
