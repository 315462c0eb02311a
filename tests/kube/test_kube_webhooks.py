"""A webhook over bindings that cannot be asked: it stops the pods that it is for, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.intercepted import is_settled
from kube.live import Live

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture(name="webhook")
def a_webhook_that_is_not_there(cluster: Cluster) -> Iterator[str]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    hook = {
        "name": "absent.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    cluster.make(HOOKS, {"metadata": {"name": cluster.namespace}, "webhooks": [hook]})
    yield f"{HOOKS}/{cluster.namespace}"
    cluster.delete(f"{HOOKS}/{cluster.namespace}")


def elsewhere(cluster: Cluster) -> str:
    """A namespace that the webhook is not for."""
    name = f"{cluster.namespace}-other"
    cluster.make("/api/v1/namespaces", {"metadata": {"name": name}})
    return f"/api/v1/namespaces/{name}/pods"


def pod(cluster: Cluster, pods: str, name: str) -> None:
    spec: dict[str, Any] = {
        "schedulerName": cluster.scheduler,
        "nodeSelector": {"test": cluster.namespace},
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    }
    cluster.make(pods, {"metadata": {"name": name}, "spec": spec})


def node_of(cluster: Cluster, path: str) -> str:
    return str(cluster.get(path)["spec"].get("nodeName", ""))


def test_a_binding_that_a_webhook_stops_is_refused_and_stops_no_other(cluster: Cluster, webhook: str) -> None:
    """Though only so many bindings may be under way as the webhook stops."""
    node = cluster.node("n", cpu=8)
    others = elsewhere(cluster)
    with Live(cluster, max_in_flight_binds=2) as live:
        for number in range(3):
            cluster.pod(f"stopped-{number}")
        refused = eventually(lambda: live.logged("refused"))
        assert "failed calling webhook" in refused[0]["why"]
        pod(cluster, others, "p")
        eventually(lambda: node_of(cluster, f"{others}/p") == node)
        assert set(cluster.places().values()) == {""}
        cluster.delete(webhook)
        eventually(lambda: set(cluster.places().values()) == {"n"}, "they are bound once it is gone")
        eventually(lambda: is_settled(live))
    cluster.delete(f"{others}/p")
