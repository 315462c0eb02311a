"""Paths of objects on an API server, and the API versions that are written."""

from __future__ import annotations

from fairway.api.kinds import ObjectKey

FAIRWAY = "fairway.dev/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
DEVICES = "resource.k8s.io/v1"
LEASES = "coordination.k8s.io/v1"
UNCHECKED = "fieldValidation=Ignore"
"""A query for custom resources: by default the server looks for unknown fields and sends a warning, which takes a
quarter of its time for the request. It drops unknown fields either way.
"""


def pod_path(key: ObjectKey) -> str:
    _, namespace, name = key
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def event_path(namespace: str, name: str = "") -> str:
    """The path of one event, or of all in a namespace."""
    return f"/api/v1/namespaces/{namespace}/events{'/' if name else ''}{name}"


def object_path(version: str, plural: str, key: ObjectKey) -> str:
    """The path of an object of a group; `version` is its `apiVersion`."""
    _, namespace, name = key
    where = f"namespaces/{namespace}/{plural}" if namespace else plural
    return f"/apis/{version}/{where}/{name}"


def collection_path(version: str, plural: str, namespace: str = "") -> str:
    where = f"namespaces/{namespace}/{plural}" if namespace else plural
    return f"/apis/{version}/{where}"
