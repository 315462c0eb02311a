"""The page on a real API server: tokens, what their users may see, and actions with their own rights."""

import asyncio
import threading

import pytest

from fairway.api.manifests import parse_object
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.jobs import JobActionRequest
from fairway.app.view.watch import ClusterWatch
from fairway.kube.http.client import ApiClient
from fairway.kube.server.kubeconfig import find_connection
from fairway.state.cluster import Upserted
from fairway.web.asking import RequestRefusedError
from fairway.web.cluster_access import ClusterAccess
from fairway.web.cluster_actions import ClusterActions
from kube.cluster import Cluster, eventually
from support.engine import policy
from support.objects import NOW

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


def a_pod(namespace):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }


@pytest.fixture
def tenant(cluster: Cluster):
    """A token of a service account that may see and delete pods of its namespace, and that other namespace."""
    plane, own, other = cluster.plane, cluster.namespace, f"{cluster.namespace}-other"
    plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": other}})
    plane.call("POST", f"/api/v1/namespaces/{own}/serviceaccounts", {"metadata": {"name": "tenant"}})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]}]
    plane.call("POST", f"{RBAC}/{own}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
    binding = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": own}],
    }
    plane.call("POST", f"{RBAC}/{own}/rolebindings", binding)
    for namespace in (own, other):
        plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        plane.call("POST", f"/api/v1/namespaces/{namespace}/pods", a_pod(namespace))
    made = plane.call("POST", f"/api/v1/namespaces/{own}/serviceaccounts/tenant/token", {"spec": {}})
    yield made["status"]["token"], other
    plane.call("DELETE", f"/api/v1/namespaces/{other}/pods/work")


def test_a_tenant_sees_and_changes_what_kubectl_would_let_it(cluster: Cluster, tenant):
    token, other = tenant
    own, plane = cluster.namespace, cluster.plane
    connection = find_connection(str(plane.kubeconfig("admin")))

    async def viewers():
        client = ApiClient(connection)
        try:
            access = ClusterAccess(client, lambda: [own, other])
            with pytest.raises(RequestRefusedError, match="rejects this token"):
                await access.viewer("not-a-token", None)
            admin = await access.viewer(plane.tokens["admin"], None)
            assert (admin.namespaces, admin.nodes, admin.queues) == (None, True, True)
            return await ClusterAccess(client, lambda: [own, other]).viewer(token, None)
        finally:
            await client.close()

    eventually(lambda: asyncio.run(viewers()).namespaces == frozenset({own}), "the role is known")
    viewer = asyncio.run(viewers())
    assert (viewer.name, viewer.nodes, viewer.queues) == (f"system:serviceaccount:{own}:tenant", False, False)

    mirror = Mirror(policy(), NOW)
    mirror.apply([Upserted(parse_object(a_pod(namespace))) for namespace in (own, other)], NOW)
    actions = ClusterActions(connection, ClusterWatch(mirror, lambda: NOW))
    actions.loop = asyncio.new_event_loop()
    thread = threading.Thread(target=actions.loop.run_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(RequestRefusedError, match="forbidden") as refused:
            actions.act(viewer, f"{other}/work", JobActionRequest("cancel"))
        assert refused.value.status == 403
        assert actions.act(viewer, f"{own}/work", JobActionRequest("cancel")) == f"{own}/work: deleted with 1 pod"
        names = [one["metadata"]["name"] for one in plane.call("GET", f"/api/v1/namespaces/{own}/pods")["items"]]
        assert names == []
    finally:
        actions.loop.call_soon_threadsafe(actions.loop.stop)
        thread.join(5)
        actions.loop.close()
