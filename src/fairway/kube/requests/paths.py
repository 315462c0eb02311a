"""Where objects are found on an API server."""

from __future__ import annotations

from fairway.api.kinds import ObjectKey

FAIRWAY = "fairway.dev/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
DEVICES = "resource.k8s.io/v1"
LEASES = "coordination.k8s.io/v1"
UNCHECKED = "fieldValidation=Ignore"
"""For objects of definitions: unless told so, the server looks for fields that it does not know and writes a warning,
which takes a quarter of its time for the request. What it does not know it drops all the same.
"""


def pod_path(key: ObjectKey) -> str:
    _, namespace, name = key
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def event_path(namespace: str, name: str = "") -> str:
    """Of one event, or of all in a namespace."""
    return f"/api/v1/namespaces/{namespace}/events{'/' if name else ''}{name}"


def object_path(version: str, plural: str, key: ObjectKey) -> str:
    """An object of a group: `version` is its `apiVersion`."""
    _, namespace, name = key
    where = f"namespaces/{namespace}/{plural}" if namespace else plural
    return f"/apis/{version}/{where}/{name}"


def collection_path(version: str, plural: str, namespace: str = "") -> str:
    where = f"namespaces/{namespace}/{plural}" if namespace else plural
    return f"/apis/{version}/{where}"
