"""Pods as an API server returns them: about 6 KB of JSON each, most of it irrelevant to a scheduler."""

from __future__ import annotations

import json
import random
from typing import Any

_TEAMS = ("vision", "speech", "ranking", "search", "risk", "ads", "maps", "core")
_SHAPES = (
    ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"}),
    ({"cpu": "2", "memory": "8Gi"}, {"memory": "8Gi"}),
    ({"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}, {"memory": "24Gi", "nvidia.com/gpu": "1"}),
    ({"cpu": "16", "memory": "96Gi", "nvidia.com/gpu": "8"}, {"memory": "128Gi", "nvidia.com/gpu": "8"}),
)


def pod_list(count: int, seed: int = 1) -> bytes:
    """A PodList of `count` pods as compact JSON; the same bytes for the same arguments."""
    rng = random.Random(seed)
    items = [pod(index, rng) for index in range(count)]
    listing = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "48215771"},
        "items": items,
    }
    return json.dumps(listing, separators=(",", ":")).encode()


def pod(index: int, rng: random.Random) -> dict[str, Any]:
    team = rng.choice(_TEAMS)
    job = f"train-{team}-{index // 8:05d}"
    requests, limits = rng.choice(_SHAPES)
    started = f"2026-01-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:07Z"
    node = f"gpu-{rng.randint(0, 4999):04d}.example.internal"
    return {
        "metadata": _metadata(index, team, job, started, rng),
        "spec": _spec(job, node, requests, limits),
        "status": _status(started, rng),
    }


def _uid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _metadata(index: int, team: str, job: str, started: str, rng: random.Random) -> dict[str, Any]:
    return {
        "name": f"{job}-worker-{index % 8}",
        "generateName": f"{job}-worker-",
        "namespace": f"team-{team}",
        "uid": _uid(rng),
        "resourceVersion": str(rng.randint(10**7, 10**8)),
        "creationTimestamp": started,
        "labels": {
            "app.kubernetes.io/name": "trainer",
            "app.kubernetes.io/instance": job,
            "app.kubernetes.io/managed-by": "Helm",
            "team": team,
            "batch.kubernetes.io/job-name": job,
            "batch.kubernetes.io/job-completion-index": str(index % 8),
        },
        "annotations": {
            "scheduling.k8s.io/group-name": job,
            "volcano.sh/task-spec": "worker",
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9090",
            "checksum/config": f"{rng.getrandbits(256):064x}",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": job,
                "uid": _uid(rng),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            _managed("vc-controller-manager", started, ("name", "image", "env", "resources", "volumeMounts")),
            _managed("kubelet", started, ("conditions", "containerStatuses", "hostIP", "phase", "podIP")),
        ],
    }


def _managed(manager: str, time: str, names: tuple[str, ...]) -> dict[str, Any]:
    owned: dict[str, Any] = {
        f"f:{name}": {".": {}, f'k:{{"name":"{name}"}}': {".": {}, "f:value": {}}} for name in names
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}, "f:spec": owned},
    }


def _spec(job: str, node: str, requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": f"{job}-data"}},
            {"name": "config", "configMap": {"name": f"{job}-config", "defaultMode": 420}},
            {
                "name": "kube-api-access",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {
                            "configMap": {
                                "name": "kube-root-ca.crt",
                                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            },
        ],
        "containers": [_trainer(job, requests, limits), _exporter()],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "trainer",
        "serviceAccount": "trainer",
        "nodeName": node,
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "schedulerName": "fairway",
        "nodeSelector": {"node.kubernetes.io/instance-type": "gpu-large"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
        "priorityClassName": "batch",
        "priority": 1000,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _trainer(job: str, requests: dict[str, str], limits: dict[str, str]) -> dict[str, Any]:
    return {
        "name": "trainer",
        "image": "registry.example.com/ml/trainer:2026.1.3",
        "command": ["python", "-m", "trainer.main"],
        "args": ["--config=/etc/trainer/config.yaml", f"--job={job}", "--checkpoint=/data/checkpoints"],
        "ports": [{"name": "rendezvous", "containerPort": 29500, "protocol": "TCP"}],
        "env": [
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
            {"name": "MASTER_ADDR", "value": f"{job}-worker-0.{job}"},
            {"name": "WORLD_SIZE", "value": "8"},
            {"name": "NCCL_DEBUG", "value": "WARN"},
        ],
        "resources": {"requests": requests, "limits": limits},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "config", "mountPath": "/etc/trainer", "readOnly": True},
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            },
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _exporter() -> dict[str, Any]:
    return {
        "name": "metrics",
        "image": "registry.example.com/obs/exporter:1.9.0",
        "args": ["--listen=:9090", "--interval=15s"],
        "ports": [{"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _status(started: str, rng: random.Random) -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started} for kind in kinds
        ],
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": [
            {
                "name": name,
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": f"registry.example.com/{name}:2026.1.3",
                "imageID": f"registry.example.com/{name}@sha256:{rng.getrandbits(256):064x}",
                "containerID": f"containerd://{rng.getrandbits(256):064x}",
                "started": True,
            }
            for name in ("trainer", "metrics")
        ],
        "qosClass": "Burstable",
    }
