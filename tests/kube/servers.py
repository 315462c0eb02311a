"""Helpers for tests on a real server: objects applied, requests as other users, and what the server says."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

from kube.controlplane.plane import SCHEDULER, ControlPlane

PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
}
CLUSTER_WIDE = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "Queue",
    "ResourceClass",
    "Node",
    "DeviceClass",
    "ResourceSlice",
    "PriorityClass",
}


class Refused(Exception):  # noqa: N818 - a verdict of the server
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


def collection(thing: dict[str, Any]) -> str:
    version, kind = thing["apiVersion"], thing["kind"]
    plural = PLURALS.get(kind) or (f"{kind}es".lower() if kind.endswith("s") else f"{kind}s".lower())
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind in CLUSTER_WIDE:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{thing['metadata'].get('namespace', 'default')}/{plural}"


def ask(
    plane: ControlPlane, method: str, path: str, body: Any = None, *, user: str = "", kind: str = "application/json"
) -> Any:
    """As an administrator, as the scheduler with its own token (so that the server's audit log has it), or as a user
    that the administrator plays (`system:serviceaccount:...` with its groups).
    """
    token = plane.tokens["scheduler" if user == SCHEDULER else "admin"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    request = urllib.request.Request(
        plane.url + path, None if body is None else json.dumps(body).encode(), headers, method=method
    )
    if user and user != SCHEDULER:
        request.add_header("Impersonate-User", user)
        group = "system:serviceaccounts" if user.startswith("system:serviceaccount:") else "system:authenticated"
        request.add_header("Impersonate-Group", group)
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            message = json.loads(text)["message"]
        except (ValueError, KeyError):
            message = text
        raise Refused(error.code, message) from None


def create(plane: ControlPlane, thing: dict[str, Any], user: str = "") -> Any:
    return ask(plane, "POST", collection(thing), thing, user=user)


def remove(plane: ControlPlane, thing: dict[str, Any]) -> None:
    path = f"{collection(thing)}/{thing['metadata']['name']}?gracePeriodSeconds=0"
    try:
        ask(plane, "DELETE", path)
    except Refused as error:
        if error.status != 404:
            raise


def apply(plane: ControlPlane, things: list[dict[str, Any]]) -> None:
    """Server-side apply; a kind that was defined a moment ago is waited for."""
    for thing in things:
        path = f"{collection(thing)}/{thing['metadata']['name']}?fieldManager=test&force=true"
        end = time.monotonic() + 60
        while True:
            try:
                ask(plane, "PATCH", path, thing, kind="application/apply-patch+yaml")
                break
            except Refused as error:
                if error.status != 404 or time.monotonic() > end:
                    raise
                time.sleep(0.1)


def eventually(check: Any, seconds: float = 60.0) -> Any:
    """What `check` returns once it returns something; its last error, or AssertionError, if it never does."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = check()
            if found or time.monotonic() > end:
                assert found
                return found
        except Exception:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)


def namespace(plane: ControlPlane, name: str, **labels: str) -> str:
    thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    apply(plane, [thing])
    return name


def pod(name: str, space: str, *, limits: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    spec = metadata.pop("spec", {})
    resources = {"limits": limits, "requests": limits} if limits else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, **metadata},
        "spec": {
            "schedulerName": "fairway",
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            **spec,
        },
    }
