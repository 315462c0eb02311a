"""The program itself: two replicas of which one decides, with nothing that it does not need."""

from __future__ import annotations

from typing import Any

from fairway.kube.install.options import InstallOptions

Manifest = dict[str, Any]

PORTS = {"scheduler": 10259, "fleet": 10260}
"""Of /healthz, /readyz and /metrics."""
NOBODY = 65532
"""The user that containers without one run as."""
PAGE_PORT = 8443
POLICY_KEY = "policy.yaml"


def workload(options: InstallOptions) -> list[Manifest]:
    found = [
        _namespace(options),
        _account(options),
        *([_policy(options)] if options.part == "scheduler" else []),
        _deployment(options),
        _budget(options),
        _service(options),
        _network_policy(options),
    ]
    return [*found, _monitor(options)] if options.service_monitor else found


def labels(options: InstallOptions) -> dict[str, str]:
    return {"app.kubernetes.io/name": options.name, "app.kubernetes.io/component": options.part}


def _object(options: InstallOptions, version: str, kind: str, **rest: Any) -> Manifest:
    meta = {"name": options.name, "namespace": options.namespace, "labels": labels(options)}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def _namespace(options: InstallOptions) -> Manifest:
    """With the strictest of the pod security standards: the scheduler needs no more."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": options.namespace, "labels": {**labels(options), **enforced}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _account(options: InstallOptions) -> Manifest:
    return _object(options, "v1", "ServiceAccount", automountServiceAccountToken=False)


def _policy(options: InstallOptions) -> Manifest:
    """Read again when it changes. It may be edited in place."""
    policy = _object(options, "v1", "ConfigMap", data={POLICY_KEY: options.policy})
    policy["metadata"]["name"] = options.policy_config_map
    return policy


def _deployment(options: InstallOptions) -> Manifest:
    spec = {
        "replicas": options.replicas,
        "selector": {"matchLabels": labels(options)},
        "template": {"metadata": {"labels": labels(options)}, "spec": _pod_spec(options)},
    }
    return _object(options, "apps/v1", "Deployment", spec=spec)


def _pod_spec(options: InstallOptions) -> Manifest:
    return {
        "serviceAccountName": options.name,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 40,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels(options)},
            }
        ],
        "containers": [_container(options)],
    }


def _container(options: InstallOptions) -> Manifest:
    return {
        "name": options.part,
        "image": options.image,
        "args": [
            *_arguments(options),
            f"--lease-namespace={options.namespace}",
            f"--lease-name={options.name}",
            "--log-format=json",
        ],
        "ports": [{"name": "http", "containerPort": PORTS[options.part]}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _arguments(options: InstallOptions) -> list[str]:
    if options.part == "fleet":
        return ["fleet"]
    return [
        "run",
        f"--scheduler-names={','.join(options.scheduler_names)}",
        f"--policy-config-map={options.namespace}/{options.policy_config_map}",
        *([f"--web=:{PAGE_PORT}"] if options.web else []),
        *(["--allow-actions"] if options.web and options.allow_actions else []),
    ]


def _budget(options: InstallOptions) -> Manifest:
    """A drain takes one replica at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels(options)}}
    return _object(options, "policy/v1", "PodDisruptionBudget", spec=spec)


def _service(options: InstallOptions) -> Manifest:
    """For metrics: one address for each replica."""
    ports = [{"name": "http", "port": PORTS[options.part], "targetPort": "http"}]
    spec = {"clusterIP": "None", "selector": labels(options), "ports": ports, "publishNotReadyAddresses": True}
    return _object(options, "v1", "Service", spec=spec)


def _network_policy(options: InstallOptions) -> Manifest:
    """In: probes and metrics. Out: the API server and names; the server's address is not known here, so any on the
    ports that it may have.
    """
    spec = {
        "podSelector": {"matchLabels": labels(options)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": PORTS[options.part], "protocol": "TCP"}]}],
        "egress": [
            {"ports": [{"port": port, "protocol": "TCP"} for port in (443, 6443)]},
            {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]},
        ],
    }
    return _object(options, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def page(options: InstallOptions) -> list[Manifest]:
    """A name for the page, and leave to reach it. A browser stays with one replica, which knows its cookie."""
    service = {
        "selector": labels(options),
        "ports": [{"name": "page", "port": PAGE_PORT, "targetPort": PAGE_PORT}],
        "sessionAffinity": "ClientIP",
    }
    policy = {
        "podSelector": {"matchLabels": labels(options)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": PAGE_PORT, "protocol": "TCP"}]}],
    }
    found = [
        _object(options, "v1", "Service", spec=service),
        _object(options, "networking.k8s.io/v1", "NetworkPolicy", spec=policy),
    ]
    for thing in found:
        thing["metadata"]["name"] = f"{options.name}-page"
    return found


def _monitor(options: InstallOptions) -> Manifest:
    endpoints = [{"port": "http", "path": "/metrics"}]
    spec = {"selector": {"matchLabels": labels(options)}, "endpoints": endpoints}
    return _object(options, "monitoring.coreos.com/v1", "ServiceMonitor", spec=spec)
