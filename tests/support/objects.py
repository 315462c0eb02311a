"""Short ways to make the objects of a test, checked as if they came from a file.

Amounts are keywords: `cpu="2"`, `memory="1Gi"`, `gpu=1`, `pods=3`. Times are whole seconds after `BEGIN`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.kinds import ApiObject, Kind
from fairway.api.manifests import parse_object
from fairway.api.pods import Pod
from fairway.clock import SECOND, format_rfc3339, parse_rfc3339

BEGIN = parse_rfc3339("2026-01-01T00:00:00Z")
NOW = parse_rfc3339("2026-01-02T00:00:00Z")
GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"

Manifest = dict[str, Any]
KINDS = {kind.name: kind for kind in reversed(kinds.KINDS)}


def made(kind: str, name: str, namespace: str = "", **rest: Any) -> ApiObject:
    """An object of a kind; `metadata` may bring labels and the like."""
    known = KINDS[kind]
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    if kind in ("Pod", "PodGroup"):
        metadata.setdefault("uid", f"uid-of-{kind}-{namespace}-{name}")
    data = {"apiVersion": known.api_versions[0], "kind": kind, "metadata": metadata, **rest}
    return _converted(data, known) or parse_object(data)


def _converted(data: Manifest, kind: Kind) -> ApiObject | None:
    """The object as `parse_object` reads it, in a tenth of the time; None where that has more to do than to convert."""
    try:
        thing = cast(ApiObject, msgspec.convert(data, kind.struct))
    except msgspec.ValidationError:
        return None
    return None if kind.converted is not None or kind.settle(thing) else thing


def manifest(thing: ApiObject) -> Manifest:
    """The object as a file would hold it."""
    kind = next(k for k in kinds.KINDS if k.struct is type(thing))
    return {"apiVersion": kind.api_versions[0], "kind": kind.name, **msgspec.to_builtins(thing)}


def amounts(given: Mapping[str, Any]) -> dict[str, str]:
    names = {"gpu": GPU}
    return {names.get(name, name.replace("_", "-")): str(amount) for name, amount in given.items()}


def at(seconds: int) -> str:
    return format_rfc3339(BEGIN + seconds * SECOND)


def node(
    name: str,
    *,
    labels: Any = None,
    taints: Any = (),
    unschedulable: Any = False,
    ready: Any = True,
    **allocatable: Any,
) -> ApiObject:
    """Taints are texts, `key=value:Effect`. Mappings of mixed values are unpacked into this and `pod`: hence `Any`."""
    return made(
        "Node",
        name,
        metadata={"labels": {HOST: name, **(labels or {})}},
        spec={"unschedulable": unschedulable, "taints": [_taint(text) for text in taints]},
        status={
            "allocatable": amounts(allocatable),
            "conditions": [] if ready else [{"type": "Ready", "status": "False"}],
        },
    )


def _taint(text: str) -> Manifest:
    pair, effect = text.rsplit(":", 1)
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    namespace: Any = "default",
    *,
    node: Any = "",
    queue: Any = "",
    group: Any = "",
    owner: Any = "",
    gates: Any = (),
    role: Any = "",
    phase: Any = "",
    created: Any = None,
    leaving: Any = False,
    labels: Any = None,
    annotations: Any = None,
    spec: Any = None,
    ports: Any = (),
    nominated: Any = "",
    **requests: Any,
) -> ApiObject:
    """A pod with one container; `spec` adds any other field of its spec. `owner` is its controller: `Kind/name`."""
    notes = {
        "scheduling.volcano.sh/queue-name": queue,
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/task-spec": role,
        **(annotations or {}),
    }
    metadata: Manifest = {
        "labels": dict(labels or {}),
        "annotations": {key: value for key, value in notes.items() if value},
    }
    if owner:
        kind, _, controller = owner.partition("/")
        reference = {"apiVersion": "batch/v1", "kind": kind, "name": controller, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    if created is not None:
        metadata["creationTimestamp"] = at(created)
    if leaving:
        metadata["deletionTimestamp"] = at(0)
    asked = amounts(requests)
    limits = {name: amount for name, amount in asked.items() if "/" in name}
    container = {
        "name": "main",
        "resources": {"requests": asked, "limits": limits},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }
    return made(
        "Pod",
        name,
        namespace,
        metadata=metadata,
        spec={
            "schedulerName": "fairway",
            "containers": [container],
            "nodeName": node,
            "schedulingGates": [{"name": gate} for gate in gates],
            **(spec or {}),
        },
        status={"phase": phase or ("Running" if node else "Pending"), "nominatedNodeName": nominated},
    )


def group(
    name: str,
    namespace: str = "default",
    *,
    minimum: int = 1,
    queue: str = "default",
    created: int | None = None,
    phase: str = "",
    roles: Mapping[str, int] | None = None,
    priority_class: str = "",
    resources: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ApiObject:
    times = {} if created is None else {"creationTimestamp": at(created)}
    return made(
        "PodGroup",
        name,
        namespace,
        metadata={**times, "annotations": dict(annotations or {})},
        spec={
            "minMember": minimum,
            "queue": queue,
            "minTaskMember": dict(roles or {}),
            "priorityClassName": priority_class,
            "minResources": amounts(resources or {}),
        },
        status={"phase": phase},
    )


def gang(
    name: str,
    namespace: Any = "default",
    *,
    members: int,
    minimum: Any = None,
    queue: Any = "default",
    created: Any = None,
    priority_class: Any = "",
    **pods: Any,
) -> list[ApiObject]:
    """A group and its pods `name-0`, `name-1`...; it needs all of them unless `minimum` says otherwise."""
    least = members if minimum is None else minimum
    made_group = group(name, namespace, minimum=least, queue=queue, created=created, priority_class=priority_class)
    return [made_group, *(pod(f"{name}-{i}", namespace, group=name, **pods) for i in range(members))]


def pods(prefix: str, count: int, namespace: str = "default", **each: Any) -> list[ApiObject]:
    """Lone pods `prefix-00`, `prefix-01`..."""
    width = len(str(max(count - 1, 0)))
    return [pod(f"{prefix}-{i:0{width}d}", namespace, **each) for i in range(count)]


def queue(
    name: str,
    weight: int = 1,
    *,
    capability: Mapping[str, Any] | None = None,
    guarantee: Mapping[str, Any] | None = None,
    deserved: Mapping[str, Any] | None = None,
    parent: str = "",
    state: str = "",
    priority: int = 0,
    created: int | None = None,
) -> ApiObject:
    return made(
        "Queue",
        name,
        metadata={} if created is None else {"creationTimestamp": at(created)},
        spec={
            "weight": weight,
            "capability": amounts(capability or {}),
            "guarantee": {"resource": amounts(guarantee or {})},
            "deserved": amounts(deserved or {}),
            "parent": parent,
            "state": state,
            "priority": priority,
        },
    )


def quota(namespace: str, weight: object, name: str = "quota") -> ApiObject:
    return made("ResourceQuota", name, namespace, spec={"hard": {"volcano.sh/namespace.weight": weight}})


def namespace(name: str, **labels: str) -> ApiObject:
    return made("Namespace", name, metadata={"labels": labels})


def priority_class(name: str, value: int, *, default: bool = False) -> ApiObject:
    return made("PriorityClass", name, value=value, globalDefault=default)


def anti_affinity(key: str = HOST, *, required: bool = True, **labels: str) -> Manifest:
    """A spec that keeps off pods with these labels."""
    return {"affinity": {"podAntiAffinity": _terms(key, labels, required)}}


def affinity(key: str = HOST, *, required: bool = True, **labels: str) -> Manifest:
    """A spec that goes where pods with these labels are."""
    return {"affinity": {"podAffinity": _terms(key, labels, required)}}


def both_affinities(spec: Manifest, other: Manifest) -> Manifest:
    """A spec that has the required terms of both."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [term for part in (spec, other) for term in part["affinity"]["podAffinity"][required]]
    return {**spec, "affinity": {"podAffinity": {required: terms}}}


def _terms(key: str, labels: Mapping[str, str], required: bool) -> Manifest:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}}
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def node_affinity(*terms: Sequence[Manifest]) -> Manifest:
    """A spec with required node affinity: one of the terms, each a list of expressions."""
    required = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}


def spread(key: str, *, skew: int = 1, hard: bool = True, **labels: str) -> Manifest:
    """A spec with a topology spread constraint over pods with these labels."""
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [constraint]}


def placed(thing: ApiObject, node: str) -> ApiObject:
    """A pod that has its node and does not run yet."""
    assert isinstance(thing, Pod)
    return replace(thing, spec=replace(thing.spec, node_name=node))
