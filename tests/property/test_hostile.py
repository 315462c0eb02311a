"""One tenant cannot harm the others: whatever its objects say, what the others get, and why they wait, is the same.

Every kind and every field is attacked (`support.hostile`), each object both as validation lets it through and as if it
had never been checked. The ordinary run takes a part of the attacks; FAIRWAY_LONG=1 takes all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.manifests import parse_object
from fairway.api.meta import ObjectMeta
from fairway.api.scheduling import PodGroup, Queue
from fairway.errors import ManifestError
from fairway.fleet import FleetState, place
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.state.cluster import ClusterState, Deleted
from support import objects as make
from support.devices import device_node, published, resource_slice
from support.engine import flat
from support.engine import policy as make_policy
from support.hostile import EVIL, Attack, attacks, decoded

POLICY = make_policy(actions="enqueue, reserve, allocate, preempt, reclaim, backfill", devices={})
PART = 1 if os.environ.get("FAIRWAY_LONG") else 13
BATCH = 150
GOOD = "good"
ALLOWED: dict[str, Any] = {
    "tolerations": [{"key": GOOD, "operator": "Exists"}],
    "nodeSelector": {GOOD: "yes"},
}


def good_pod(name: str, spec: dict[str, Any] | None = None, **rest: Any) -> ApiObject:
    return make.pod(name, GOOD, queue=GOOD, created=0, spec={**ALLOWED, **(spec or {})}, **rest)


def innocents() -> list[ApiObject]:
    """Jobs that start, jobs that wait each for a reason of its own, devices, and nodes that no other may use."""
    group = make.group("gang", GOOD, minimum=2, queue=GOOD, created=0)
    request = {"name": "r", "exactly": {"deviceClassName": GOOD}}
    slice_ = resource_slice("good", "good-1", published("a"), published("b"))
    return flat(
        [
            [
                make.node(name, labels={GOOD: "yes"}, taints=[f"{GOOD}=yes:NoSchedule"], cpu=16, memory="64Gi")
                for name in ("good-1", "good-2")
            ],
            make.queue(GOOD, 4, guarantee={"cpu": 8}, created=0),
            [good_pod(f"p{i}", cpu=1) for i in range(4)],
            group,
            [good_pod(f"gang-{i}", cpu=2, annotations={"scheduling.k8s.io/group-name": "gang"}) for i in range(2)],
            good_pod("big", cpu=1000),
            good_pod("nowhere", {"nodeSelector": {GOOD: "no"}}, cpu=1),
            make.pod("lost", GOOD, queue="missing", created=0, cpu=1),
            good_pod("runs", node="good-2", cpu=2),
            make.made("DeviceClass", GOOD, spec={}),
            slice_,
            make.made("ResourceClaim", GOOD, GOOD, spec={"devices": {"requests": [request]}}),
            good_pod("device", {"resourceClaims": [{"name": "c", "resourceClaimName": GOOD}]}, cpu=1),
        ]
    )


def surroundings() -> list[ApiObject]:
    """What hostile objects may get hold of: a node with room, labels and devices."""
    labels = {"1": "5", "x": "x", "zone": "z"}
    node = make.node("evil", labels=labels, cpu=64, memory="64Gi", **{"evil.example.com/odd": 100})
    return [node, device_node("evil-2"), resource_slice("evil", "evil", published("e"))]


def companions(thing: Any) -> Iterator[dict[str, Any]]:
    """Objects of the same tenant that use a hostile object, so that it is looked at."""
    kind, _, name = kinds.key(thing)
    spec: dict[str, Any] = {}
    notes: dict[str, str] = {}
    limits: dict[str, str] = {}
    request = {"name": "r", "exactly": {"deviceClassName": name}}
    match kind:
        case "PodGroup":
            notes = {"scheduling.k8s.io/group-name": name}
        case "Queue":
            notes = {"scheduling.volcano.sh/queue-name": name}
        case "PriorityClass":
            spec = {"priorityClassName": name}
        case "ResourceClaim":
            spec = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
        case "ResourceClaimTemplate":
            spec = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": name}]}
        case "ResourceClass":
            limits = {f"resourceclass.fairway.dev/{name}": "1"}
        case "DeviceClass":
            yield _made("ResourceClaim", f"{name}-c", {"devices": {"requests": [request]}})
            spec = {"resourceClaims": [{"name": "c", "resourceClaimName": f"{name}-c"}]}
        case "PersistentVolumeClaim":
            spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}
        case "PersistentVolume" | "StorageClass":
            bound = {"volumeName": name} if kind == "PersistentVolume" else {"storageClassName": name}
            yield _made("PersistentVolumeClaim", f"{name}-c", bound)
            spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": f"{name}-c"}}]}
        case _:
            return
    container = {"name": "c", "resources": {"requests": {"cpu": "1", **limits}, "limits": limits}}
    metadata = {"name": f"{name}-user", "namespace": EVIL, "annotations": notes}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "fairway", "containers": [container], **spec},
    }


def _made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    known = next(known for known in kinds.KINDS if known.name == kind)
    metadata = {"name": name, "namespace": EVIL}
    return {"apiVersion": known.api_versions[0], "kind": kind, "metadata": metadata, "spec": spec}


def checked(data: dict[str, Any]) -> Any:
    try:
        return parse_object(data)
    except (ManifestError, UnicodeError):
        return None


def said(plan: ExplainedPlan) -> dict[str, Any]:
    """All that the plan says of the innocent."""
    return {
        "bindings": sorted((b.pod, b.node, str(b.devices)) for b in plan.bindings if b.pod.startswith(f"{GOOD}/")),
        "evictions": [e.pod for e in plan.evictions if e.pod.startswith(f"{GOOD}/")],
        "reasons": sorted((p.job, p.reason) for p in plan.pending if p.job.startswith(f"{GOOD}/")),
        "statuses": sorted((g.name, g.phase) for g in plan.status.pod_groups if g.name.startswith(f"{GOOD}/")),
        "queue": [q.allocated["cpu"] for q in plan.queues if q.name == GOOD],
    }


def batches(*, unchecked: bool) -> Iterator[tuple[list[str], list[Any]]]:
    """Hostile objects with what uses them; names of namespaces and nodes that are not the tenant's are left out."""
    chosen = attacks(PART)
    while True:
        names: list[str] = []
        objects: list[Any] = []
        for attack in islice(chosen, BATCH):
            thing = decoded(attack) if unchecked else checked(attack.data)
            if thing is None or not _is_own(attack, thing):
                continue
            names.append(str(attack))
            objects.append(thing)
            objects += filter(None, map(checked, companions(thing)))
        if not names:
            return
        yield names, objects


def _is_own(attack: Attack, thing: Any) -> bool:
    """Whether RBAC lets a tenant write it: nothing in another's namespace, no name that another's object has, no queue
    below that of another, which jobs could not use then, no job in the queue of another, whose amounts it would change.
    """
    if isinstance(thing, Queue) and thing.spec.parent == GOOD:
        return False
    if isinstance(thing, PodGroup) and thing.spec.queue == GOOD:
        return False
    namespace, name = thing.metadata.namespace, thing.metadata.name
    return namespace in ("", EVIL) and (name.startswith(EVIL) or not name) if attack.path[0] == "metadata" else True


def everything(plan: ExplainedPlan) -> None:
    plan.document()
    _ = plan.warnings


@pytest.mark.parametrize("unchecked", [False, True], ids=["as validated", "as if never checked"])
def test_hostile_objects_change_nothing_for_the_others(unchecked: bool) -> None:
    fresh = ClusterState()
    fresh.upsert([*innocents(), *surroundings()])
    expected = said(decide_and_explain(fresh, POLICY, make.NOW))
    assert len(expected["bindings"]) == 7
    assert len(expected["reasons"]) == 3
    for names, objects in batches(unchecked=unchecked):
        before, after = ClusterState(), ClusterState()
        before.upsert([*objects, *innocents(), *surroundings()])
        after.upsert([*innocents(), *surroundings(), *objects])
        for state in (before, after):
            plan = decide_and_explain(state, POLICY, make.NOW)
            everything(plan)
            assert said(plan) == expected, names
        for thing in objects:
            after.apply(Deleted(thing))
        assert said(decide_and_explain(after, POLICY, make.NOW)) == expected, names


ALONE: dict[str, Any] = {
    "prioritizerPolicy": {
        "mode": "Exact",
        "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 1}],
    }
}
"""Prioritizers that do not look at other placements, as Balance does."""


def fleet() -> list[ApiObject]:
    everywhere = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    return [
        *(make.made("ManagedCluster", name, metadata={"labels": {"1": "5"}}) for name in ("c1", "c2")),
        make.made("ManagedClusterSet", "global", spec=everywhere),
        *(make.made("ManagedClusterSetBinding", "global", ns, spec={"clusterSet": "global"}) for ns in (GOOD, EVIL)),
        make.made("Placement", GOOD, GOOD, spec={**ALONE, "clusterSets": ["global"], "numberOfClusters": 1}),
    ]


def chosen(objects: Iterable[Any]) -> list[str]:
    plan = place(FleetState(objects), make.NOW)
    plan.document()
    [outcome] = [outcome for outcome in plan.outcomes if outcome.name == f"{GOOD}/{GOOD}"]
    return [decision.cluster for decision in outcome.decisions]


@pytest.mark.parametrize("unchecked", [False, True], ids=["as validated", "as if never checked"])
def test_hostile_objects_change_nothing_for_other_placements(unchecked: bool) -> None:
    """Clusters and sets are the operator's: those that are attacked here are not chosen, being in no set."""
    tenants = ("Placement", "PlacementDecision", "AddOnPlacementScore", "ManagedClusterSetBinding")
    for names, objects in batches(unchecked=unchecked):
        own = [thing for thing in objects if kinds.key(thing)[0] in tenants]
        assert chosen([*own, *fleet()]) == chosen([*fleet(), *own]) == ["c1"], names
        others = [thing for thing in objects if kinds.key(thing)[0] not in tenants]
        FleetState(others)
        place(FleetState([*others, *fleet()]), make.NOW).document()


def test_a_queue_without_a_name_is_above_no_other() -> None:
    """No API server takes one; its name is how the top of all queues is written, and it must not be above itself."""
    state = ClusterState()
    state.upsert([*innocents(), Queue(metadata=ObjectMeta(name=""))])
    assert len(said(decide_and_explain(state, POLICY, make.NOW))["bindings"]) == 7
