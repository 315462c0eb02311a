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
FEED_FOLDER = "/run/fairway"
TLS_FOLDER = "/etc/fairway/tls"
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
"""What kubelets ask for themselves; the token is rotated long before."""
POLICY_KEY = "policy.yaml"
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


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
    """With the page, no token is mounted by itself: a pod has one service account, and each of the two containers must
    have only its own. The scheduler's is projected into its container; the page's comes from a Secret.
    """
    volumes = {"volumes": _volumes(options)} if options.web else {}
    return {
        "serviceAccountName": options.name,
        "automountServiceAccountToken": not options.web,
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
        "containers": [_container(options), *([_page_container(options)] if options.web else [])],
        **volumes,
    }


def _volumes(options: InstallOptions) -> list[Manifest]:
    found: list[Manifest] = [
        {"name": "feed", "emptyDir": {}},
        {
            "name": "scheduler-token",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                        }
                    },
                ]
            },
        },
        {"name": "page-token", "secret": {"secretName": options.page_name}},
    ]
    if options.web_tls_secret:
        found.append({"name": "page-tls", "secret": {"secretName": options.web_tls_secret}})
    return found


def _mount(name: str, path: str, *, read_only: bool = True) -> Manifest:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def _page_container(options: InstallOptions) -> Manifest:
    """The page: whatever users do to it, its limits and its account are its own, and the feed is read-only.

    It has no readiness probe: a pod is ready when all its containers are, and users of the page must not be able to
    make the scheduler's pod look unready to a drain or a rollout.
    """
    probe: Manifest = {"path": "/healthz", "port": "page"}
    certificate = []
    if options.web_tls_secret:
        probe["scheme"] = "HTTPS"
        certificate = [f"--web-cert={TLS_FOLDER}/tls.crt", f"--web-key={TLS_FOLDER}/tls.key"]
    mounts = [_mount("feed", FEED_FOLDER), _mount("page-token", TOKEN_FOLDER)]
    return {
        "name": "page",
        "image": options.image,
        "args": [
            "web",
            f"--feed={FEED_FOLDER}/feed.sock",
            f"--web=:{PAGE_PORT}",
            "--web-access=cluster",
            *(["--allow-actions"] if options.allow_actions else []),
            *certificate,
            "--log-format=json",
        ],
        "ports": [{"name": "page", "containerPort": PAGE_PORT}],
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 60, "periodSeconds": 20, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [*mounts, *([_mount("page-tls", TLS_FOLDER)] if options.web_tls_secret else [])],
    }


def _container(options: InstallOptions) -> Manifest:
    mounts = [_mount("feed", FEED_FOLDER, read_only=False), _mount("scheduler-token", TOKEN_FOLDER)]
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
        "securityContext": CONTAINER_SECURITY,
        **({"volumeMounts": mounts} if options.web else {}),
    }


def _arguments(options: InstallOptions) -> list[str]:
    if options.part == "fleet":
        return ["fleet"]
    return [
        "run",
        f"--scheduler-names={','.join(options.scheduler_names)}",
        f"--policy-config-map={options.namespace}/{options.policy_config_map}",
        *([f"--feed-socket={FEED_FOLDER}/feed.sock"] if options.web else []),
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
    """Its account with a token, a name, and leave to reach it. A browser stays with one replica, which knows its
    cookie.
    """
    service = {
        "selector": labels(options),
        "ports": [{"name": "page", "port": PAGE_PORT, "targetPort": "page"}],
        "sessionAffinity": "ClientIP",
    }
    policy = {
        "podSelector": {"matchLabels": labels(options)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": PAGE_PORT, "protocol": "TCP"}]}],
    }
    token = _object(options, "v1", "Secret", type="kubernetes.io/service-account-token")
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": options.page_name}
    found = [
        _object(options, "v1", "ServiceAccount", automountServiceAccountToken=False),
        token,
        _object(options, "v1", "Service", spec=service),
        _object(options, "networking.k8s.io/v1", "NetworkPolicy", spec=policy),
    ]
    for thing in found:
        thing["metadata"]["name"] = options.page_name
    return found


def _monitor(options: InstallOptions) -> Manifest:
    endpoints = [{"port": "http", "path": "/metrics"}]
    spec = {"selector": {"matchLabels": labels(options)}, "endpoints": endpoints}
    return _object(options, "monitoring.coreos.com/v1", "ServiceMonitor", spec=spec)
