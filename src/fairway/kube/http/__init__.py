"""Requests to an API server: connections of our own, proxies, size and time limits, and the meaning of answers."""

from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import (
    JSON,
    LONG_PAUSE,
    MERGE_PATCH,
    ApiAnswer,
    ApiRequest,
    Backoff,
    Ending,
    WriteResult,
    encoded,
    explained,
)
from fairway.kube.http.paths import LEASES, collection_path, object_path

__all__ = [
    "JSON",
    "LEASES",
    "LONG_PAUSE",
    "MERGE_PATCH",
    "ApiAnswer",
    "ApiClient",
    "ApiRequest",
    "Backoff",
    "Ending",
    "WriteResult",
    "collection_path",
    "encoded",
    "explained",
    "object_path",
]
