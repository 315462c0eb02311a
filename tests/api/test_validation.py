"""What a user is told about an object that an API server would refuse; and that good ones pass."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fairway.api.manifests import parse_object
from fairway.errors import ManifestError

GROUP = "cluster.open-cluster-management.io"
HEADS = {
    "Pod": "v1",
    "Node": "v1",
    "Namespace": "v1",
    "ResourceQuota": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "ResourceSlice": "resource.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ResourceClass": "fairway.dev/v1alpha1",
    "ManagedCluster": f"{GROUP}/v1",
    "ManagedClusterSet": f"{GROUP}/v1beta2",
    "ManagedClusterSetBinding": f"{GROUP}/v1beta2",
    "Placement": f"{GROUP}/v1beta1",
    "PlacementDecision": f"{GROUP}/v1beta1",
    "AddOnPlacementScore": f"{GROUP}/v1alpha1",
}


def parsed(kind: str, body: str) -> Any:
    """An object with a good name unless the body (YAML in flow style) brings its own metadata."""
    data = {"apiVersion": HEADS[kind], "kind": kind, "metadata": {"name": "x"}}
    return parse_object({**data, **yaml.safe_load("{" + body + "}")}, where="here")


def faults(kind: str, body: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parsed(kind, body)
    return [f"{fault.path}: {fault.message}" for fault in caught.value.faults]


def pod(body: str) -> list[str]:
    return faults("Pod", f"spec: {{containers: [{{name: c}}], {body}}}")


def resources(body: str) -> list[str]:
    return [
        fault.removeprefix("spec.containers[0].resources.")
        for fault in faults("Pod", f"spec: {{containers: [{{name: c, resources: {{{body}}}}}]}}")
    ]


SUBDOMAIN = (
    "expected at most 253 lower case letters, digits, '-' and '.', "
    "each part between dots starting and ending with a letter or digit"
)
LABEL = "expected at most 63 lower case letters, digits and '-', starting and ending with a letter or digit"
KEY = "expected a name of at most 63 letters, digits, '-', '_' and '.', after an optional DNS prefix and '/'"
VALUE = "expected at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit, or nothing"


class TestMetadata:
    @pytest.mark.parametrize("name", ["Big", "a_b", "-a", "a-", "a..b", "é", "a b", "a" * 254])
    def test_names(self, name: str) -> None:
        shown = repr(name) if len(name) <= 60 else repr(name[:57]) + "..."
        assert faults("Node", f"metadata: {{name: '{name}'}}") == [f"metadata.name: is {shown}, {SUBDOMAIN}"]

    def test_a_namespace_is_one_label(self) -> None:
        assert faults("Namespace", "metadata: {name: a.b}") == [f"metadata.name: is 'a.b', {LABEL}"]
        assert faults("PodGroup", "metadata: {name: a, namespace: A}") == [f"metadata.namespace: is 'A', {LABEL}"]

    def test_no_name(self) -> None:
        assert faults("Node", "metadata: {}") == ["metadata.name: is missing, expected a name"]
        assert faults("PodGroup", "metadata: {generateName: a-}") == [
            "metadata.name: is missing, expected a name: only an API server makes one from generateName"
        ]

    def test_a_cluster_wide_kind_has_no_namespace(self) -> None:
        assert faults("ResourceClass", "metadata: {name: a, namespace: b}") == [
            "metadata.namespace: is 'b', expected none: this kind is cluster-wide"
        ]

    def test_labels(self) -> None:
        labels = "{a/b/c: x, 'no blanks': x, ok/Key: 'a b', -x: y1, long: " + "v" * 64 + "}"
        assert faults("Node", f"metadata: {{name: a, labels: {labels}}}") == [
            f"metadata.labels[a/b/c]: the key is 'a/b/c', {KEY}",
            f"metadata.labels[no blanks]: the key is 'no blanks', {KEY}",
            f"metadata.labels[ok/Key]: is 'a b', {VALUE}",
            f"metadata.labels.-x: the key is '-x', {KEY}",
            f"metadata.labels.long: is '{'v' * 57}'..., {VALUE}",
        ]

    def test_annotations_are_free_text_under_good_keys(self) -> None:
        assert parsed("Node", "metadata: {name: a, annotations: {Example.com/X: 'any text: {}'}}")
        assert faults("Node", "metadata: {name: a, annotations: {a b: ''}}") == [
            f"metadata.annotations[a b]: the key is 'a b', {KEY}"
        ]
        large = "x" * 300_000
        assert faults("Node", f"metadata: {{name: a, annotations: {{a: '{large}'}}}}") == [
            "metadata.annotations: is 300001 bytes together, expected at most 262144"
        ]

    def test_the_default_namespace(self) -> None:
        assert parsed("PodGroup", "").metadata.namespace == "default"
        assert parsed("Queue", "").metadata.namespace == ""


class TestResources:
    def test_quantities(self) -> None:
        assert resources("requests: {cpu: 1 Gi, memory: 1K, x.y/gpu: -1}, limits: {cpu: ''}") == [
            "requests.cpu: invalid quantity '1 Gi': blanks are not allowed",
            "requests.memory: invalid quantity '1K': unknown suffix 'K', expected k (1000) or Ki (1024)",
            "requests[x.y/gpu]: invalid quantity '-1': must not be negative",
            "limits.cpu: invalid quantity '': empty, expected a number such as 2, 500m or 2Gi",
        ]

    def test_numbers_are_quantities_but_nothing_else_is(self) -> None:
        assert resources("requests: {cpu: true, memory: [1]}") == [
            "requests.cpu: is the boolean true, expected a quantity such as 2, 500m or 1Gi",
            "requests.memory: is a list, expected a quantity such as 2, 500m or 1Gi",
        ]
        good = parsed("Pod", "spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1.5, a: null}}}]}")
        assert good.spec.containers[0].resources.requests == {"cpu": "2", "memory": "1.5"}

    def test_requests_within_limits(self) -> None:
        assert resources("requests: {cpu: 2, memory: 2Gi, gpu: 1}, limits: {cpu: 1, memory: 2048Mi, gpu: 2}") == [
            "requests.cpu: is 2, expected at most the limit of 1",
            "requests.gpu: is 1, expected the same as the limit of 2: gpu cannot be overcommitted",
        ]

    def test_a_fraction_of_a_device_is_allowed(self) -> None:
        assert parsed("Pod", "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 500m}}}]}")

    def test_slots_cannot_be_asked_for(self) -> None:
        assert resources("limits: {pods: 1}") == [
            "limits.pods: cannot be asked for, expected a resource: every pod takes one slot"
        ]

    def test_of_the_whole_pod(self) -> None:
        assert pod("resources: {requests: {cpu: 2, nvidia.com/gpu: 1}, limits: {cpu: 1}}") == [
            "spec.resources.requests.cpu: is 2, expected at most the limit of 1",
            "spec.resources.requests[nvidia.com/gpu]: is for the whole pod, "
            "expected only cpu, memory and hugepages-* there",
        ]

    def test_the_sum_must_be_a_number_too(self) -> None:
        large = "resources: {requests: {memory: 8000000000000000000}}"
        assert faults("Pod", f"spec: {{containers: [{{name: a, {large}}}, {{name: b, {large}}}]}}") == [
            "spec.containers: ask for too much together, "
            "expected amounts that can be added up: amount of memory does not fit an int64"
        ]

    def test_overhead(self) -> None:
        assert pod("overhead: {cpu: x}") == [
            "spec.overhead.cpu: invalid quantity 'x': expected a number before the suffix"
        ]


class TestPods:
    def test_no_containers(self) -> None:
        assert faults("Pod", "spec: {containers: []}") == ["spec.containers: is empty, expected at least one container"]
        assert faults("Pod", "") == ["spec: is missing, expected a mapping"]
        assert faults("Pod", "spec: null") == ["spec: is missing, expected a mapping"]

    def test_container_names(self) -> None:
        body = "spec: {containers: [{name: A}, {name: b}, {}], initContainers: [{name: b}]}"
        assert faults("Pod", body) == [
            "spec.containers[2].name: is missing, expected a string",
            f"spec.containers[0].name: is 'A', {LABEL}",
            "spec.initContainers[0].name: is 'b' again (as in containers[1]), expected a new name",
        ]

    def test_ports(self) -> None:
        ports = "spec.containers[0].ports"
        body = "{name: c, ports: [{containerPort: 0}, {containerPort: 80, hostPort: 70000, protocol: HTTP}]}"
        assert faults("Pod", f"spec: {{containers: [{body}]}}") == [
            f"{ports}[0].containerPort: is the number 0, expected a whole number from 1 to 65535",
            f"{ports}[1].hostPort: is the number 70000, expected a whole number from 0 to 65535",
            f"{ports}[1].protocol: is 'HTTP', expected one of SCTP, TCP, UDP",
        ]

    def test_a_host_port_once(self) -> None:
        port = "ports: [{containerPort: 80, hostPort: 8080}]"
        assert faults("Pod", f"spec: {{containers: [{{name: a, {port}}}, {{name: b, {port}}}]}}") == [
            "spec.containers: take host port 8080/TCP twice, expected once in a pod"
        ]

    def test_host_ports_on_the_host_network(self) -> None:
        body = "spec: {hostNetwork: true, containers: [{name: a, ports: [{containerPort: 80}]}]}"
        assert parsed("Pod", body).spec.host_ports == (("", "TCP", 80),)

    def test_numbers(self) -> None:
        seconds = "activeDeadlineSeconds: 0, terminationGracePeriodSeconds: -1"
        assert pod(f"priority: 3000000000, hostNetwork: 1, {seconds}") == [
            "spec.priority: is the number 3000000000, expected a whole number that fits 32 bits",
            "spec.activeDeadlineSeconds: is the number 0, expected a whole number of at least 1",
            "spec.hostNetwork: is the number 1, expected true or false",
            "spec.terminationGracePeriodSeconds: is the number -1, expected a whole number of at least 0",
        ]

    def test_words(self) -> None:
        assert pod("restartPolicy: Sometimes, preemptionPolicy: 3, schedulerName: [a]") == [
            "spec.schedulerName: is a list, expected a string",
            "spec.preemptionPolicy: is the number 3, expected one of Never, PreemptLowerPriority",
            "spec.restartPolicy: is 'Sometimes', expected one of Always, Never, OnFailure",
        ]

    def test_names_of_others(self) -> None:
        volumes = "volumes: [{name: v}, {name: v, persistentVolumeClaim: {claimName: A}}]"
        assert pod(f"nodeName: N1, nodeSelector: {{a b: c}}, {volumes}") == [
            f"spec.nodeName: is 'N1', {SUBDOMAIN}",
            f"spec.nodeSelector[a b]: the key is 'a b', {KEY}",
            "spec.volumes[1].name: is 'v' again (as in [0]), expected a new name",
            f"spec.volumes[1].persistentVolumeClaim.claimName: is 'A', {SUBDOMAIN}",
        ]

    def test_gates_and_claims(self) -> None:
        one = "expected exactly one of resourceClaimName and resourceClaimTemplateName"
        claims = "resourceClaims: [{name: a}, {name: a, resourceClaimName: x, resourceClaimTemplateName: y}]"
        assert pod(f"schedulingGates: [{{name: a b}}], {claims}") == [
            f"spec.schedulingGates[0].name: is 'a b', {KEY}",
            "spec.resourceClaims[1].name: is 'a' again (as in [0]), expected a new name",
            f"spec.resourceClaims[0]: has neither, {one}",
            f"spec.resourceClaims[1]: has both, {one}",
        ]
        assert resources("claims: [{name: gpu}]") == [
            "claims[0].name: is 'gpu', expected the name of one of spec.resourceClaims"
        ]

    def test_times(self) -> None:
        assert faults("Node", "metadata: {name: a, creationTimestamp: yesterday}") == [
            "metadata.creationTimestamp: is 'yesterday', expected a time such as 2026-01-31T12:00:00Z"
        ]
        assert faults("Node", "metadata: {name: a, creationTimestamp: '2026-01-01T00:00:00'}")


class TestPlacing:
    @pytest.mark.parametrize(
        ("toleration", "expected"),
        [
            ("{operator: Equal}", "operator: is not Exists, expected Exists where the key is empty"),
            ("{}", "operator: is not Exists, expected Exists where the key is empty"),
            ("{key: a, operator: In}", "operator: is 'In', expected one of Equal, Exists"),
            ("{key: a, operator: Exists, value: b}", "value: is 'b', expected none with operator Exists"),
            ("{key: a, value: 'b c'}", f"value: is 'b c', {VALUE}"),
            ("{key: a b, operator: Exists}", f"key: is 'a b', {KEY}"),
            (
                "{key: a, operator: Exists, effect: Never}",
                "effect: is 'Never', expected one of NoExecute, NoSchedule, PreferNoSchedule",
            ),
            (
                "{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}",
                "effect: is 'NoSchedule', expected NoExecute where tolerationSeconds is set",
            ),
        ],
    )
    def test_tolerations(self, toleration: str, expected: str) -> None:
        assert pod(f"tolerations: [{toleration}]") == [f"spec.tolerations[0].{expected}"]

    @pytest.mark.parametrize(
        ("requirement", "expected"),
        [
            (
                "{key: a, operator: Gt, values: ['1', '2']}",
                ".values: has 2 values, expected exactly one for operator Gt",
            ),
            (
                "{key: a, operator: Lt, values: [1x]}",
                ".values[0]: is '1x', expected a whole number for operator Lt",
            ),
            ("{key: a, operator: In}", ".values: has 0 values, expected at least one for operator In"),
            (
                "{key: a, operator: Exists, values: [b]}",
                ".values: has 1 values, expected none for operator Exists",
            ),
            (
                "{key: a, operator: Near}",
                ".operator: is 'Near', expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn",
            ),
            (
                "{key: a, operator: In, values: [1]}",
                ".values[0]: is the number 1, expected a string: write it in quotes",
            ),
        ],
    )
    def test_node_selectors(self, requirement: str, expected: str) -> None:
        term = f"nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]"
        found = pod(f"affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{{term}}}}}}}")
        assert [fault.partition("matchExpressions[0]")[2] for fault in found] == [expected]

    def test_node_names_and_terms(self) -> None:
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        fields = "{key: spec.x, operator: Exists}, {key: metadata.name, operator: In, values: [a, b]}"
        terms = f"{required}: {{nodeSelectorTerms: [{{matchFields: [{fields}]}}]}}"
        assert [fault.partition("matchFields")[2] for fault in pod(f"affinity: {{nodeAffinity: {{{terms}}}}}")] == [
            "[0].key: is 'spec.x', expected metadata.name",
            "[0].operator: is Exists, expected In or NotIn for a field",
            "[1].values: has 2 values, expected exactly one for a field",
        ]
        assert pod(f"affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: []}}}}}}") == [
            f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms: is empty, expected at least one term"
        ]

    def test_pod_affinity(self) -> None:
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        term = "topologyKey: '', namespaces: [A], labelSelector: {matchLabels: {a: b c}}"
        weighted = f"{{weight: 101, podAffinityTerm: {{{term}}}}}"
        start = f"spec.affinity.podAntiAffinity.{preferred}[0]."
        assert pod(f"affinity: {{podAntiAffinity: {{{preferred}: [{weighted}]}}}}") == [
            f"{start}weight: is the number 101, expected a whole number from 1 to 100",
            f"{start}podAffinityTerm.topologyKey: is '', {KEY}",
            f"{start}podAffinityTerm.labelSelector.matchLabels.a: is 'b c', {VALUE}",
            f"{start}podAffinityTerm.namespaces[0]: is 'A', {LABEL}",
        ]

    def test_spreading(self) -> None:
        start = "spec.topologySpreadConstraints"
        first = "{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}"
        second = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"
        assert pod(f"topologySpreadConstraints: [{first}, {second}]") == [
            f"{start}[0].maxSkew: is the number 0, expected a whole number of at least 1",
            f"{start}[0].minDomains: is set, expected only with whenUnsatisfiable: DoNotSchedule",
            f"{start}[1]: repeats zone with ScheduleAnyway, expected one constraint of the two",
        ]

    def test_taints(self) -> None:
        taint = "{key: a, effect: NoSchedule}"
        assert faults("Node", f"spec: {{taints: [{taint}, {taint}, {{key: b}}]}}") == [
            "spec.taints[2].effect: is missing, expected one of NoExecute, NoSchedule, PreferNoSchedule",
            "spec.taints[1]: repeats a:NoSchedule, expected one taint of a key and effect",
        ]


class TestCluster:
    def test_node_amounts(self) -> None:
        assert faults("Node", "status: {capacity: {cpu: a}, allocatable: {memory: 1Zi, 'a b': 1}}") == [
            "status.capacity.cpu: invalid quantity 'a': expected a number before the suffix",
            "status.allocatable.memory: invalid quantity '1Zi': unknown suffix 'Zi', "
            "expected one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent",
            f"status.allocatable[a b]: the name is 'a b', {KEY}",
        ]

    def test_allocatable_defaults_to_capacity(self) -> None:
        assert parsed("Node", "status: {capacity: {cpu: 4}}").allocatable == {"cpu": "4"}
        assert parsed("Node", "status: {capacity: {cpu: 4}, allocatable: {cpu: 3}}").allocatable == {"cpu": "3"}
        assert parsed("Node", "").allocatable == {}

    @pytest.mark.parametrize(
        ("written", "kept"),
        [
            ("3", "3"),
            ("'1k'", "1k"),
            ("2.5", "2.5"),
            ("true", "true"),
            ("null", ""),
            ("rubbish", "rubbish"),
            ("-1", "-1"),
        ],
    )
    def test_a_namespace_weight_is_kept_as_it_is(self, written: str, kept: str) -> None:
        quota = parsed("ResourceQuota", f"spec: {{hard: {{volcano.sh/namespace.weight: {written}}}}}")
        assert quota.spec.hard == {"volcano.sh/namespace.weight": kept}

    def test_quota_amounts(self) -> None:
        assert faults("ResourceQuota", "spec: {hard: {requests.cpu: -1, count/pods: many, limits.memory: 2Gi}}") == [
            "spec.hard[requests.cpu]: is '-1', expected a quantity that is not negative",
            "spec.hard[count/pods]: invalid quantity 'many': expected a number before the suffix",
        ]

    def test_volumes(self) -> None:
        term = "nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]"
        assert faults("PersistentVolume", f"spec: {{nodeAffinity: {{required: {{{term}}}}}}}") == [
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values: "
            "has 0 values, expected at least one for operator In"
        ]
        assert faults("PersistentVolumeClaim", "spec: {volumeName: A}") == [f"spec.volumeName: is 'A', {SUBDOMAIN}"]
        topology = "allowedTopologies: [{matchLabelExpressions: [{key: zone, values: []}]}]"
        assert faults("StorageClass", f"volumeBindingMode: Later, {topology}") == [
            "volumeBindingMode: is 'Later', expected one of Immediate, WaitForFirstConsumer",
            "allowedTopologies[0].matchLabelExpressions[0].values: is empty, expected at least one value",
        ]

    def test_the_default_storage_class(self) -> None:
        annotation = "storageclass.kubernetes.io/is-default-class: 'true'"
        assert parsed("StorageClass", f"metadata: {{name: a, annotations: {{{annotation}}}}}").is_default


class TestScheduling:
    def test_priorities(self) -> None:
        assert faults("PriorityClass", "value: 1000000001") == [
            "value: is 1000000001, expected at most 1000000000 outside the classes named system-*"
        ]
        assert parsed("PriorityClass", "metadata: {name: system-node-critical}, value: 2000001000")
        assert faults("PriorityClass", "") == ["value: is missing, expected a whole number that fits 32 bits"]

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("weight: 0", ["weight: is the number 0, expected a whole number of at least 1"]),
            ("weight: 1.5", ["weight: is the number 1.5, expected a whole number of at least 1"]),
            ("weight: '2'", ["weight: is '2', expected a whole number of at least 1"]),
            (
                "capability: {cpu: x}",
                ["capability.cpu: invalid quantity 'x': expected a number before the suffix"],
            ),
            (
                "guarantee: {resource: {cpu: 3}}, deserved: {cpu: 2500m}, capability: {cpu: 2}",
                [
                    "guarantee.resource.cpu: is 3, expected at most the capability of 2",
                    "deserved.cpu: is 2500m, expected at most the capability of 2",
                ],
            ),
            ("parent: x", ["parent: is the queue itself, expected another queue"]),
            ("reclaimable: 'no'", ["reclaimable: is 'no', expected true or false"]),
        ],
    )
    def test_queues(self, spec: str, expected: list[str]) -> None:
        assert faults("Queue", f"spec: {{{spec}}}") == [f"spec.{line}" for line in expected]

    def test_a_queue_as_it_comes(self) -> None:
        spec = parsed("Queue", "").spec
        assert (spec.weight, spec.reclaimable, spec.capability, spec.parent) == (1, None, {}, "")

    def test_pod_groups(self) -> None:
        assert faults(
            "PodGroup", "spec: {minMember: -1, minTaskMember: {w: -2}, minResources: {cpu: ''}, queue: Q}"
        ) == [
            "spec.minMember: is the number -1, expected a whole number of at least 0",
            "spec.minTaskMember.w: is the number -2, expected a whole number of at least 0",
            "spec.minResources.cpu: invalid quantity '': empty, expected a number such as 2, 500m or 2Gi",
            f"spec.queue: is 'Q', {SUBDOMAIN}",
        ]
        assert parsed("PodGroup", "spec: {minMember: 0}").spec.min_member == 0
        assert parsed("PodGroup", "").spec.min_member == 1

    def test_disruption_budgets(self) -> None:
        assert faults("PodDisruptionBudget", "spec: {minAvailable: 50, maxUnavailable: half}") == [
            "spec: has both minAvailable and maxUnavailable, expected one of them",
            "spec.maxUnavailable: is 'half', expected a number of pods or a percentage such as 50%",
        ]
        assert faults("PodDisruptionBudget", "spec: {minAvailable: -1, maxUnavailable: [1]}") == [
            "spec.minAvailable: is the number -1, expected a whole number of at least 0",
            "spec.maxUnavailable: is a list, expected a whole number of at least 0 or a string",
        ]
        assert parsed("PodDisruptionBudget", "spec: {minAvailable: 50%}").spec.min_available == "50%"


class TestDevices:
    def test_slices(self) -> None:
        devices = (
            "{name: d, attributes: {a: {int: 1, bool: true}, b: {}, c: {string: s}},"
            "capacity: {m: {value: x}}}, {name: d}"
        )
        assert faults("ResourceSlice", f"spec: {{driver: D, pool: {{name: p}}, devices: [{devices}]}}") == [
            f"spec.driver: is 'D', {SUBDOMAIN}",
            "spec: says 0 times where its devices are, "
            "expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection",
            "spec.devices[1].name: is 'd' again (as in [0]), expected a new name",
            "spec.devices[0].attributes.a: has 2 values, "
            "expected exactly one of int, bool, string, version and their lists",
            "spec.devices[0].attributes.b: has 0 values, "
            "expected exactly one of int, bool, string, version and their lists",
            "spec.devices[0].capacity.m.value: invalid quantity 'x': expected a number before the suffix",
        ]

    def test_claims(self) -> None:
        requests = (
            "{name: a}, {name: b, exactly: {deviceClassName: c, count: 0}},"
            "{name: c, exactly: {deviceClassName: c, allocationMode: All, count: 2,"
            "selectors: [{cel: {expression: ' '}}]}}"
        )
        start = "spec.devices"
        constraints = "{requests: [z], matchAttribute: x/y}, {}"
        body = f"spec: {{devices: {{requests: [{requests}], constraints: [{constraints}]}}}}"
        assert faults("ResourceClaim", body) == [
            f"{start}.requests[1].exactly.count: is the number 0, expected a whole number of at least 1",
            f"{start}.requests[0]: has neither, expected one of exactly and firstAvailable",
            f"{start}.requests[2].exactly.count: is 2, expected none with allocationMode: All",
            f"{start}.requests[2].exactly.selectors[0].cel.expression: is missing, expected a CEL expression",
            f"{start}.constraints[0].requests[0]: is 'z', expected the name of one of the claim's requests",
            f"{start}.constraints[1]: has neither, expected one of matchAttribute and distinctAttribute",
        ]

    def test_templates(self) -> None:
        request = "{name: a, firstAvailable: [{name: b, deviceClassName: C}]}"
        body = f"spec: {{spec: {{devices: {{requests: [{request}]}}}}}}"
        assert faults("ResourceClaimTemplate", body) == [
            f"spec.spec.devices.requests[0].firstAvailable[0].deviceClassName: is 'C', {SUBDOMAIN}"
        ]

    def test_device_classes(self) -> None:
        assert faults("DeviceClass", "spec: {selectors: [{}]}") == [
            "spec.selectors[0].cel.expression: is missing, expected a CEL expression"
        ]

    @pytest.mark.parametrize(
        ("requirement", "expected"),
        [
            ("{key: a, operator: In}", "values: has 0 values, expected at least one for operator In"),
            (
                "{key: a, operator: GtEq, values: [a, b]}",
                "values: has 2 values, expected exactly one for operator GtEq",
            ),
            ("{key: a, operator: Eq}", "values: has 0 values, expected exactly one for operator Eq"),
            (
                "{key: a, operator: DoesNotExist, values: [a]}",
                "values: has 1 values, expected none for operator DoesNotExist",
            ),
            ("{key: '', operator: Exists}", "key: is empty, expected the name of a device's attribute"),
            (
                "{key: a, operator: Like, values: [a]}",
                "operator: is 'Like', expected one of DoesNotExist, Eq, Exists, Gt, GtEq, In, Lt, LtEq, NotIn",
            ),
            (
                "{key: a, operator: Eq, values: [30]}",
                "values[0]: is the number 30, expected a string: write it in quotes",
            ),
        ],
    )
    def test_resource_classes(self, requirement: str, expected: str) -> None:
        body = f"spec: {{resourceSelector: [{{matchExpressions: [{requirement}]}}]}}"
        assert faults("ResourceClass", body) == [f"spec.resourceSelector[0].matchExpressions[0].{expected}"]

    def test_nested_resource_classes(self) -> None:
        includes = "[{class: core, count: 0}, {class: core}, {class: x}, {count: 2}]"
        selector = "{matchExpressions: [{key: a, operator: In}]}"
        assert faults("ResourceClass", f"spec: {{includes: {includes}, allowedNamespaces: {selector}}}") == [
            "spec.includes[0].count: is the number 0, expected a whole number of at least 1",
            "spec.includes[3].class: is missing, expected a string",
            "spec.includes[1].class: is 'core' again (as in [0]), expected a new name",
            "spec.includes[2].class: is the class itself, expected another class",
            "spec.allowedNamespaces.matchExpressions[0].values: has 0 values, expected at least one for operator In",
        ]


class TestFleet:
    def test_clusters(self) -> None:
        body = "spec: {taints: [{key: a, effect: NoSchedule}]}, status: {allocatable: {cpu: -1}}"
        assert faults("ManagedCluster", body) == [
            "spec.taints[0].effect: is 'NoSchedule', expected one of NoSelect, NoSelectIfNew, PreferNoSelect",
            "status.allocatable.cpu: invalid quantity '-1': must not be negative",
        ]

    def test_sets(self) -> None:
        assert faults("ManagedClusterSetBinding", "") == ["spec: is missing, expected a mapping"]
        selector = "{selectorType: LabelSelector, labelSelector: {matchLabels: {a: 'b c'}}}"
        assert faults("ManagedClusterSet", f"spec: {{clusterSelector: {selector}}}") == [
            f"spec.clusterSelector.labelSelector.matchLabels.a: is 'b c', {VALUE}"
        ]

    def test_placements_are_judged_by_their_shape_only(self) -> None:
        policy = "{mode: Wild, configurations: [{name: Nonsense, weight: 99}]}"
        spec = f"{{numberOfClusters: -1, prioritizerPolicy: {policy}}}"
        assert parsed("Placement", f"spec: {spec}").spec.number_of_clusters == -1
        predicate = "{requiredClusterSelector: {labelSelector: {matchLabels: {a: 'b c'}}}}"
        body = f"spec: {{predicates: [{predicate}], requirements: {{cpu: much}}, numberOfClusters: three}}"
        assert faults("Placement", body) == [
            "spec.numberOfClusters: is 'three', expected a whole number that fits 32 bits",
            f"spec.predicates[0].requiredClusterSelector.labelSelector.matchLabels.a: is 'b c', {VALUE}",
            "spec.requirements.cpu: invalid quantity 'much': expected a number before the suffix",
        ]

    def test_both_forms_of_prioritizers(self) -> None:
        configurations = (
            "[{name: Steady, weight: 3}, {scoreCoordinate: {builtIn: Balance}},"
            "{scoreCoordinate: {type: AddOn, addOn: {resourceName: r, scoreName: s}}, weight: -1}]"
        )
        spec = parsed("Placement", f"spec: {{prioritizerPolicy: {{configurations: {configurations}}}}}").spec
        named, built_in, add_on = spec.prioritizer_policy.configurations
        assert (named.name, named.weight) == ("Steady", 3)
        assert (built_in.score_coordinate.built_in, built_in.weight) == ("Balance", None)
        assert (add_on.score_coordinate.add_on.score_name, add_on.weight) == ("s", -1)


def test_every_kind_has_a_smallest_good_object() -> None:
    needed = {
        "Pod": "spec: {containers: [{name: c}]}",
        "PriorityClass": "value: 1",
        "ResourceSlice": "spec: {driver: d, pool: {name: p}, nodeName: n}",
        "ManagedClusterSetBinding": "spec: {clusterSet: s}",
    }
    for kind in HEADS:
        assert type(parsed(kind, needed.get(kind, ""))).__name__ == kind
