"""The access that `fairway install` prints, granted to the user `scheduler` of a test's control plane."""

from __future__ import annotations

from typing import Any

from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.cluster import eventually
from kube.controlplane.plane import SCHEDULER, ControlPlane
from kube.servers import Refused, apply, ask


def grant(plane: ControlPlane) -> None:
    """To the whole cluster, without anything else that is installed."""
    kinds = ("ClusterRole", "ClusterRoleBinding")
    apply(plane, [thing for thing in objects(InstallOptions(web=True)) if thing["kind"] in kinds])
    eventually(lambda: may(plane, "list", "", "pods"), "access is granted")


def grant_in(plane: ControlPlane, namespace: str) -> None:
    """What `fairway install --namespace` grants in its own namespace: the lease and the policy."""
    found = [
        thing for thing in objects(InstallOptions(namespace=namespace)) if thing["kind"] in ("Role", "RoleBinding")
    ]
    for thing in found:
        for subject in thing.get("subjects", ()):
            subject["namespace"] = "fairway-system"
    apply(plane, found)
    eventually(lambda: may(plane, "create", "coordination.k8s.io", "leases", namespace), "the lease may be written")


def may(plane: ControlPlane, verb: str, group: str, resource: str, namespace: str = "") -> bool:
    """What the server says; access comes a moment after its roles."""
    attributes: dict[str, Any] = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": SCHEDULER, "groups": ["system:serviceaccounts"], "resourceAttributes": attributes},
    }
    try:
        answer = ask(plane, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    except Refused:
        return False
    return bool(answer["status"]["allowed"])
