"""What one tenant can write to slow a scheduler down: for each kind, objects of one namespace, as many as asked for.

Every kind is a way in which a pod, or what it names, makes a cycle compute. Add a kind when another is found: the row
`hostile` of both benchmarks, and the tests that count work, go through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairway.api.kinds import ApiObject
from fairway.api.manifests import parse_object

NAMESPACE = "hostile"
DEVICE_CLASS = "gpu.example.com"
Manifest = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TWENTY = f"[{', '.join(map(str, range(20)))}]"


def pod(name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A pending pod of the hostile namespace."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"schedulerName": "fairway", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def claim(name: str, *expressions: str, **more: Any) -> Iterator[Manifest]:
    """A pod, and the claim that it uses."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    request = {"name": "r", "exactly": {"deviceClassName": DEVICE_CLASS, "selectors": selectors, **more}}
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [request]}},
    }
    yield pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}])


def nested(text: str, depth: int = 3) -> str:
    for level in range(depth):
        text = f"{_TWENTY}.all(x{level}, {text})"
    return text


def nested_loops(count: int) -> Iterator[Manifest]:
    """Three nested `all()` over 20 values, no two texts the same, looking at what differs from device to device."""
    for index in range(count):
        yield from claim(f"loops-{index}", nested(f"device.attributes['{DEVICE_CLASS}'].uuid != 'x{index}'"))


def constant_loops(count: int) -> Iterator[Manifest]:
    """The same, looking at no device."""
    for index in range(count):
        yield from claim(f"constant-{index}", nested(f"{index} >= 0"))


def endless_loops(count: int) -> Iterator[Manifest]:
    """The same, beyond what an evaluation may cost."""
    for index in range(count):
        yield from claim(f"endless-{index}", nested(f"{index} >= 0", 5))


def broken_expressions(count: int) -> Iterator[Manifest]:
    """Long expressions that do not compile."""
    for index in range(count):
        yield from claim(f"broken-{index}", " && ".join(f"a{index} == {number}" for number in range(600)))


def long_expressions(count: int) -> Iterator[Manifest]:
    """Expressions as long as Kubernetes takes them, which compile."""
    for index in range(count):
        yield from claim(f"long-{index}", " || ".join(f"device.driver == '{index}-{number}'" for number in range(300)))


def options(count: int) -> Iterator[Manifest]:
    """Claims of many requests with many ways to serve each, and a rule that couples them."""
    for index in range(count):
        ways = [
            {
                "name": f"w{way}",
                "deviceClassName": DEVICE_CLASS,
                "selectors": [{"cel": {"expression": f"device.driver != '{index}-{way}'"}}],
                "count": 2,
            }
            for way in range(8)
        ]
        requests = [{"name": f"r{number}", "firstAvailable": ways} for number in range(8)]
        rules = [{"matchAttribute": f"{DEVICE_CLASS}/uuid"}, {"distinctAttribute": f"{DEVICE_CLASS}/model"}]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"options-{index}", "namespace": NAMESPACE},
            "spec": {"devices": {"requests": requests, "constraints": rules[:1]}},
        }
        yield pod(f"options-{index}", resourceClaims=[{"name": "c", "resourceClaimName": f"options-{index}"}])


def _term(index: int, key: str = "zone", values: int = 1, **more: Any) -> Manifest:
    listed = [f"v{index}-{value}" for value in range(values)]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": listed}]}
    return {"topologyKey": key, "labelSelector": selector, **more}


def pod_affinity(count: int) -> Iterator[Manifest]:
    """Required affinity to pods that do not exist, all terms different."""
    for index in range(count):
        terms = [_term(20 * index + number) for number in range(20)]
        yield pod(f"affinity-{index}", affinity={"podAffinity": {_REQUIRED: terms}})


def pod_anti_affinity(count: int) -> Iterator[Manifest]:
    """Anti-affinity over zones to pods of all namespaces, by terms that match whatever there is."""
    for index in range(count):
        other = {"matchExpressions": [{"key": f"no-{index}-{number}", "operator": "DoesNotExist"} for number in (0, 1)]}
        term = {"topologyKey": "zone", "labelSelector": other, "namespaceSelector": {}}
        yield pod(f"anti-{index}", affinity={"podAntiAffinity": {_REQUIRED: [term]}})


def preferences(count: int) -> Iterator[Manifest]:
    """Preferred affinity to everything, by many terms."""
    for index in range(count):
        wishes = [
            {"weight": 1 + number % 100, "podAffinityTerm": _term(20 * index + number, namespaceSelector={})}
            for number in range(20)
        ]
        yield pod(f"wish-{index}", "100", affinity={"podAffinity": {_PREFERRED: wishes}})


def spread(count: int) -> Iterator[Manifest]:
    """Hard spread over zones and nodes, all selectors different."""
    for index in range(count):
        rules = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"v{index}"}},
            }
            for key in ("zone", "kubernetes.io/hostname")
        ]
        yield pod(f"spread-{index}", topologySpreadConstraints=rules)


def node_affinity(count: int) -> Iterator[Manifest]:
    """Node affinity of many terms with thousands of values, all different."""
    for index in range(count):
        terms = [
            {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/hostname",
                        "operator": "NotIn",
                        "values": [f"{index}-{term}-{number}" for number in range(400)],
                    },
                    {"key": "zone", "operator": "In", "values": [f"{index}-{term}"]},
                ]
            }
            for term in range(20)
        ]
        yield pod(f"nodes-{index}", affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def made_up_labels(count: int) -> Iterator[Manifest]:
    """Node selectors by keys that no node has."""
    for index in range(count):
        yield pod(f"labels-{index}", nodeSelector={f"made-up-{index}-{number}": "x" for number in range(50)})


def tolerations(count: int) -> Iterator[Manifest]:
    for index in range(count):
        listed = [{"key": f"t{index}-{number}", "operator": "Exists"} for number in range(500)]
        yield pod(f"tolerates-{index}", "100", tolerations=listed)


def ports(count: int) -> Iterator[Manifest]:
    """Hundreds of host ports per pod, all pods different."""
    for index in range(count):
        listed = [{"containerPort": 1 + number, "hostPort": 1 + index + 2 * number} for number in range(300)]
        made = pod(f"ports-{index}", "100")
        made["spec"]["containers"][0]["ports"] = listed
        yield made


def requests(count: int) -> Iterator[Manifest]:
    """Requests that fit, but exceed what the queue has left, all different."""
    for index in range(count):
        yield pod(f"request-{index}", f"{500 + index}m")


def too_large(count: int) -> Iterator[Manifest]:
    """Requests that fit nowhere, all different."""
    for index in range(count):
        yield pod(f"large-{index}", f"{1_000_000 + index}m")


def gangs(count: int) -> Iterator[Manifest]:
    """Gangs of different pods that are too large for the cluster."""
    for index in range(max(1, count // 50)):
        name = f"gang-{index}"
        yield {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"minMember": 50},
        }
        for number in range(50):
            made = pod(f"{name}-{number}", "1" if number else "100000")
            made["spec"]["containers"][0]["resources"]["requests"]["memory"] = f"{1 + 50 * index + number}Mi"
            made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
            yield made


KINDS: dict[str, tuple[Callable[[int], Iterator[Manifest]], int]] = {
    "nested loops": (nested_loops, 40),
    "constant loops": (constant_loops, 100),
    "endless loops": (endless_loops, 40),
    "broken expressions": (broken_expressions, 200),
    "long expressions": (long_expressions, 200),
    "options": (options, 20),
    "pod affinity": (pod_affinity, 500),
    "pod anti-affinity": (pod_anti_affinity, 500),
    "preferences": (preferences, 300),
    "spread": (spread, 300),
    "node affinity": (node_affinity, 300),
    "made-up labels": (made_up_labels, 500),
    "tolerations": (tolerations, 300),
    "ports": (ports, 300),
    "requests": (requests, 2_000),
    "too large": (too_large, 2_000),
    "gangs": (gangs, 2_000),
}
"""Each kind, with the number of objects from which it hurts."""


def objects(kind: str, count: int | None = None) -> list[ApiObject]:
    make, usual = KINDS[kind]
    return read(make(usual if count is None else count))


def read(manifests: Iterable[Manifest]) -> list[ApiObject]:
    return [parse_object(manifest) for manifest in manifests]
