"""Objects in a few words, and what is said of them where an API server would refuse them."""

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
    "DeviceTaintRule": "resource.k8s.io/v1beta2",
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
    return [f"{fault.path}: {fault.message}" for fault in caught.value.problems]


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
