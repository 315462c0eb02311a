"""Requests to an API server: connections of our own, size and time limits, proxies, and the meaning of answers."""

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

__all__ = [
    "JSON",
    "LONG_PAUSE",
    "MERGE_PATCH",
    "ApiAnswer",
    "ApiClient",
    "ApiRequest",
    "Backoff",
    "Ending",
    "WriteResult",
    "encoded",
    "explained",
]
