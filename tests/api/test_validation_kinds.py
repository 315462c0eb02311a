"""What a user is told about objects that are no pods, and that an API server would refuse; and that good ones pass."""

from __future__ import annotations

import pytest

from support.validation import HEADS, KEY, SUBDOMAIN, VALUE, faults, parsed


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

    def test_how_capacity_may_be_cut(self) -> None:
        policy = "{default: 1e300, validValues: [1Gi, y], validRange: {min: z, step: 0}}"
        device = f"{{name: d, capacity: {{m: {{value: 1Gi, requestPolicy: {policy}}}}}}}"
        place = "spec.devices[0].capacity.m.requestPolicy"
        assert faults("ResourceSlice", f"spec: {{driver: d, nodeName: n, pool: {{name: p}}, devices: [{device}]}}") == [
            f"{place}.default: invalid quantity '1e300': too large",
            f"{place}.validValues[1]: invalid quantity 'y': expected a number before the suffix",
            f"{place}.validRange.min: invalid quantity 'z': expected a number before the suffix",
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
        "DeviceTaintRule": "spec: {taint: {key: k, effect: NoSchedule}}",
        "ManagedClusterSetBinding": "spec: {clusterSet: s}",
    }
    for kind in HEADS:
        assert type(parsed(kind, needed.get(kind, ""))).__name__ == kind
