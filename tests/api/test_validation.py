"""What a user is told about metadata, amounts and pods that an API server would refuse; and that good ones pass."""

from __future__ import annotations

import pytest

from support.validation import KEY, LABEL, SUBDOMAIN, VALUE, faults, parsed, pod, resources


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
            "limits.pods: cannot be requested, expected a resource: every pod takes one slot"
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
            "spec.containers: request too much together, "
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
