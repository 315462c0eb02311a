"""The node agent: on every node, with the access and the folders that it uses and no more.

It has a namespace of its own, because folders of the host are not allowed where the scheduler runs. A policy at the API
server holds each agent to its own node: what a stolen token can write are the slices of the node that it was given for,
or, where there is no DRA, that node's annotations and capacity.
"""

from __future__ import annotations

from typing import Any

from fairway.kube.install.access import rule
from fairway.kube.install.options import InstallOptions

Manifest = dict[str, Any]

NAME = "fairway-agent"
PORT = 10270
DRIVER = "devices.fairway.dev"
ANNOTATION = "annotation"
_RBAC = "rbac.authorization.k8s.io"
_FOLDERS = {
    "device-plugins": "/var/lib/fairway/device-plugins",
    "state": "/var/lib/fairway/agent",
    "kubelet-plugins": "/var/lib/kubelet/plugins",
    "kubelet-registry": "/var/lib/kubelet/plugins_registry",
    "cdi": "/var/run/cdi",
}
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "agent"}


def agent(options: InstallOptions) -> list[Manifest]:
    """In the order in which they are applied."""
    rules = agent_rules(options.agent_publish)
    return [_namespace(), *_access(rules), *_own_node_only(options.agent_publish), _mapping(), _daemon_set(options)]


def agent_rules(publish: str = "slices") -> list[Manifest]:
    """A test runs the agent under these and fails on a 403 or a rule that was never used."""
    if publish == ANNOTATION:
        return [rule("", ["nodes"], ["get", "patch"]), rule("", ["nodes/status"], ["patch"])]
    return [
        rule("", ["nodes"], ["get"]),
        rule("resource.k8s.io", ["resourceclaims"], ["get"]),
        rule("resource.k8s.io", ["resourceslices"], ["list", "create", "update", "delete"]),
    ]


def _namespace() -> Manifest:
    labels = {**_LABELS, "pod-security.kubernetes.io/enforce": "privileged"}  # folders of the host need it
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME, "labels": labels}}


def _access(rules: list[Manifest]) -> list[Manifest]:
    meta = {"name": NAME, "labels": _LABELS}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAME}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**meta, "namespace": NAME},
            "automountServiceAccountToken": False,
        },
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME},
            "subjects": [subject],
        },
    ]


def _own_node_only(publish: str) -> list[Manifest]:
    """The token of a pod names the node that the pod is on; the server tells policies."""
    version = "admissionregistration.k8s.io/v1"
    annotates = publish == ANNOTATION
    rules = {
        "apiGroups": ["" if annotates else "resource.k8s.io"],
        "apiVersions": ["*"],
        "resources": ["nodes", "nodes/status"] if annotates else ["resourceslices"],
        "operations": ["UPDATE"] if annotates else ["CREATE", "UPDATE", "DELETE"],
    }
    node = "authentication.kubernetes.io/node-name"
    spec: Manifest = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rules]},
        "matchConditions": [
            {
                "name": "is-an-agent",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{NAME}:{NAME}'",
            }
        ],
        "variables": [
            {
                "name": "node",
                "expression": f"has(request.userInfo.extra) && '{node}' in request.userInfo.extra ? "
                f"request.userInfo.extra['{node}'][0] : ''",
            },
            *([] if annotates else [{"name": "slice", "expression": _SLICE}]),
        ],
        "validations": _NODE_RULES if annotates else _SLICE_RULES,
    }
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": NAME}, "spec": spec},
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": binding,
        },
    ]


_SLICE = "request.operation == 'DELETE' ? oldObject.spec : object.spec"
_SLICE_RULES = [
    {
        "expression": "variables.node != '' && has(variables.slice.nodeName) && "
        "variables.slice.nodeName == variables.node",
        "message": "an agent writes the slices of its own node only",
    },
    {
        "expression": f"variables.slice.driver == '{DRIVER}'",
        "message": f"an agent writes the slices of the driver {DRIVER} only",
    },
    {
        # of the slices of a pool only those of the highest generation count, whatever node they are of
        "expression": "variables.slice.pool.name.startsWith(variables.node + '/')",
        "message": "an agent writes to pools of its own node only, whose names begin with that of the node",
    },
]
_NODE_RULES = [
    {
        "expression": "variables.node != '' && object.metadata.name == variables.node",
        "message": "an agent writes to its own node only",
    },
    {
        "expression": "object.spec == oldObject.spec && "
        "(has(object.metadata.labels) ? object.metadata.labels : {}) == "
        "(has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}) && "
        "(has(object.status.conditions) ? object.status.conditions : []) == "
        "(has(oldObject.status.conditions) ? oldObject.status.conditions : [])",
        "message": "an agent writes annotations and capacity only",
    },
]


def _daemon_set(options: InstallOptions) -> Manifest:
    """Its sockets are for root, as the kubelet's are; of root's powers it has none."""
    mounts: list[Manifest] = [{"name": name, "mountPath": path} for name, path in _FOLDERS.items()]
    volumes: list[Manifest] = [
        {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in _FOLDERS.items()
    ]
    mounts.append({"name": "mapping", "mountPath": "/etc/fairway", "readOnly": True})
    volumes.append({"name": "mapping", "configMap": {"name": "fairway-devices"}})
    container = {
        "name": "agent",
        "image": options.image,
        "args": ["agent", "--mapping=/etc/fairway/devices.yaml", "--log-format=json", *_publish(options)],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": "http", "containerPort": PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    pod = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": volumes,
    }
    spec = {
        "selector": {"matchLabels": _LABELS},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    meta = {"name": NAME, "namespace": NAME, "labels": _LABELS}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec}


def _publish(options: InstallOptions) -> list[str]:
    return [f"--publish={ANNOTATION}"] if options.agent_publish == ANNOTATION else []


def _mapping() -> Manifest:
    """What plugins do not say; edited in place."""
    text = "apiVersion: fairway.dev/v1alpha1\nkind: DeviceMapping\nresources: []\n"
    meta = {"name": "fairway-devices", "namespace": NAME, "labels": _LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"devices.yaml": text}}
